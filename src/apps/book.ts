// Everything known of apps, in memory, as it is in the state store.
// Invariant: `adopt` is called with what has just been written, never before; who reads sees whole changes only.
import type {
  ActiveService,
  AppsChange,
  AppsRows,
  Deploy,
  Incarnation,
  Instance,
  Retiring,
  Revision,
} from './state.ts';

export class AppsBook {
  readonly #incarnations = new Map<string, Incarnation>();
  /** Live ones, by name. */
  readonly #names = new Map<string, Incarnation>();
  /** By incarnation, ascending. */
  readonly #revisions = new Map<string, Revision[]>();
  readonly #active = new Map<string, ActiveService>();
  readonly #retiring = new Map<string, Retiring>();
  readonly #deploys = new Map<string, Deploy>();

  constructor(rows: AppsRows) {
    this.adopt(rows);
  }

  adopt(change: AppsChange): void {
    for (const each of change.incarnations ?? []) {
      this.#incarnations.set(each.id, each);
      if (each.removedAt === null) this.#names.set(each.name, each);
      else if (this.#names.get(each.name)?.id === each.id) this.#names.delete(each.name);
    }
    for (const each of change.revisions ?? []) {
      const rest = this.revisions(each.incarnation).filter(({ number }) => number !== each.number);
      this.#revisions.set(
        each.incarnation,
        [...rest, each].sort((a, b) => a.number - b.number),
      );
    }
    for (const gone of change.forgottenRevisions ?? []) {
      const rest = this.revisions(gone.incarnation).filter(({ number }) => number !== gone.number);
      if (rest.length > 0) this.#revisions.set(gone.incarnation, rest);
      else this.#revisions.delete(gone.incarnation);
    }
    for (const gone of change.inactive ?? []) this.#active.delete(activeKey(gone));
    for (const each of change.active ?? []) this.#active.set(activeKey(each), each);
    for (const gone of change.retired ?? []) this.#retiring.delete(gone);
    for (const each of change.retiring ?? []) this.#retiring.set(each.instance.id, each);
    for (const each of change.deploys ?? []) this.#deploys.set(each.id, each);
    for (const gone of change.forgottenDeploys ?? []) this.#deploys.delete(gone);
  }

  /** Live apps, by name. */
  apps(): readonly Incarnation[] {
    return [...this.#names.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The same in any order: for who looks at all of them often. */
  live(): Iterable<Incarnation> {
    return this.#names.values();
  }

  app(name: string): Incarnation | null {
    return this.#names.get(name) ?? null;
  }

  incarnation(id: string): Incarnation | null {
    return this.#incarnations.get(id) ?? null;
  }

  /** Apps that were removed and left something behind. */
  removed(): readonly Incarnation[] {
    return [...this.#incarnations.values()].filter(({ removedAt }) => removedAt !== null);
  }

  /** Ascending. */
  revisions(incarnation: string): readonly Revision[] {
    return this.#revisions.get(incarnation) ?? [];
  }

  revision(incarnation: string, number: number): Revision | null {
    return this.revisions(incarnation).find((each) => each.number === number) ?? null;
  }

  active(): readonly ActiveService[] {
    return [...this.#active.values()];
  }

  /** What the active services would be after this change. */
  activeAfter(change: AppsChange): readonly ActiveService[] {
    const next = new Map(this.#active);
    for (const gone of change.inactive ?? []) next.delete(activeKey(gone));
    for (const each of change.active ?? []) next.set(activeKey(each), each);
    return [...next.values()];
  }

  activeOf(incarnation: string): readonly ActiveService[] {
    return [...this.#active.values()]
      .filter((each) => each.incarnation === incarnation)
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  activeService(incarnation: string, name: string): ActiveService | null {
    return this.#active.get(activeKey({ incarnation, name })) ?? null;
  }

  retiring(): readonly Retiring[] {
    return [...this.#retiring.values()];
  }

  retiringOf(incarnation: string, service: string | null = null): readonly Retiring[] {
    return this.retiring().filter(
      (each) => each.incarnation === incarnation && (service === null || each.service === service),
    );
  }

  retiringInstance(id: string): Retiring | null {
    return this.#retiring.get(id) ?? null;
  }

  deploy(id: string): Deploy | null {
    return this.#deploys.get(id) ?? null;
  }

  /** The newest last. */
  deploysOf(incarnation: string): readonly Deploy[] {
    return [...this.#deploys.values()]
      .filter((each) => each.incarnation === incarnation)
      .sort((a, b) => a.begunAt - b.begunAt);
  }

  unfinished(): readonly Deploy[] {
    return [...this.#deploys.values()].filter(({ endedAt }) => endedAt === null);
  }

  /** Ids of instances that are being made ready. */
  candidates(): readonly string[] {
    return this.unfinished().flatMap(({ current }) => (current === null ? [] : [current.candidate]));
  }

  /** Every instance that should be there. */
  instances(): readonly Instance[] {
    return [
      ...this.active().flatMap(({ instance }) => (instance === null ? [] : [instance])),
      ...this.retiring().map(({ instance }) => instance),
    ];
  }
}

const activeKey = ({ incarnation, name }: Pick<ActiveService, 'incarnation' | 'name'>): string =>
  `${incarnation} ${name}`;

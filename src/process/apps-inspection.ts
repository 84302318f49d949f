// Answers about apps: rows, one app in full, what is pending.
// Invariant: pure over the book; nothing is asked of workers or of a runtime.
import type { AppsBook } from '../apps/book.ts';
import { addressesOf } from '../apps/deploy-run.ts';
import type { ActiveService, DeployKind, Incarnation, Revision } from '../apps/state.ts';
import type { App } from '../manifest/app.ts';
import { diffApps } from '../manifest/diff.ts';
import { formatImage } from '../manifest/image.ts';
import { isSingleWriter } from '../manifest/replacement.ts';
import type {
  AppRow,
  AppServiceStatus,
  AppShown,
  AppState,
  AppStatus,
  DeployRow,
  LeftoverRow,
  UpstreamRow,
} from './apps-operations.ts';

export function appRow(incarnation: Incarnation, book: AppsBook, underWay: readonly DeployKind[]): AppRow {
  const { id, name, desired, active } = incarnation;
  const wanted = book.revision(id, desired)!;
  const { app } = wanted;
  return {
    name,
    kind: app.kind,
    external: app.external,
    desired,
    active,
    state: stateOf(incarnation, book, underWay),
    services: app.services.length,
    hosts: hostsOf(app),
    file: wanted.file,
  };
}

function stateOf({ id, desired, active }: Incarnation, book: AppsBook, underWay: readonly DeployKind[]): AppState {
  if (underWay.length > 0) return 'deploying';
  const services = book.activeOf(id);
  if (services.some(({ instance }) => instance === null)) return 'down';
  const last = book.deploysOf(id).at(-1);
  if (last !== undefined && last.outcome === 'failed' && last.moved.length > 0) return 'partial';
  if (active === null) return services.length > 0 ? 'partial' : 'new';
  const [from, to] = [book.revision(id, active), book.revision(id, desired)];
  return from?.digest === to?.digest ? 'active' : 'pending';
}

export function appStatus(
  incarnation: Incarnation,
  book: AppsBook,
  underWay: readonly DeployKind[],
  manifestTrouble: string | null,
  restartsOf: RestartsOf,
): AppStatus {
  const { id, active, desired } = incarnation;
  const wanted = book.revision(id, desired)!.app;
  return {
    ...appRow(incarnation, book, underWay),
    pending: diffApps(active === null ? null : (book.revision(id, active)?.app ?? null), wanted),
    serviceStates: serviceStates(incarnation, wanted, book, restartsOf),
    retiring: book.retiringOf(id).map(({ service, instance, phase, since }) => ({
      service,
      revision: instance.revision,
      addresses: instance.backends.map(({ address }) => address),
      phase,
      since,
    })),
    underWay,
    deploys: book
      .deploysOf(id)
      .map(({ kind, revision, begunAt, endedAt, outcome, current, fault }): DeployRow => {
        const step = current === null || endedAt !== null ? null : `${current.service}: ${current.phase}`;
        return { kind, revision, begunAt, endedAt, outcome, step, fault };
      })
      .reverse(),
    manifestTrouble,
  };
}

type RestartsOf = (service: ActiveService) => AppServiceStatus['restarts'];

function serviceStates(
  { id }: Incarnation,
  wanted: App,
  book: AppsBook,
  restartsOf: RestartsOf,
): readonly AppServiceStatus[] {
  const active = new Map(book.activeOf(id).map((each) => [each.name, each]));
  const names = [...new Set([...active.keys(), ...wanted.services.map(({ name }) => name)])].sort();
  return names.map((name): AppServiceStatus => {
    const now = active.get(name) ?? null;
    const service = now?.service ?? wanted.services.find((each) => each.name === name)!;
    return {
      name,
      state: now === null ? 'not-deployed' : now.instance !== null ? 'serving' : now.down ? 'down' : 'withdrawn',
      revision: now?.revision ?? null,
      addresses: addressesOf(now),
      startedAt: now?.instance?.startedAt ?? null,
      managed: now?.instance?.managed ?? false,
      restarts: now === null ? null : restartsOf(now),
      restart_unsafe: isSingleWriter(service),
    };
  });
}

export function appShown({ id, name, desired, active }: Incarnation, revision: Revision, book: AppsBook): AppShown {
  const { number, at, why, file, app } = revision;
  return {
    name,
    incarnation: id,
    revision: number,
    at,
    why,
    file,
    app,
    restart_unsafe: app.services.filter(isSingleWriter).map((service) => service.name),
    revisions: book
      .revisions(id)
      .map((each) => ({
        number: each.number,
        at: each.at,
        why: each.why,
        file: each.file,
        isDesired: each.number === desired,
        isActive: each.number === active,
      }))
      .reverse(),
  };
}

export function upstreamRow({ id, desired, name }: Incarnation, book: AppsBook): UpstreamRow {
  const { app } = book.revision(id, desired)!;
  const images = app.services.flatMap(({ source }) => (source.kind === 'image' ? [formatImage(source.image)] : []));
  return { app: name, version: app.display.version, images, upstream: app.display.upstream };
}

export function leftoverRow({ name, id, removedAt, leftovers }: Incarnation): LeftoverRow {
  return { app: name, incarnation: id, removedAt: removedAt ?? 0, leftovers };
}

function hostsOf(app: App): readonly string[] {
  return app.services.flatMap(({ http }) => http.flatMap((each) => (each.visibility === 'public' ? [each.host] : [])));
}

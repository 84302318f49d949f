// The reservations of all apps: what they want or have, against each other and against the configuration file.
// Invariant: reads only; an app never conflicts with what is its own already.
import { Fault } from '../base/fault.ts';
import type { Entrypoint, RoutingPart } from '../model/snapshot.ts';
import type { AppsBook } from './book.ts';
import {
  activeClaims,
  type Claim,
  conflicts,
  entrypointClaims,
  fileClaims,
  formatConflict,
  portClaims,
  revisionClaims,
} from './claims.ts';
import type { AppGround } from './routing.ts';
import type { Revision } from './state.ts';

export class Reservations {
  readonly #book: AppsBook;

  constructor(book: AppsBook) {
    this.#book = book;
  }

  /** Throws `reservation-conflict` with everything that somebody else has. */
  check(revision: Revision, file: RoutingPart, ground: AppGround): void {
    const { entrypoints } = file;
    const taken = [...fileClaims(file, ground.reserved), ...this.#taken(revision.app.name, entrypoints)];
    const found = [
      ...conflicts(revisionClaims(revision, entrypoints), taken),
      ...conflicts(portClaims(revision), [...taken, ...entrypointClaims(entrypoints)]),
    ].map(formatConflict);
    if (found.length > 0) throw new Fault('reservation-conflict', [...new Set(found)].join('\n'));
  }

  /** What stands between another routing of the file and the apps, in words. */
  conflictsWith(file: RoutingPart, ground: AppGround): readonly string[] {
    const revisions = [...this.#inUse(null)];
    const active = this.#book.active();
    const wanted = [
      ...revisions.flatMap((each) => revisionClaims(each, file.entrypoints)),
      ...active.flatMap((each) => activeClaims(each, file.entrypoints)),
    ];
    const found = [
      ...conflicts(wanted, fileClaims(file, ground.reserved)),
      ...conflicts(revisions.flatMap(portClaims), entrypointClaims(file.entrypoints)),
    ].map(formatConflict);
    const lost = active.flatMap(({ app, name, service }) => [
      ...service.tcp.flatMap(({ entrypoint }) => lostEntrypoint(`${app}/${name}`, entrypoint, 'tcp', file)),
      ...service.udp.flatMap(({ entrypoint }) => lostEntrypoint(`${app}/${name}`, entrypoint, 'udp', file)),
    ]);
    return [...new Set([...found, ...lost])];
  }

  /** What every other app wants or has. */
  *#taken(except: string, entrypoints: readonly Entrypoint[]): Iterable<Claim> {
    for (const revision of this.#inUse(except)) {
      yield* revisionClaims(revision, entrypoints);
      yield* portClaims(revision);
    }
    for (const active of this.#book.active()) if (active.app !== except) yield* activeClaims(active, entrypoints);
  }

  /** What is wanted of every app, and what is active of it. */
  *#inUse(except: string | null): Iterable<Revision> {
    for (const { id, name, desired, active } of this.#book.live()) {
      if (name === except) continue;
      const wanted = this.#book.revision(id, desired);
      if (wanted !== null) yield wanted;
      const running = active === null || active === desired ? null : this.#book.revision(id, active);
      if (running !== null) yield running;
    }
  }
}

/** Why a `tcp` or `udp` interface cannot be attached there; null: it can. */
export function misfit(entrypoint: string, transport: 'tcp' | 'udp', { entrypoints }: RoutingPart): string | null {
  const found = entrypoints.find(({ name }) => name === entrypoint);
  if (found === undefined) return `there is no entrypoint ${entrypoint}`;
  const fits = transport === 'udp' ? found.protocol === 'udp' : ['tcp', 'smart_tcp'].includes(found.protocol);
  return fits ? null : `the entrypoint ${entrypoint} is ${found.protocol} (${found.origin})`;
}

function lostEntrypoint(service: string, entrypoint: string, transport: 'tcp' | 'udp', file: RoutingPart): string[] {
  const why = misfit(entrypoint, transport, file);
  return why === null ? [] : [`${service} is reached by ${transport} on ${entrypoint}, and ${why}`];
}

// Which apps have ports for the gate, as they would be after a change.
// Invariant: reads only; the ports are those of the revision that serves, not of one that is only wanted.
import type { AppsBook } from '../apps/book.ts';
import type { ActiveService, AppsChange, Incarnation } from '../apps/state.ts';
import type { Declaration } from '../config/declaration.ts';
import type { PortedApp, PortGround, RunningApp } from './gate-ports.ts';

export function portGroundOf({ gate }: Declaration): PortGround {
  return {
    rules: gate.apps,
    dashboardPort: gate.written ? gate.port : null,
    skipInterfaces: gate.skipInterfaces,
    tor: gate.tor,
  };
}

/** @param change  null: as it is */
export function portedApps(book: AppsBook, change: AppsChange | null): readonly PortedApp[] {
  const changed = change?.incarnations ?? [];
  const known = book.apps().filter(({ id }) => !changed.some((each) => each.id === id));
  const active = change === null ? book.active() : book.activeAfter(change);
  return [...known, ...changed.filter(({ removedAt }) => removedAt === null)].flatMap((each) =>
    ported(
      each,
      active.filter(({ incarnation }) => incarnation === each.id),
      book,
    ),
  );
}

function ported({ id, active }: Incarnation, services: readonly ActiveService[], book: AppsBook): PortedApp[] {
  const number = services.length > 0 ? Math.max(...services.map(({ revision }) => revision)) : active;
  const revision = number === null ? null : book.revision(id, number);
  if (revision === null || revision.app.ports.length === 0) return [];
  const { app, origins, file } = revision;
  if (!app.external && services.length === 0) return [];
  const [service] = services;
  const run: RunningApp | null =
    app.external || service === undefined
      ? null
      : {
          instance: service.instance?.id ?? null,
          down: service.down,
          backends: service.instance?.backends ?? [],
        };
  const originOf = (port: number): string => origins[`port ${port}`] ?? `${file} ports`;
  return [{ app, instance: id, revision: revision.number, originOf, run }];
}

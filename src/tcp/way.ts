// How a connection comes to a network service, and where that leads by the table that holds now.
// Invariant: pure; asked again after a hold, so a connection that waited goes where the new table sends it.
import { findPassthrough, type RoutingTable } from '../model/routing-table.ts';

export type Way =
  /** The one router of a tcp entrypoint. */
  | { readonly kind: 'router' }
  /** The raw fallback of a smart_tcp entrypoint. */
  | { readonly kind: 'raw' }
  /** A canonical server name that passes unopened. */
  | { readonly kind: 'passthrough'; readonly name: string };

export const byRouter: Way = { kind: 'router' };
export const byRawFallback: Way = { kind: 'raw' };

/** Name of the service; null: this way leads nowhere (any more). */
export function serviceBehind(table: RoutingTable, entrypoint: string, way: Way): string | null {
  const routes = table.entrypoints.get(entrypoint);
  if (routes === undefined) return null;
  switch (way.kind) {
    case 'router':
      return routes.tcp?.service ?? null;
    case 'raw':
      return routes.entrypoint.rawFallback?.service ?? null;
    case 'passthrough':
      return findPassthrough(routes.passthrough, way.name)?.service ?? null;
  }
}

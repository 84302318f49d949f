// Declaration → the routing part of a snapshot.
// Invariant: pure; every service gets the addresses of the file as its generation. Who keeps numbers, switched addresses
// and paused states puts them over it.
import type { RoutingPart, Service } from '../model/snapshot.ts';
import type { Declaration, DeclaredService } from './declaration.ts';

/** The number of a generation that nobody has numbered yet. */
const unnumbered = 1;

export function compileRouting(declaration: Declaration): RoutingPart {
  const { settings, entrypoints, hosts, routers } = declaration;
  return { settings, entrypoints, hosts, services: declaration.services.map(compileService), routers };
}

function compileService({ backends, backendsOrigin, ...declared }: DeclaredService): Service {
  return { ...declared, generation: { number: unnumbered, backends, origin: backendsOrigin }, state: 'run' };
}

// What the configuration file says about apps in general, as their routing and reservations need it.
// Invariant: pure; an app whose gate the file does not mention has none.
import type { AppGround } from '../apps/routing.ts';
import type { Declaration } from '../config/declaration.ts';
import type { RouteGate } from '../model/snapshot.ts';

export function appGroundOf({ gate, file }: Declaration): AppGround {
  const gates = new Map<string, RouteGate>();
  for (const [app, { policy, ...rest }] of gate.apps) {
    if (policy === null || policy === 'none' || policy === 'local') continue;
    const { sessionPassthrough, openPaths, upgradeOpenPaths, allowedOrigins } = rest;
    gates.set(app, { app, policy, sessionPassthrough, openPaths, upgradeOpenPaths, allowedOrigins });
  }
  const name = file.slice(file.lastIndexOf('/') + 1);
  const named = new Set([...gate.apps].filter(([, { policy }]) => policy !== null).map(([host]) => host));
  return { gates, named, reserved: gate.host === null ? [] : [{ host: gate.host, origin: `${name} gate.host` }] };
}

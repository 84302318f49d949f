// What a deploy has to do: which services are recreated, kept or withdrawn, and how each is replaced.
// Invariant: pure; services come in sorted order, and what did not change is kept.

import type { AppService } from '../manifest/app.ts';
import { serviceDigest } from '../manifest/diff.ts';
import { type ReplacementMode, replacementMode } from '../manifest/replacement.ts';
import { digestOf } from '../model/digest.ts';
import type { LaunchCheck, PortBackend } from '../runtime/runtime.ts';
import type { ActiveService, PlannedService, Revision } from './state.ts';

export interface PlanOptions {
  /** Only this one; null: all. */
  readonly only: string | null;
  /** Addresses that the operator names, by service. */
  readonly given: ReadonlyMap<string, readonly PortBackend[]>;
  /** Recreated although nothing changed. */
  readonly restart: boolean;
}

export function planServices(
  { app }: Revision,
  active: readonly ActiveService[],
  { only, given, restart }: PlanOptions,
): readonly PlannedService[] {
  const running = new Map(active.map((each) => [each.name, each]));
  const wanted = new Map(app.services.map((each) => [each.name, each]));
  const names = [...new Set([...wanted.keys(), ...running.keys()])].filter((name) => only === null || name === only);
  return names.sort().map((name): PlannedService => {
    const service = wanted.get(name);
    const now = running.get(name);
    const addresses = given.get(name) ?? now?.given ?? [];
    if (service === undefined) return { name, action: 'withdraw', given: [] };
    const digest = instanceDigest(app, service, addresses);
    const same = now?.instance?.digest === digest && !restart;
    return { name, action: same ? 'keep' : 'replace', given: addresses };
  });
}

/** No deploy of another revision has left anything: services that a whole deploy kept are still as in an older one. */
export function servesWhole({ number, app }: Revision, active: readonly ActiveService[]): boolean {
  const running = new Map(active.map((each) => [each.name, each]));
  const missing = app.services.some(({ name }) => !running.has(name));
  return !missing && active.every((each) => each.revision === number || isKept(each, number, app));
}

function isKept({ name, revision, instance, given }: ActiveService, number: number, app: Revision['app']): boolean {
  const service = app.services.find((each) => each.name === name);
  if (revision > number || service === undefined) return false;
  return instance === null || instance.digest === instanceDigest(app, service, given);
}

/** Equal digests: the instance that runs is what is wanted. */
export function instanceDigest(app: Revision['app'], service: AppService, given: readonly PortBackend[]): string {
  return digestOf([serviceDigest(app, service), given.map(({ port, address }) => `${port} ${address}`).toSorted()]);
}

/** Two processes cannot have one address at a time, so a fixed one is replaced like a volume. */
export function modeOf(next: AppService, check: LaunchCheck, running: ActiveService | null): ReplacementMode {
  const mode = replacementMode(next, running?.service ?? null);
  const instance = running?.instance ?? null;
  if (mode === 'sequential' || instance === null || !check.managed || !instance.managed) return mode;
  const taken = instance.backends.some(({ address }) => check.fixed.some((each) => each.address === address));
  return taken ? 'sequential' : 'overlap';
}

/** Names of what an app leaves behind when it is removed. */
export function leftoversOf(revisions: readonly Revision[]): readonly string[] {
  const names = new Set<string>();
  for (const { app } of revisions) {
    for (const service of app.services) {
      for (const { name } of service.volumes) names.add(`volume ${name}`);
      for (const { secret } of service.secrets) names.add(`secret ${service.name}/${secret}`);
    }
  }
  return [...names].sort();
}

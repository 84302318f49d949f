// What has to be right before the first thing of a deploy is changed: the plan, and everything that is in its way at once.
// Invariant: changes nothing; what could be known to fail is refused here, all of it in one answer.
import { Fault } from '../base/fault.ts';
import type { App } from '../manifest/app.ts';
import { changesAppEnv } from '../manifest/diff.ts';
import { listensAt } from '../manifest/listener.ts';
import type { RoutingPart } from '../model/snapshot.ts';
import type { LaunchCheck, PortBackend, Runtime } from '../runtime/runtime.ts';
import type { AppsBook } from './book.ts';
import { planServices } from './plan.ts';
import { misfit } from './reservations.ts';
import type { DeployKind, Incarnation, PlannedService, Revision } from './state.ts';

export interface DeployRequest {
  readonly app: string;
  readonly kind: Exclude<DeployKind, 'remove'>;
  /** Null: what is wanted when its turn comes. */
  readonly revision: number | null;
  readonly only: string | null;
  readonly given: ReadonlyMap<string, readonly PortBackend[]>;
  /** Answer when the old generations are drained as well. */
  readonly wait: boolean;
}

export interface Plan {
  readonly services: readonly PlannedService[];
  /** By service. */
  readonly checks: ReadonlyMap<string, LaunchCheck>;
  /** The revision is the active one when it ends well. */
  readonly whole: boolean;
}

/** Throws `deploy-refused` or `unknown-app`. */
export async function preflight(
  incarnation: Incarnation,
  revision: Revision,
  request: DeployRequest,
  book: AppsBook,
  runtime: Runtime,
  file: RoutingPart,
): Promise<Plan> {
  const { app } = revision;
  const { only, given, kind } = request;
  for (const name of [only, ...given.keys()]) {
    if (name === null || app.services.some((each) => each.name === name)) continue;
    const has = app.services.map((each) => each.name).join(', ');
    throw new Fault('unknown-app', `${app.name} has no service ${name} (it has ${has === '' ? 'none' : has})`);
  }
  const before = incarnation.active === null ? null : book.revision(incarnation.id, incarnation.active);
  if (only !== null && before !== null && changesAppEnv(before.app, app)) {
    const why = `the environment of the whole app has changed: deploy all of ${app.name}, without --service`;
    throw new Fault('deploy-refused', why);
  }
  const restart = kind === 'restart';
  const planned = planServices(revision, book.activeOf(incarnation.id), { only: null, given, restart });
  const all = await Promise.all(planned.map((each) => withSecrets(each, incarnation, revision, book, runtime)));
  const services = only === null ? all : all.filter(({ name }) => name === only);
  const checks = new Map<string, LaunchCheck>();
  const problems = [...dependencies(app, book), ...listeners(app, file)];
  for (const { name, action, given: addresses } of services) {
    if (action !== 'replace') continue;
    const service = app.services.find((each) => each.name === name)!;
    const launch = { instance: '', incarnation: incarnation.id, app, service, given: addresses };
    const check = await runtime.check({ ...launch, revision: revision.number, again: restart });
    checks.set(name, check);
    problems.push(...check.problems);
    if (restart && !check.managed) problems.push(`nobody here starts ${name}: restart it where it runs`);
  }
  if (problems.length > 0) throw new Fault('deploy-refused', `nothing was changed:\n  ${problems.join('\n  ')}`);
  return { services, checks, whole: all.every((each) => services.includes(each) || each.action === 'keep') };
}

/** Nothing of the manifest changed: did what it only names? */
async function withSecrets(
  planned: PlannedService,
  { id }: Incarnation,
  { app, number }: Revision,
  book: AppsBook,
  runtime: Runtime,
): Promise<PlannedService> {
  const { name, action, given } = planned;
  const instance = book.activeService(id, name)?.instance ?? null;
  if (action !== 'keep' || instance === null || runtime.isCurrent === undefined) return planned;
  const service = app.services.find((each) => each.name === name)!;
  const launch = { instance: instance.id, incarnation: id, app, service, given, revision: number };
  return (await runtime.isCurrent(launch, instance)) ? planned : { ...planned, action: 'replace', fresh: true };
}

function dependencies(app: App, book: AppsBook): string[] {
  const running = new Set(book.apps().flatMap(({ name, active }) => (active === null ? [] : [name])));
  return app.dependencies.flatMap((each) =>
    each.kind === 'app' && !running.has(each.app) ? [`it needs the app ${each.app}, which is not active`] : [],
  );
}

/** The file may have changed since the manifest was applied. */
function listeners(app: App, file: RoutingPart): string[] {
  const problems: string[] = [];
  for (const service of app.services) {
    for (const transport of ['tcp', 'udp'] as const) {
      for (const { entrypoint, publish } of service[transport]) {
        const found = file.entrypoints.find(({ name }) => name === entrypoint);
        const moved = found === undefined || listensAt(found, publish) ? null : `${publish} is not where it listens`;
        const why = misfit(entrypoint, transport, file) ?? moved;
        if (why !== null) problems.push(`${service.name} is reached by ${transport} on ${entrypoint}, and ${why}`);
      }
    }
  }
  return problems;
}

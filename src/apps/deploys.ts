// Operations of apps from their turn to their report.
// Invariant: what begins is in the journal before anything of it happens, and its end is told to whoever listens.
import type { Fault } from '../base/fault.ts';
import type { AppsBook } from './book.ts';
import { DeployRun, type ServiceOutcome } from './deploy-run.ts';
import type { DeployRequest, Plan } from './preflight.ts';
import { RemoveRun } from './remove-run.ts';
import type { DeployProgress, DeployReport, OnProgress, ServiceReport } from './reports.ts';
import type { RunGround } from './service-run.ts';
import type { Deploy, DeployKind, Incarnation, PlannedService, Revision } from './state.ts';
import { type Operation, Turns } from './turns.ts';

export type Tell = (progress: DeployProgress) => void;

/** An operation that has its turn: says how it can be given up, and tells how far it is. */
export interface Turn {
  begun(operation: Operation): void;
  readonly progress: OnProgress;
}

const keptDeploys = 20;

export class Deploys {
  readonly #ground: RunGround;
  readonly #turns = new Map<string, Turns>();
  readonly #listeners = new Set<() => void>();

  constructor(ground: RunGround) {
    this.#ground = ground;
  }

  onEnd(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Has its turn, or waits for it. */
  kinds(incarnation: Incarnation): readonly DeployKind[] {
    return this.#turns.get(incarnation.id)?.kinds ?? [];
  }

  /** Nobody else may begin anything of it. */
  isBusy({ id }: Incarnation): boolean {
    const turns = this.#turns.get(id);
    return turns !== undefined && !turns.idle;
  }

  async inTurn<T>(incarnation: Incarnation, kind: DeployKind, tell: Tell, run: (turn: Turn) => Promise<T>): Promise<T> {
    const { clock } = this.#ground;
    const { id, name } = incarnation;
    const begun = clock.monotonic();
    const progress: OnProgress = (service, step, detail = null) =>
      tell({ app: name, service, step, elapsedMs: Math.round(clock.monotonic() - begun), detail });
    const turns = this.#turns.get(id) ?? new Turns(name);
    this.#turns.set(id, turns);
    const onWait = (): void => progress('', 'waiting', `for the ${turns.kinds[0] ?? 'deploy'} that is under way`);
    try {
      return await turns.take(kind, onWait, (started) => run({ begun: started, progress }));
    } finally {
      if (turns.idle) this.#turns.delete(id);
    }
  }

  async deploy(
    incarnation: Incarnation,
    revision: Revision,
    { kind, wait }: DeployRequest,
    { services, checks, whole }: Plan,
    turn: Turn,
  ): Promise<DeployReport> {
    const begun = this.#ground.clock.monotonic();
    const deploy = this.#journal(incarnation, kind, revision.number, services, whole);
    const run = new DeployRun(this.#ground, deploy, revision, checks, turn.progress);
    turn.begun({ kind, cancel: (fault: Fault) => run.cancel(fault) });
    const end = await run.run();
    this.#ended(end);
    return this.#report(end, run.outcomes, begun, wait);
  }

  async remove(incarnation: Incarnation, turn: Turn): Promise<DeployReport> {
    const begun = this.#ground.clock.monotonic();
    const deploy = this.#journal(incarnation, 'remove', incarnation.active ?? incarnation.desired, [], true);
    turn.begun({ kind: 'remove', cancel: () => {} });
    const end = await new RemoveRun(this.#ground, deploy, turn.progress).run();
    this.#ended(end);
    return this.#report(end, [], begun, false);
  }

  /** What an earlier process began. */
  async resume(deploy: Deploy, revision: Revision | null, turn: Turn): Promise<Deploy> {
    turn.begun({ kind: deploy.kind, cancel: () => {} });
    const end = await this.#settled(deploy, revision, turn);
    this.#ended(end);
    return end;
  }

  async #settled(deploy: Deploy, revision: Revision | null, turn: Turn): Promise<Deploy> {
    if (deploy.kind === 'remove') return new RemoveRun(this.#ground, deploy, turn.progress).resume();
    if (revision !== null) {
      return new DeployRun(this.#ground, deploy, revision, new Map(), turn.progress).resume();
    }
    const { book, store, clock } = this.#ground;
    const fault = { code: 'deploy-failed', detail: `nothing is known of revision ${deploy.revision} any more` };
    const end: Deploy = { ...deploy, outcome: 'failed', fault, endedAt: clock.now() };
    store.write({ deploys: [end] });
    book.adopt({ deploys: [end] });
    return end;
  }

  #ended({ app, kind, revision, outcome, fault }: Deploy): void {
    const members = { app, kind, revision, outcome, fault };
    if (outcome === 'done') this.#ground.log.info('app-deploy-ended', members);
    else this.#ground.log.warn('app-deploy-ended', members);
    for (const listener of this.#listeners) listener();
  }

  #journal(
    { id, name }: Incarnation,
    kind: DeployKind,
    revision: number,
    services: readonly PlannedService[],
    whole: boolean,
  ): Deploy {
    const { newId, clock, observer, book, store } = this.#ground;
    const plan = { id: newId(), incarnation: id, app: name, kind, revision, whole, services };
    const begun = { index: 0, current: null, started: [], moved: [], begunAt: clock.now() };
    const deploy: Deploy = { ...plan, ...begun, endedAt: null, outcome: null, fault: null };
    const old = book.deploysOf(id).slice(0, -(keptDeploys - 1));
    observer('write-begin');
    const change: Parameters<AppsBook['adopt']>[0] = {
      deploys: [deploy],
      forgottenDeploys: old.map((each) => each.id),
    };
    store.write(change);
    book.adopt(change);
    return deploy;
  }

  async #report(
    deploy: Deploy,
    outcomes: readonly ServiceOutcome[],
    begun: number,
    wait: boolean,
  ): Promise<DeployReport> {
    const services = await Promise.all(outcomes.map((each) => (wait ? withDrain(each) : each.report)));
    const lost = services.some(({ errors, drained }) => errors > 0 || (drained?.forced ?? 0) > 0);
    return {
      app: deploy.app,
      deploy: deploy.id,
      kind: deploy.kind,
      revision: deploy.revision,
      outcome: deploy.outcome!,
      fault: deploy.fault,
      services,
      tookMs: Math.round(this.#ground.clock.monotonic() - begun),
      clean: deploy.outcome === 'done' && !lost,
    };
  }
}

async function withDrain({ report, drains }: ServiceOutcome): Promise<ServiceReport> {
  if (drains.length === 0) return report;
  const ends = await Promise.all(drains.map(({ done }) => done));
  const drained = {
    requests: ends.reduce((sum, each) => sum + each.claimed, 0),
    forced: ends.reduce((sum, each) => sum + each.forced, 0),
    tookMs: Math.round(Math.max(...ends.map(({ tookMs }) => tookMs))),
  };
  return { ...report, drained };
}

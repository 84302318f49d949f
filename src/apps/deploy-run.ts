// A deploy: one service after the other in sorted order, to the first failure.
// Invariant: every step is in the journal before it is taken; a deploy that an earlier process began is finished when any of
// it was decided, and undone when nothing was.
import { Fault } from '../base/fault.ts';
import type { AppService } from '../manifest/app.ts';
import type { LaunchCheck, PortBackend } from '../runtime/runtime.ts';
import { instanceDigest, modeOf } from './plan.ts';
import type { MovedDrain } from './ports.ts';
import { interrupted, planReplacement, type Replacement, recover } from './replacement.ts';
import type { OnProgress, ServiceReport } from './reports.ts';
import { routingServices } from './routing.ts';
import { type RunGround, ServiceRun } from './service-run.ts';
import type { ActiveService, AppsChange, Deploy, Incarnation, PlannedService, Revision } from './state.ts';

/** What a service's old generation still has to do, and what is already known of its replacement. */
export interface ServiceOutcome {
  readonly report: ServiceReport;
  readonly drains: readonly MovedDrain[];
}

export class DeployRun {
  readonly outcomes: ServiceOutcome[] = [];
  readonly #id: string;
  readonly #ground: RunGround;
  readonly #revision: Revision;
  readonly #checks: ReadonlyMap<string, LaunchCheck>;
  readonly #progress: OnProgress;
  #index: number;
  #current: ServiceRun | null = null;
  #cancelled: Fault | null = null;

  /** `deploy` is in the journal already. `checks`: what the preflight found, by service. */
  constructor(
    ground: RunGround,
    deploy: Deploy,
    revision: Revision,
    checks: ReadonlyMap<string, LaunchCheck>,
    progress: OnProgress,
  ) {
    this.#ground = ground;
    this.#id = deploy.id;
    this.#index = deploy.index;
    this.#revision = revision;
    this.#checks = checks;
    this.#progress = progress;
  }

  /** As it is in the journal. */
  get deploy(): Deploy {
    return this.#ground.book.deploy(this.#id)!;
  }

  /** Gives up unless something is decided already; its end tells which of the two. */
  cancel(fault: Fault): void {
    if (this.deploy.moved.length > 0) return;
    this.#cancelled = fault;
    this.#current?.cancel(fault);
  }

  run(): Promise<Deploy> {
    return this.#from(null);
  }

  /** After a restart of ours. */
  async resume(): Promise<Deploy> {
    const { current, moved, incarnation } = this.deploy;
    const forward = moved.length > 0;
    if (current === null) return forward ? this.#from(null) : this.#end('undone', interrupted);
    const serving = this.#ground.book.activeService(incarnation, current.service)?.instance?.id ?? null;
    return this.#from(recover(current, { serving, forward }));
  }

  async #from(resumed: Replacement | null): Promise<Deploy> {
    let state = resumed;
    for (; this.#index < this.deploy.services.length; this.#index++) {
      const planned = this.deploy.services[this.#index]!;
      if (this.#cancelled !== null && state === null && this.deploy.moved.length === 0) {
        return this.#end('superseded', faultOf(this.#cancelled));
      }
      if (planned.action === 'keep') this.#keep(planned);
      else if (planned.action === 'withdraw') await this.#withdraw(planned);
      else {
        const end = await this.#replace(planned, state);
        if (end.phase === 'failed') return this.#fail(end);
      }
      state = null;
    }
    return this.#end('done', null);
  }

  async #replace({ name, given }: PlannedService, resumed: Replacement | null): Promise<Replacement> {
    const { book, clock, traffic } = this.#ground;
    const { incarnation, app } = this.#revision;
    const service = app.services.find((each) => each.name === name)!;
    const before = book.activeService(incarnation, name);
    const state = resumed ?? this.#plan(service, given, before);
    const begun = clock.monotonic();
    const errorsBefore = await traffic.errors(namesOf(before));
    const run: ServiceRun = new ServiceRun(
      this.#ground,
      { revision: this.#revision, service, given, before, again: ['restart', 'revive'].includes(this.deploy.kind) },
      state,
      (next, moved) => ({ deploys: [this.#row(next, run.backends, moved ? name : null)] }),
      this.#progress,
    );
    run.backends = resumed === null ? [] : this.deploy.started;
    this.#current = run;
    this.#ground.observer('write-planned');
    this.#write(this.#row(state, run.backends, null));
    if (this.#cancelled !== null) run.cancel(this.#cancelled);
    const end = await run.run();
    this.#current = null;
    const now = book.activeService(incarnation, name);
    const names = namesOf(now);
    const { moved } = run;
    this.outcomes.push({
      report: {
        service: name,
        outcome: end.phase === 'failed' ? 'failed' : before === null ? 'started' : 'replaced',
        mode: end.mode,
        warm: end.warm,
        from: addressesOf(before),
        to: addressesOf(now),
        snapshot: moved?.revision ?? null,
        inFlight: moved?.inFlight ?? 0,
        held: moved?.held ?? 0,
        holdMs: moved?.holdMs ?? 0,
        tookMs: Math.round(clock.monotonic() - begun),
        drained: null,
        errors: Math.max(0, (await traffic.errors(names)) - errorsBefore),
        detail: end.fault === null ? null : `${end.fault.detail}${consequence(end, name)}`,
      },
      drains: end.mode === 'overlap' ? (moved?.drains ?? []).filter((each) => names.includes(each.service)) : [],
    });
    return end;
  }

  #plan(service: AppService, given: readonly PortBackend[], before: ActiveService | null): Replacement {
    const { book, newId, retirements } = this.#ground;
    const { incarnation, app } = this.#revision;
    const check = this.#checks.get(service.name) ?? { problems: [], fixed: [], managed: true };
    const mode = modeOf(service, check, before);
    const wanted = instanceDigest(app, service, given);
    // What still runs and is what is wanted need not be started anew.
    const warm =
      mode === 'sequential' || this.deploy.kind === 'restart' || this.deploy.services[this.#index]?.fresh === true
        ? undefined
        : book
            .retiringOf(incarnation, service.name)
            .filter(({ instance, phase }) => phase === 'draining' && instance.digest === wanted)
            .findLast(({ instance }) => retirements.keep(instance.id));
    return planReplacement({
      service: service.name,
      mode,
      candidate: warm?.instance.id ?? newId(),
      old: before?.instance?.id ?? null,
      warm: warm !== undefined,
    });
  }

  #keep({ name }: PlannedService): void {
    const active = this.#ground.book.activeService(this.#revision.incarnation, name);
    this.#progress(name, 'kept');
    this.outcomes.push({ report: quiet(name, 'kept', active), drains: [] });
  }

  /** The new revision does not have it. */
  async #withdraw({ name }: PlannedService): Promise<void> {
    const { book, traffic, retirements, clock, observer } = this.#ground;
    const active = book.activeService(this.#revision.incarnation, name);
    if (active === null) return;
    const { incarnation, app, service: spec, instance } = active;
    this.#progress(name, 'withdrawing');
    observer('withdrawing');
    const begun = clock.monotonic();
    const row = { incarnation, app, service: name, spec, phase: 'draining' as const, since: clock.now() };
    const moved = await traffic.move({
      inactive: [active],
      retiring: instance === null ? [] : [{ ...row, instance }],
      deploys: [this.#row(null, [], name)],
    });
    observer('withdrawn');
    const drains = moved.drains.filter(({ service }) => namesOf(active).includes(service));
    if (instance !== null) retirements.begin(instance.id, Promise.all(drains.map(({ done }) => done)), 0);
    const report = { ...quiet(name, 'withdrawn', active), to: [], snapshot: moved.revision, inFlight: moved.inFlight };
    this.outcomes.push({ report: { ...report, tookMs: Math.round(clock.monotonic() - begun) }, drains });
  }

  #fail(end: Replacement): Promise<Deploy> {
    const code = end.fault?.code ?? 'deploy-failed';
    const detail = this.outcomes.at(-1)?.report.detail ?? 'it failed';
    if (code === 'deploy-superseded') return this.#end('superseded', { code, detail });
    const untouched = end.fault?.detail === interrupted.detail && this.deploy.moved.length === 0;
    return this.#end(untouched ? 'undone' : 'failed', { code, detail });
  }

  async #end(outcome: NonNullable<Deploy['outcome']>, fault: Deploy['fault']): Promise<Deploy> {
    const { book, clock, observer, traffic } = this.#ground;
    const deploy: Deploy = { ...this.deploy, outcome, fault, endedAt: clock.now() };
    const incarnation = book.incarnation(deploy.incarnation);
    const whole = outcome === 'done' && deploy.whole && incarnation !== null;
    const change: AppsChange = {
      deploys: [deploy],
      // Read when it is written: another revision may be wanted since a publication was asked for.
      get incarnations() {
        return whole ? [{ ...book.incarnation(deploy.incarnation)!, active: deploy.revision }] : [];
      },
    };
    observer('write-end');
    if (whole && this.#movesPorts(incarnation)) {
      try {
        await traffic.move(change);
      } catch (error) {
        // What could not be published must not be active: nothing could be published beside it.
        if (!(error instanceof Fault)) throw error;
        return this.#end('failed', faultOf(error));
      }
    } else this.#adopt(change);
    observer('end');
    return deploy;
  }

  /** No service brings the ports of an app that runs outside: they are served as soon as the revision is active. */
  #movesPorts({ active }: Incarnation): boolean {
    const { app, number } = this.#revision;
    return active !== number && app.external && app.ports.length > 0;
  }

  /** The journal's row, should this be what happened. */
  #row(current: Replacement | null, started: Deploy['started'], moved: string | null): Deploy {
    const { deploy } = this;
    const all = moved === null || deploy.moved.includes(moved) ? deploy.moved : [...deploy.moved, moved];
    return { ...deploy, index: this.#index, current, started, moved: all };
  }

  #write(deploy: Deploy): void {
    this.#adopt({ deploys: [deploy] });
  }

  #adopt(change: AppsChange): void {
    this.#ground.store.write(change);
    this.#ground.book.adopt(change);
  }
}

const namesOf = (active: ActiveService | null): readonly string[] => (active === null ? [] : routingServices(active));
const faultOf = ({ code, message }: Fault): NonNullable<Deploy['fault']> => ({ code, detail: message });

export const addressesOf = (active: ActiveService | null): readonly string[] =>
  (active?.instance?.backends ?? []).map(({ address }) => address);

/** What the failure means for who uses the service. */
function consequence({ restored, old, mode }: Replacement, name: string): string {
  if (old === null) return `\n${name} had not served before, and does not now.`;
  if (!restored) return `\n${name} is down: neither the new nor the old revision serves.`;
  return mode === 'overlap' ? '\nThe old generation serves on, untouched.' : '\nThe old revision serves.';
}

function quiet(service: string, outcome: ServiceReport['outcome'], active: ActiveService | null): ServiceReport {
  return {
    service,
    outcome,
    mode: null,
    warm: false,
    from: addressesOf(active),
    to: addressesOf(active),
    snapshot: null,
    inFlight: 0,
    held: 0,
    holdMs: 0,
    tookMs: 0,
    drained: null,
    errors: 0,
    detail: null,
  };
}

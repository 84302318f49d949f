// One service is replaced: carries out what the machine of replacement.ts decides, on the runtime and the traffic.
// Invariant: a phase is written down before it is carried out, and the move of traffic is written down by the publication
// that makes it; so whoever starts next knows what was decided.
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { AppService } from '../manifest/app.ts';
import type { Launch, PortBackend, Runtime, Started } from '../runtime/runtime.ts';
import type { AppsBook } from './book.ts';
import { candidateReady } from './candidate.ts';
import { instanceDigest } from './plan.ts';
import type { AppsObserver, AppsStore, AppTraffic, Moved } from './ports.ts';
import { isCancellable, isOver, type Replacement, type ReplacementEvent, step } from './replacement.ts';
import type { OnProgress } from './reports.ts';
import type { Retirements } from './retirements.ts';
import { routingServices } from './routing.ts';
import type { ActiveService, AppsChange, Instance, Revision } from './state.ts';

export interface RunGround {
  readonly clock: Clock;
  readonly log: Log;
  readonly book: AppsBook;
  readonly store: AppsStore;
  readonly traffic: AppTraffic;
  readonly runtime: Runtime;
  readonly retirements: Retirements;
  readonly observer: AppsObserver;
  /** How long the old generation is kept in any case. */
  keepMs(): number;
  newId(): string;
}

/** What is to run, and what ran before. */
export interface ServiceTarget {
  readonly revision: Revision;
  readonly service: AppService;
  readonly given: readonly PortBackend[];
  /** As it was when the replacement began; null: nothing was there. */
  readonly before: ActiveService | null;
  /** Nothing is deployed: what served is started once more. */
  readonly again: boolean;
}

/** Rows of the deploy that this is a part of, with the replacement in this state. */
export type DeployRows = (state: Replacement, moved: boolean) => AppsChange;

/** A failed candidate is not given the time that a serving one has. */
const discardGraceMs = 5000;
const shownLines = 50;

export class ServiceRun {
  state: Replacement;
  moved: Moved | null = null;
  /** Addresses of the candidate. */
  backends: readonly PortBackend[] = [];
  readonly #ground: RunGround;
  readonly #target: ServiceTarget;
  readonly #rows: DeployRows;
  readonly #progress: OnProgress;
  readonly #giveUp = new AbortController();
  #cancelled: Fault | null = null;
  #started: Started | null = null;
  #withdrawn: Moved | null = null;

  constructor(ground: RunGround, target: ServiceTarget, state: Replacement, rows: DeployRows, progress: OnProgress) {
    this.#ground = ground;
    this.#target = target;
    this.state = state;
    this.#rows = rows;
    this.#progress = progress;
  }

  /** Gives up if nothing is decided yet; otherwise it goes on to its end. */
  cancel(fault: Fault): void {
    this.#cancelled = fault;
    if (isCancellable(this.state)) this.#giveUp.abort();
  }

  /** Ends in `done` or `failed`. */
  async run(): Promise<Replacement> {
    const { warm, candidate } = this.state;
    while (!isOver(this.state)) await this.#next(await this.#carryOut());
    if (warm && this.state.phase === 'failed') this.#ground.retirements.release(candidate);
    if (this.state.phase === 'failed' && !this.state.restored) await this.#leaveDown();
    return this.state;
  }

  async #next(event: ReplacementEvent): Promise<void> {
    const before = this.state;
    this.state = step(before, event);
    const { phase, service } = this.state;
    if (event.kind === 'failed') this.#progress(service, phase, event.fault.detail);
    else this.#progress(service, phase);
    // The publication has written it already.
    if (event.kind === 'published' || event.kind === 'withdrawn') return;
    this.#ground.observer(`write-${phase}`);
    this.#write(this.#rows(this.state, false));
    this.#ground.observer(phase);
  }

  async #carryOut(): Promise<ReplacementEvent> {
    try {
      switch (this.state.phase) {
        case 'withdrawing':
          return await this.#withdraw();
        case 'stopping':
          return await this.#stopOlder();
        case 'starting':
          return await this.#start();
        case 'probing':
          return await this.#probe();
        case 'publishing':
          return await this.#publish();
        case 'discarding':
          return await this.#discard();
        case 'reinstating':
          return await this.#reinstate();
        default:
          if (this.#cancelled !== null) return failure(this.#cancelled);
          return { kind: 'begin' };
      }
    } catch (error) {
      return failure(error);
    }
  }

  async #withdraw(): Promise<ReplacementEvent> {
    const { traffic, retirements } = this.#ground;
    const before = this.#target.before!;
    const old = before.instance!;
    this.#withdrawn = await traffic.move({
      ...this.#rows(step(this.state, { kind: 'withdrawn' }), true),
      active: [{ ...before, instance: null }],
      retiring: [this.#retire(before, old)],
    });
    retirements.begin(old.id, this.#drained(this.#withdrawn), 0);
    return { kind: 'withdrawn' };
  }

  /** Also those that an earlier deploy left behind: never two at once. */
  async #stopOlder(): Promise<ReplacementEvent> {
    const { revision, service } = this.#target;
    if (this.#withdrawn !== null) await this.#drained(this.#withdrawn);
    await this.#ground.retirements.hasten(revision.incarnation, service.name);
    return { kind: 'stopped' };
  }

  async #start(): Promise<ReplacementEvent> {
    const launch = this.#launch();
    this.#started = await this.#ground.runtime.start(launch);
    this.backends = this.#started.backends;
    return { kind: 'started' };
  }

  async #probe(): Promise<ReplacementEvent> {
    const { runtime, clock } = this.#ground;
    const { name } = this.#target.service;
    const { service } = this.#launch();
    const candidate = { service, instance: this.#instance(), ended: this.#started?.ended ?? null };
    const say = (detail: string): void => this.#progress(name, 'probing', detail);
    const result = await candidateReady(candidate, runtime, clock, this.#giveUp.signal, say);
    if (this.#cancelled !== null && isCancellable(this.state)) return failure(this.#cancelled);
    if (result.ready) {
      if (this.state.attempt === 'new') await runtime.install?.(this.#launch());
      return { kind: 'ready' };
    }
    const output = await this.#lastLines();
    return failure(new Fault('deploy-failed', `${name} is not ready: ${result.detail}${output}`));
  }

  async #publish(): Promise<ReplacementEvent> {
    const { traffic, retirements, book, observer } = this.#ground;
    const { before } = this.#target;
    const { candidate, warm, mode, attempt } = this.state;
    const instance = this.#instance();
    const active = attempt === 'new' ? this.#active(instance) : { ...before!, instance };
    const old = mode === 'overlap' ? (before?.instance ?? null) : null;
    this.moved = await traffic.move({
      ...this.#rows(step(this.state, { kind: 'published' }), true),
      active: [active],
      retiring: old === null ? [] : [this.#retire(before!, old)],
      retired: warm ? [candidate] : [],
    });
    observer('published');
    if (warm) retirements.cancel(candidate);
    if (old !== null && book.retiringInstance(old.id) !== null) {
      retirements.begin(old.id, this.#drained(this.moved), this.#ground.keepMs());
    }
    return { kind: 'published' };
  }

  async #discard(): Promise<ReplacementEvent> {
    const { runtime, newId } = this.#ground;
    const { candidate } = this.state;
    const managed = this.#started?.managed ?? true;
    const reference = { id: candidate, app: this.#target.revision.app.name, service: this.#target.service.name };
    try {
      await runtime.stop({ ...reference, backends: this.backends, managed }, discardGraceMs, () => {});
      await runtime.forget(candidate);
    } catch (error) {
      // Somebody has to go on trying.
      this.#retireCandidate();
      throw error;
    }
    this.#started = null;
    this.backends = [];
    return { kind: 'discarded', fresh: newId() };
  }

  async #reinstate(): Promise<ReplacementEvent> {
    const before = this.#target.before!;
    const old = this.#ground.book.retiringInstance(this.state.old!)?.instance ?? null;
    if (old === null) throw new Fault('deploy-failed', 'the old generation is gone');
    this.#ground.retirements.cancel(old.id);
    this.moved = await this.#ground.traffic.move({
      ...this.#rows(step(this.state, { kind: 'published' }), true),
      active: [{ ...before, instance: old }],
      retired: [old.id],
    });
    return { kind: 'published' };
  }

  /** Nothing is there that could serve: who waits is told so at once. */
  async #leaveDown(): Promise<void> {
    const { book, traffic, log } = this.#ground;
    const { revision, service } = this.#target;
    const active = book.activeService(revision.incarnation, service.name);
    if (active === null || active.instance !== null || active.down) return;
    try {
      await traffic.move({ active: [{ ...active, down: true }] });
    } catch (error) {
      log.error('app-not-withdrawn', { app: active.app, service: active.name, err: error });
    }
  }

  #retireCandidate(): void {
    const instance = this.#instance();
    const before = this.#target.before ?? this.#active(instance);
    this.#write({ retiring: [{ ...this.#retire(before, instance), phase: 'stopping' }] });
    this.#ground.retirements.begin(instance.id, Promise.resolve(), 0);
  }

  #launch(): Launch {
    const { revision, service, given, before, again } = this.#target;
    const { candidate, attempt } = this.state;
    const base = { instance: candidate, incarnation: revision.incarnation, again: again || attempt !== 'new' };
    if (attempt === 'new') {
      return { ...base, app: revision.app, service, revision: revision.number, given };
    }
    const old = this.#ground.book.revision(revision.incarnation, before!.revision);
    const app = old?.app ?? revision.app;
    return { ...base, app, service: before!.service, revision: before!.revision, given: before!.given };
  }

  #instance(): Instance {
    const { incarnation: _incarnation, app, service, revision, given, instance } = this.#launch();
    const taken = this.#ground.book.retiringInstance(instance)?.instance;
    if (this.state.warm && taken !== undefined) return taken;
    return {
      id: instance,
      app: app.name,
      service: service.name,
      backends: this.backends,
      managed: this.#started?.managed ?? true,
      revision,
      digest: instanceDigest(app, service, given),
      stopGraceMs: service.stopGraceMs,
      startedAt: this.#ground.clock.now(),
    };
  }

  #active(instance: Instance): ActiveService {
    const { revision, service, given } = this.#target;
    const { incarnation, app, number, origins, file } = revision;
    const common = { incarnation, app: app.name, name: service.name, service, origins, file };
    return { ...common, revision: number, instance, down: false, given };
  }

  #retire(before: ActiveService, instance: Instance) {
    const { incarnation, app, name: service, service: spec } = before;
    return { incarnation, app, service, instance, spec, phase: 'draining', since: this.#ground.clock.now() } as const;
  }

  /** Of this service only: a publication may have moved others too. */
  #drained({ drains }: Moved): Promise<unknown> {
    const { before } = this.#target;
    const names = before === null ? [] : routingServices(before);
    return Promise.all(drains.filter(({ service }) => names.includes(service)).map(({ done }) => done));
  }

  async #lastLines(): Promise<string> {
    const text = await this.#ground.runtime.output(this.#instance()).catch(() => '');
    const lines = text.split('\n').filter((line) => line.trim() !== '');
    return lines.length === 0 ? '' : `\nits last lines:\n${lines.slice(-shownLines).map(redacted).join('\n')}`;
  }

  #write(change: AppsChange): void {
    this.#ground.store.write(change);
    this.#ground.book.adopt(change);
  }
}

function failure(error: unknown): ReplacementEvent {
  const code = error instanceof Fault ? error.code : 'deploy-failed';
  return { kind: 'failed', fault: { code, detail: error instanceof Error ? error.message : String(error) } };
}

const secretWord = '(?:password|passwd|secret|token|api[_-]?key|authorization|credential|private[_-]?key)';
const assignment = new RegExp(`(${secretWord}["']?\\s*[:=]\\s*)(?:bearer\\s+|basic\\s+)?["']?[^\\s"',;]+["']?`, 'gi');
const userInfo = /(\w+:\/\/[^\s:/@]+:)[^\s@]+@/g;

/** Programs print what they should not. */
export function redacted(line: string): string {
  return line.replace(assignment, '$1[redacted]').replace(userInfo, '$1[redacted]@');
}

// Keeps alive what serves: looks every 30 s and whenever an instance ends, and starts again what no longer runs.
// Invariant: it acts in the app's turn only, never beside a deploy of it; what keeps ending is started less and less often;
// an engine that does not answer says nothing about what runs on it.
import type { Timer } from '../base/clock.ts';
import type { Deploys } from './deploys.ts';
import type { DeployRequest } from './preflight.ts';
import type { RunGround } from './service-run.ts';
import type { ActiveService, Incarnation } from './state.ts';

/** How often a service had to be started again, for who asks. */
export interface RestartTrouble {
  /** In a row. */
  readonly restarts: number;
  readonly reason: string;
  /** Epoch ms; null: it runs. */
  readonly nextAt: number | null;
}

interface Patient {
  restarts: number;
  reason: string;
  /** Monotonic; null: nothing is due. */
  dueAt: number | null;
  lastStartAt: number;
  /** It is being started right now. */
  starting: boolean;
}

const everyMs = 30_000;
const firstBackoffMs = 1000;
const maxBackoffMs = 300_000;
/** An engine that is away comes back in seconds mostly. */
const engineAwayMs = 2000;
/** Longer than this, clients are told that it is down instead of being kept waiting. */
const holdMs = 5000;

export class Reconciler {
  readonly #ground: RunGround;
  readonly #deploys: Deploys;
  readonly #patients = new Map<string, Patient>();
  readonly #watched = new Set<string>();
  #timer: Timer | null = null;
  #looking = false;
  #again = false;
  #closed = true;
  #away = false;
  #trouble: unknown = null;
  #unlisten: () => void = () => {};

  constructor(ground: RunGround, deploys: Deploys) {
    this.#ground = ground;
    this.#deploys = deploys;
  }

  begin(): void {
    this.#closed = false;
    this.#unlisten = this.#deploys.onEnd(() => this.soon());
    this.soon();
  }

  close(): void {
    this.#closed = true;
    this.#unlisten();
    this.#timer?.cancel();
  }

  /** Null: it was never found dead, or has run well since. */
  troubleOf(service: Pick<ActiveService, 'incarnation' | 'name'>): RestartTrouble | null {
    const patient = this.#patients.get(keyOf(service));
    if (patient === undefined) return null;
    const { clock } = this.#ground;
    const { restarts, reason, dueAt, lastStartAt } = patient;
    if (dueAt === null && clock.monotonic() - lastStartAt >= maxBackoffMs) return null;
    return { restarts, reason, nextAt: dueAt === null ? null : clock.now() + Math.max(0, dueAt - clock.monotonic()) };
  }

  /** Looks now, or once more after the look that is under way. */
  soon(): void {
    if (this.#closed) return;
    if (this.#looking) this.#again = true;
    else void this.#look();
  }

  async #look(): Promise<void> {
    this.#looking = true;
    this.#again = false;
    this.#timer?.cancel();
    let nextMs = await this.#unlessAway(async () => {
      await this.#stopUnknown();
      return everyMs;
    });
    for (const active of this.#ground.book.active()) {
      nextMs = Math.min(nextMs, await this.#unlessAway(() => this.#lookAt(active)));
    }
    this.#tellAway();
    this.#looking = false;
    if (this.#closed) return;
    if (this.#again) nextMs = 0;
    this.#timer = this.#ground.clock.after(nextMs, () => this.soon());
  }

  /** One service whose engine is away is not in the way of the others. */
  async #unlessAway(look: () => Promise<number>): Promise<number> {
    try {
      return await look();
    } catch (error) {
      this.#trouble = error;
      return engineAwayMs;
    }
  }

  /** Once when it begins and once when it is over, not every time. */
  #tellAway(): void {
    const { log } = this.#ground;
    if (this.#trouble !== null && !this.#away) log.warn('apps-not-looked-at', { err: this.#trouble });
    if (this.#trouble === null && this.#away) log.info('apps-looked-at-again');
    this.#away = this.#trouble !== null;
    this.#trouble = null;
  }

  /** Returns after how many milliseconds it should be looked at again. */
  async #lookAt({ incarnation: id, name }: ActiveService): Promise<number> {
    const { book, runtime, clock } = this.#ground;
    const incarnation = book.incarnation(id);
    if (incarnation === null || incarnation.removedAt !== null || this.#isBusy(incarnation)) return everyMs;
    const active = book.activeService(id, name);
    if (active === null) return everyMs;
    const key = keyOf(active);
    if (active.instance !== null) {
      if ((await runtime.alive(active.instance)) !== false) {
        const well = this.#patients.get(key);
        if (well !== undefined) well.dueAt = null;
        this.#watch(active);
        return everyMs;
      }
      if (this.#isBusy(incarnation) || book.activeService(id, name)?.instance?.id !== active.instance.id) return 0;
      this.#found(key, active, 'it does not run');
      await this.#withdraw(incarnation, name);
    }
    const patient = this.#patients.get(key) ?? this.#found(key, active, 'no generation of it serves');
    if (patient.starting) return everyMs;
    const leftMs = (patient.dueAt ?? this.#due(patient)) - clock.monotonic();
    if (leftMs > 0) return leftMs;
    // Others are looked after meanwhile.
    void this.#startAgain(incarnation, name, patient).then(() => this.soon());
    return everyMs;
  }

  /** After a start of ours: whatever is not there any more is started at once. */
  async revive(incarnation: Incarnation): Promise<void> {
    const { book, runtime, log } = this.#ground;
    for (const active of book.activeOf(incarnation.id)) {
      try {
        if (active.instance === null || (await runtime.alive(active.instance)) !== false) continue;
        const patient = this.#found(keyOf(active), active, 'it did not run when Turnpike started');
        await this.#withdraw(incarnation, active.name);
        await this.#startAgain(incarnation, active.name, patient);
      } catch (error) {
        log.error('app-not-revived', { app: active.app, service: active.name, err: error });
      }
    }
  }

  #isBusy(incarnation: Incarnation): boolean {
    return this.#deploys.isBusy(incarnation);
  }

  #found(key: string, { app, name, instance }: ActiveService, reason: string): Patient {
    const { clock, log } = this.#ground;
    const known = this.#patients.get(key);
    // What ran well for long starts from the beginning.
    const ranMs = instance === null ? 0 : clock.now() - instance.startedAt;
    const patient =
      known === undefined || ranMs >= maxBackoffMs
        ? { restarts: 0, reason, dueAt: null, lastStartAt: 0, starting: false }
        : { ...known, reason: known.dueAt === null ? reason : known.reason };
    this.#patients.set(key, patient);
    const backoffMs = this.#due(patient) - clock.monotonic();
    log.warn('app-instance-missing', { app, service: name, restarts: patient.restarts, reason, backoffMs });
    return patient;
  }

  #due(patient: Patient): number {
    patient.dueAt = this.#ground.clock.monotonic() + backoffOf(patient.restarts);
    return patient.dueAt;
  }

  #watch({ instance, ...active }: ActiveService): void {
    const { runtime, clock } = this.#ground;
    if (instance === null || runtime.watch === undefined || this.#watched.has(instance.id)) return;
    this.#watched.add(instance.id);
    const ended = (reason: string): void => {
      // Should it live on, the look that comes anyway is soon enough: a watch that ends at once must not become a loop.
      clock.after(everyMs, () => this.#watched.delete(instance.id));
      const patient = this.#patients.get(keyOf(active));
      if (patient !== undefined) patient.reason = reason;
      this.soon();
    };
    runtime.watch(instance).then(ended, (error: unknown) => ended(String(error)));
  }

  /** Nobody answers at its address: arrivals wait for the one that is started next, or are told that there is none. */
  async #withdraw(incarnation: Incarnation, name: string): Promise<void> {
    const { book, traffic, clock, retirements } = this.#ground;
    await this.#inTurn(incarnation, async () => {
      const active = book.activeService(incarnation.id, name);
      const instance = active?.instance ?? null;
      if (active === null || instance === null) return;
      const { app, service: spec } = active;
      const row = { incarnation: incarnation.id, app, service: name, instance, spec, since: clock.now() };
      const down = backoffOf(this.#patients.get(keyOf(active))?.restarts ?? 0) > holdMs;
      await traffic.move({
        active: [{ ...active, instance: null, down }],
        retiring: [{ ...row, phase: 'stopping' }],
      });
      retirements.begin(instance.id, Promise.resolve(), 0);
    });
  }

  async #startAgain(incarnation: Incarnation, name: string, patient: Patient): Promise<void> {
    const { book, log, clock } = this.#ground;
    if (this.#isBusy(incarnation)) return;
    patient.restarts++;
    patient.dueAt = null;
    patient.lastStartAt = clock.monotonic();
    patient.starting = true;
    try {
      await this.#deploys.inTurn(
        incarnation,
        'revive',
        () => {},
        async (turn) => {
          const active = book.activeService(incarnation.id, name);
          const revision = active === null ? null : book.revision(incarnation.id, active.revision);
          if (active === null || revision === null || active.instance !== null) return;
          const { app, given } = active;
          const common = { revision: null, only: name, given: new Map(), wait: false };
          const request: DeployRequest = { app, kind: 'revive', ...common };
          const plan = { services: [{ name, action: 'replace' as const, given }], checks: new Map(), whole: false };
          const { fault } = await this.#deploys.deploy(incarnation, revision, request, plan, turn);
          if (fault !== null) patient.reason = fault.detail.split('\n')[0]!;
        },
      );
    } catch (error) {
      patient.reason = error instanceof Error ? error.message : String(error);
      log.error('app-not-revived', { app: incarnation.name, service: name, err: error });
    } finally {
      patient.starting = false;
    }
  }

  async #inTurn(incarnation: Incarnation, run: () => Promise<void>): Promise<void> {
    if (!this.#isBusy(incarnation)) await this.#deploys.inTurn(incarnation, 'revive', () => {}, run);
  }

  /** What carries our label and is in no book. Never while anything is being deployed: it would be in the book in a moment. */
  async #stopUnknown(): Promise<void> {
    const { book, runtime, log } = this.#ground;
    const ids = await runtime.list();
    if (book.unfinished().length > 0 || book.apps().some((each) => this.#isBusy(each))) return;
    const known = new Set(book.instances().map(({ id }) => id));
    for (const id of ids) {
      if (known.has(id)) continue;
      log.warn('app-instance-unknown', { instance: id });
      await runtime.stop({ id, app: '', service: '', backends: [], managed: true }, 0, () => {});
      await runtime.forget(id);
    }
  }
}

const keyOf = ({ incarnation, name }: Pick<ActiveService, 'incarnation' | 'name'>): string => `${incarnation} ${name}`;

/** 1 s, 2 s, 4 s … 5 min. */
export function backoffOf(restarts: number): number {
  return Math.min(maxBackoffMs, firstBackoffMs * 2 ** Math.min(restarts, 20));
}

// The supervisor's gate as a whole: who may log in, what was set at run time, and the part of the snapshot that follows.
// Invariant: what the snapshot says about logins is made here, at the moment of a publication, from the files as they are.
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { PathWatch } from '../certificates/path-watch.ts';
import type { DeclaredGate } from '../config/declared-gate.ts';
import type { CredentialsDelta } from '../gate/credentials.ts';
import type { DashboardAnswer, DashboardAsk } from '../gate/dashboard.ts';
import type { DeskAnswer, DeskQuestion, UsageReport } from '../gate/desk.ts';
import { originOf } from '../gate/origin.ts';
import { reservedPath } from '../gate/return-path.ts';
import { digestOf } from '../model/digest.ts';
import { endsTls } from '../model/entrypoint-protocol.ts';
import { defaultGateSettings } from '../model/gate-policy.ts';
import type { GatePart, GateSettings, Route, RouteGate, RoutingPart } from '../model/snapshot.ts';
import { GateLedger, type Spread } from './gate-ledger.ts';
import { GateOffice } from './gate-office.ts';
import { GateOverrides } from './gate-overrides.ts';
import { Passwords } from './gate-passwords.ts';
import { SingleSignOn } from './gate-sso.ts';
import { GateStore } from './gate-store.ts';
import type { StateStore } from './state-store.ts';
import type { GateCounts } from './supervisor-metrics.ts';

export interface GateHouseDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: StateStore;
  readonly stateDir: string;
  readonly spread: Spread;
  readonly throttled: (addresses: readonly (readonly [string, number])[]) => void;
  /** Every worker judges by the part as it is now when it resolves. */
  readonly publish: () => Promise<unknown>;
  readonly dashboard: (ask: DashboardAsk) => Promise<DashboardAnswer>;
}

export class GateHouse {
  readonly ledger: GateLedger;
  readonly overrides: GateOverrides;
  readonly passwords = new Passwords();
  readonly #deps: GateHouseDeps;
  readonly #office: GateOffice;
  readonly #watch: PathWatch;
  #declared: DeclaredGate | null = null;
  #sso: SingleSignOn | null = null;
  #gates: readonly RouteGate[] = [];

  constructor(deps: GateHouseDeps) {
    const { clock, log, store, stateDir } = deps;
    this.#deps = deps;
    this.ledger = new GateLedger(
      store.tables((database) => new GateStore(database)),
      deps.spread,
    );
    this.overrides = new GateOverrides(stateDir);
    this.#office = new GateOffice({
      clock,
      log,
      ledger: this.ledger,
      passwords: this.passwords,
      lifetimes: () => this.#declared,
      throttled: deps.throttled,
      sso: () => this.#sso,
    });
    this.#watch = new PathWatch({ clock, log, quietMs: 50, onChange: () => this.#publishSoon() });
  }

  /** Null before the first configuration. */
  get declared(): DeclaredGate | null {
    return this.#declared;
  }

  /** Each app behind the gate once. */
  get gates(): readonly RouteGate[] {
    return this.#gates;
  }

  get counts(): GateCounts {
    const { users, sessions, tokens } = this.ledger;
    return { users: users.size, sessions: sessions.size, tokens: tokens.size, throttled: this.#office.throttleSize };
  }

  /** Asked inside a publication, so that none can bring back what a later change has replaced. */
  part(declared: DeclaredGate | null = this.#declared): GatePart {
    const overrides: Record<string, boolean> = {};
    for (const [app, { enabled, problem }] of this.overrides.readAll()) {
      if (problem !== null) this.#deps.log.warn('gate-override-broken', { app, problem });
      if (enabled !== null) overrides[app] = enabled;
    }
    return { overrides, settings: settingsOf(declared) };
  }

  /** This configuration is in force. */
  adopt(declared: DeclaredGate): void {
    this.#declared = declared;
    this.#office.awaitEnding();
    const { oidc } = declared;
    const same = digestOf(this.#sso?.declared ?? null) === digestOf(oidc);
    if (!same) this.#sso = oidc === null ? null : new SingleSignOn(oidc, this.#deps.clock, this.#deps.log);
  }

  /** Every worker serves this routing. */
  adopted(routing: RoutingPart): void {
    const gates = new Map<string, RouteGate>();
    for (const { routes } of routing.hosts) {
      for (const { gate } of routes) if (gate !== null) gates.set(gate.app, gate);
    }
    this.#gates = [...gates.values()];
    this.#look();
  }

  /** In force at every worker when it resolves. Null: what is declared counts again. */
  async setOverride(app: string, enabled: boolean | null): Promise<void> {
    await this.overrides.set(app, enabled);
    await this.#deps.publish();
  }

  /** Once, at the start: the way in for the first user. Null: there is one already, or nothing to log in to. */
  setupLink(routing: RoutingPart): string | null {
    const gated = routing.hosts.filter(({ routes, entrypoints }) => entrypoints.length > 0 && routes.some(isGates));
    const named = gated.filter(({ tls }) => tls !== 'either');
    const host =
      named.find(({ routes }) => routes.some(({ action }) => action.kind === 'gate')) ?? named[0] ?? gated[0];
    const secret = host === undefined ? null : this.#office.offerSetup();
    if (host === undefined || secret === null) return null;
    const served = routing.entrypoints.filter(({ name }) => host.entrypoints.includes(name));
    const secure =
      host.tls === 'never' || host.tls === 'either' ? undefined : served.find(({ protocol }) => endsTls(protocol));
    const { publicPort, port } = secure ?? served[0]!;
    const name = host.pattern.replace(/^\*(\.|$)/, 'localhost$1');
    return `${originOf(secure !== undefined, name, publicPort ?? port)}${reservedPath}setup?code=${secret}`;
  }

  // ---- for the workers -------------------------------------------------------------------------------------------

  whole(): CredentialsDelta {
    return this.ledger.whole();
  }

  async answer(question: DeskQuestion): Promise<DeskAnswer | null> {
    try {
      if (question.topic === 'dashboard') return await this.#deps.dashboard(question.ask);
      return await this.#office.answer(question);
    } catch (error) {
      this.#deps.log.error('gate-desk-failed', { topic: question.topic, err: error });
      return null;
    }
  }

  report(report: UsageReport): void {
    this.#office.report(report);
  }

  close(): void {
    this.#watch.close();
    this.#office.close();
  }

  #look(): void {
    const files = new Set([...this.overrides.files(), ...this.#gates.map(({ app }) => this.overrides.fileOf(app))]);
    this.#watch.set([...files]).catch((error: unknown) => this.#deps.log.error('gate-watch-failed', { err: error }));
  }

  #publishSoon(): void {
    this.#deps.publish().catch((error: unknown) => this.#deps.log.error('gate-publish-failed', { err: error }));
  }
}

function isGates({ gate, action }: Route): boolean {
  return gate !== null || action.kind === 'gate';
}

function settingsOf(gate: DeclaredGate | null): GateSettings {
  if (gate === null) return defaultGateSettings;
  const { host, port, written, sessionIdleMs, sessionAbsoluteMs, dashboardOrigins, https, oidc, forwardAuth } = gate;
  return {
    host,
    port: written ? port : null,
    sessionIdleMs,
    sessionAbsoluteMs,
    dashboardOrigins,
    singleSignOn: oidc?.name ?? null,
    forwardAuth,
    https,
  };
}

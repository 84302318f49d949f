// Where requests of every protocol version enter: makes an exchange of each and keeps what exchanges share.
// Invariant: a request is counted and logged exactly once, whether it became an exchange or was refused before.
import type { Clock } from '../base/clock.ts';
import type { Deadlines } from '../base/deadlines.ts';
import type { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { type GateHost, Gatekeeper } from '../gate/gatekeeper.ts';
import type { RequestHead } from '../message/head.ts';
import type { ClientStream, ConnectionFacts } from '../message/stream.ts';
import { defaultGateSettings } from '../model/gate-policy.ts';
import type { EntrypointLimits, Settings } from '../model/snapshot.ts';
import type { Traffic } from '../traffic/traffic.ts';
import type { Backends } from '../upstream/backends.ts';
import type { AccessLog } from './access-log.ts';
import { faultBytes } from './answer.ts';
import { ChallengeAnswers } from './challenge-answers.ts';
import { type ConnectionPlan, connectionPlan } from './connection-plan.ts';
import { Exchange, type ExchangeHost } from './exchange.ts';
import { ExchangeRecord } from './exchange-record.ts';
import { reasonOf } from './fault-text.ts';
import type { CutOff } from './h2-server.ts';
import { HttpMetrics, isFailure } from './http-metrics.ts';
import { OutsideAuth } from './outside-auth.ts';
import { PlanKeeper, type Plans, type RoutePlan } from './plans.ts';
import { RequestIds } from './request-id.ts';

export interface HttpDeps {
  readonly traffic: Traffic<Backends>;
  readonly deadlines: Deadlines;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly accessLog: AccessLog;
  /** Rate limits are shared out over this many workers. */
  readonly workers: number;
  readonly gate: GateHost;
}

export class HttpHandler implements ExchangeHost {
  readonly traffic: Traffic<Backends>;
  readonly deadlines: Deadlines;
  readonly clock: Clock;
  readonly log: Log;
  readonly requestIds = new RequestIds();
  readonly challenges = new ChallengeAnswers();
  readonly gatekeeper: Gatekeeper;
  readonly outside: OutsideAuth;
  readonly #accessLog: AccessLog;
  readonly #metrics: HttpMetrics;
  readonly #keeper: PlanKeeper;

  /** Registers with `traffic`: must be made before the first commit. */
  constructor(deps: HttpDeps) {
    this.traffic = deps.traffic;
    this.deadlines = deps.deadlines;
    this.clock = deps.clock;
    this.log = deps.log;
    this.#accessLog = deps.accessLog;
    this.#metrics = new HttpMetrics(deps.metrics);
    this.gatekeeper = new Gatekeeper(deps.gate, deps.clock, defaultGateSettings);
    this.outside = new OutsideAuth(deps.clock);
    this.#keeper = new PlanKeeper(this.#metrics, deps.workers, (plans) => {
      const { accessLog, accessLogFormat } = plans.compiled.table.part.settings;
      this.#accessLog.configure(accessLog, accessLogFormat);
      this.gatekeeper.follow(plans.gatePart.settings, plans.compiled.snapshot.parts.keys.cookieKey);
    });
    deps.traffic.register(this.#keeper);
    deps.traffic.register(this.challenges);
  }

  get plans(): Plans {
    return this.#keeper.current;
  }

  get settings(): Settings {
    return this.#keeper.current.compiled.table.part.settings;
  }

  /** Limits that are judged before a route is known. */
  limitsOf(entrypoint: string): EntrypointLimits {
    const { table } = this.plans.compiled;
    return table.entrypoints.get(entrypoint)?.entrypoint.limits ?? table.part.settings.limits;
  }

  handle(stream: ClientStream): void {
    new Exchange(this, stream).arrive();
  }

  /** Answers a request that was found unfit by the codec that read it. */
  refuse(stream: ClientStream, fault: Fault): void {
    new Exchange(this, stream).refused(fault);
  }

  /** An HTTP/2 connection was ended for what its client did. */
  cutOff(why: CutOff): void {
    this.#metrics.cutOff(why);
  }

  /** A client connection was closed at the end of `keep_alive_timeout`. */
  idleClosed(): void {
    this.#metrics.idleClosed();
  }

  /** The complete answer to something that never became an exchange. */
  answerFault(fault: Fault, head: RequestHead | null): Buffer {
    return faultBytes(fault, head);
  }

  /** Such a thing happened on this connection: one line, one count. */
  refused(fault: Fault, facts: ConnectionFacts): void {
    const record = new ExchangeRecord(unreadHead, facts.peerAddress, this.clock);
    record.status = fault.status;
    record.reason = reasonOf(fault.code);
    record.fault = fault.code;
    this.#account(record, connectionPlan(facts), null, record.started);
  }

  // ---- called by exchanges ---------------------------------------------------------------------------------------

  began(exchange: Exchange): void {
    this.deadlines.add(exchange);
    this.#metrics.inFlight.value++;
  }

  ended(exchange: Exchange, record: ExchangeRecord, connection: ConnectionPlan, plan: RoutePlan | null): void {
    this.deadlines.remove(exchange);
    this.#metrics.inFlight.value--;
    this.#account(record, connection, plan, this.clock.monotonic());
  }

  #account(record: ExchangeRecord, connection: ConnectionPlan, plan: RoutePlan | null, now: number): void {
    const cells = plan === null ? this.#keeper.other : plan.metrics;
    cells.count(record.method, record.status, now - record.started, record.bytesIn, record.bytesOut);
    if (isFailure(record.reason)) cells.failures.value++;
    this.#metrics.reason(record.reason);
    if (record.fault !== null) this.#metrics.fault(record.fault);
    this.#accessLog.record(record, connection, now);
    this.#metrics.droppedLogLines.value = this.#accessLog.dropped;
  }
}

const unreadHead = { method: '', target: '', version: 0 };

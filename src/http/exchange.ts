// One HTTP exchange, from arrival to log line; the same for HTTP/1.1 and HTTP/2 clients.
// Invariant: ends exactly once, in `#finish`, with its claim released, its backend given back or broken off, and one log
// line written; after that every event is void.
import type { Clock } from '../base/clock.ts';
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';
import { Fault, type FaultCode } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { Gatekeeper } from '../gate/gatekeeper.ts';
import { canonicalTarget } from '../gate/path.ts';
import type { VisitReply } from '../gate/visit-request.ts';
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import type { RequestHead } from '../message/head.ts';
import type { ClientStream, RequestReceiver } from '../message/stream.ts';
import type { Reason } from '../model/reason.ts';
import type { Settings } from '../model/snapshot.ts';
import type { LiveService, Waiter } from '../traffic/live-service.ts';
import type { Traffic } from '../traffic/traffic.ts';
import type { Backends } from '../upstream/backends.ts';
import { type Answer, faultAnswer } from './answer.ts';
import { type Arrival, type Doorman, judgeArrival } from './arrival.ts';
import type { ChallengeAnswers } from './challenge-answers.ts';
import { clientAddress } from './client-address.ts';
import { type ConnectionPlan, connectionPlan } from './connection-plan.ts';
import { ExchangeRecord } from './exchange-record.ts';
import { reasonOf } from './fault-text.ts';
import { Forward, type ForwardHost } from './forward.ts';
import { downAnswer, visitAnswer } from './gate-answers.ts';
import { GatePass, type PassHolder } from './gate-pass.ts';
import { GateVisit, type VisitHost } from './gate-visit.ts';
import type { HostMatch } from './host-match.ts';
import { matchHost } from './match.ts';
import type { OutsideAuth } from './outside-auth.ts';
import type { Plans, RoutePlan } from './plans.ts';
import { applyRoute, givenRequestId, prepareRequest, type Undo, undoRoute } from './request-headers.ts';
import type { RequestIds } from './request-id.ts';
import { mayTryAgain } from './retry.ts';
import { asHandshake } from './websocket.ts';

type Phase =
  /** Being matched. */
  | 'arriving'
  /** The service is held or paused. */
  | 'waiting'
  /** A backend has it. */
  | 'forwarding'
  /** The gate answers in its own name. */
  | 'visiting'
  /** Another program is asked whether it may pass. */
  | 'asking'
  /** The whole answer has been handed to the client's stream. */
  | 'ending'
  | 'done';

/** What exchanges share. */
export interface ExchangeHost {
  readonly traffic: Traffic<Backends>;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly log: Log;
  readonly requestIds: RequestIds;
  readonly plans: Plans;
  readonly challenges: ChallengeAnswers;
  readonly gatekeeper: Gatekeeper;
  readonly outside: OutsideAuth;
  readonly settings: Settings;
  began(exchange: Exchange): void;
  /** Time for the log line. */
  ended(exchange: Exchange, record: ExchangeRecord, connection: ConnectionPlan, plan: RoutePlan | null): void;
}

export class Exchange implements RequestReceiver, Waiter, DeadlineHolder, ForwardHost, Doorman, PassHolder, VisitHost {
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly client: ClientStream;
  readonly connection: ConnectionPlan;
  readonly head: RequestHead;
  readonly clientAddress: string;
  readonly record: ExchangeRecord;
  readonly #host: ExchangeHost;
  /** The request has arrived completely. */
  requestEnded: boolean;
  /** A part of the body has left for a backend: there is no second try. */
  bodyTaken = false;
  /** What the backend must prove before there is a tunnel; null: this is no handshake. */
  expectedAccept: string | null = null;
  #phase: Phase = 'arriving';
  #plan: RoutePlan | null = null;
  #forward: Forward | null = null;
  #waitingFor: LiveService<Backends> | null = null;
  #waitingSince = 0;
  #rateCharged = false;
  /** Not refused by the overload ladder; asked once. */
  #admitted = false;
  /** The head was given its forwarded fields; happens once. */
  #prepared = false;
  /** What the gate made of it; null: it was not asked. */
  #pass: GatePass | null = null;
  #visit: GateVisit | null = null;
  /** Takes the question back. */
  #asking: (() => void) | null = null;
  #undo: Undo | null = null;

  constructor(host: ExchangeHost, client: ClientStream) {
    this.#host = host;
    this.clock = host.clock;
    this.deadlines = host.deadlines;
    this.client = client;
    this.connection = connectionPlan(client.connection);
    const { head } = client;
    this.head = head;
    const { peerAddress, trustedPeer, entrypoint } = client.connection;
    this.clientAddress = trustedPeer
      ? clientAddress(peerAddress, joinedValues(head.fields, FieldId.XForwardedFor), host.plans.trusted(entrypoint))
      : peerAddress;
    this.record = new ExchangeRecord(head, this.clientAddress, host.clock);
    this.record.requestId = givenRequestId(head, trustedPeer) ?? host.requestIds.next();
    this.requestEnded = head.bodyLength === 0;
    client.receiver = this;
    host.began(this);
  }

  // ---- arrival ---------------------------------------------------------------------------------------------------

  /** Never throws: it is called from the middle of other requests' events and of publications. */
  arrive(): void {
    try {
      this.#arrive();
    } catch (error) {
      this.#host.log.error('bug', { err: error });
      this.fail(new Fault('internal', 'bug', { cause: error }));
    }
  }

  /** Matches and claims in one synchronous step, or answers, or waits. Runs anew after a hold and for a second try. */
  #arrive(): void {
    const { head, connection, record } = this;
    const match = matchHost(head, connection, this.#host.plans);
    record.host = match.host;
    // By the target as it was sent: another spelling of it is not what a CA asks for.
    const proof = this.#host.challenges.answerTo(head, match.host);
    if (proof !== null) {
      this.#answer(proof, 'acme-challenge');
      return;
    }
    if (match.plan?.pathsDecide === true) {
      const target = canonicalTarget(head.target);
      if (target === null) {
        this.#refuse(new Fault('bad-request', 'a path with more than one meaning'), null);
        return;
      }
      head.target = target;
    }
    const plan = match.plan === null ? null : match.plan.route(head.target);
    this.#plan = plan;
    record.route = plan === null ? '' : plan.route.id;
    const arrival = judgeArrival(head, connection, match, plan, this);
    switch (arrival.kind) {
      case 'refuse':
        this.#refuse(arrival.fault, arrival.reason);
        break;
      case 'answer':
        if (this.#withinRate(plan)) this.#answer(arrival.answer, arrival.reason);
        break;
      case 'ask':
        if (this.#withinRate(plan)) this.#askOutside(plan!, match);
        break;
      case 'visit':
        if (this.#withinRate(plan)) this.#pay(match);
        break;
      case 'forward':
        if (this.#withinRate(plan)) this.#claim(plan!, match, arrival.service);
        break;
    }
  }

  #withinRate(plan: RoutePlan | null): boolean {
    if (plan === null || plan.limiter === null || this.#rateCharged) return true;
    this.#rateCharged = true;
    const waitMs = plan.limiter.take(this.clientAddress, this.deadlines.now);
    if (waitMs === 0) return true;
    this.#refuse(new Fault('rate-limited', plan.route.id), null, Math.ceil(waitMs / 1000));
    return false;
  }

  // ---- the gate --------------------------------------------------------------------------------------------------

  refusal(plan: RoutePlan, match: HostMatch): Arrival | null {
    return this.#passOf(match).refusal(plan.guard!, match);
  }

  #passOf(match: HostMatch): GatePass {
    this.#pass ??= new GatePass(this, match, this.#host.gatekeeper);
    return this.#pass;
  }

  get upgradeOnly(): boolean {
    return this.#pass?.upgradeOnly === true;
  }

  /** What had opened the app is gone. */
  identityEnded(): void {
    if (this.#phase === 'done' || this.#phase === 'ending') return;
    const fault = new Fault('login-required', 'the session has ended');
    if (this.#forward?.revoke() === true) this.record.reason = 'revoked';
    else if (this.#forward?.answering === true) this.#cutShort(fault, 'revoked');
    else this.#refuse(fault, 'revoked');
  }

  /** Another program knows whether it may pass; then it arrives anew. */
  #askOutside(plan: RoutePlan, match: HostMatch): void {
    this.#phase = 'asking';
    this.#asking = this.#passOf(match).ask(plan.guard!, match, this.#host, (refusal) => {
      this.#asking = null;
      this.#phase = 'arriving';
      if (refusal === null) this.arrive();
      else this.#answer(refusal, 'login');
    });
  }

  /** Pays the gate a visit. */
  #pay(match: HostMatch): void {
    this.#phase = 'visiting';
    this.deadlineAt = this.deadlines.in(this.#host.settings.limits.bodyIdleTimeoutMs);
    const visit = new GateVisit(this, match, this.#passOf(match).visitor, this.#host.gatekeeper);
    this.#visit = visit;
    visit.begin();
  }

  visitAnswered(reply: VisitReply): void {
    this.#answer(visitAnswer(reply, this.head), 'gate');
  }

  bug(error: unknown): void {
    this.#host.log.error('bug', { err: error });
    this.fail(new Fault('internal', 'bug', { cause: error }));
  }

  // ---- a backend -------------------------------------------------------------------------------------------------

  #claim(plan: RoutePlan, match: HostMatch, serviceName: string): void {
    const live = this.#host.traffic.service(serviceName);
    const { record } = this;
    record.service = serviceName;
    if (live === undefined) this.#refuse(new Fault('internal', `no service ${serviceName}`), null);
    else if (!this.#isAdmitted()) this.#refuse(new Fault('overloaded'), null);
    else if (live.service.state === 'stopped') this.#refuse(new Fault('service-stopped', serviceName), null);
    else if (live.blocked) this.#wait(live);
    else {
      const last = this.#forward;
      const forward = new Forward(this, plan, live.current, last);
      this.#forward = forward;
      this.#phase = 'forwarding';
      record.generation = live.current.generation.number;
      this.#pass?.enter();
      this.#prepare(plan, match);
      forward.open();
    }
  }

  /** What waited for a hold, or is tried a second time, is not new any more. */
  #isAdmitted(): boolean {
    this.#admitted ||= !this.#host.traffic.overload.sheds(this.head.upgrade === '' ? 'request' : 'websocket');
    return this.#admitted;
  }

  #prepare(plan: RoutePlan, match: HostMatch): void {
    const { head } = this;
    if (!this.#prepared) {
      this.#prepared = true;
      prepareRequest(head, {
        connection: this.connection,
        hostHeader: match.hostHeader,
        clientAddress: this.clientAddress,
        requestId: this.record.requestId,
        port: match.listenPort,
        block: match.block,
        forwardedField: match.plans.compiled.table.part.settings.forwardedField,
      });
      if (head.upgrade !== '') this.expectedAccept = asHandshake(head);
    }
    plan.guard?.prepareRequest(head.fields, this.#pass);
    this.#undo = applyRoute(head, plan);
  }

  // ---- hold ------------------------------------------------------------------------------------------------------

  #wait(live: LiveService<Backends>): void {
    const fault = live.wait(this);
    if (fault !== null) {
      this.#refuse(fault, null);
      return;
    }
    this.#phase = 'waiting';
    this.#waitingFor = live;
    this.#waitingSince = this.clock.monotonic();
  }

  get heldSize(): number {
    const { fields, target } = this.head;
    let size = 512 + target.length;
    for (let i = 0; i < fields.length; i++) size += 32 + fields.names[i]!.length + fields.values[i]!.length;
    return size;
  }

  holdReleased(): void {
    this.#waited();
    this.record.reason = 'held';
    this.#phase = 'arriving';
    this.arrive();
  }

  holdFailed(fault: Fault): void {
    this.#waited();
    this.#refuse(fault, null);
  }

  #waited(): void {
    this.#waitingFor = null;
    this.record.heldMs += this.clock.monotonic() - this.#waitingSince;
  }

  // ---- events from the client ------------------------------------------------------------------------------------

  requestData(chunk: Buffer): void {
    this.record.bytesIn += chunk.length;
    if (this.#visit !== null) this.#visit.requestData(chunk);
    else this.#forward?.requestData(chunk);
  }

  bodyArrived(): void {
    this.#forward?.bodyArrived();
  }

  requestEnd(trailers: Fields | null): void {
    if (this.requestEnded) return;
    this.requestEnded = true;
    if (this.#visit !== null) this.#visit.requestEnd();
    else this.#forward?.requestEnd(trailers);
  }

  requestAborted(fault: Fault): void {
    if (this.#phase === 'done') return;
    const { record } = this;
    record.aborted = this.#phase === 'ending' || this.#forward?.answering === true;
    // A body that broke its framing was answered by the codec that found it.
    if (!record.aborted) record.status = fault.code === 'client-gone' ? 499 : fault.status;
    record.reason = reasonOf(fault.code);
    record.fault ??= fault.code;
    this.#finish();
  }

  clientWritable(): void {
    this.#forward?.clientWritable();
  }

  clientFinished(): void {
    if (this.#phase === 'ending') this.#finish();
  }

  deadlineReached(): void {
    if (this.#phase === 'forwarding') this.#forward?.deadlineReached();
    else if (this.#phase === 'visiting') this.#refuse(new Fault('request-timeout', 'the form does not arrive'), null);
    else if (this.#phase === 'ending') this.#cutShort(new Fault('client-gone', 'the client does not read'));
  }

  // ---- called by the forward in work, by the handler -------------------------------------------------------------

  /** The whole answer is handed over; `clientFinished` will follow, now or later. */
  answered(): void {
    this.#phase = 'ending';
  }

  /** The forward failed before any byte of an answer came: arrives anew, if that is harmless and was not tried before. */
  triesAgain(fault: Fault, forward: Forward): boolean {
    const { record, head } = this;
    const plan = this.#plan;
    if (
      plan === null ||
      !plan.route.retry ||
      record.retries > 0 ||
      this.bodyTaken ||
      !mayTryAgain(fault, head.method)
    ) {
      return false;
    }
    record.retries++;
    record.reason = 'retried';
    plan.metrics.retries.value++;
    // The second try is matched by what the client sent, not by what the first route made of it.
    if (this.#undo !== null) undoRoute(head, this.#undo);
    this.#undo = null;
    // What arrives of the body meanwhile would meet no backend.
    if (!this.requestEnded) this.client.pauseBody();
    this.deadlineAt = 0;
    this.#phase = 'arriving';
    this.#forward = forward;
    this.arrive();
    return true;
  }

  /** Something other than the client went wrong: answered while that is possible, cut short otherwise. */
  fail(fault: Fault): void {
    if (this.#phase === 'done') return;
    if (this.#phase === 'ending' || this.#forward?.answering === true) this.#cutShort(fault);
    else this.#refuse(fault, null);
  }

  /** A tunnel ended: there is nothing to answer. */
  ended(): void {
    this.#finish();
  }

  /** Unfit from the start. */
  refused(fault: Fault): void {
    this.#refuse(fault, null);
  }

  // ---- endings ---------------------------------------------------------------------------------------------------

  #refuse(fault: Fault, reason: Reason | null, retryAfterSeconds = 0): void {
    this.record.fault ??= fault.code;
    if (fault.code === 'internal') this.#host.log.error('exchange-failed', { message: fault.message });
    const guard = this.#plan?.guard;
    if (guard?.policy?.retryPage === true && isDown(fault.code)) {
      const { requestId, host } = this.record;
      const ancestors = guard.ancestors(this.connection.proto === 'https', host);
      this.#answer(downAnswer(this.head, guard.gate!.app, ancestors, requestId), 'app-down');
      return;
    }
    const answer = faultAnswer(fault, this.head, this.record.requestId, retryAfterSeconds);
    this.#answer(answer, reason ?? reasonOf(fault.code));
  }

  /** An answer of our own. */
  #answer({ head, body }: Answer, reason: Reason): void {
    const { client, record, requestEnded } = this;
    record.status = head.status;
    record.reason = reason;
    record.bytesOut = body.length;
    this.#leave();
    this.#phase = 'ending';
    this.deadlineAt = this.deadlines.in(this.#host.settings.limits.bodyIdleTimeoutMs);
    client.sendHead(head, body.length === 0, false);
    if (body.length > 0) {
      client.sendData(body);
      client.sendEnd(null);
    }
    if (!requestEnded) client.discardBody();
  }

  /** A part of the answer is out: the client must see that the rest is missing. */
  #cutShort(fault: Fault, reason: Reason = reasonOf(fault.code)): void {
    const { record } = this;
    record.aborted = true;
    record.reason = reason;
    record.fault ??= fault.code;
    this.client.abort();
    this.#finish();
  }

  #leave(): void {
    this.#waitingFor?.leave(this);
    this.#waitingFor = null;
    this.#forward?.leave();
    this.#forward = null;
    this.#visit?.leave();
    this.#visit = null;
    this.#asking?.();
    this.#asking = null;
    this.#pass?.leave();
  }

  #finish(): void {
    if (this.#phase === 'done') return;
    this.#phase = 'done';
    this.#leave();
    this.#host.ended(this, this.record, this.connection, this.#plan);
  }
}

/** The app takes no connections, as against one that took it and failed. */
function isDown(code: FaultCode): boolean {
  return code === 'upstream-refused' || code === 'upstream-connect-timeout' || code === 'no-live-backend';
}

function joinedValues(fields: Fields, id: number): string | null {
  let joined: string | null = null;
  for (let i = 0; i < fields.length; i++) {
    if (fields.ids[i] !== id) continue;
    joined = joined === null ? fields.values[i]! : `${joined}, ${fields.values[i]!}`;
  }
  return joined;
}

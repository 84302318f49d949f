// One HTTP exchange, from arrival to log line; the same for HTTP/1.1 and HTTP/2 on either side.
// Invariant: ends exactly once, in `#finish`, with its claim released, its backend given back or broken off, and one log
// line written; after that every event is void.
import type { Duplex } from 'node:stream';
import type { DeadlineHolder } from '../base/deadlines.ts';
import { Fault } from '../base/fault.ts';
import { allowedTrailers } from '../http1/trailers.ts';
import { FieldId } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import type { RequestHead, ResponseHead } from '../message/head.ts';
import type { BackendReceiver, BackendStream, ClientStream, RequestReceiver } from '../message/stream.ts';
import type { Reason } from '../model/reason.ts';
import type { Limits } from '../model/snapshot.ts';
import type { ClaimHolder, ClaimKind, EndReason } from '../traffic/claim.ts';
import type { LiveGeneration, LiveService, Waiter } from '../traffic/live-service.ts';
import type { Ask, Opening } from '../upstream/ask.ts';
import type { Backends } from '../upstream/backends.ts';
import { type Answer, faultAnswer } from './answer.ts';
import { clientAddress } from './client-address.ts';
import { CompressedBody, type CompressedBodyOwner } from './compressed-body.ts';
import { negotiate } from './compression.ts';
import { type ConnectionPlan, connectionPlan } from './connection-plan.ts';
import { ExchangeRecord } from './exchange-record.ts';
import { reasonOf } from './fault-text.ts';
import type { HttpHandler } from './handler.ts';
import { type HostMatch, matchHost } from './match.ts';
import { judgePlaintextRequest } from './plaintext.ts';
import type { RoutePlan } from './plans.ts';
import { applyRoute, givenRequestId, prepareRequest, type Undo, undoRoute } from './request-headers.ts';
import { fixedAnswer, redirectAnswer } from './respond.ts';
import { applySite, prepareInformation, prepareResponse } from './response-headers.ts';
import { mayTryAgain } from './retry.ts';
import { isStream, isStreamType } from './stream-kind.ts';
import { isHttp2Stream, Tunnel, type TunnelOwner } from './tunnel.ts';
import { asHandshake, completeAccept, provesAccept } from './websocket.ts';

/** How long the backend may decide about `Expect: 100-continue` before we say so ourselves (RFC 9110 §10.1.1). */
const expectMs = 1000;
/** Interim answers to one request. */
const informationMax = 64;
/** Clients of one drain are sent away over this time. */
const drainSpreadMs = 3000;

type Phase =
  /** Being matched. */
  | 'arriving'
  /** The service is held or paused. */
  | 'waiting'
  /** A backend was asked for. */
  | 'opening'
  /** The head is sent; the client waits for a 100 before it sends the body. */
  | 'expecting'
  /** The request is being sent, or its answer is awaited. */
  | 'sending'
  /** The answer's head has been sent. */
  | 'answering'
  /** The whole answer has been handed to the client's stream. */
  | 'ending'
  | 'tunnelling'
  | 'done';

export class Exchange
  implements
    RequestReceiver,
    BackendReceiver,
    ClaimHolder,
    Waiter,
    DeadlineHolder,
    Ask,
    CompressedBodyOwner,
    TunnelOwner
{
  deadlineAt = 0;
  claimKind: ClaimKind = 'request';
  /** Ask: the backend that failed this request, and that this is its second try. */
  avoid: string | null = null;
  replay = false;
  readonly head: RequestHead;
  readonly clientAddress: string;
  readonly #handler: HttpHandler;
  readonly #client: ClientStream;
  readonly #connection: ConnectionPlan;
  readonly #record: ExchangeRecord;
  #phase: Phase = 'arriving';
  #plan: RoutePlan | null = null;
  #waitingFor: LiveService<Backends> | null = null;
  #waitingSince = 0;
  #generation: LiveGeneration<Backends> | null = null;
  #opening: Opening | null = null;
  #backend: BackendStream | null = null;
  #compressed: CompressedBody | null = null;
  #tunnel: Tunnel | null = null;
  /** The head was given its forwarded fields; happens once. */
  #prepared = false;
  #undo: Undo | null = null;
  /** What the backend must prove when the handshake is ours (RFC 8441 client). */
  #expectedAccept: string | null = null;
  #rateCharged = false;
  /** A part of the body has left for a backend: there is no second try. */
  #bodyTaken = false;
  #requestEnded = false;
  #informations = 0;
  /** Who is behind, when nothing moves. */
  #backendFull = false;
  #clientFull = false;

  constructor(handler: HttpHandler, client: ClientStream) {
    this.#handler = handler;
    this.#client = client;
    this.#connection = connectionPlan(client.connection);
    const { head } = client;
    this.head = head;
    const { peerAddress, trustedPeer, entrypoint } = client.connection;
    this.clientAddress = trustedPeer
      ? clientAddress(peerAddress, joinedValues(head.fields, FieldId.XForwardedFor), handler.plans.trusted(entrypoint))
      : peerAddress;
    const { clock } = handler;
    this.#record = new ExchangeRecord(
      head.method,
      head.target,
      head.version,
      this.clientAddress,
      clock.now(),
      clock.monotonic(),
    );
    this.#record.requestId = givenRequestId(head, trustedPeer) ?? handler.requestIds.next();
    this.#requestEnded = head.bodyLength === 0;
    client.receiver = this;
    handler.began(this);
  }

  // ---- arrival ---------------------------------------------------------------------------------------------------

  /** Matches and claims in one synchronous step, or answers, or waits. Runs anew after a hold and for a retry. */
  arrive(): void {
    const { head } = this;
    const match = matchHost(head, this.#connection, this.#handler.plans);
    this.#record.host = match.host;
    const problem = match.fault ?? requestProblem(head);
    if (problem !== null) {
      this.#refuse(problem, match.faultReason);
      return;
    }
    const host = match.plan!;
    if (this.#connection.facts.tls === null) {
      const verdict = judgePlaintextRequest(head, match, host, this.#connection);
      if (verdict === 'misdirected') {
        this.#refuse(new Fault('misdirected', 'TLS only'), 'misdirected-plaintext');
        return;
      }
      if (verdict !== null) {
        this.#answer(verdict, 'redirect-https');
        return;
      }
    }
    const plan = host.route(head.target);
    if (plan === null) {
      this.#refuse(new Fault('no-route', 'no such path'), null);
      return;
    }
    this.#plan = plan;
    this.#record.route = plan.route.id;
    if (head.bodyLength > plan.route.limits.bodySize) {
      this.#refuse(new Fault('body-too-large', 'declared length over the limit'), null);
      return;
    }
    if (plan.limiter !== null && !this.#withinRate(plan)) return;
    this.#act(plan, match);
  }

  #withinRate(plan: RoutePlan): boolean {
    if (this.#rateCharged) return true;
    this.#rateCharged = true;
    const waitMs = plan.limiter!.take(this.clientAddress, this.#handler.deadlines.now);
    if (waitMs === 0) return true;
    this.#refuse(new Fault('rate-limited', plan.route.id), null, Math.ceil(waitMs / 1000));
    return false;
  }

  #act(plan: RoutePlan, match: HostMatch): void {
    const { action } = plan.route;
    switch (action.kind) {
      case 'forward':
        this.#claim(plan, match, action.service);
        break;
      case 'respond': {
        const answer = fixedAnswer(action, plan.body, this.head);
        applySite(answer.head.fields, plan, this.#connection.facts);
        this.#answer(answer, 'responded');
        break;
      }
      case 'redirect': {
        const answer = redirectAnswer(action, match.host, this.head);
        applySite(answer.head.fields, plan, this.#connection.facts);
        this.#answer(answer, 'redirected');
        break;
      }
    }
  }

  #claim(plan: RoutePlan, match: HostMatch, serviceName: string): void {
    const live = this.#handler.traffic.service(serviceName);
    const record = this.#record;
    record.service = serviceName;
    if (live === undefined) {
      this.#refuse(new Fault('internal', `no service ${serviceName}`), null);
      return;
    }
    if (live.service.state === 'stopped') {
      this.#refuse(new Fault('service-stopped', serviceName), null);
      return;
    }
    if (live.blocked) {
      this.#wait(live);
      return;
    }
    const generation = live.current;
    generation.claim(this);
    this.#generation = generation;
    record.generation = generation.generation.number;
    this.#prepare(plan, match);
    record.backendAskedAt = this.#handler.clock.monotonic();
    this.#phase = 'opening';
    const opening = generation.resource.open(this, this);
    if (this.#phase === 'opening' && this.#generation === generation) this.#opening = opening;
  }

  #wait(live: LiveService<Backends>): void {
    const fault = live.wait(this);
    if (fault !== null) {
      this.#refuse(fault, null);
      return;
    }
    this.#phase = 'waiting';
    this.#waitingFor = live;
    this.#waitingSince = this.#handler.clock.monotonic();
  }

  get heldSize(): number {
    const { fields, target } = this.head;
    let size = 512 + target.length;
    for (let i = 0; i < fields.length; i++) size += 32 + fields.names[i]!.length + fields.values[i]!.length;
    return size;
  }

  holdReleased(): void {
    this.#waited();
    this.#record.reason = 'held';
    this.#phase = 'arriving';
    this.arrive();
  }

  holdFailed(fault: Fault): void {
    this.#waited();
    this.#refuse(fault, null);
  }

  #waited(): void {
    this.#waitingFor = null;
    this.#record.heldMs += this.#handler.clock.monotonic() - this.#waitingSince;
  }

  // ---- the request on its way to the backend ---------------------------------------------------------------------

  #prepare(plan: RoutePlan, match: HostMatch): void {
    const { head } = this;
    if (!this.#prepared) {
      this.#prepared = true;
      prepareRequest(head, {
        connection: this.#connection,
        hostHeader: match.hostHeader,
        clientAddress: this.clientAddress,
        requestId: this.#record.requestId,
        port: match.listenPort,
        forwardedField: match.plans.compiled.table.part.settings.forwardedField,
      });
      if (head.upgrade !== '') this.#expectedAccept = asHandshake(head);
      const type = head.fields.get(FieldId.ContentType);
      if (type !== null && isStreamType(type)) this.claimKind = 'stream';
    } else if (this.#undo !== null) {
      undoRoute(head, this.#undo);
    }
    this.#undo = applyRoute(head, plan);
  }

  backendReady(backend: BackendStream): void {
    if (this.#phase !== 'opening') {
      backend.abort();
      return;
    }
    const { head } = this;
    this.#opening = null;
    this.#backend = backend;
    this.#record.backend = backend.address;
    this.#record.backendReadyAt = this.#handler.clock.monotonic();
    backend.sendHead(head, this.#requestEnded);
    if (this.#requestEnded) {
      this.#phase = 'sending';
      this.deadlineAt = this.#in(this.#limits.backendHeadTimeoutMs);
    } else if (head.expectContinue) {
      this.#phase = 'expecting';
      backend.flush();
      this.deadlineAt = this.#in(expectMs);
    } else {
      this.#phase = 'sending';
      this.#awaitBody();
    }
  }

  #awaitBody(): void {
    this.deadlineAt = this.#idleDeadline();
    this.#client.resumeBody();
    // A body that is still on its way must not keep the head back.
    this.#backend?.flush();
  }

  requestData(chunk: Buffer): void {
    const record = this.#record;
    record.bytesIn += chunk.length;
    const backend = this.#backend;
    if (backend === null) return;
    if (record.bytesIn > this.#limits.bodySize) {
      this.#fail(new Fault('body-too-large', 'body over the limit'));
      return;
    }
    this.#bodyTaken = true;
    this.deadlineAt = this.#idleDeadline();
    if (!backend.sendData(chunk)) {
      this.#backendFull = true;
      this.#client.pauseBody();
    }
  }

  requestEnd(trailers: Fields | null): void {
    if (this.#requestEnded) return;
    this.#requestEnded = true;
    const backend = this.#backend;
    if (backend === null) return;
    if (trailers !== null) this.#bodyTaken = true;
    backend.sendEnd(trailers === null ? null : allowedTrailers(trailers));
    if (this.#phase === 'sending') this.deadlineAt = this.#in(this.#limits.backendHeadTimeoutMs);
  }

  backendWritable(): void {
    if (!this.#backendFull) return;
    this.#backendFull = false;
    if (this.#requestEnded || this.#backend === null) return;
    this.deadlineAt = this.#idleDeadline();
    this.#client.resumeBody();
  }

  // ---- the answer on its way to the client -----------------------------------------------------------------------

  responseInformation(status: number, fields: Fields): void {
    if (this.#backend === null || this.#phase === 'answering') return;
    if (++this.#informations > informationMax) {
      this.#fail(new Fault('upstream-bad-response', `more than ${informationMax} interim answers`));
      return;
    }
    if (status !== 100) {
      prepareInformation(fields);
      this.#client.sendInformation(status, fields);
    } else if (this.#phase === 'expecting') this.#continue(fields);
  }

  #continue(fields: Fields): void {
    prepareInformation(fields);
    this.#client.sendInformation(100, fields);
    this.#phase = 'sending';
    this.#awaitBody();
  }

  responseHead(head: ResponseHead): void {
    const backend = this.#backend;
    const plan = this.#plan;
    if (backend === null || plan === null || this.#generation === null) return;
    const record = this.#record;
    record.responseHeadAt = this.#handler.clock.monotonic();
    record.status = head.status;
    if (isStream(head)) this.claimKind = 'stream';
    const cookie = this.#generation.resource.stickyAnswer(this, backend);
    prepareResponse(head.fields, plan, this.#connection.facts, cookie);
    const { compression } = plan.route;
    if (compression !== null) {
      const encoding = negotiate(compression, this.head, head);
      if (encoding !== null) this.#compressed = new CompressedBody(encoding, this.#client, this);
    }
    this.#phase = 'answering';
    this.deadlineAt = this.#idleDeadline();
    this.#client.sendHead(head, false, false);
  }

  responseData(chunk: Buffer): void {
    this.deadlineAt = this.#idleDeadline();
    if (this.#compressed === null) this.#record.bytesOut += chunk.length;
    const taker = this.#compressed ?? this.#client;
    if (!taker.sendData(chunk)) {
      this.#clientFull = true;
      this.#backend?.pauseResponse();
    }
  }

  responseFlush(): void {
    if (this.#compressed === null) this.#client.flush();
  }

  responseEnd(trailers: Fields | null): void {
    this.#backend = null;
    this.#release();
    this.#phase = 'ending';
    this.deadlineAt = this.#idleDeadline();
    const taker = this.#compressed ?? this.#client;
    const requestEnded = this.#requestEnded;
    taker.sendEnd(trailers === null ? null : allowedTrailers(trailers));
    if (!requestEnded) this.#client.discardBody();
  }

  responseFailed(fault: Fault): void {
    if (this.#phase === 'done') return;
    const failed = this.#backend?.address ?? this.#opening?.address ?? null;
    this.#backend = null;
    this.#opening = null;
    if (!this.#mayTryAgain(fault)) {
      this.#fail(fault);
      return;
    }
    this.#release();
    this.#record.retries++;
    if (this.#plan !== null) this.#plan.metrics.retries.value++;
    this.#record.reason = 'retried';
    this.avoid = failed;
    this.replay = true;
    this.#backendFull = false;
    this.#phase = 'arriving';
    this.deadlineAt = 0;
    this.arrive();
  }

  #mayTryAgain(fault: Fault): boolean {
    return (
      !this.replay &&
      !this.#bodyTaken &&
      this.#informations === 0 &&
      this.#plan?.route.retry === true &&
      (this.#phase === 'opening' || this.#phase === 'expecting' || this.#phase === 'sending') &&
      mayTryAgain(fault, this.head.method)
    );
  }

  clientWritable(): void {
    if (this.#compressed !== null) this.#compressed.clientWritable();
    else this.bodyWritable();
  }

  // ---- CompressedBodyOwner ---------------------------------------------------------------------------------------

  bodyWritable(): void {
    if (!this.#clientFull) return;
    this.#clientFull = false;
    if (this.#phase !== 'done') this.deadlineAt = this.#idleDeadline();
    this.#backend?.resumeResponse();
  }

  bodySent(size: number): void {
    this.#record.bytesOut += size;
    if (this.#phase !== 'done') this.deadlineAt = this.#idleDeadline();
  }

  bodyFailed(error: Error): void {
    this.#fail(new Fault('internal', 'compression failed', { cause: error }));
  }

  // ---- WebSocket -------------------------------------------------------------------------------------------------

  upgraded(head: ResponseHead, stream: Duplex): void {
    const plan = this.#plan;
    const backend = this.#backend;
    if (backend === null || plan === null || this.#generation === null) {
      stream.destroy();
      return;
    }
    const record = this.#record;
    record.responseHeadAt = this.#handler.clock.monotonic();
    const expected = this.#expectedAccept;
    if (isHttp2Stream(stream)) completeAccept(this.head, head);
    else if (expected !== null && !provesAccept(head, expected)) {
      stream.on('error', ignore);
      stream.destroy();
      this.#backend = null;
      this.#fail(new Fault('upstream-no-101', 'wrong Sec-WebSocket-Accept'));
      return;
    }
    prepareResponse(head.fields, plan, this.#connection.facts, this.#generation.resource.stickyAnswer(this, backend));
    this.#backend = null;
    this.claimKind = 'stream';
    record.status = this.#client.protocol === 'h2' ? 200 : 101;
    record.reason = 'upgraded';
    this.#phase = 'tunnelling';
    this.deadlineAt = this.#idleDeadline();
    this.#tunnel = new Tunnel(this.#client.acceptUpgrade(head), stream, this.#handler.clock, this);
  }

  tunnelMoved(fromClient: number, fromBackend: number): void {
    this.#record.bytesIn += fromClient;
    this.#record.bytesOut += fromBackend;
    this.deadlineAt = this.#idleDeadline();
  }

  tunnelEnded(): void {
    this.#finish();
  }

  // ---- endings ---------------------------------------------------------------------------------------------------

  clientFinished(): void {
    if (this.#phase === 'ending') this.#finish();
  }

  requestAborted(fault: Fault): void {
    if (this.#phase === 'done') return;
    const record = this.#record;
    record.aborted = this.#phase === 'answering' || this.#phase === 'ending';
    // A body that broke its framing was answered by the codec that found it.
    if (!record.aborted) record.status = fault.code === 'client-gone' ? 499 : fault.status;
    record.reason = reasonOf(fault.code);
    this.#finish();
  }

  /** The drain limit of the generation passed, or the process ends. */
  claimEnded(reason: EndReason): void {
    if (this.#tunnel !== null) {
      this.#record.reason = 'drained';
      if (reason === 'shutdown') this.#tunnel.close(1001, 'going away', 0);
      else this.#tunnel.close(1012, 'service restart', Math.random() * drainSpreadMs);
    } else this.#fail(new Fault(reason === 'shutdown' ? 'shutting-down' : 'drained', 'past the drain limit'));
  }

  deadlineReached(): void {
    switch (this.#phase) {
      case 'expecting':
        this.#continue(new Fields());
        break;
      case 'sending':
        if (this.#requestEnded) this.#fail(new Fault('upstream-head-timeout', 'no answer head in time'));
        else if (this.#backendFull) this.#fail(new Fault('upstream-idle', 'the backend does not take the body'));
        else this.#fail(new Fault('request-timeout', 'the body does not go on'));
        break;
      case 'answering':
        if (this.#clientFull) this.#fail(new Fault('client-gone', 'the client does not read'));
        else this.#fail(new Fault('upstream-idle', 'the answer does not go on'));
        break;
      case 'ending':
        this.#fail(new Fault('client-gone', 'the client does not read'));
        break;
      case 'tunnelling':
        this.#tunnel?.destroy();
        break;
    }
  }

  /** Unfit from the start. */
  refused(fault: Fault): void {
    this.#refuse(fault, null);
  }

  /** A bug of ours: logged with its stack by the caller, told to the client without detail. */
  crashed(error: unknown): void {
    this.#fail(new Fault('internal', 'bug', { cause: error }));
  }

  /** Something other than the client went wrong: answered while that is possible, cut short otherwise. */
  #fail(fault: Fault): void {
    if (this.#phase === 'done') return;
    if (this.#phase === 'answering' || this.#phase === 'ending') {
      const record = this.#record;
      record.aborted = true;
      record.reason = reasonOf(fault.code);
      this.#client.abort();
      this.#finish();
    } else this.#refuse(fault, null);
  }

  #refuse(fault: Fault, reason: Reason | null, retryAfterSeconds = 0): void {
    if (fault.code === 'internal') this.#handler.log.error('exchange-failed', { message: fault.message });
    const answer = faultAnswer(fault, this.head, this.#record.requestId, retryAfterSeconds);
    this.#answer(answer, reason ?? reasonOf(fault.code));
  }

  /** An answer of our own. */
  #answer({ head, body }: Answer, reason: Reason): void {
    const record = this.#record;
    record.status = head.status;
    record.reason = reason;
    record.bytesOut = body.length;
    this.#leaveBackend();
    this.#phase = 'ending';
    this.deadlineAt = this.#idleDeadline();
    const client = this.#client;
    const requestEnded = this.#requestEnded;
    client.sendHead(head, body.length === 0, false);
    if (body.length > 0) {
      client.sendData(body);
      client.sendEnd(null);
    }
    if (!requestEnded) client.discardBody();
  }

  #leaveBackend(): void {
    this.#opening?.cancel();
    this.#opening = null;
    this.#backend?.abort();
    this.#backend = null;
    this.#waitingFor?.leave(this);
    this.#waitingFor = null;
    this.#release();
  }

  #release(): void {
    this.#generation?.release(this);
    this.#generation = null;
  }

  #finish(): void {
    if (this.#phase === 'done') return;
    this.#phase = 'done';
    this.#leaveBackend();
    this.#compressed?.destroy();
    this.#handler.ended(this, this.#record, this.#connection, this.#plan);
  }

  // ---- deadlines -------------------------------------------------------------------------------------------------

  get #limits(): Limits {
    return this.#plan?.route.limits ?? this.#handler.settings.limits;
  }

  #in(ms: number): number {
    return this.#handler.deadlines.in(ms);
  }

  #idleDeadline(): number {
    const limits = this.#limits;
    const ms = this.claimKind === 'request' ? limits.bodyIdleTimeoutMs : limits.streamIdleTimeoutMs;
    return this.#handler.deadlines.in(ms);
  }
}

/** What no route could make acceptable. */
function requestProblem(head: RequestHead): Fault | null {
  // Only RFC 8441 makes a CONNECT of a WebSocket; a plain one would turn us into a forward proxy.
  if (head.method === 'CONNECT' && head.upgrade === '') return new Fault('method-refused', 'CONNECT');
  if (head.version >= 11 && !head.expectContinue && head.fields.has(FieldId.Expect)) {
    return new Fault('expectation-failed', 'unknown expectation');
  }
  return null;
}

function joinedValues(fields: Fields, id: number): string | null {
  let joined: string | null = null;
  for (let i = 0; i < fields.length; i++) {
    if (fields.ids[i] !== id) continue;
    joined = joined === null ? fields.values[i]! : `${joined}, ${fields.values[i]!}`;
  }
  return joined;
}

const ignore = (): void => {};

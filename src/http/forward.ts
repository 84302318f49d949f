// One try at a backend: from the claim on a generation to the end of the answer, or of the WebSocket.
// Invariant: holds its claim until the backend is done with the exchange; after `leave` no event does anything.
import type { Duplex } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import type { Deadlines } from '../base/deadlines.ts';
import { Fault } from '../base/fault.ts';
import { allowedTrailers } from '../http1/trailers.ts';
import { FieldId } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import type { RequestHead, ResponseHead } from '../message/head.ts';
import type { BackendReceiver, BackendStream, ClientStream } from '../message/stream.ts';
import type { ClaimHolder, ClaimKind, EndReason } from '../traffic/claim.ts';
import type { LiveGeneration } from '../traffic/live-service.ts';
import type { Ask, Opening } from '../upstream/ask.ts';
import type { Backends } from '../upstream/backends.ts';
import { CompressedBody, type CompressedBodyOwner } from './compressed-body.ts';
import { negotiate } from './compression.ts';
import type { ConnectionPlan } from './connection-plan.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import type { RoutePlan } from './plans.ts';
import { prepareInformation, prepareResponse } from './response-headers.ts';
import { isStream, isStreamType } from './stream-kind.ts';
import { Tunnel, type TunnelOwner } from './tunnel.ts';
import { provesAccept } from './websocket.ts';

/** How long the backend may decide about `Expect: 100-continue` before we say so ourselves (RFC 9110 §10.1.1). */
const expectMs = 1000;
/** Interim answers to one request, and what their fields may take: a client that does not read has them waiting here. */
const informationMax = 64;
const informationSizeMax = 256 * 1024;
/** Clients of one drain are sent away over this time. */
const drainSpreadMs = 3000;

type Phase =
  /** A backend was asked for. */
  | 'opening'
  /** The head is sent; the client waits for a 100 before it sends the body. */
  | 'expecting'
  /** The request is being sent, or its answer is awaited. */
  | 'sending'
  /** The answer's head has been sent. */
  | 'answering'
  | 'tunnelling'
  | 'over';

/** The exchange, as a try at a backend sees it. */
export interface ForwardHost {
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly client: ClientStream;
  readonly connection: ConnectionPlan;
  readonly head: RequestHead;
  readonly clientAddress: string;
  readonly record: ExchangeRecord;
  /** The request has arrived completely. */
  readonly requestEnded: boolean;
  /** A part of the body has left for a backend: there is no second try. */
  bodyTaken: boolean;
  /** What the backend must prove before there is a tunnel; null: this is no handshake. */
  readonly expectedAccept: string | null;
  /** Whoever asks may have a tunnel, and nothing else. */
  readonly upgradeOnly: boolean;
  deadlineAt: number;
  /** The whole answer is handed over; `clientFinished` will follow, now or later. */
  answered(): void;
  /** The try failed before any byte of an answer came. True: another one has begun. */
  triesAgain(fault: Fault, failed: Forward): boolean;
  /** Something other than the client went wrong. */
  fail(fault: Fault): void;
  /** The tunnel ended: there is nothing to answer. */
  ended(): void;
}

export class Forward implements BackendReceiver, Ask, ClaimHolder, CompressedBodyOwner, TunnelOwner {
  claimKind: ClaimKind = 'request';
  claimPlace = -1;
  readonly head: RequestHead;
  readonly clientAddress: string;
  readonly avoid: string | null;
  readonly replay: boolean;
  readonly #exchange: ForwardHost;
  readonly #plan: RoutePlan;
  #phase: Phase = 'opening';
  #generation: LiveGeneration<Backends> | null;
  #opening: Opening | null = null;
  #backend: BackendStream | null = null;
  #compressed: CompressedBody | null = null;
  #tunnel: Tunnel | null = null;
  #failedAddress: string | null = null;
  #informations = 0;
  #informationSize = 0;
  /** Who is behind, when nothing moves. */
  #backendFull = false;
  #clientFull = false;

  /** Claims the generation. `last`: the try before this one, which failed. */
  constructor(exchange: ForwardHost, plan: RoutePlan, generation: LiveGeneration<Backends>, last: Forward | null) {
    this.#exchange = exchange;
    this.#plan = plan;
    this.head = exchange.head;
    this.clientAddress = exchange.clientAddress;
    this.avoid = last === null ? null : last.#failedAddress;
    this.replay = last !== null;
    this.#generation = generation;
    generation.claim(this);
    const type = this.head.fields.get(FieldId.ContentType);
    if (type !== null && isStreamType(type)) this.claimKind = 'stream';
  }

  /** A part of an answer has been sent to the client. */
  get answering(): boolean {
    return this.#phase === 'answering' || this.#phase === 'tunnelling';
  }

  open(): void {
    const { record, clock } = this.#exchange;
    record.backendAskedAt = clock.monotonic();
    const opening = this.#generation!.resource.open(this, this);
    if (this.#phase === 'opening') this.#opening = opening;
  }

  /** Gives up what is not over yet. */
  leave(): void {
    this.#phase = 'over';
    this.#opening?.cancel();
    this.#opening = null;
    this.#backend?.abort();
    this.#backend = null;
    this.#compressed?.destroy();
    this.#release();
  }

  #release(): void {
    this.#generation?.release(this);
    this.#generation = null;
  }

  #fail(fault: Fault): void {
    this.#exchange.fail(fault);
  }

  // ---- the request on its way to the backend ---------------------------------------------------------------------

  backendReady(backend: BackendStream): void {
    if (this.#phase !== 'opening') {
      backend.abort();
      return;
    }
    const { record, clock, requestEnded } = this.#exchange;
    this.#opening = null;
    this.#backend = backend;
    record.backend = backend.address;
    record.backendReadyAt = clock.monotonic();
    this.#phase = 'sending';
    backend.sendHead(this.head, requestEnded);
    if (requestEnded) this.#setDeadline(this.#plan.route.limits.backendHeadTimeoutMs);
    else if (this.head.expectContinue && !this.#exchange.client.bodyWaits) {
      this.#phase = 'expecting';
      backend.flush();
      this.#setDeadline(expectMs);
    } else this.#takeBody();
  }

  /** Who sends without waiting needs no 100, and the backend need not be asked for one (RFC 9110 §10.1.1). */
  bodyArrived(): void {
    if (this.#phase !== 'expecting') return;
    this.#phase = 'sending';
    this.#takeBody();
  }

  #takeBody(): void {
    this.#setIdleDeadline();
    this.#exchange.client.resumeBody();
    // A body that is still on its way must not keep the head back.
    this.#backend?.flush();
  }

  requestData(chunk: Buffer): void {
    const backend = this.#backend;
    if (backend === null) return;
    const exchange = this.#exchange;
    if (exchange.record.bytesIn > this.#plan.route.limits.bodySize) {
      this.#fail(new Fault('body-too-large', 'body over the limit'));
      return;
    }
    exchange.bodyTaken = true;
    this.#setIdleDeadline();
    if (!backend.sendData(chunk)) {
      this.#backendFull = true;
      exchange.client.pauseBody();
    }
  }

  requestEnd(trailers: Fields | null): void {
    const backend = this.#backend;
    if (backend === null) return;
    if (trailers !== null) {
      this.#exchange.bodyTaken = true;
      this.#plan.guard?.prepareRequestTrailers(trailers);
    }
    backend.sendEnd(trailers === null ? null : allowedTrailers(trailers));
    if (this.#phase === 'sending') this.#setDeadline(this.#plan.route.limits.backendHeadTimeoutMs);
  }

  backendWritable(): void {
    if (!this.#backendFull) return;
    this.#backendFull = false;
    if (this.#backend === null || this.#exchange.requestEnded) return;
    this.#setIdleDeadline();
    this.#exchange.client.resumeBody();
  }

  // ---- the answer on its way to the client -----------------------------------------------------------------------

  responseInformation(status: number, fields: Fields): void {
    if (this.#phase !== 'sending' && this.#phase !== 'expecting') return;
    for (let i = 0; i < fields.length; i++) this.#informationSize += fields.names[i]!.length + fields.values[i]!.length;
    if (++this.#informations > informationMax || this.#informationSize > informationSizeMax) {
      this.#fail(new Fault('upstream-bad-response', 'too many interim answers, or too large ones'));
      return;
    }
    prepareInformation(fields);
    if (status !== 100) this.#exchange.client.sendInformation(status, fields);
    else if (this.#phase === 'expecting') this.#continue(fields);
  }

  #continue(fields: Fields): void {
    this.#exchange.client.sendInformation(100, fields);
    this.#phase = 'sending';
    this.#takeBody();
  }

  responseHead(head: ResponseHead): void {
    const generation = this.#generation;
    if (generation === null || this.#backend === null) return;
    const { record, clock, client, connection, expectedAccept } = this.#exchange;
    record.responseHeadAt = clock.monotonic();
    // To an extended CONNECT every 2xx says that the tunnel is open (RFC 9110 §9.3.6), and there is none.
    if (expectedAccept !== null && client.protocol === 'h2' && head.status < 300) {
      this.#fail(new Fault('upstream-no-101', `${head.status} instead of 101`));
      return;
    }
    if (this.#exchange.upgradeOnly && head.status < 400) {
      this.#fail(new Fault('login-required', 'open to upgrades only'));
      return;
    }
    record.status = head.status;
    if (isStream(head)) this.claimKind = 'stream';
    const cookie = generation.resource.stickyAnswer(this, this.#backend);
    prepareResponse(head.fields, this.#plan, connection.facts, cookie, record.host);
    const { compression } = this.#plan.route;
    if (compression !== null) {
      const encoding = negotiate(compression, this.head, head);
      if (encoding !== null) this.#compressed = new CompressedBody(encoding, client, this);
    }
    this.#phase = 'answering';
    this.#setIdleDeadline();
    client.sendHead(head, false, false);
  }

  responseData(chunk: Buffer): void {
    this.#setIdleDeadline();
    const exchange = this.#exchange;
    if (this.#compressed === null) exchange.record.bytesOut += chunk.length;
    const taker = this.#compressed ?? exchange.client;
    if (!taker.sendData(chunk)) {
      this.#clientFull = true;
      this.#backend?.pauseResponse();
    }
  }

  get dataDone(): boolean {
    return this.#compressed === null && this.#exchange.client.dataDone === true;
  }

  responseFlush(): void {
    if (this.#compressed === null) this.#exchange.client.flush();
  }

  responseEnd(trailers: Fields | null): void {
    this.#backend = null;
    this.#release();
    this.#setIdleDeadline();
    const { client, requestEnded } = this.#exchange;
    const taker = this.#compressed ?? client;
    this.#exchange.answered();
    taker.sendEnd(trailers === null ? null : allowedTrailers(trailers));
    if (!requestEnded) client.discardBody();
  }

  responseFailed(fault: Fault): void {
    if (this.#phase === 'over') return;
    this.#failedAddress = this.#backend?.address ?? this.#opening?.address ?? null;
    this.#backend = null;
    this.#opening = null;
    if (!this.answering && this.#informations === 0) {
      this.#phase = 'over';
      this.#release();
      if (this.#exchange.triesAgain(fault, this)) return;
    }
    this.#fail(fault);
  }

  clientWritable(): void {
    if (this.#compressed !== null) this.#compressed.clientWritable();
    else this.bodyWritable();
  }

  // ---- CompressedBodyOwner ---------------------------------------------------------------------------------------

  bodyWritable(): void {
    if (!this.#clientFull) return;
    this.#clientFull = false;
    this.#setIdleDeadline();
    this.#backend?.resumeResponse();
  }

  bodySent(size: number): void {
    this.#exchange.record.bytesOut += size;
    this.#setIdleDeadline();
  }

  bodyFailed(error: Error): void {
    this.#fail(new Fault('internal', 'compression failed', { cause: error }));
  }

  // ---- WebSocket -------------------------------------------------------------------------------------------------

  upgraded(head: ResponseHead, stream: Duplex): void {
    const generation = this.#generation;
    const backend = this.#backend;
    this.#backend = null;
    if (generation === null || backend === null) {
      stream.on('error', ignore);
      stream.destroy();
      return;
    }
    const { record, clock, client, connection, expectedAccept } = this.#exchange;
    record.responseHeadAt = clock.monotonic();
    if (expectedAccept !== null && !provesAccept(head, expectedAccept)) {
      stream.on('error', ignore);
      stream.destroy();
      this.#fail(new Fault('upstream-no-101', 'wrong Sec-WebSocket-Accept'));
      return;
    }
    const cookie = generation.resource.stickyAnswer(this, backend);
    prepareResponse(head.fields, this.#plan, connection.facts, cookie, record.host);
    this.claimKind = 'stream';
    record.status = client.protocol === 'h2' ? 200 : 101;
    record.reason = 'upgraded';
    this.#phase = 'tunnelling';
    this.#setIdleDeadline();
    this.#tunnel = new Tunnel(client.acceptUpgrade(head), stream, clock, this);
  }

  tunnelMoved(fromClient: number, fromBackend: number): void {
    const { record } = this.#exchange;
    record.bytesIn += fromClient;
    record.bytesOut += fromBackend;
    this.#setIdleDeadline();
  }

  tunnelEnded(): void {
    this.#exchange.ended();
  }

  // ---- limits ----------------------------------------------------------------------------------------------------

  /** The drain limit of the generation passed, or the process ends. */
  claimEnded(reason: EndReason): void {
    if (this.#tunnel === null) {
      this.#fail(new Fault(reason === 'shutdown' ? 'shutting-down' : 'drained', 'past the drain limit'));
      return;
    }
    this.#exchange.record.reason = 'drained';
    if (reason === 'shutdown') this.#tunnel.close(1001, 'going away', 0);
    else this.#tunnel.close(1012, 'service restart', Math.random() * drainSpreadMs);
  }

  /** Whoever opened the tunnel may be here no longer. False: there is none. */
  revoke(): boolean {
    this.#tunnel?.revoke();
    return this.#tunnel !== null;
  }

  deadlineReached(): void {
    switch (this.#phase) {
      case 'expecting':
        this.#continue(new Fields());
        break;
      case 'sending':
        if (this.#exchange.requestEnded) this.#fail(new Fault('upstream-head-timeout', 'no answer head in time'));
        else if (this.#backendFull) this.#fail(new Fault('upstream-idle', 'the backend does not take the body'));
        else this.#fail(new Fault('request-timeout', 'the body does not go on'));
        break;
      case 'answering':
        if (this.#clientFull) this.#fail(new Fault('client-gone', 'the client does not read'));
        else this.#fail(new Fault('upstream-idle', 'the answer does not go on'));
        break;
      case 'tunnelling':
        this.#exchange.record.reason = 'idle';
        this.#tunnel?.destroy();
        break;
    }
  }

  #setDeadline(ms: number): void {
    this.#exchange.deadlineAt = this.#exchange.deadlines.in(ms);
  }

  #setIdleDeadline(): void {
    if (this.#phase === 'over') return;
    const { bodyIdleTimeoutMs, streamIdleTimeoutMs } = this.#plan.route.limits;
    this.#setDeadline(this.claimKind === 'request' ? bodyIdleTimeoutMs : streamIdleTimeoutMs);
  }
}

const ignore = (): void => {};

// The two ends of an exchange. A ClientStream is one request as its client sees it; a BackendStream is the same request
// on the backend's side. Both exist for HTTP/1.1 and HTTP/2; the exchange in `http/` knows only these interfaces.
// Invariant: calls are synchronous; nothing here returns a promise. After `abort`, `end` with all data sent, or a
// terminal event (see each receiver), no further event is delivered.
import type { Duplex } from 'node:stream';
import type { Fault } from '../base/fault.ts';
import type { Fields } from './fields.ts';
import type { RequestHead, ResponseHead } from './head.ts';

/** Facts about the connection a request came on; one frozen object per connection. */
export interface ConnectionFacts {
  /** Name of the entrypoint. */
  readonly entrypoint: string;
  /** Address of the socket peer, IPv4-mapped IPv6 reduced to IPv4. */
  readonly peerAddress: string;
  readonly peerPort: number;
  readonly localAddress: string;
  readonly localPort: number;
  /** The peer is inside `trusted_proxies` (of the entrypoint, else global) — judged once per connection. */
  readonly trustedPeer: boolean;
  /** Null on a plaintext connection. */
  readonly tls: TlsFacts | null;
}

export interface TlsFacts {
  /** Canonical SNI as sniffed from the ClientHello; null when absent. */
  readonly serverName: string | null;
  /** Identity presented: id of the certificate in the snapshot (or of an internal leaf), for the 421 test. */
  readonly certificateId: string;
  /** Names the presented certificate covers, canonical (`*.` for one-label wildcards). */
  readonly certificateNames: readonly string[];
  readonly profileId: string;
  readonly version: string;
  /** Subject of the verified client certificate, or null. */
  readonly clientSubject: string | null;
}

/**
 * The client's end. Sending order: any number of `sendInformation`, then one `sendHead`, then `sendData`*, then `sendEnd`.
 * Head and first chunk share one write where the transport allows: `sendHead` may keep the head back until `sendData`,
 * `sendEnd` or `flush`.
 */
export interface ClientStream {
  readonly protocol: 'h1' | 'h2';
  readonly connection: ConnectionFacts;
  readonly head: RequestHead;
  /** Set by the exchange as soon as it gets the stream. */
  receiver: RequestReceiver;
  /** Relays one 1xx head (never 101). Dropped for HTTP/1.0. */
  sendInformation(status: number, fields: Fields): void;
  /**
   * `head.bodyLength` frames the answer. `last`: no `sendData` will follow and the stream is ended with this call.
   * `close`: the connection is not reused afterwards (h1: `Connection: close`).
   */
  sendHead(head: ResponseHead, last: boolean, close: boolean): void;
  /** False: stop until `receiver.clientWritable()`. */
  sendData(chunk: Buffer): boolean;
  /** True: no chunk that was sent is looked at any more, its memory may be used again. Absent: it may be. */
  readonly dataDone?: boolean;
  /** Trailers are dropped where the client cannot take them. */
  sendEnd(trailers: Fields | null): void;
  /** Lets a head that is kept back go out now. */
  flush(): void;
  /** Ends abnormally, visibly so: h1 destroys the socket short of the framing, h2 resets the stream. */
  abort(): void;
  /** Stops and resumes the request body. Starts paused: the exchange resumes when a backend is ready to take it. */
  pauseBody(): void;
  resumeBody(): void;
  /** Content is here that nobody has taken: its client does not wait for a 100. */
  readonly bodyWaits: boolean;
  /** The request body will not be read any further: drained to a bound, then the connection is given up. */
  discardBody(): void;
  /**
   * Accepts an upgrade and hands over the byte stream in both directions. h1: writes `head` as the 101 answer; h2
   * (RFC 8441): answers 200. Early client bytes are readable from the returned stream.
   */
  acceptUpgrade(head: ResponseHead): Duplex;
}

/** Events from the client. `requestEnd` or `requestAborted` comes exactly once, unless the exchange ended first. */
export interface RequestReceiver {
  requestData(chunk: Buffer): void;
  requestEnd(trailers: Fields | null): void;
  /** `bodyWaits` has become true; may come more than once. */
  bodyArrived?(): void;
  /** The client is gone (reset, write error, h2 RST_STREAM, FIN past its grace) or broke its body's framing. */
  requestAborted(fault: Fault): void;
  /** The client can take data again. */
  clientWritable(): void;
  /** The answer has been handed to the socket completely, or the stream was torn down: time for the log line. */
  clientFinished(): void;
}

/**
 * Someone who asked `upstream/` for a backend. Exactly one of `backendReady` (possibly before the asking call returns) and
 * `responseFailed` follows, unless the asking was cancelled.
 */
export interface BackendReceiver extends ResponseReceiver {
  /** A backend was chosen and is connected; send the request now. */
  backendReady(stream: BackendStream): void;
}

/** The backend's end. Sending order: `sendHead`, `sendData`*, `sendEnd`. */
export interface BackendStream {
  /** Backend address as configured, for the log. */
  readonly address: string;
  /** True when this stream runs on a connection that served an earlier request. */
  readonly reused: boolean;
  /** Sends the request head; `last` when no body follows. An upgrade is asked for when `head.upgrade` is set. */
  sendHead(head: RequestHead, last: boolean): void;
  /** False: stop until `receiver.backendWritable()`. */
  sendData(chunk: Buffer): boolean;
  sendEnd(trailers: Fields | null): void;
  flush(): void;
  /** Gives the exchange up: h1 destroys the socket, h2 resets the stream with CANCEL. No event follows. */
  abort(): void;
  pauseResponse(): void;
  resumeResponse(): void;
}

/** Events from the backend. Ends with exactly one of `responseEnd`, `responseFailed`, `upgraded`. */
export interface ResponseReceiver {
  /** A 1xx other than 101. */
  responseInformation(status: number, fields: Fields): void;
  responseHead(head: ResponseHead): void;
  responseData(chunk: Buffer): void;
  /** True: nothing of the chunks so far is looked at any more, their memory may be used again. Absent: it may be. */
  readonly dataDone?: boolean;
  responseEnd(trailers: Fields | null): void;
  /** After this the backend connection is already discarded. `fault.retry` tells whether anything may have been read. */
  responseFailed(fault: Fault): void;
  /** The backend agreed to the upgrade that was asked for. Early bytes are readable from `stream`. */
  upgraded(head: ResponseHead, stream: Duplex): void;
  backendWritable(): void;
  /** All bytes of one socket read have been delivered: a kept-back head should go out. */
  responseFlush(): void;
}

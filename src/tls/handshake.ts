// One client from its first byte to a secure connection, or to a refusal that it can understand.
// Invariant: ends exactly once, with `onSecure`, `onProved` or `onRefused`, within the time limit however slowly the bytes drip; every
// byte that was peeked at is given to the TLS engine unchanged.
import type { Socket } from 'node:net';
import type { Server, TLSSocket } from 'node:tls';
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';
import type { TlsFacts } from '../message/stream.ts';
import type { Certificate, TlsTermination } from '../model/snapshot.ts';
import { Alert, type AlertDescription, alertRecord } from './alert.ts';
import { asksForProof } from './challenge-servers.ts';
import { type ClientHello, ClientHelloReader } from './client-hello.ts';
import { canonicalServerName, type Identity, type TlsRefusal } from './identity.ts';

export type { TlsRefusal } from './identity.ts';

/** Whoever accepted the connection and wants to know how the handshake went. */
export interface TlsHooks {
  readonly entrypoint: string;
  /** For everything from the first byte to the end of the handshake. */
  readonly timeoutMs: number;
  /** For the ClientHello, when it has less time than the handshake as a whole. */
  readonly helloTimeoutMs?: number;
  /** What is inside is not HTTP: no ALPN, and these names instead of those of hosts. */
  readonly termination?: TlsTermination;
  /**
   * Asked once, when the ClientHello is whole, with the canonical name or null. A function takes the connection over:
   * paused, with every byte put back that was read. Null: TLS ends here.
   */
  passThrough?(serverName: string | null): (() => void) | null;
  /** The socket is the receiver's now, errors included. */
  onSecure(socket: TLSSocket, facts: TlsFacts, alpn: 'h2' | 'http/1.1'): void;
  /** A CA saw that the name is ours; there is nothing more to say, and the connection is being closed. */
  onProved(): void;
  /** The connection is being closed. */
  onRefused(reason: TlsRefusal, detail: string): void;
}

/** What a handshake needs from the terminator that runs it. */
export interface HandshakeHost {
  readonly deadlines: Deadlines;
  chooseIdentity(hooks: TlsHooks, hello: ClientHello, localAddress: string): Identity;
  /** A certificate at once, or a promise of one; null when there is none. */
  leaf(name: string): Certificate | Promise<Certificate | null>;
  /** What proves to a CA that this name is ours; null: no CA is expected to ask. */
  challengeFor(name: string | null): Server | null;
  serverFor(identity: ServeIdentity, certificate: Certificate): Server;
  /** The connection was handed to a server; `secured` or `failed` of the handshake is called by the host. */
  handedOver(handshake: Handshake): void;
  ended(handshake: Handshake): void;
  warn(event: string, members: object): void;
}

export type ServeIdentity = Extract<Identity, { kind: 'serve' }>;

/** How long a refused client may take to read its alert; closing earlier could reset it away. */
const lingerMs = 1000;

const plaintextAnswer = Buffer.from(
  'HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 46\r\nConnection: close\r\n\r\n' +
    'This port speaks TLS: use https:// to talk it\n',
  'latin1',
);

export class Handshake implements DeadlineHolder {
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly socket: Socket;
  /** Identifies the connection while it is open. */
  readonly ends: string;
  readonly #hooks: TlsHooks;
  readonly #host: HandshakeHost;
  readonly #reader = new ClientHelloReader();
  #state: 'hello' | 'leaf' | 'tls' | 'proof' | 'closing' | 'done' = 'hello';
  #maxVersion = 0;
  #secureBy = 0;
  #identity: ServeIdentity | null = null;
  #certificate: Certificate | null = null;

  constructor(socket: Socket, hooks: TlsHooks, host: HandshakeHost) {
    this.socket = socket;
    this.ends = endsOf(socket);
    this.#hooks = hooks;
    this.#host = host;
  }

  start(): void {
    const { socket } = this;
    const { timeoutMs, helloTimeoutMs = timeoutMs } = this.#hooks;
    this.#secureBy = this.#host.deadlines.in(timeoutMs);
    this.deadlineAt = this.#host.deadlines.in(Math.min(helloTimeoutMs, timeoutMs));
    this.#host.deadlines.add(this);
    socket.on('data', this.#onData);
    socket.on('end', this.#onEnd);
    socket.on('error', this.#onError);
    socket.on('close', this.#onClose);
    socket.resume();
  }

  deadlineReached(): void {
    if (this.#state !== 'closing') this.#finish('timeout', `state ${this.#state}`);
    this.socket.destroy();
  }

  /** The TLS engine is done. */
  secured(socket: TLSSocket): void {
    if (this.#state === 'proof') {
      this.#proved(socket);
      return;
    }
    const identity = this.#identity!;
    const certificate = this.#certificate!;
    const alpn = socket.alpnProtocol === 'h2' ? 'h2' : 'http/1.1';
    const facts: TlsFacts = Object.freeze({
      serverName: identity.serverName,
      certificateId: certificate.id,
      certificateNames: certificate.names,
      profileId: identity.profile.id,
      version: socket.getProtocol() ?? 'unknown',
      clientSubject: socket.authorized
        ? (socket.getPeerX509Certificate()?.subject.replaceAll('\n', ', ') ?? null)
        : null,
    });
    this.#state = 'done';
    this.#release();
    this.#hooks.onSecure(socket, facts, alpn);
  }

  /** The TLS engine gave up; it has sent its own alert. */
  failed(error: Error): void {
    this.#finish('handshake-failed', (error as NodeJS.ErrnoException).code ?? error.message);
    this.socket.destroy();
  }

  // Listeners are fields: they are removed when the connection changes hands.
  readonly #onData = (chunk: Buffer): void => {
    if (this.#state !== 'hello') return;
    const result = this.#reader.push(chunk);
    if (result === null) return;
    if (result.kind === 'hello') {
      this.#greet(result.hello);
    } else if (result.kind === 'refused') {
      this.#maxVersion = result.refusal.maxVersion;
      const { alert, detail, tooLarge } = result.refusal;
      this.#refuse(alert, tooLarge ? 'too-large' : 'malformed', detail);
    } else {
      this.#refusePlaintext(this.#reader.received());
    }
  };

  /** Half a hello and a FIN: nothing more will come, and TLS has no half-close. */
  readonly #onEnd = (): void => {
    if (this.#state === 'closing') return;
    this.#finish('client-gone', 'end of stream');
    this.socket.destroy();
  };

  readonly #onError = (): void => {
    // `close` follows and says it all.
  };

  readonly #onClose = (): void => {
    this.#finish('client-gone', 'closed');
    this.#host.deadlines.remove(this);
  };

  #greet(hello: ClientHello): void {
    this.#maxVersion = hello.maxVersion;
    this.deadlineAt = this.#secureBy;
    const name = hello.serverName === null ? null : canonicalServerName(hello.serverName);
    const proof = asksForProof(hello);
    const challenge = proof ? this.#host.challengeFor(name) : null;
    if (challenge !== null) {
      this.#prove(challenge);
      return;
    }
    const taker = this.#hooks.passThrough?.(name) ?? null;
    if (taker !== null) {
      this.#giveBack();
      taker();
      return;
    }
    // By hand, before the name: an old client shall hear what is wrong with it even where its name is unknown.
    if (hello.maxVersion < 0x0303) {
      this.#refuse(Alert.ProtocolVersion, 'old-version', 'TLS 1.1 or older');
      return;
    }
    // Where ALPN means nothing (TLS ended for a tunnel) the validator would reach whoever is behind it.
    if (proof) {
      this.#refuse(Alert.NoApplicationProtocol, 'no-challenge', hello.serverName ?? '');
      return;
    }
    const localAddress = this.socket.localAddress ?? '';
    const identity = this.#host.chooseIdentity(this.#hooks, hello, localAddress);
    if (identity.kind === 'refuse') {
      this.#refuse(identity.alert, identity.reason, hello.serverName ?? '');
      return;
    }
    this.#identity = identity;
    if (identity.choice.kind === 'certificate') {
      this.#handOver(identity.choice.certificate);
      return;
    }
    const leaf = this.#host.leaf(identity.choice.name);
    if (leaf instanceof Promise) this.#awaitLeaf(leaf);
    else this.#handOver(leaf);
  }

  /** The connection is as it was before its first byte came. */
  #giveBack(): void {
    const { socket } = this;
    this.#state = 'done';
    this.#release();
    socket.removeListener('data', this.#onData);
    socket.removeListener('end', this.#onEnd);
    socket.removeListener('error', this.#onError);
    socket.pause();
    socket.unshift(this.#reader.received());
  }

  #awaitLeaf(leaf: Promise<Certificate | null>): void {
    this.#state = 'leaf';
    this.socket.pause();
    void leaf.then((certificate) => {
      if (this.#state !== 'leaf') return;
      if (certificate === null) this.#refuse(Alert.InternalError, 'no-certificate', 'the internal CA gave no leaf');
      else this.#handOver(certificate);
    });
  }

  #handOver(certificate: Certificate): void {
    let server: Server;
    try {
      server = this.#host.serverFor(this.#identity!, certificate);
    } catch (error) {
      const { id, origin } = certificate;
      this.#host.warn('tls-context-failed', { certificate: id, origin, error: String(error) });
      this.#refuse(Alert.InternalError, 'no-certificate', origin);
      return;
    }
    this.#certificate = certificate;
    this.#engage(server, 'tls');
  }

  /** The name is ours: shows it and hangs up. No other client asks this way, and none can get further. */
  #prove(server: Server): void {
    this.#engage(server, 'proof');
  }

  #proved(socket: TLSSocket): void {
    this.#state = 'closing';
    this.#host.ended(this);
    this.#hooks.onProved();
    socket.on('error', this.#onError);
    socket.end();
    socket.resume();
    this.deadlineAt = this.#host.deadlines.in(lingerMs);
  }

  #engage(server: Server, state: 'tls' | 'proof'): void {
    const { socket } = this;
    this.#state = state;
    socket.removeListener('data', this.#onData);
    socket.removeListener('end', this.#onEnd);
    socket.pause();
    socket.unshift(this.#reader.received());
    // A client that ends its direction in the middle of a handshake has given up; node:tls closes it then.
    socket.allowHalfOpen = false;
    this.#host.handedOver(this);
    server.emit('connection', socket);
  }

  #refuse(alert: AlertDescription, reason: TlsRefusal, detail: string): void {
    this.#finish(reason, detail);
    this.#sayGoodbye(alertRecord(alert, this.#maxVersion));
  }

  #refusePlaintext(received: Buffer): void {
    this.#finish('not-tls', 'first byte');
    // A person who typed http:// gets a sentence, whatever else it is gets an alert.
    const first = received[0]!;
    const looksLikeHttp = first >= 0x41 && first <= 0x5a;
    this.#sayGoodbye(looksLikeHttp ? plaintextAnswer : alertRecord(Alert.UnexpectedMessage));
  }

  /** Last words, then a FIN; what still comes is read and dropped, or the kernel would answer it with a reset. */
  #sayGoodbye(bytes: Buffer): void {
    this.socket.end(bytes);
    this.socket.resume();
    this.deadlineAt = this.#host.deadlines.in(lingerMs);
  }

  #finish(reason: TlsRefusal, detail: string): void {
    if (this.#state === 'closing' || this.#state === 'done') return;
    this.#state = 'closing';
    this.#host.ended(this);
    this.#hooks.onRefused(reason, detail);
  }

  #release(): void {
    const { socket } = this;
    this.deadlineAt = 0;
    this.#host.deadlines.remove(this);
    this.#host.ended(this);
    socket.removeListener('close', this.#onClose);
  }
}

/** Local and remote address and port: unique among the open connections of a machine. */
export function endsOf(socket: Socket): string {
  return `${socket.remotePort} ${socket.remoteAddress} ${socket.localPort} ${socket.localAddress}`;
}

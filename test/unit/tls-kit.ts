// A TLS terminator on a real port, with an echo behind it that tells what the terminator found out.
// Invariant: everything made here is closed by `close`.
import { spawn } from 'node:child_process';
import { createHash, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { type MintedCa, type MintedPair, mintCa } from '../../certs/make-certs.ts';
import { systemClock } from '../../src/base/clock.ts';
import { Deadlines } from '../../src/base/deadlines.ts';
import { silentLog } from '../../src/base/log.ts';
import { fingerprintOf, namesOf } from '../../src/certificates/x509.ts';
import type { TlsFacts } from '../../src/message/stream.ts';
import { compileRoutingTable } from '../../src/model/routing-table.ts';
import {
  type Certificate,
  type CertificatesPart,
  type ChallengesPart,
  type Host,
  type PartName,
  partNames,
  type RoutingPart,
} from '../../src/model/snapshot.ts';
import type { LeafFor } from '../../src/tls/leaf-cache.ts';
import { type TlsRefusal, TlsTerminator } from '../../src/tls/terminator.ts';
import type { Compiled } from '../../src/traffic/traffic.ts';
import { entrypoint, host, noChallenges, routing, snapshot } from '../support/routing.ts';

export const ca: MintedCa = mintCa('Test CA');

export function certificateOf(pair: MintedPair): Certificate {
  const leaf = new X509Certificate(pair.cert);
  return {
    id: fingerprintOf(leaf),
    source: 'static',
    origin: 'test',
    names: namesOf(leaf),
    notBefore: leaf.validFromDate.getTime(),
    notAfter: leaf.validToDate.getTime(),
    chain: pair.cert,
    key: pair.key,
  };
}

export function mint(...names: readonly string[]): Certificate {
  return certificateOf(ca.leaf({ names }));
}

export const secured = (pattern: string, over: Partial<Host> = {}): Host =>
  host(pattern, [], { entrypoints: ['secure'], ...over });

export interface Serving {
  readonly hosts?: readonly Host[];
  readonly certificates?: readonly Certificate[];
  readonly defaultId?: string | null;
  readonly internalCa?: boolean;
  readonly ticketKey?: Buffer;
  readonly settings?: RoutingPart['settings'];
  readonly challenges?: ChallengesPart;
}

export function compile(serving: Serving): Compiled {
  const { hosts = [], certificates = [], defaultId = null, internalCa = false } = serving;
  const part = routing({
    entrypoints: [entrypoint('secure', { protocol: 'https' })],
    hosts,
    ...(serving.settings === undefined ? {} : { settings: serving.settings }),
  });
  const parts: { certificates: CertificatesPart; challenges: ChallengesPart } = {
    certificates: { certificates, defaultId, internalCa, pending: [] },
    challenges: serving.challenges ?? noChallenges,
  };
  const keys = {
    ticketKey: (serving.ticketKey ?? Buffer.alloc(48, 1)).toString('base64'),
    cookieKey: Buffer.alloc(32, 2).toString('base64'),
  };
  const table = compileRoutingTable(part, (text) => createHash('sha256').update(text).digest('hex'));
  return { snapshot: snapshot(1, part, { ...parts, keys }), table };
}

const everything: ReadonlySet<PartName> = new Set(partNames);

export interface Outcome {
  readonly secure: { facts: TlsFacts; alpn: string }[];
  readonly refused: TlsRefusal[];
}

export class Edge implements Outcome {
  readonly secure: { facts: TlsFacts; alpn: string }[] = [];
  readonly refused: TlsRefusal[] = [];
  readonly terminator: TlsTerminator;
  readonly #deadlines = new Deadlines(systemClock, 20);
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  timeoutMs = 5000;
  /** Handshakes that showed a challenge's certificate. */
  proved = 0;

  private constructor(leafFor: LeafFor) {
    this.terminator = new TlsTerminator({ clock: systemClock, deadlines: this.#deadlines, log: silentLog, leafFor });
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
      this.terminator.accept(socket, {
        entrypoint: 'secure',
        timeoutMs: this.timeoutMs,
        onSecure: (tls, facts, alpn) => {
          this.secure.push({ facts, alpn });
          tls.on('error', () => {});
          tls.pipe(tls);
        },
        onProved: () => {
          this.proved++;
        },
        onRefused: (reason) => this.refused.push(reason),
      });
    });
  }

  static async open(serving: Serving, leafFor: LeafFor = () => Promise.resolve(null)): Promise<Edge> {
    const edge = new Edge(leafFor);
    edge.publish(serving);
    edge.#server.listen(0, '127.0.0.1');
    await once(edge.#server, 'listening');
    return edge;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get connections(): number {
    return this.#sockets.size;
  }

  publish(serving: Serving): void {
    this.terminator.commit(this.terminator.prepare(compile(serving), null, everything));
  }

  /** A TCP connection that says what it is told to. */
  async raw(): Promise<Socket> {
    const socket = connect(this.port, '127.0.0.1');
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  }

  /** A handshake; rejects with the client's error. */
  connect(servername: string | null, options: ConnectionOptions = {}): Promise<TLSSocket> {
    return new Promise((resolve, reject) => {
      const socket = connectTls({
        port: this.port,
        host: '127.0.0.1',
        ca: ca.cert,
        ...(servername === null ? {} : { servername }),
        checkServerIdentity: () => undefined,
        ...options,
      });
      socket.once('error', reject);
      socket.once('secureConnect', () => resolve(socket));
    });
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    this.#deadlines.close();
    await once(this.#server, 'close');
  }
}

/** Sends a line through and waits for it to come back: the connection is up on both sides. */
export async function echo(socket: TLSSocket, line = 'hello'): Promise<string> {
  socket.write(line);
  const [chunk] = (await once(socket, 'data')) as [Buffer];
  return chunk.toString();
}

/** Lower-case hex SHA-256 of the certificate that the server showed. */
export function shownTo(socket: TLSSocket): string {
  return fingerprintOf(socket.getPeerX509Certificate()!);
}

/** Everything until the other side closes. */
export async function readAll(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  // Not `once`, which rejects on a reset: what arrived before it is wanted all the same.
  if (!socket.closed) await new Promise<void>((resolve) => socket.on('close', () => resolve()));
  return Buffer.concat(chunks);
}

/** Debian's own TLS client. `until`: keeps its input open until this was said, and ends with `last`. */
export function openssl(
  args: readonly string[],
  input = '',
  until: RegExp | null = null,
  last = 'Q\n',
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn('openssl', args, { stdio: ['pipe', 'pipe', 'pipe'] });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      if (until?.test(output)) child.stdin.end(last);
    });
    child.stderr.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    child.on('error', reject);
    child.on('close', () => resolve(output));
    child.stdin.on('error', () => {});
    if (until === null) child.stdin.end(input);
    else child.stdin.write(input);
  });
}

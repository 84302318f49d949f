// UDP backends and clients for tests over real sockets.
// Invariant: every socket is closed by `closeUdp`, also after a failed test.
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { until } from './wait.ts';

const open = new Set<Socket>();

/** For `afterEach`. */
export function closeUdp(): void {
  for (const socket of open) close(socket);
}

function close(socket: Socket): void {
  if (open.delete(socket)) socket.close();
}

function make(address: string): Socket {
  const socket = createSocket({ type: isIPv6(address) ? 'udp6' : 'udp4', recvBufferSize: 4 * 1024 * 1024 });
  open.add(socket);
  return socket;
}

export interface Datagram {
  readonly message: Buffer;
  readonly port: number;
}

/** A backend that writes down what it gets and answers each datagram, by default with itself. */
export class UdpBackend {
  readonly got: Datagram[] = [];
  readonly port: number;
  readonly #socket: Socket;
  answer: (message: Buffer) => Buffer | null;

  private constructor(socket: Socket, answer: (message: Buffer) => Buffer | null) {
    this.#socket = socket;
    this.port = socket.address().port;
    this.answer = answer;
    socket.on('message', (message: Buffer, from: RemoteInfo) => {
      this.got.push({ message, port: from.port });
      const answered = this.answer(message);
      if (answered !== null) socket.send(answered, from.port, from.address);
    });
  }

  static async start(
    answer: (message: Buffer) => Buffer | null = (message) => message,
    port = 0,
    host = '127.0.0.1',
  ): Promise<UdpBackend> {
    const socket = make(host);
    socket.bind(port, host);
    await once(socket, 'listening');
    return new UdpBackend(socket, answer);
  }

  /** Answers everything with its name. */
  static named(name: string, port = 0): Promise<UdpBackend> {
    return UdpBackend.start(() => Buffer.from(name), port);
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  get texts(): string[] {
    return this.got.map(({ message }) => message.toString());
  }

  /** Ports that datagrams came from: one for each flow. */
  get flows(): number {
    return new Set(this.got.map(({ port }) => port)).size;
  }

  /** The first datagram, when it has come. */
  heard(): Promise<Datagram> {
    return until('a datagram', () => this.got[0]);
  }

  send(message: Buffer, port: number): void {
    this.#socket.send(message, port, '127.0.0.1');
  }

  stop(): void {
    close(this.#socket);
  }
}

/** A client with one address and port, which hears only its server. */
export class UdpClient {
  readonly got: Buffer[] = [];
  readonly port: number;
  /** ICMP told it that nobody listens. */
  refused = 0;
  readonly #socket: Socket;

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.port = socket.address().port;
    socket.on('message', (message: Buffer) => this.got.push(message));
    socket.on('error', () => {
      this.refused++;
    });
  }

  static to(port: number, options: { host?: string; from?: string } = {}): UdpClient {
    const { host = '127.0.0.1', from = isIPv6(host) ? '::1' : '127.0.0.1' } = options;
    const socket = make(host);
    socket.bindSync({ address: from });
    socket.connectSync(port, host);
    return new UdpClient(socket);
  }

  get texts(): string[] {
    return this.got.map(String);
  }

  send(message: string | Buffer): void {
    this.#socket.send(message);
  }

  /** Sends and waits for the next answer. */
  async ask(message: string | Buffer, timeoutMs = 3000): Promise<string> {
    const before = this.got.length;
    this.send(message);
    await this.answers(before + 1, timeoutMs);
    return this.got[before]!.toString();
  }

  /** Sends until something comes back: for what may lose datagrams on the way, a server that just starts for instance. */
  async askUntilAnswered(message: string, timeoutMs = 5000): Promise<string> {
    const before = this.got.length;
    await until(
      `an answer to ${message}`,
      () => {
        if (this.got.length === before) this.send(message);
        return this.got.length > before;
      },
      { timeoutMs, everyMs: 20 },
    );
    return this.got[before]!.toString();
  }

  answers(count: number, timeoutMs = 3000): Promise<unknown> {
    return until(`${count} answers`, () => this.got.length >= count, { timeoutMs, seen: () => this.texts.slice(-5) });
  }

  close(): void {
    close(this.#socket);
  }
}

/** A UDP port that nothing is bound to at this moment, below those that the kernel gives to sockets that name none. */
export async function freeUdpPort(): Promise<number> {
  for (;;) {
    const port = 12_000 + Math.floor(Math.random() * 20_000);
    if (!handedOut.has(port) && (await isUdpPortFree(port))) {
      handedOut.add(port);
      return port;
    }
  }
}

const handedOut = new Set<number>();

export async function isUdpPortFree(port: number): Promise<boolean> {
  const socket = createSocket('udp4');
  try {
    socket.bindSync({ port, address: '0.0.0.0' });
    return true;
  } catch {
    return false;
  } finally {
    socket.close();
    await once(socket, 'close');
  }
}

/** Which of these processes has a UDP socket bound to the port; null: none of them. */
export function udpOwner(port: number, pids: readonly number[]): number | null {
  const inodes = new Set<string>();
  const wanted = port.toString(16).toUpperCase().padStart(4, '0');
  for (const table of ['/proc/net/udp', '/proc/net/udp6']) {
    for (const line of readFileSync(table, 'latin1').split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/);
      if (fields[1]?.endsWith(`:${wanted}`)) inodes.add(`socket:[${fields[9]}]`);
    }
  }
  for (const pid of pids) {
    for (const fd of readdirSync(`/proc/${pid}/fd`)) {
      try {
        if (inodes.has(readlinkSync(`/proc/${pid}/fd/${fd}`))) return pid;
      } catch {
        // Closed meanwhile.
      }
    }
  }
  return null;
}

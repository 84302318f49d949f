// Load for UDP relays: clients that send a datagram, wait for it to come back, and send the next one.
// Invariant: one datagram that does not come back, or comes back changed, is a failed run, not a slow one.
import { randomBytes } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import type { Load } from './load.ts';

const size = 100;
/** On loopback nothing takes this long; it is lost. */
const lostMs = 2000;

/** Counts datagrams relayed: two for each that comes back. */
export function udpLoad(port: number, clients: number, seconds: number): Promise<Load> {
  return new Promise((resolve, reject) => {
    const lanes: Lane[] = [];
    const times: number[] = [];
    const begun = performance.now();
    const finish = (error: Error | null): void => {
      clearTimeout(end);
      clearInterval(watch);
      for (const lane of lanes) lane.socket.close();
      if (error !== null) {
        reject(error);
        return;
      }
      times.sort((a, b) => a - b);
      resolve({
        requests: 2 * times.length,
        seconds: (performance.now() - begun) / 1000,
        p50: percentile(times, 0.5),
        p99: percentile(times, 0.99),
      });
    };
    const end = setTimeout(() => finish(null), seconds * 1000);
    const watch = setInterval(() => {
      const stuck = lanes.find(({ sentAt }) => performance.now() - sentAt > lostMs);
      if (stuck !== undefined) finish(new Error(`port ${port} lost a datagram after ${times.length}`));
    }, 500);
    for (let i = 0; i < clients; i++) {
      lanes.push(new Lane(port, times, () => finish(new Error(`port ${port} changed a datagram`))));
    }
  });
}

class Lane {
  readonly socket: Socket;
  sentAt = 0;
  #sent = 0;

  constructor(port: number, times: number[], changed: () => void) {
    const message = randomBytes(size);
    this.socket = createSocket('udp4');
    this.socket.connectSync(port, '127.0.0.1');
    const next = (): void => {
      message.writeUInt32LE(++this.#sent, size - 4);
      this.sentAt = performance.now();
      this.socket.send(message);
    };
    this.socket.on('message', (reply) => {
      // What an earlier run still had in flight when its port was this one's.
      if (reply.compare(message, 0, 16, 0, 16) !== 0) return;
      if (!reply.equals(message)) {
        changed();
        return;
      }
      times.push((performance.now() - this.sentAt) * 1000);
      next();
    });
    next();
  }
}

const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;

/** One datagram there and back; throws when it does not return as it was. */
export async function expectEcho(port: number): Promise<void> {
  const socket = createSocket('udp4');
  const message = Buffer.from('there and back again');
  try {
    socket.connectSync(port, '127.0.0.1');
    const reply = await new Promise<Buffer>((resolve, reject) => {
      setTimeout(() => reject(new Error(`port ${port} does not answer`)), lostMs).unref();
      socket.on('message', resolve);
      socket.on('error', reject);
      socket.send(message);
    });
    if (!reply.equals(message)) throw new Error(`port ${port} changed a datagram`);
  } finally {
    socket.close();
  }
}

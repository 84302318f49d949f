// What does a proxy hold that has nothing to do, and what more for each client that only keeps its connection?
// Invariant: each of the connections has had an answer before it is counted as idle; each stalled client has asked for a
// mebibyte and reads none of it.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expectSmall } from '../check.ts';
import { caddy, haproxy, nginx, turnpike } from '../contestants.ts';
import type { Question } from '../question.ts';

const idleClients = 6000;
const stalledClients = 100;
const settleMs = 1500;

export const question: Question = {
  name: 'memory',
  asks: `resident memory: at rest, for each of ${idleClients} idle connections, for each of ${stalledClients} stalled downloads`,
  contestants: [turnpike, haproxy, nginx, caddy],
  figures: [
    { key: 'rest', title: 'at rest MB', digits: 0 },
    { key: 'idle', title: 'KiB / idle connection', digits: 1 },
    { key: 'stalled', title: 'KiB / stalled download', digits: 0 },
  ],
  async measure(contestant, ground, seconds) {
    const settled = async (): Promise<number> => {
      await sleep(Math.min(settleMs, seconds * 500));
      return program.residentBytes();
    };
    const program = await contestant.start(ground);
    const sockets: Socket[] = [];
    try {
      await expectSmall(contestant.port, false);
      const rest = await settled();
      // What the first ones take is the program's, not theirs.
      sockets.push(...(await Promise.all(clients(contestant.port, 100, '/'))));
      const before = await settled();
      for (let i = 0; i < idleClients / 100; i++)
        sockets.push(...(await Promise.all(clients(contestant.port, 100, '/'))));
      const after = await settled();
      const stalled = await Promise.all(clients(contestant.port, stalledClients, '/megabyte'));
      sockets.push(...stalled);
      const last = await settled();
      return {
        rest: rest / 1e6,
        idle: (after - before) / idleClients / 1024,
        stalled: (last - after) / stalledClients / 1024,
      };
    } finally {
      for (const socket of sockets) socket.destroy();
      await program.stop();
    }
  },
};

/** Connections that ask for `path`, and read the first bytes of the answer and nothing more. */
function clients(port: number, count: number, path: string): Promise<Socket>[] {
  return Array.from({ length: count }, async () => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('error', () => {});
    socket.write(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
    await once(socket, 'readable');
    if (socket.read(12)?.toString('latin1') !== 'HTTP/1.1 200') throw new Error(`port ${port} does not answer 200`);
    return socket;
  });
}

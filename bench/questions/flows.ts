// What does a UDP relay hold for each client that it remembers?
// Invariant: each client has had its datagram back; its flow is open.
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Question } from '../question.ts';
import { naiveUdp, nginxUdp, startUdpEcho, turnpikeUdp } from '../stream-contestants.ts';
import { expectEcho } from '../udp-load.ts';

const clients = 1000;
const settleMs = 1000;

export const question: Question = {
  name: 'flows',
  asks: `resident memory for each of ${clients} UDP flows`,
  contestants: [turnpikeUdp, naiveUdp, nginxUdp],
  figures: [{ key: 'flow', title: 'KiB / flow', digits: 1 }],
  backend: startUdpEcho,
  async measure(contestant, ground) {
    const program = await contestant.start(ground);
    const sockets: Socket[] = [];
    try {
      await expectEcho(contestant.port);
      // What the first ones take is the program's, not theirs.
      for (let i = 0; i < 100; i++) sockets.push(await flow(contestant.port));
      await sleep(settleMs);
      const before = program.residentBytes();
      for (let i = 0; i < clients; i++) sockets.push(await flow(contestant.port));
      await sleep(settleMs);
      return { flow: (program.residentBytes() - before) / clients / 1024 };
    } finally {
      for (const socket of sockets) socket.close();
      await program.stop();
    }
  },
};

async function flow(port: number): Promise<Socket> {
  const socket = createSocket('udp4');
  socket.connectSync(port, '127.0.0.1');
  const back = once(socket, 'message', { signal: AbortSignal.timeout(2000) });
  socket.send('there and back again');
  await back;
  return socket;
}

// Does a relay lose datagrams at half of what a naive one carries?
// Invariant: they are sent at their time, whatever comes back; what did not come back by then is lost.

import type { Contestant, Ground } from '../contestants.ts';
import { turnpikeReport } from '../load.ts';
import type { Question, Round } from '../question.ts';
import { naiveUdp, nginxUdp, startUdpEcho, turnpikeUdp } from '../stream-contestants.ts';
import { expectEcho, udpLoad } from '../udp-load.ts';

let rate = 0;

export const question: Question = {
  name: 'udp-loss',
  asks: 'UDP, 64 clients, 100 bytes sent and echoed, at half of the rate that the naive relay carries',
  contestants: [turnpikeUdp, naiveUdp, nginxUdp],
  figures: [
    { key: 'lost', title: 'lost', digits: 0 },
    { key: 'sent', title: 'sent', digits: 0 },
    { key: 'p99', title: 'p99 ms', digits: 2 },
  ],
  backend: startUdpEcho,
  async measure(contestant, ground, seconds): Promise<Round> {
    if (rate === 0) rate = await halfOf(naiveUdp, ground, seconds);
    const program = await contestant.start(ground);
    try {
      await expectEcho(contestant.port);
      const options = ['--rate', String(rate), '--size', '100B', '--timeout', '2s'];
      const { begun, errors, unsent, latency } = await turnpikeReport(
        `udp://127.0.0.1:${contestant.port}`,
        { connections: 64, seconds },
        ...options,
      );
      return { lost: (errors['timeout'] ?? 0) + unsent, sent: begun, p99: latency.percentiles['99']! / 1000 };
    } finally {
      await program.stop();
    }
  },
};

/** Half of the echoes that it carries in a second. */
async function halfOf(contestant: Contestant, ground: Ground, seconds: number): Promise<number> {
  const program = await contestant.start(ground);
  try {
    await expectEcho(contestant.port);
    const { requests, seconds: took } = await udpLoad(contestant.port, 64, seconds);
    // An echo is two datagrams.
    return Math.round(requests / took / 4);
  } finally {
    await program.stop();
  }
}

// How long does it take from the start of the program to its first answer?
// Invariant: the second of two starts, when compiled code is kept and the certificates are there.
import { expectSmall } from '../check.ts';
import {
  type Contestant,
  caddy,
  type Ground,
  haproxy,
  manyRoutes,
  nginx,
  turnpike,
  turnpikeWith,
} from '../contestants.ts';
import type { Question } from '../question.ts';

export const question: Question = {
  name: 'start',
  asks: 'from the start of the program to its first answer',
  contestants: [turnpike, turnpikeWith('turnpike 10 000 routes', '', manyRoutes(10_000)), nginx, haproxy, caddy],
  figures: [
    { key: 'firstAnswer', title: 'ms', digits: 0 },
    { key: 'cpu', title: 'CPU ms', digits: 0 },
    { key: 'resident', title: 'RSS MB', digits: 0 },
  ],
  async measure(contestant, ground) {
    await start(contestant, ground);
    return await start(contestant, ground);
  },
};

async function start(contestant: Contestant, ground: Ground): Promise<Record<string, number>> {
  const begun = performance.now();
  const program = await contestant.start(ground);
  try {
    await expectSmall(contestant.port, false);
    const firstAnswer = performance.now() - begun;
    return { firstAnswer, cpu: program.cpuMicros() / 1000, resident: program.residentBytes() / 1e6 };
  } finally {
    await program.stop();
  }
}

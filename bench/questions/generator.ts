// Does `turnpike bench` see what wrk and h2load see?
// Invariant: all of them load the same nginx, in front of a backend that takes its time: none is asked for more than it can
// send, so that what they tell is the target's and not their own.
import { expectSmall, expectSmallH2 } from '../check.ts';
import { type Contestant, nginx } from '../contestants.ts';
import { h2load, type Load, turnpikeBench, wrk } from '../load.ts';
import { ports } from '../ports.ts';
import { startNode } from '../process.ts';
import type { Question } from '../question.ts';

const connections = 64;
const streams = 10;
const plain = `http://127.0.0.1:${nginx.port}/`;
const secure = `https://127.0.0.1:${nginx.tlsPort}/`;

/** By the generator's name. */
const loads: Readonly<Record<string, (seconds: number) => Promise<Load>>> = {
  'turnpike bench': (seconds) => turnpikeBench(plain, { connections, seconds }),
  wrk: (seconds) => wrk(plain, { connections, seconds }),
  'TLS, turnpike bench': (seconds) => turnpikeBench(secure, { connections, seconds }),
  'TLS, wrk': (seconds) => wrk(secure, { connections, seconds }),
  'turnpike bench --h2': (seconds) =>
    turnpikeBench(secure, { connections: 8, seconds }, '--h2', '--streams', String(streams)),
  h2load: (seconds) => h2load(secure, streams, { connections: 8, seconds }),
};

export const question: Question = {
  name: 'generator',
  asks: 'the same target, loaded by several generators; h2load tells its mean and its slowest request instead',
  contestants: Object.keys(loads).map((name): Contestant => ({ ...nginx, name })),
  figures: [
    { key: 'perSecond', title: 'requests / s', digits: 0 },
    { key: 'p50', title: 'p50 ms', digits: 2 },
    { key: 'p99', title: 'p99 ms', digits: 2 },
  ],
  backend: () => startNode('slow backend', 'slow-backend.ts', ports.backend),
  async measure(contestant, ground, seconds) {
    const program = await contestant.start(ground);
    try {
      await expectSmall(nginx.port, false);
      await expectSmallH2(nginx.tlsPort!);
      const { requests, seconds: took, p50, p99 } = await loads[contestant.name]!(seconds);
      return { perSecond: requests / took, p50: p50 / 1000, p99: p99 / 1000 };
    } finally {
      await program.stop();
    }
  },
};

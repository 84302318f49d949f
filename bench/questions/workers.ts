// What do two workers carry, and do they share the work?
// Invariant: the supervisor is counted among those who could be in the way.
import { expectSmall } from '../check.ts';
import { turnpike, turnpikeWith } from '../contestants.ts';
import { wrk } from '../load.ts';
import { cpuMicrosOf, family } from '../process.ts';
import { type Question, warmSeconds } from '../question.ts';

export const question: Question = {
  name: 'workers',
  asks: 'small responses, HTTP/1.1 keep-alive, 64 connections: 1 worker, and 2',
  contestants: [turnpike, turnpikeWith('turnpike 2 workers', '', '', 2)],
  figures: [
    { key: 'cpuMicros', title: 'CPU µs / request', digits: 1 },
    { key: 'perSecond', title: 'requests / s', digits: 0 },
    { key: 'busiest', title: 'busiest worker %', digits: 0 },
    { key: 'supervisor', title: 'supervisor CPU µs / request', digits: 2 },
    { key: 'resident', title: 'RSS MB', digits: 0 },
  ],
  async measure(contestant, ground, seconds) {
    const program = await contestant.start(ground);
    try {
      const url = `http://127.0.0.1:${contestant.port}/`;
      await expectSmall(contestant.port, false);
      if (seconds > 1) await wrk(url, { connections: 64, seconds: warmSeconds });
      const members = family(program.pid);
      const before = members.map(cpuMicrosOf);
      const load = await wrk(url, { connections: 64, seconds });
      const [supervisor = 0, ...workers] = members.map((pid, i) => cpuMicrosOf(pid) - before[i]!);
      const work = workers.reduce((sum, each) => sum + each, 0);
      return {
        cpuMicros: (supervisor + work) / load.requests,
        perSecond: load.requests / load.seconds,
        busiest: (Math.max(...workers) / work) * 100,
        supervisor: supervisor / load.requests,
        resident: program.residentBytes() / 1e6,
      };
    } finally {
      await program.stop();
    }
  },
};

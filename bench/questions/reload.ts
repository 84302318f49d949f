// What do requests notice of reloads of ten thousand routes?
// Invariant: each reload changes one route; the requests go on at their rate meanwhile, and count from when they were due.
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { paths } from '../../src/control/api.ts';
import { expectSmall } from '../check.ts';
import { controlOf, manyRoutes, turnpikeWith } from '../contestants.ts';
import { turnpikeBench, turnpikeReport } from '../load.ts';
import { ports } from '../ports.ts';
import type { Question } from '../question.ts';

const calm = turnpikeWith('without reloads', '', manyRoutes(10_000));
const reloading = turnpikeWith('turnpike', '', manyRoutes(10_000));
const pauseMs = 500;

export const question: Question = {
  name: 'reload',
  asks: '1 000 requests a second on 32 connections, beside reloads of 10 000 routes',
  contestants: [reloading, calm],
  figures: [
    { key: 'max', title: 'slowest request ms', digits: 1 },
    { key: 'p99', title: 'p99 ms', digits: 2 },
    { key: 'failed', title: 'failed or never sent', digits: 0 },
    { key: 'reload', title: 'slowest reload ms', digits: 0 },
    { key: 'reloads', title: 'reloads', digits: 0 },
  ],
  async measure(contestant, ground, seconds) {
    const program = await contestant.start(ground);
    try {
      const url = `http://127.0.0.1:${contestant.port}/`;
      await expectSmall(contestant.port, false);
      if (seconds > 1) await turnpikeBench(url, { connections: 32, seconds: 1 }, '--rate', '1000');
      const load = turnpikeReport(url, { connections: 32, seconds }, '--rate', '1000');
      const took: number[] = [];
      const until = performance.now() + seconds * 1000;
      while (contestant === reloading && performance.now() < until) {
        const file = join(ground.directory, `${contestant.name}.toml`);
        appendFileSync(file, `[external_routes."more${took.length}.test"]\nto = "127.0.0.1:${ports.backend}"\n`);
        const begun = performance.now();
        await controlOf(ground).post(paths.reload);
        took.push(performance.now() - begun);
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
      const { latency, failed } = await load;
      const reload = took.length === 0 ? Number.NaN : Math.max(...took);
      return { max: latency.max / 1000, p99: latency.percentiles['99']! / 1000, failed, reload, reloads: took.length };
    } finally {
      await program.stop();
    }
  },
};

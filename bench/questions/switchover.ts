// What do requests notice of switches to another backend?
// Invariant: a request that fails is counted, whoever failed it; latencies count from when a request was due.
import { type SwitchLine, servicePath } from '../../src/control/api.ts';
import type { SwitchReport } from '../../src/process/operations.ts';
import { expectSmall } from '../check.ts';
import { controlOf, type Ground, turnpike, turnpikeWith } from '../contestants.ts';
import { turnpikeBench, turnpikeReport } from '../load.ts';
import { ports } from '../ports.ts';
import type { Question } from '../question.ts';

const calm = turnpikeWith('without switches', '');
const pauseMs = 200;

export const question: Question = {
  name: 'switchover',
  asks: '2 000 requests a second on 64 connections, beside switches of the backend',
  contestants: [turnpike, calm],
  figures: [
    { key: 'p99', title: 'p99 ms', digits: 2 },
    { key: 'max', title: 'slowest ms', digits: 1 },
    { key: 'failed', title: 'failed', digits: 0 },
    { key: 'sent', title: 'requests', digits: 0 },
    { key: 'lost', title: 'switches that lost something', digits: 0 },
    { key: 'switches', title: 'switches', digits: 0 },
    { key: 'hold', title: 'longest hold ms', digits: 1 },
  ],
  async measure(contestant, ground, seconds) {
    const program = await contestant.start(ground);
    try {
      const url = `http://127.0.0.1:${contestant.port}/`;
      await expectSmall(contestant.port, false);
      if (seconds > 1) await turnpikeBench(url, { connections: 64, seconds: 1 }, '--rate', '2000');
      const load = turnpikeReport(url, { connections: 64, seconds }, '--rate', '2000');
      const reports: SwitchReport[] = [];
      const until = performance.now() + seconds * 1000;
      while (contestant === turnpike && performance.now() < until) {
        reports.push(await switchTo(reports.length % 2 === 0 ? ports.otherBackend : ports.backend, ground));
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
      const { begun, failed, latency } = await load;
      return {
        p99: latency.percentiles['99']! / 1000,
        max: latency.max / 1000,
        failed,
        sent: begun,
        lost: reports.filter(({ clean }) => !clean).length,
        switches: reports.length,
        hold: reports.length === 0 ? Number.NaN : Math.max(...reports.map(({ holdMs }) => holdMs)),
      };
    } finally {
      await program.stop();
    }
  },
};

async function switchTo(port: number, ground: Ground): Promise<SwitchReport> {
  const body = { to: [`127.0.0.1:${port}`], drainMs: null, probe: true };
  for await (const line of controlOf(ground).lines<SwitchLine>(servicePath('127.0.0.1', 'switch'), body)) {
    if ('report' in line) return line.report;
    if ('error' in line) throw new Error(line.error.message);
  }
  throw new Error('the switch ended without a report');
}

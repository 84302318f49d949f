// How long does the slowest hundredth of requests take at half of the load that Turnpike can carry?
// Invariant: everybody gets the same rate; latencies count from when a request was due (no coordinated omission).
import { expectSmall } from '../check.ts';
import { type Contestant, haproxy, nginx, turnpike } from '../contestants.ts';
import { turnpikeReport, wrk } from '../load.ts';
import { type Question, warmSeconds } from '../question.ts';

/** What one generator beside the contestant and the backend keeps up with on two cores. */
const rateMax = 5000;
let rate = 0;

export const question: Question = {
  name: 'latency',
  asks: 'small responses, HTTP/1.1 keep-alive, 64 connections, at half of the rate that Turnpike can carry',
  // The others do not carry it.
  contestants: [turnpike, haproxy, nginx],
  figures: [
    { key: 'p99', title: 'p99 ms', digits: 2 },
    { key: 'p50', title: 'p50 ms', digits: 2 },
    { key: 'max', title: 'slowest ms', digits: 1 },
    { key: 'unsent', title: 'never sent', digits: 0 },
    { key: 'rate', title: 'requests / s', digits: 0 },
  ],
  async measure(contestant, ground, seconds) {
    const program = await contestant.start(ground);
    try {
      const url = `http://127.0.0.1:${contestant.port}/`;
      await expectSmall(contestant.port, false);
      const warm = await wrk(url, { connections: 64, seconds: seconds > 1 ? warmSeconds : 1 });
      if (rate === 0) rate = halfOf(contestant, warm.requests / warm.seconds);
      const report = await turnpikeReport(url, { connections: 64, seconds }, '--rate', String(rate));
      const { percentiles, max } = report.latency;
      const [p50, p99] = [percentiles['50']! / 1000, percentiles['99']! / 1000];
      return { p50, p99, max: max / 1000, rate: report.perSecond, unsent: report.unsent };
    } finally {
      await program.stop();
    }
  },
};

function halfOf(contestant: Contestant, perSecond: number): number {
  if (contestant !== turnpike) throw new Error('Turnpike is asked first');
  return Math.min(rateMax, Math.round(perSecond / 2));
}

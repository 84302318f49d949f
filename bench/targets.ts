// What was promised, row by row, and how to see in the results whether it is kept.
// Invariant: every limit is a most: where more is better, the cost of one unit is what is compared.
import type { Result } from './question.ts';
import { figureOf } from './report.ts';

export interface Limit {
  /** For people. */
  readonly target: string;
  readonly most: number;
  readonly digits: number;
  readonly unit: string;
  seen(figures: Figures): number;
}

export interface Row {
  readonly question: string;
  readonly work: string;
  /** What is shown of ours and of the others. */
  readonly key: string;
  readonly digits: number;
  readonly limits: readonly Limit[];
}

/** Medians of one result. */
export class Figures {
  readonly result: Result;

  constructor(result: Result) {
    this.result = result;
  }

  /** NaN when it was not asked. */
  of(key: string, contestant = 'turnpike'): number {
    const found = this.result.contestants.find(({ name }) => name === contestant);
    return found === undefined ? Number.NaN : figureOf(found.rounds, key);
  }
}

/** @param most  how many times theirs ours may be. @param target  when it was promised in other words */
const times = (most: number, contestant: string, key: string, target = `≤ ${most} × ${contestant}`): Limit => ({
  target,
  most,
  digits: 2,
  unit: ' ×',
  seen: (figures) => figures.of(key) / figures.of(key, contestant),
});

/** So much work for a processor second, compared with theirs, is so much processor time for a unit of it. */
const atLeast = (least: number, contestant: string): Limit => ({
  target: `≥ ${least} × ${contestant} for a CPU second`,
  most: 1 / least,
  digits: 2,
  unit: ' × its CPU',
  seen: (figures) => figures.of('cpuMicros') / figures.of('cpuMicros', contestant),
});

const absolute = (most: number, key: string, unit: string, digits = 0, contestant = 'turnpike'): Limit => ({
  target: `≤ ${most}${unit}`,
  most,
  digits,
  unit,
  seen: (figures) => figures.of(key, contestant),
});

const manyRoutes = 'turnpike 10 000 routes';
const cpu = { key: 'cpuMicros', digits: 1 };

export const rows: readonly Row[] = [
  {
    question: 'http1',
    work: 'HTTP/1.1 small, CPU µs / request',
    ...cpu,
    limits: [
      times(1.5, 'haproxy', 'cpuMicros'),
      times(0.5, 'caddy', 'cpuMicros'),
      times(0.4, 'http-proxy-3', 'cpuMicros'),
    ],
  },
  {
    question: 'latency',
    work: 'HTTP/1.1 small at half load, p99 ms',
    key: 'p99',
    digits: 2,
    limits: [times(2, 'haproxy', 'p99')],
  },
  {
    question: 'handshakes',
    work: 'New TLS 1.3 handshakes, P-256, CPU µs / handshake',
    key: 'cpuMicros',
    digits: 0,
    limits: [atLeast(0.8, 'nginx')],
  },
  {
    question: 'h2',
    work: 'HTTP/2 over TLS small, CPU µs / request',
    ...cpu,
    limits: [times(0.4, 'caddy', 'cpuMicros'), times(2, 'nginx', 'cpuMicros')],
  },
  {
    question: 'https1',
    work: 'HTTP/1.1 over TLS small, CPU µs / request',
    ...cpu,
    limits: [times(1.6, 'nginx', 'cpuMicros')],
  },
  {
    question: 'bodies',
    work: '1 MiB bodies, CPU µs / MiB',
    key: 'cpuMicros',
    digits: 0,
    limits: [atLeast(0.7, 'haproxy')],
  },
  {
    question: 'tcp',
    work: 'TCP relay, CPU µs / MiB',
    key: 'cpuMicros',
    digits: 0,
    limits: [atLeast(0.7, 'haproxy')],
  },
  {
    question: 'websocket',
    work: 'WebSocket echo, CPU µs / message',
    ...cpu,
    limits: [atLeast(1, 'http-proxy-3'), atLeast(0.8, 'haproxy')],
  },
  {
    question: 'udp',
    work: 'UDP, CPU µs / datagram',
    ...cpu,
    limits: [atLeast(0.8, 'naive node:dgram')],
  },
  {
    question: 'udp-loss',
    work: 'UDP at half of what a naive relay carries, datagrams lost',
    key: 'lost',
    digits: 0,
    limits: [absolute(0, 'lost', '')],
  },
  {
    question: 'routes',
    work: '2 routes, and 10 000: CPU µs / request',
    ...cpu,
    limits: [
      {
        ...times(1.05, manyRoutes, 'cpuMicros', '≤ 1.05 × the cost with 2'),
        seen: (figures) => figures.of('cpuMicros', manyRoutes) / figures.of('cpuMicros'),
      },
    ],
  },
  {
    question: 'workers',
    work: '1 worker, and 2: CPU µs / request',
    ...cpu,
    limits: [
      {
        target: '≥ 1.8 × the work of 1',
        most: 2 / 1.8,
        digits: 2,
        unit: ' × the CPU of 1',
        seen: (figures) => figures.of('cpuMicros', 'turnpike 2 workers') / figures.of('cpuMicros'),
      },
    ],
  },
  {
    question: 'memory',
    work: 'Memory at rest, supervisor and one worker, MB',
    key: 'rest',
    digits: 0,
    limits: [absolute(180, 'rest', ' MB')],
  },
  {
    question: 'memory',
    work: 'Memory of an idle connection, KiB',
    key: 'idle',
    digits: 1,
    limits: [absolute(12, 'idle', ' KiB', 1)],
  },
  {
    question: 'memory',
    work: 'Memory of a stalled download of 1 MiB, KiB',
    key: 'stalled',
    digits: 0,
    limits: [absolute(1024, 'stalled', ' KiB')],
  },
  {
    question: 'start',
    work: 'Start to first answer, ms',
    key: 'firstAnswer',
    digits: 0,
    limits: [
      absolute(400, 'firstAnswer', ' ms'),
      { ...absolute(1500, 'firstAnswer', ' ms', 0, manyRoutes), target: '≤ 1500 ms with 10 000 routes' },
    ],
  },
  {
    question: 'reload',
    work: 'Reloads of 10 000 routes, slowest request ms',
    key: 'max',
    digits: 1,
    limits: [absolute(50, 'max', ' ms', 1)],
  },
  {
    question: 'switchover',
    work: 'Switches under load, requests that failed',
    key: 'failed',
    digits: 0,
    limits: [absolute(0, 'failed', '')],
  },
  {
    question: 'switchover',
    work: 'Switches under load, p99 ms',
    key: 'p99',
    digits: 2,
    limits: [
      {
        target: '≤ 20 ms added',
        most: 20,
        digits: 2,
        unit: ' ms',
        seen: (figures) => Math.max(0, figures.of('p99') - figures.of('p99', 'without switches')),
      },
    ],
  },
];

import { expect, it } from 'vitest';
import { formatStatus } from '../../src/control/status-screen.ts';
import { createTerminal } from '../../src/control/terminal.ts';
import type { WorkerStatus } from '../../src/process/operations.ts';
import { idleStatus } from '../support/fake-operations.ts';

const silent = { isTTY: false, write: () => true };
const terminal = createTerminal({ out: silent, err: silent, env: {} });

function attention(load: WorkerStatus['load'], state: WorkerStatus['state'] = 'ready'): string[] {
  const [worker] = idleStatus.workers;
  const status = { ...idleStatus, workers: [{ ...worker!, state, load }] };
  return formatStatus(status, 0, terminal).filter((line) => line.startsWith('! '));
}

const load = { delayMs: 512.4, descriptors: 812, descriptorLimit: 1024 };

it.each([
  ['close-idle', 'closes idle connections'],
  ['shed', 'refuses new work'],
  ['stop-accepting', 'accepts nothing'],
] as const)('status begins with a worker on the rung %s', (rung, does) => {
  expect(attention({ ...load, rung })).toEqual([
    `! worker 0 is overloaded and ${does}: 512 ms late, 812 of 1024 descriptors`,
  ]);
});

it('status says nothing of a calm worker, and names one that does not answer', () => {
  expect(attention({ ...load, rung: 'calm' })).toEqual([]);
  expect(attention(null)).toEqual(['! worker 0 does not answer']);
  expect(attention(null, 'starting')).toEqual([]);
});

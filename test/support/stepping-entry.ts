// `turnpike serve` with a saboteur: when a file named by TURNPIKE_TEST_STEP holds "STEP ACTION", the next publication is
// met at that step with that action; when it holds "any N", the process ends before the N-th step that is taken from then
// on, of a publication or of a deploy. Workers run the ordinary program.
// Invariant: changes nothing in how a publication runs; it only kills, stops or delays between two of its steps.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { createControlHandler } from '../../src/control/server.ts';
import type { StepName } from '../../src/process/publication-run.ts';
import { serve } from '../../src/process/serve.ts';
import type { WorkerChannel } from '../../src/process/worker-handle.ts';

const file = process.env['TURNPIKE_TEST_STEP'] ?? '';
const configFile = process.argv.at(-1) ?? '';

let taken = 0;

/** Ends the process before the step whose turn it is. */
function count(): void {
  if (!existsSync(file)) {
    taken = 0;
    return;
  }
  const [wanted, number] = readFileSync(file, 'utf8').trim().split(' ');
  if (wanted !== 'any' || ++taken < Number(number)) return;
  rmSync(file);
  process.kill(process.pid, 'SIGKILL');
}

function before(step: StepName, workers: readonly WorkerChannel[]): void {
  count();
  if (!existsSync(file)) return;
  const [wanted, action] = readFileSync(file, 'utf8').trim().split(' ');
  if (step !== wanted) return;
  rmSync(file);
  switch (action) {
    case 'kill-supervisor':
      process.kill(process.pid, 'SIGKILL');
      break;
    case 'kill-worker':
      workers[0]?.kill();
      break;
    case 'kill-workers':
      for (const worker of workers) worker.kill();
      break;
    case 'stop-worker':
      process.kill(pidOf(workers[0]), 'SIGSTOP');
      break;
    case 'delay-worker':
      if (workers[0] !== undefined) delayNext(workers[0]);
  }
}

/** The next question reaches this worker 300 ms late. */
function delayNext(worker: WorkerChannel): void {
  const ask = worker.ask.bind(worker);
  worker.ask = async (question, members) => {
    worker.ask = ask;
    await sleep(300);
    return ask(question, members);
  };
}

function pidOf(worker: { readonly id: string } | undefined): number {
  return Number(worker?.id.split('/')[1]);
}

process.exitCode = await serve({ configFile, createControlHandler, observer: { before }, appsObserver: count });
process.exit();

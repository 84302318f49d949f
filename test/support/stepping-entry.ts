// `turnpike serve` with a saboteur: when a file named by TURNPIKE_TEST_STEP holds "STEP ACTION", the next publication is
// met at that step with that action. Workers run the ordinary program.
// Invariant: changes nothing in how a publication runs; it only kills or stops processes between two of its steps.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { createControlHandler } from '../../src/control/server.ts';
import type { StepName } from '../../src/process/publication-run.ts';
import { serve } from '../../src/process/serve.ts';

const file = process.env['TURNPIKE_TEST_STEP'] ?? '';
const configFile = process.argv.at(-1) ?? '';

function before(step: StepName, workers: readonly { readonly id: string; kill(): void }[]): void {
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
    case 'stop-worker': {
      const pid = Number(workers[0]?.id.split('/')[1]);
      process.kill(pid, 'SIGSTOP');
    }
  }
}

process.exitCode = await serve({ configFile, createControlHandler, observer: { before } });
process.exit();

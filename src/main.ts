// Which of the two am I: a worker that the supervisor forked, or a command (`serve` among them)?
// Invariant: nothing is loaded that the role does not need; a worker never loads the control plane, nor the reverse.

if (process.argv[2] === 'worker' && process.send !== undefined) {
  const { runWorker } = await import('./process/worker.ts');
  runWorker();
} else {
  const { runCommandLine } = await import('./control/command-line.ts');
  process.exitCode = await runCommandLine(process.argv.slice(2));
}

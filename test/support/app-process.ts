// A process of an app: answers with its revision, and writes what happens to it into a log that outlives it.
// Invariant: each line of the log is written before what it tells takes effect for anybody else.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';

const { APP_EVENTS = '', TURNPIKE_APP, TURNPIKE_SERVICE, TURNPIKE_REVISION, PORT, MANNER = '' } = process.env;

function note(event: string): void {
  const time = performance.timeOrigin + performance.now();
  appendFileSync(
    APP_EVENTS,
    `${time} ${process.pid} ${TURNPIKE_APP}/${TURNPIKE_SERVICE} ${TURNPIKE_REVISION} ${event}\n`,
  );
}

note('start');
process.on('SIGTERM', () => {
  note('term');
  if (MANNER.includes('ignores-term')) return;
  note('exit');
  process.exit(0);
});
if (MANNER.includes('never-listens')) setInterval(() => {}, 1000);
else if (MANNER.includes('ends')) {
  console.error('password=hunter2 cannot be used');
  note('exit');
  process.exit(3);
} else if (MANNER.includes('breaks') || MANNER.includes('plain')) {
  // `breaks`: good for one probe, and for nobody else. `plain`: begins sooner than one that can do WebSockets.
  let asked = 0;
  const server = createServer((request, response) => {
    if (MANNER.includes('breaks') && asked++ > 0) request.socket.destroy();
    else response.end(TURNPIKE_REVISION);
  });
  await new Promise<void>((resolve) => {
    server.listen(Number(PORT), '127.0.0.1', resolve);
  });
  note('ready');
} else {
  const { GenerationBackend } = await import('./generation-backend.ts');
  await GenerationBackend.start(Number(TURNPIKE_REVISION), Number(PORT));
  note('ready');
}

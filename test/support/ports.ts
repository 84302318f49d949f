// Free loopback ports for configurations that must name one.
// Invariant: a port is handed out once per process, lies below the kernel's ephemeral range, so that no outgoing
// connection of the run can take it between the probe and its use, and in this test worker's own half, so that no test
// file that runs beside this one does.
import { createServer } from 'node:net';

const half = 10_000;
const first = 12_000 + (Number(process.env.VITEST_POOL_ID ?? 1) % 2) * half;
const last = first + half - 1;
let next = first + Math.floor(Math.random() * (last - first));

/** A TCP port that nothing listens on at this moment. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < 1000; tries++) {
    const port = next++;
    if (next > last) next = first;
    if ((await canBind(port, '127.0.0.1')) && (await canBind(port, '0.0.0.0'))) return port;
  }
  throw new Error('no free port');
}

export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) ports.push(await freePort());
  return ports;
}

function canBind(port: number, host: string): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, host, () => server.close(() => resolve(true)));
  });
}

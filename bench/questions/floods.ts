// What does a well-behaved client notice while somebody else floods the same worker?
// Invariant: the contestants are one proxy, without and with each flood beside it; only the visitor's requests count.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expectSmall, get } from '../check.ts';
import { type Contestant, type Ground, turnpike } from '../contestants.ts';
import { floods } from '../flood.ts';
import type { Load } from '../load.ts';
import { ports } from '../ports.ts';
import type { Program } from '../process.ts';
import { underLoad } from '../question.ts';

function under(name: string): Contestant {
  return {
    name,
    port: turnpike.port,
    tlsPort: turnpike.tlsPort,
    async start(ground: Ground): Promise<Program> {
      const program = await turnpike.start(ground);
      const file = join(import.meta.dirname, '../flood.ts');
      const args = [file, name, String(ports.turnpike), String(ports.turnpikeTls)];
      const flood = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] });
      return {
        ...program,
        async stop() {
          const early = flood.exitCode ?? flood.signalCode;
          const ended = early === null ? once(flood, 'exit') : null;
          flood.kill('SIGKILL');
          await ended;
          await program.stop();
          if (early !== null) throw new Error(`the flood "${name}" ended by itself (${early})`);
        },
      };
    },
  };
}

/** A hundred requests a second at most, one after the other, each on a connection of its own. */
async function visit(port: number, seconds: number): Promise<Load> {
  const waits: number[] = [];
  const started = performance.now();
  const end = started + seconds * 1000;
  while (performance.now() < end) {
    const asked = performance.now();
    const { status } = await get(port, '/', false);
    if (status !== 200) throw new Error(`status ${status}`);
    waits.push((performance.now() - asked) * 1000);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  waits.sort((a, b) => a - b);
  const at = (share: number): number => waits[Math.min(waits.length - 1, Math.floor(waits.length * share))]!;
  return { requests: waits.length, seconds: (performance.now() - started) / 1000, p50: at(0.5), p99: at(0.99) };
}

export const question = underLoad({
  name: 'floods',
  asks: 'a visitor beside a flood, a new connection for each request',
  contestants: [turnpike, ...Object.keys(floods).map(under)],
  check: ({ port }) => expectSmall(port, false),
  load: ({ port }, seconds) => visit(port, seconds),
});

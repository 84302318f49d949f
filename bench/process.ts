// Programs under measurement: started, waited for, their processor time read from /proc, ended by pid.
// Invariant: whatever was started here is ended by `stop`, or at the latest with this process.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';

/** Clock ticks per second of /proc/<pid>/stat; fixed at 100 on every Linux that Node runs on. */
const ticksPerSecond = 100;

export interface Program {
  readonly name: string;
  readonly port: number;
  readonly pid: number;
  /** Processor microseconds used so far by the program and all its descendants. */
  cpuMicros(): number;
  /** Resident bytes of the program and all its descendants. */
  residentBytes(): number;
  stop(): Promise<void>;
}

const running = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of running) child.kill();
});

/** Starts a program and waits until `port` accepts. `cwd` and the environment are inherited. */
export async function startProgram(
  name: string,
  command: string,
  args: readonly string[],
  port: number,
): Promise<Program> {
  if (await accepts(port)) throw new Error(`${name} did not start: something else has port ${port}`);
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
  running.add(child);
  child.once('exit', () => running.delete(child));
  let said = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    if (said.length < 4000) said += chunk;
  });
  const failed = once(child, 'error').then(([error]) => {
    throw error;
  });
  try {
    await Promise.race([accepting(port, child, () => said), failed]);
  } catch (error) {
    child.kill('SIGKILL');
    throw new Error(`${name} did not start: ${error}\n${said}`);
  }
  return {
    name,
    port,
    pid: child.pid!,
    cpuMicros: () => family(child.pid!).reduce((sum, pid) => sum + cpuMicrosOf(pid), 0),
    residentBytes: () => family(child.pid!).reduce((sum, pid) => sum + residentOf(pid), 0),
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) {
        throw new Error(`${name} ended by itself (${child.exitCode ?? child.signalCode}): ${said}`);
      }
      const left = once(child, 'exit');
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 3000);
      await left;
      clearTimeout(timer);
    },
  };
}

/** A program of this folder; its arguments are ports, the one where it listens first. */
export function startNode(name: string, file: string, ...ports: readonly [number, ...number[]]): Promise<Program> {
  const args = [join(import.meta.dirname, file), ...ports.map(String)];
  return startProgram(name, process.execPath, args, ports[0]);
}

async function accepting(port: number, child: ChildProcess, said: () => string): Promise<void> {
  for (let attempt = 0; attempt < 2000; attempt++) {
    if (child.exitCode !== null) throw new Error(`exit ${child.exitCode}: ${said()}`);
    if (await accepts(port)) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error(`nothing accepts on ${port}`);
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}

/** The process and all its descendants. */
export function family(pid: number): number[] {
  const parents = new Map<number, number>();
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const fields = statOf(Number(entry));
    if (fields !== null) parents.set(Number(entry), Number(fields[1]));
  }
  const members = [pid];
  for (let i = 0; i < members.length; i++) {
    for (const [child, parent] of parents) if (parent === members[i]) members.push(child);
  }
  return members;
}

/** Fields of /proc/<pid>/stat from `state` on; null when the process is gone. */
function statOf(pid: number): string[] | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null;
  }
}

export function cpuMicrosOf(pid: number): number {
  const fields = statOf(pid);
  return fields === null ? 0 : (Number(fields[11]) + Number(fields[12])) * (1_000_000 / ticksPerSecond);
}

function residentOf(pid: number): number {
  const fields = statOf(pid);
  return fields === null ? 0 : Number(fields[21]) * 4096;
}

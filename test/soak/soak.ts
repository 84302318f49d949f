// The soak: every kind of customer at once, switches and reloads meanwhile, and then the question what is left.
// Invariant: "flat" is measured, not seen: at the end nothing is claimed, open or in flight, every process has the
// descriptors that it had before, and what it holds after the second half is what it held after the first: garbage is
// collected and nobody asks for anything, so that two plateaus are compared and not two moments of a busy heap.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Pair } from '../support/certificates.ts';
import { freePorts } from '../support/ports.ts';
import { residentSize, Turnpike } from '../support/turnpike.ts';
import { sleep, until, within } from '../support/wait.ts';
import { type Customer, customers, type Dice } from './customers.ts';
import { Mill, startEcho, startUdpEcho } from './mill.ts';

export interface SoakOptions {
  readonly seconds: number;
  readonly ca: string;
  readonly pair: Pair;
  /** More modules to load into every process. */
  readonly preload?: readonly string[];
  /** Judge memory even if there was little time; default: from a minute on. */
  readonly judgeMemory?: boolean;
}

export interface SoakReport {
  /** Everything that is wrong; empty: it is flat. */
  readonly problems: readonly string[];
  readonly visits: Readonly<Record<string, number>>;
  readonly switches: number;
  readonly reloads: number;
  /** What each process holds more after the second half than after the first, MiB. */
  readonly gainedMiB: Readonly<Record<string, number>>;
}

const miB = 1024 * 1024;
/** By how much what a process holds may rise over the second half: what the allocators leave in pieces. */
const mostGainMiB = 16;
/** With less than this, the first half is still the time of growing up. */
const leastMemorySeconds = 60;
/** For what is in work at a switch. */
const drainMs = 3000;
/** Gauges that count what is being worked on. */
const gauges = /^turnpike_(http_requests_in_flight|entrypoint_connections|tcp_tunnels)(?:\{.*\})? (\d+)$/gm;

export async function soak(options: SoakOptions): Promise<SoakReport> {
  const [blue, green, echo, udpEcho] = await Promise.all([Mill.start(), Mill.start(), startEcho(), startUdpEcho()]);
  const [web = 0, secure = 0, tcp = 0, udp = 0] = await freePorts(4);
  const config = (header: string): string => `
workers = 2
[entrypoints.web]
address = "127.0.0.1:${web}"
protocol = "http"
[entrypoints.websecure]
address = "127.0.0.1:${secure}"
protocol = "https"
[entrypoints.bytes]
address = "127.0.0.1:${tcp}"
protocol = "tcp"
[entrypoints.datagrams]
address = "127.0.0.1:${udp}"
protocol = "udp"
[tls]
redirect = false
[[tls.certificate]]
cert_file = "${options.pair.certFile}"
key_file = "${options.pair.keyFile}"
[log]
access = false
format = "json"
[limits]
backend_keep_alive_timeout = "1s"
udp_idle_timeout = "1s"
[external_routes."app.test"]
to = ["${blue.address}"]
response_headers = { set = { "X-Soak" = "${header}" } }
[network_services.echo]
tcp = "${echo.address}"
[network_services.parrot]
udp = "${udpEcho.address}"
[[routers.tcp]]
entrypoint = "bytes"
service = "echo"
[[routers.udp]]
entrypoint = "datagrams"
service = "parrot"
`;
  const modules = [join(import.meta.dirname, 'sweep.ts'), ...(options.preload ?? [])];
  const env = { NODE_OPTIONS: modules.map((module) => `--import=${module}`).join(' ') };
  const p = await Turnpike.start({ config: config('0'), env });
  const ports = { web, secure, tcp, udp, ca: options.ca };
  const problems: string[] = [];
  try {
    // What is loaded, compiled and pooled by first use is there before anything is measured.
    await crowd(ports, 1.5, problems);
    const base = await settled(p, problems);
    const operator = new Operator(p, [blue.address, green.address], config, problems);
    const visits: Record<string, number> = {};
    const plateaus: (readonly number[])[] = [];
    const pids = [p.pid, ...(await p.workerPids())];
    for (const _half of [1, 2]) {
      const seen = await crowd(ports, options.seconds / 2, problems, () => operator.act());
      for (const [kind, count] of Object.entries(seen)) visits[kind] = (visits[kind] ?? 0) + count;
      await settled(p, problems);
      plateaus.push(await plateau(pids));
    }
    const after = await settled(p, problems);
    for (const [who, count] of Object.entries(after)) {
      if (count !== base[who]) problems.push(`${who} has ${count} descriptors, and had ${base[who]}`);
    }
    const gainedMiB = Object.fromEntries(
      pids.map((_pid, i) => [
        i === 0 ? 'supervisor' : `worker ${i - 1}`,
        Math.round((plateaus[1]![i]! - plateaus[0]![i]!) / (miB / 10)) / 10,
      ]),
    );
    for (const [who, gain] of Object.entries(gainedMiB)) {
      if ((options.judgeMemory ?? options.seconds >= leastMemorySeconds) && gain > mostGainMiB) {
        problems.push(`${who} gained ${gain} MiB`);
      }
    }
    problems.push(...p.bugs);
    if ((await p.status()).workers.some(({ restarts }) => restarts > 0)) problems.push('a worker died');
    return { problems, visits, switches: operator.switches, reloads: operator.reloads, gainedMiB };
  } finally {
    await p.kill();
    p.forget();
    for (const each of [blue, green, echo]) each.stop();
  }
}

/** Everybody at once for so long. */
async function crowd(
  ports: Parameters<typeof customers>[0],
  seconds: number,
  problems: string[],
  everySecond: () => Promise<void> = async () => {},
): Promise<Record<string, number>> {
  const visits: Record<string, number> = {};
  const end = performance.now() + seconds * 1000;
  const kinds = customers(ports);
  const loop = async ({ kind, visit }: Customer, dice: Dice): Promise<void> => {
    while (performance.now() < end) {
      try {
        await visit(dice);
        visits[kind] = (visits[kind] ?? 0) + 1;
      } catch (error) {
        problems.push(`${kind}: ${(error as Error).message}`);
      }
      await sleep(4);
    }
  };
  const loops = kinds.flatMap((customer, i) =>
    Array.from({ length: customer.loops }, (_each, k) => loop(customer, seededDice(i * 100 + k))),
  );
  const watch = (async () => {
    while (performance.now() < end) {
      await everySecond();
      await sleep(Math.min(1000, Math.max(0, end - performance.now())));
    }
  })();
  await Promise.all([...loops, watch]);
  for (const { leave } of kinds) leave();
  return visits;
}

/** When nothing is in work any more: the descriptors of each process. What does not settle is a problem. */
async function settled(p: Turnpike, problems: string[]): Promise<Record<string, number>> {
  const busy = async (): Promise<string[]> => {
    const metrics = [...(await p.metrics()).matchAll(gauges)]
      .filter(([, , value]) => value !== '0')
      .map(([line]) => line);
    const { services } = await p.status();
    const claims = services.flatMap(({ name, active, waiting, draining }) =>
      active + waiting + draining.length > 0
        ? [`${name}: ${active} claims, ${waiting} wait, ${draining.length} drain`]
        : [],
    );
    return [...metrics, ...claims];
  };
  await until('everything to be over', async () => (await busy()).length === 0, {
    timeoutMs: 5000,
    everyMs: 100,
  }).catch(async () => {
    problems.push(...(await busy()).map((each) => `left over: ${each}`));
  });
  // Pools empty themselves a second later, and the question itself has a descriptor.
  let last = '';
  let since = performance.now();
  for (;;) {
    const counts = await descriptors(p);
    const text = JSON.stringify(counts);
    if (text !== last) since = performance.now();
    last = text;
    if (performance.now() - since > 2500) return counts;
    await sleep(100);
  }
}

async function descriptors(p: Turnpike): Promise<Record<string, number>> {
  const pids = await p.workerPids();
  await sleep(20);
  const count = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length;
  return Object.fromEntries([['supervisor', count(p.pid)], ...pids.map((pid, i) => [`worker ${i}`, count(pid)])]);
}

/** Switches back and forth, reloads in between. */
class Operator {
  switches = 0;
  reloads = 0;
  readonly #p: Turnpike;
  readonly #addresses: readonly [string, string];
  readonly #config: (header: string) => string;
  readonly #problems: string[];
  #stuck = false;

  constructor(
    p: Turnpike,
    addresses: readonly [string, string],
    config: (header: string) => string,
    problems: string[],
  ) {
    this.#p = p;
    this.#addresses = addresses;
    this.#config = config;
    this.#problems = problems;
  }

  async act(): Promise<void> {
    if (this.#stuck) return;
    try {
      const { outcome } = await this.#p.reload(this.#config(String(++this.reloads)));
      if (outcome !== 'applied') this.#problems.push(`a reload was ${outcome}`);
      const to = this.#addresses[++this.switches % 2]!;
      await within(drainMs * 3, 'a switch', this.#p.switchService('app.test', [to], { drainMs }));
    } catch (error) {
      this.#stuck = true;
      this.#problems.push((error as Error).message);
    }
  }
}

/** What each process holds when nothing is asked of it: the least that it was seen with. */
async function plateau(pids: readonly number[]): Promise<readonly number[]> {
  const least = pids.map(() => Number.POSITIVE_INFINITY);
  for (let round = 0; round < 8; round++) {
    for (const [i, pid] of pids.entries()) {
      if (!existsSync(`/proc/${pid}`)) continue;
      least[i] = Math.min(least[i]!, residentSize(pid));
      process.kill(pid, 'SIGUSR2');
    }
    await sleep(250);
  }
  return least;
}

/** The same visits in the same order, every time (mulberry32). */
function seededDice(seed: number): Dice {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

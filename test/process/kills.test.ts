// A kill at any instant of a publication leaves a whole old or a whole new state; a failure before the decision point
// changes nothing.
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { GenerationBackend } from '../support/generations.ts';
import { freePort } from '../support/ports.ts';
import { closeRawClients, RawClient } from '../support/raw-client.ts';
import { repository, Turnpike } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

const entry = join(repository, 'test/support/stepping-entry.ts');
/** Before the persist step nothing is decided; behind it everything is. */
const steps = ['prepare', 'hold', 'persist', 'commit', 'acknowledge'] as const;
type Step = (typeof steps)[number];
const decided = (step: Step): boolean => step === 'commit' || step === 'acknowledge';

const backends: GenerationBackend[] = [];
let p: Turnpike | null = null;
let stepFile = '';

afterEach(async () => {
  closeRawClients();
  await p?.kill();
  p?.forget();
  p = null;
  rmSync(stepFile, { force: true });
  for (const backend of backends.splice(0)) backend.stop();
});

interface Scene {
  readonly port: number;
  readonly one: GenerationBackend;
  readonly two: GenerationBackend;
  readonly config: string;
  readonly turnpike: Turnpike;
}

async function scene(): Promise<Scene> {
  const [one, two] = [await GenerationBackend.start(1), await GenerationBackend.start(2)];
  backends.push(one, two);
  const port = await freePort();
  const config = `
workers = 2
[entrypoints.web]
address = "127.0.0.1:${port}"
protocol = "http"
[log]
format = "json"
[external_routes."app.test"]
to = ["${one.address}"]
`;
  stepFile = join(tmpdir(), `turnpike-step-${port}`);
  p = await Turnpike.start({ config, entry, env: { TURNPIKE_TEST_STEP: stepFile } });
  return { port, one, two, config, turnpike: p };
}

function arm(step: Step, action: string): void {
  writeFileSync(stepFile, `${step} ${action}`);
}

/** Who answers, over several fresh connections: one number when all workers agree. */
async function whoAnswers(port: number, requests = 12): Promise<Set<string>> {
  const bodies = new Set<string>();
  for (let i = 0; i < requests; i++) {
    const client = await RawClient.connect({ port });
    bodies.add((await client.ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n')).body.toString());
    client.destroy();
  }
  return bodies;
}

describe.each(steps)('at the step %s', (step) => {
  it('SIGKILL of the supervisor leaves a whole state', { timeout: 60_000 }, async () => {
    const s = await scene();
    arm(step, 'kill-supervisor');
    await s.turnpike.switchService('app.test', [s.two.address]).then(
      () => expect.unreachable('the supervisor died before it could answer'),
      () => {},
    );
    await s.turnpike.exited;
    const { directory } = s.turnpike;
    // Its workers end with it: the port is free again.
    p = null;
    const again = await Turnpike.start({ config: s.config, directory });
    p = again;
    expect(await whoAnswers(s.port)).toEqual(new Set([decided(step) ? '2' : '1']));
    const [service] = (await again.status()).services;
    expect(service!.backends.map((each) => each.address)).toEqual([decided(step) ? s.two.address : s.one.address]);
    // And it can be switched from there.
    await again.switchService('app.test', [decided(step) ? s.one.address : s.two.address]);
    expect(await whoAnswers(s.port)).toEqual(new Set([decided(step) ? '1' : '2']));
    await again.stop();
    s.turnpike.forget();
    p = null;
  });

  it.each(['kill-worker', 'kill-workers', 'stop-worker'])(
    '%s leaves a whole state',
    { timeout: 60_000 },
    async (action) => {
      const s = await scene();
      const before = await s.turnpike.status();
      arm(step, action);
      const outcome = await s.turnpike.switchService('app.test', [s.two.address]).then(
        () => 'done',
        (error: Error) => error.message,
      );
      // A worker that dies before the decision refuses the publication; after it the publication goes on without it.
      // The persist step itself asks no worker: what happens there is noticed behind the decision.
      const moved = decided(step) || step === 'persist';
      if (moved) expect(outcome).toBe('done');
      else expect(outcome).toMatch(/publish-refused|publish-timeout/);
      const whole = await until(
        'every worker to serve',
        async () => {
          const status = await s.turnpike.status();
          const ready = status.workers.filter(
            (worker) => worker.state === 'ready' && worker.revision === status.revision,
          );
          // A worker that was only stopped before the decision still hangs there; it is woken below.
          return ready.length === 2 || (action === 'stop-worker' && !moved) ? status : null;
        },
        { timeoutMs: 20_000, everyMs: 50 },
      );
      if (action === 'stop-worker' && !moved) {
        for (const worker of whole.workers) process.kill(worker.pid, 'SIGCONT');
        await sleep(300);
      }
      expect(whole.revision).toBe(moved ? before.revision + 1 : before.revision);
      expect(await whoAnswers(s.port)).toEqual(new Set([moved ? '2' : '1']));
      // Nothing is left hanging: the next switch works.
      const target = moved ? s.one : s.two;
      await s.turnpike.switchService('app.test', [target.address]);
      expect(await whoAnswers(s.port)).toEqual(new Set([String(target.number)]));
      await s.turnpike.stop();
      p = null;
    },
  );
});

describe('a kill at a random instant', () => {
  it('of the supervisor, 12 times over switches, always leaves one of the two', { timeout: 180_000 }, async () => {
    const s = await scene();
    let turnpike = s.turnpike;
    for (let round = 0; round < 12; round++) {
      const to = round % 2 === 0 ? s.two : s.one;
      const switching = turnpike.switchService('app.test', [to.address]).then(
        () => true,
        () => false,
      );
      await sleep((round * 7) % 30);
      turnpike.child.kill('SIGKILL');
      await turnpike.exited;
      const answered = await switching;
      turnpike = await Turnpike.start({ config: s.config, directory: s.turnpike.directory });
      p = turnpike;
      const who = await whoAnswers(s.port, 8);
      expect(who.size, `round ${round}`).toBe(1);
      if (answered) expect(who).toEqual(new Set([String(to.number)]));
      // What status says is what is served.
      const [service] = (await turnpike.status()).services;
      const expected = who.has('1') ? s.one.address : s.two.address;
      expect(service!.backends.map((each) => each.address)).toEqual([expected]);
    }
    await turnpike.stop();
    s.turnpike.forget();
    p = null;
  });
});

describe('the state directory', () => {
  it('is not readable by others', async () => {
    const s = await scene();
    expect(statSync(join(s.turnpike.directory, '.turnpike/turnpike.sock')).mode & 0o777).toBe(0o600);
    expect(statSync(join(s.turnpike.directory, '.turnpike')).mode & 0o077).toBe(0);
    expect(readFileSync(s.turnpike.configFile, 'utf8')).toBe(s.config);
    await s.turnpike.stop();
    p = null;
  });
});

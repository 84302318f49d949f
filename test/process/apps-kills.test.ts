// SIGKILL of the supervisor between any two steps of a deploy of real processes: one whole generation serves afterwards, the
// journal is settled, no name or host is lost or doubled.
import { rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { AppKit } from '../support/app-kit.ts';
import { askOnce } from '../support/process-kit.ts';
import { closeRawClients } from '../support/raw-client.ts';
import { repository } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';

let kit: AppKit;
let stepFile = '';
afterEach(async () => {
  closeRawClients();
  await kit.end();
  rmSync(stepFile, { force: true });
});

const plain = '[services.web.env]\nMANNER = "plain"\n';
// A service with a volume is probed only when it says how.
const volume = `[[services.web.volume]]
name = "data"
path = "/data"
[services.web.readiness]
type = "http"
path = "/"
`;

describe.each([
  { mode: 'overlap', more: plain },
  { mode: 'sequential', more: plain + volume },
])('a kill before any step of a deploy ($mode)', ({ mode, more }) => {
  it('leaves one whole generation', { timeout: 300_000 }, async () => {
    stepFile = join(tmpdir(), `turnpike-apps-step-${process.pid}-${mode}`);
    kit = await AppKit.start({
      services: ['blog/web'],
      workers: 1,
      entry: join(repository, 'test/support/stepping-entry.ts'),
      env: { TURNPIKE_TEST_STEP: stepFile },
    });
    await kit.serve('blog', kit.blog(1, more));
    let step = 1;
    for (; ; step++) {
      const before = Number(await askOnce(kit.port, 'blog.test'));
      const { applied } = await kit.apply('blog', kit.blog(`killed at ${step}`, more));
      const wanted = applied!.revision;
      writeFileSync(stepFile, `any ${step}`);
      const answered = await kit.deploy('blog').then(
        ({ report }) => report.outcome,
        () => 'killed',
      );
      if (answered === 'done') {
        // The last steps, those of the old one's end, are taken behind the answer.
        const ended = await until(
          'the kill, or the end of it all',
          async () => {
            if (kit.p.exitedAt !== null) return 'killed';
            return kit.alive('blog/web').length === 1 &&
              (await kit.status('blog').catch(() => null))?.retiring.length === 0
              ? 'over'
              : null;
          },
          { timeoutMs: 15_000 },
        );
        if (ended === 'over') break;
      }
      await kit.p.exited;
      await kit.startAgain();
      const at = `${mode}, killed before step ${step}`;
      const status = await until(
        `the journal to be settled, ${at}`,
        async () => {
          const now = await kit.status('blog');
          const settled = now.underWay.length === 0 && now.retiring.length === 0;
          return settled && now.deploys.every(({ endedAt }) => endedAt !== null) ? now : null;
        },
        { timeoutMs: 20_000, everyMs: 50 },
      );
      const [web, ...others] = status.serviceStates;
      expect(others, at).toEqual([]);
      expect(web?.state, at).toBe('serving');
      const serving = Number(await askOnce(kit.port, 'blog.test'));
      expect([before, wanted], at).toContain(serving);
      expect(web?.revision, at).toBe(serving);
      if (answered === 'done') expect(serving, at).toBe(wanted);
      // One process, and it is the one that serves.
      await until(`one process only, ${at}`, () => kit.alive('blog/web').length === 1, { timeoutMs: 10_000 });
      expect(
        (await kit.list()).map(({ name, hosts }) => [name, hosts]),
        at,
      ).toEqual([['blog', ['blog.test']]]);
      const routes = (await kit.p.status()).services.filter(({ name }) => name.startsWith('blog/'));
      expect(
        routes.map(({ name, backends }) => [name, backends.length]),
        at,
      ).toEqual([['blog/web', 1]]);
    }
    expect(step, 'steps that were there to be killed at').toBeGreaterThan(15);
    if (mode === 'sequential') neverTwo();
    await kit.p.stop();
  });
});

/** By the processes' own log: one begins only after the one before it has ended. */
function neverTwo(): void {
  let alive = 0;
  for (const { what, revision } of kit.events) {
    if (what === 'start') alive++;
    if (what === 'exit') alive--;
    expect(alive, `alive at the ${what} of revision ${revision}`).toBeLessThanOrEqual(1);
  }
}

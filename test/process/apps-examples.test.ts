// docs/examples/apps on the installation that they are written for: every manifest is applied, one is deployed and asked.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { TwoMachines } from '../support/namespaces.ts';
import { repository, Turnpike, turnpikeCommand } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';

const examples = join(repository, 'docs/examples/apps');
const manifests = readdirSync(examples, { recursive: true, encoding: 'utf8' })
  .filter((name) => /(?:^[^/]+\.toml|manifest\.yml)$/.test(name))
  .sort();

let machines: TwoMachines | null = null;
afterEach(() => {
  machines?.end();
  machines = null;
});

test('every example is applied, and the one that is deployed answers under its host', { timeout: 60_000 }, async () => {
  // The ports of a real installation, on a machine of their own.
  machines = new TwoMachines();
  machines.connect('10.79.0');
  const config = readFileSync(join(examples, 'host/config.toml'), 'utf8');
  const turnpike = await Turnpike.start({ config: `runtime = "none"\n${config}`, netns: machines.here });
  const apps = (...args: readonly string[]) =>
    turnpikeCommand(['apps', ...args, '--config', turnpike.configFile, '--json']);
  for (const name of manifests) {
    const { code, stdout, stderr } = apps('apply', '--file', join(examples, name));
    expect([name, code, stderr]).toEqual([name, 0, '']);
    expect(JSON.parse(stdout)).toMatchObject({ applied: { outcome: 'stored', isNew: true } });
  }
  const rows = JSON.parse(apps('list').stdout) as { name: string; hosts: readonly string[] }[];
  expect(rows).toHaveLength(manifests.length);

  const backend = 'require("node:http").createServer((q, r) => r.end("the app")).listen(3900, "127.0.0.1")';
  machines.run(machines.here, [process.execPath, '-e', backend]);
  const blog = rows.find(({ name }) => name === 'blog')!;
  const services = (JSON.parse(apps('show', 'blog').stdout) as { app: { services: { name: string }[] } }).app.services;
  const given = services.flatMap(({ name }) => ['--backend', `${name}=127.0.0.1:3900`]);
  const deployed = await until(
    'the deploy',
    () => {
      const done = apps('deploy', 'blog', ...given);
      return done.code === 0 ? done : null;
    },
    { timeoutMs: 20_000, everyMs: 500 },
  );
  expect(JSON.parse(deployed.stdout)).toMatchObject({ outcome: 'done', clean: true });
  expect(blog.hosts.length).toBeGreaterThan(0);
  for (const host of blog.hosts) {
    expect(await machines.curl('--resolve', `${host}:443:10.79.0.1`, `https://${host}/`)).toBe('the app');
  }
});

// Onion services of ports by Debian's Tor, without a network.
// Invariant: the listener that Tor leads to asks for the login that the port asks for, and an address stays the same.
import type { ChildProcess } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { GatePortStatus, GateStatus } from '../../src/process/gate-operations.ts';
import { run } from '../support/command.ts';
import { namespaced, TwoMachines } from '../support/namespaces.ts';
import { ran } from '../support/programs.ts';
import { Turnpike } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';

const app = `require('node:http').createServer((q, a) => a.end(JSON.stringify({ port: +process.argv[1], user: q.headers['x-turnpike-user'], from: q.headers['x-forwarded-for'] }))).listen(+process.argv[1], '127.0.0.1')`;
const address = /^[a-z2-7]{56}\.onion$/;

let machines: TwoMachines;
let p: Turnpike;
let tor: ChildProcess;
let config: string;

function startTor(directory: string, control: string): ChildProcess {
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const empty = join(directory, 'torrc');
  writeFileSync(empty, '');
  const options = [
    '--SocksPort',
    '0',
    '--ControlPort',
    control,
    '--CookieAuthentication',
    '1',
    '--DisableNetwork',
    '1',
  ];
  return machines.run(machines.here, ['tor', '-f', empty, '--quiet', '--DataDirectory', directory, ...options]);
}

beforeAll(async () => {
  machines = new TwoMachines();
  for (const port of [3001, 3002, 3003]) machines.run(machines.here, [process.execPath, '-e', app, String(port)]);
  config = `
workers = 1
[log]
access = false
format = "json"
[gate]
port = 8000
[gate.tor]
control = "127.0.0.1:9951"
`;
  p = await Turnpike.start({ config, netns: machines.here });
  const file = join(p.directory, 'wiki.yml');
  writeFileSync(
    file,
    `app:
  id: wiki
  name: Wiki
  version: 1.0.0
  ports:
    - { host: 3001, container: 1, bind: 127.0.0.1, auth: gated }
    - { host: 3002, container: 2, bind: 127.0.0.1, auth: open, auth_rationale: "has a login of its own" }
    - { host: 3003, container: 3, auth: session }
`,
  );
  for (const verb of [
    ['apply', '--file', file],
    ['deploy', 'wiki'],
  ]) {
    const { code, out, err } = await run(['apps', ...verb, '--config', p.configFile], p.directory);
    expect(code, out + err).toBe(0);
  }
}, 60_000);

afterAll(async () => {
  await p?.stop();
  machines?.end();
});

const ports = async (): Promise<readonly GatePortStatus[]> =>
  (await p.control.call<GateStatus>('gate.status', {})).ports;
const addresses = async (): Promise<(string | null)[]> => (await ports()).map(({ onion }) => onion);
const complete = (): Promise<(string | null)[]> =>
  until(
    'addresses',
    async () => {
      const found = await addresses();
      return found.filter((each) => each !== null).length === 2 ? found : null;
    },
    { timeoutMs: 15_000, seen: () => p.output.slice(-2000) },
  );

async function asTor(port: number, ...args: string[]): Promise<string> {
  const url = `http://127.0.77.1:${port}/`;
  const [program, list] = namespaced(machines.here, [
    'curl',
    '-s',
    '--max-time',
    '5',
    '-H',
    'Host: x.onion',
    ...args,
    url,
  ]);
  return (await ran(program, list).done).stdout;
}

it('says why there is none while Tor does not run', async () => {
  const faults = await until('a fault', async () => {
    const found = (await ports())[0]?.faults ?? [];
    return found.length > 0 ? found : null;
  });
  expect(faults[0]).toMatch(/no onion service: .*ECONNREFUSED/);
});

it('gives gated and open ports an address each, by the cookie of Tor', { timeout: 40_000 }, async () => {
  tor = startTor(join(p.directory, 'tor'), '127.0.0.1:9951');
  const found = await complete();
  expect(found).toEqual([expect.stringMatching(address), expect.stringMatching(address), null]);
  expect(found[0]).not.toBe(found[1]);
  const keys = join(p.directory, '.turnpike', 'onion');
  expect(statSync(keys).mode & 0o777).toBe(0o700);
  for (const name of readdirSync(keys)) {
    expect(statSync(join(keys, name)).mode & 0o777).toBe(0o600);
    expect(p.output).not.toContain(readFileSync(join(keys, name), 'utf8').trim());
  }
  const { out } = await run(['gate', 'status', '--config', p.configFile], p.directory);
  expect(out).toContain(found[0]!);
});

it('the listener behind it asks for the login of the port, and is nobody of this machine to the app', async () => {
  expect(await asTor(3001, '-o', '/dev/null', '-w', '%{http_code}')).toBe('401');
  const forged = ['-H', 'X-Forwarded-For: 1.2.3.4', '-H', 'X-Forwarded-Proto: https'];
  expect(JSON.parse(await asTor(3002, ...forged))).toEqual({ port: 3002, from: 'fd87:d87e:eb43:bba::1' });
  expect(await asTor(3003, '-o', '/dev/null', '-w', '%{http_code}')).toBe('000');
  const made = await p.control.call<{ token: string }>('gate.tokens.create', {
    app: 'wiki',
    name: 'ci',
    expiresAt: null,
    paths: [],
    methods: [],
    cidrs: ['127.0.0.0/8'],
  });
  const bearer = ['-H', `Authorization: Bearer ${made.token}`];
  expect(await asTor(3001, ...bearer, '-o', '/dev/null', '-w', '%{http_code}')).toBe('403');
});

it('wrong tokens over one service are throttled there, and nowhere else', async () => {
  const guess = (port: number, i: number): Promise<string> =>
    asTor(port, '-H', `Authorization: Bearer tp_${String(i).padEnd(43, 'x')}`, '-o', '/dev/null', '-w', '%{http_code}');
  await p.control.call('security.set-app-gate', { id: 'wiki', enabled: true });
  let i = 0;
  await until('429', async () => (await guess(3001, i++)) === '429', { timeoutMs: 10_000 });
  expect(await guess(3002, i++)).toBe('401');
  await p.control.call('security.set-app-gate', { id: 'wiki', enabled: null });
});

it('addresses survive a restart of Tor and of Turnpike', { timeout: 60_000 }, async () => {
  const before = await addresses();
  const gone = new Promise((resolve) => tor.once('exit', resolve));
  tor.kill('SIGTERM');
  await gone;
  await until('Tor to be missed', async () => (await addresses())[0] === null);
  tor = startTor(join(p.directory, 'tor'), '127.0.0.1:9951');
  expect(await complete()).toEqual(before);
  const { directory } = p;
  p.child.kill('SIGKILL');
  await p.exited;
  p = await Turnpike.start({ config, netns: machines.here, directory });
  expect(await complete()).toEqual(before);
});

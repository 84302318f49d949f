// Ports of apps that run outside: the gate takes every address of the machine but the app's own, and follows them.
// Invariant: from another machine nothing of an app is reached that its port's policy does not let through.
import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { GatePortStatus, GateStatus } from '../../src/process/gate-operations.ts';
import { run } from '../support/command.ts';
import { TwoMachines } from '../support/namespaces.ts';
import { Turnpike } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';

/** Says which port it is and what it was told of the user. */
const server = `require('node:http').createServer((q, a) => a.end(process.argv[1] + ' ' + (q.headers['x-turnpike-user'] ?? 'nobody'))).listen(+process.argv[1], process.argv[2])`;

let machines: TwoMachines;
let p: Turnpike;
let config: string;
let inTheWay: ChildProcess;

const serveAt = (port: number, address: string) =>
  machines.run(machines.here, [process.execPath, '-e', server, String(port), address]);

beforeAll(async () => {
  machines = new TwoMachines();
  machines.connect('10.77.0');
  for (const port of [3001, 3002, 3003]) serveAt(port, '127.0.0.1');
  serveAt(3004, '0.0.0.0');
  inTheWay = serveAt(3005, '0.0.0.0');
  config = `
workers = 2
[log]
access = false
format = "json"
[tls.internal_ca]
enabled = true
[gate]
port = 8000
`;
  p = await Turnpike.start({ config, netns: machines.here });
  const manifest = (auth: string, port: number, more = ''): string =>
    `      - { host: ${port}, container: ${port}${auth === '' ? '' : `, auth: ${auth}`}${more} }`;
  const file = join(p.directory, 'wiki.yml');
  const why = ', auth_rationale: "has a login of its own"';
  writeFileSync(
    file,
    `app:
  id: wiki
  name: Wiki
  version: 1.0.0
  ports:
${[
  manifest('gated', 3001, ', bind: 127.0.0.1'),
  manifest('open', 3002, `, bind: 127.0.0.1${why}`),
  manifest('session', 3003),
  manifest('local', 3004, ', bind: 127.0.0.1'),
  manifest('gated', 3005, ', bind: 127.0.0.1'),
  manifest('none', 3006, why),
  manifest('', 3007),
]
  .join('\n')
  .replaceAll('      -', '    -')}
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

const status = (): Promise<GateStatus> => p.control.call<GateStatus>('gate.status', {});
const portOf = async (port: number): Promise<GatePortStatus> =>
  (await status()).ports.find((each) => each.port === port)!;
const code = (url: string, ...more: string[]): Promise<string> =>
  machines.curl('-o', '/dev/null', '-w', '%{http_code}', ...more, url);

it('takes every address for gated, open and session', async () => {
  await until('ports', async () => (await portOf(3001))?.addresses.length === 2);
  for (const host of ['10.77.0.1', '[fd77:0::1]']) {
    expect(await code(`http://${host}:3001/`)).toBe('401');
    expect(await code(`https://${host}:3001/`)).toBe('401');
    expect(await code(`http://${host}:3003/`)).toBe('401');
    expect(await machines.curl(`http://${host}:3002/`)).toBe('3002 nobody');
    expect(await machines.curl(`https://${host}:3002/`)).toBe('3002 nobody');
  }
});

it('refuses what is no HTTP, before the app hears of it', async () => {
  for (const port of [3001, 3003]) expect(await machines.say(`10.77.0.1 ${port}`, 'SSH-2.0-x\r\n')).toBe('');
  expect(await machines.say('10.77.0.1 3002', 'GET / HTTP/1.0\r\nHost: x\r\n\r\n')).toContain('3002 nobody');
});

it('does not touch none, local and what says nothing, and tells what is exposed or in the way', async () => {
  for (const port of [3006, 3007]) expect(await code(`http://10.77.0.1:${port}/`)).toBe('000');
  expect(await portOf(3006)).toMatchObject({ policy: 'none', addresses: [], faults: [] });
  expect(await portOf(3007)).toMatchObject({ policy: 'absent', addresses: [], faults: [] });
  const local = await portOf(3004);
  expect(local.addresses).toEqual([]);
  expect(local.faults).toEqual([
    expect.stringMatching(/this machine alone, and node\S* \(pid \d+\) listens on every address/),
  ]);
  const held = await portOf(3005);
  // It listens by IPv4 alone.
  expect(held.addresses).toEqual(['fd77::1']);
  expect(held.faults.length).toBe(1);
  expect(held.faults[0]).toMatch(/10\.77\.0\.1: .*node\S* \(pid \d+\) listens there: bind it to 127\.0\.0\.1/);
});

it('takes the port as soon as the app lets go of it', async () => {
  inTheWay.kill('SIGKILL');
  await until('the port', async () => (await portOf(3005)).faults.length === 0, { timeoutMs: 8000 });
  expect(await code('http://10.77.0.1:3005/')).toBe('401');
  serveAt(3005, '127.0.0.1');
});

it('follows addresses as interfaces come and go', async () => {
  const link = machines.connect('10.77.9');
  await until('the new address', async () => (await portOf(3001)).addresses.length === 4, { timeoutMs: 8000 });
  expect(await code('http://10.77.9.1:3001/')).toBe('401');
  expect(await machines.curl('http://[fd77:9::1]:3002/')).toBe('3002 nobody');
  machines.disconnect(link);
  await until('the old ones', async () => (await portOf(3001)).addresses.length === 2, { timeoutMs: 8000 });
  expect(await code('http://10.77.0.1:3001/')).toBe('401');
});

it('one login in a browser serves every port of the name', async () => {
  await p.control.call('gate.users.add', { name: 'anna', role: 'owner', apps: [], password: 'correct horse battery' });
  const jar = join(p.directory, 'jar');
  const page = await machines.curl('-c', jar, '-b', jar, 'http://10.77.0.1:3001/.turnpike/login?rd=/x');
  const token = /name="token" value="([^"]+)"/.exec(page)![1]!;
  const form = ['user=anna', 'password=correct horse battery', 'rd=/x', `token=${token}`].flatMap((each) => [
    '--data-urlencode',
    each,
  ]);
  expect(
    await machines.curl(
      '-c',
      jar,
      '-b',
      jar,
      '-o',
      '/dev/null',
      '-w',
      '%{http_code} %{redirect_url}',
      ...form,
      'http://10.77.0.1:3001/.turnpike/login',
    ),
  ).toBe('303 http://10.77.0.1:3001/x');
  expect(await machines.curl('-b', jar, 'http://10.77.0.1:3001/')).toBe('3001 anna');
  expect(await machines.curl('-b', jar, 'http://10.77.0.1:3003/')).toBe('3003 anna');
  expect(await machines.curl('-b', jar, 'http://10.77.0.1:3002/')).toBe('3002 nobody');
});

it('a port follows its manifest, and no switch', async () => {
  await expect(p.switchService('wiki/3001', ['127.0.0.1:3002'])).rejects.toThrow(/is a port of the app wiki/);
});

it('an override counts on ports', async () => {
  await p.control.call('security.set-app-gate', { id: 'wiki', enabled: true });
  expect(await code('http://10.77.0.1:3002/')).toBe('401');
  await p.control.call('security.set-app-gate', { id: 'wiki', enabled: null });
  expect(await code('http://10.77.0.1:3002/')).toBe('200');
});

it('a route to a port of the app passes its gate, and one to a local port is refused', async () => {
  const route = (port: number): string => `${config}
[entrypoints.web]
address = "10.77.0.1:80"
protocol = "http"
[external_routes."side.test"]
to = ["127.0.0.1:${port}"]
`;
  expect(await p.reload(route(3001))).toMatchObject({ outcome: 'applied' });
  expect(await code('http://10.77.0.1/', '-H', 'Host: side.test')).toBe('401');
  expect(await p.reload(route(3004))).toMatchObject({ outcome: 'refused', fault: { code: 'gate-refused' } });
  expect(await p.reload(`${config}https = "prefer"\n`)).toMatchObject({ outcome: 'applied' });
  const page = ['-H', 'Accept: text/html', '-w', '%{http_code} %{redirect_url}', '-o', '/dev/null'];
  expect(await machines.curl(...page, 'http://10.77.0.1:3002/a')).toBe('308 https://10.77.0.1:3002/a');
  expect(await code('http://10.77.0.1:3002/')).toBe('200');
});

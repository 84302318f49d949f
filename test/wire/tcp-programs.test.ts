// Programs that people run behind a TCP port: PostgreSQL with psql and pgbench, OpenSSH on the port that also serves HTTPS,
// openssl s_client through a name that passes.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DiffResult } from '../../src/process/operations.ts';
import { TestCa } from '../support/certificates.ts';
import { freePorts } from '../support/ports.ts';
import { Postgres, psql, ran, SshServer } from '../support/programs.ts';
import { RawClient } from '../support/raw-client.ts';
import { Recorder } from '../support/recorder.ts';
import { Turnpike, turnpikeCommand } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';

const ca = new TestCa('Programs behind TCP');
const site = ca.leaf(['app.test', 'pg.test']);
const inner = ca.leaf(['inner.test']);

let p: Turnpike;
let blue: Postgres;
let green: Postgres;
let ssh: SshServer;
let passed: Recorder;
let ports: number[];

beforeAll(async () => {
  ports = await freePorts(3);
  [blue, green, ssh, passed] = await Promise.all([
    Postgres.start('blue'),
    Postgres.start('green'),
    SshServer.start(),
    Recorder.start({ name: 'inner', tls: { key: inner.key, cert: inner.cert } }),
  ]);
  p = await Turnpike.start({
    config: `
workers = 2
[entrypoints.edge]
address = "127.0.0.1:${ports[0]}"
protocol = "smart_tcp"
raw_fallback = "ssh"
raw_fallback_trusted_cidrs = ["127.0.0.1/32"]
[entrypoints.pg]
address = "127.0.0.1:${ports[1]}"
protocol = "tcp"
[entrypoints.pgs]
address = "127.0.0.1:${ports[2]}"
protocol = "tcp"
[[tls.certificate]]
cert_file = "${site.certFile}"
key_file = "${site.keyFile}"
default = true
[external_routes."app.test"]
respond = { status = 200, body = "the app" }
[network_services.ssh]
tcp = "${ssh.address}"
[network_services.pg]
tcp = "${blue.address}"
stream_drain = "1m"
health = { interval = "1s" }
[network_services.inner]
tcp = "${passed.address}"
[[routers.tls]]
entrypoint = "edge"
sni = "inner.test"
service = "inner"
[[routers.tcp]]
entrypoint = "pg"
service = "pg"
[[routers.tcp]]
entrypoint = "pgs"
service = "pg"
tls = true
sni = "pg.test"
[log]
format = "json"
`,
  });
}, 120_000);

afterAll(async () => {
  await p?.stop();
  await Promise.all([blue?.stop(), green?.stop(), ssh?.stop(), passed?.close()]);
});

describe('PostgreSQL', () => {
  it('is asked by psql', async () => {
    expect(await psql(ports[1]!, 'select label from who')).toMatchObject({ code: 0, stdout: 'blue\n' });
  });

  it('gives a large result whole', async () => {
    const { stdout, code } = await psql(
      ports[1]!,
      "select md5(string_agg(repeat(x::text, 1000), '')) from generate_series(1, 10000) x",
    );
    const direct = await psql(
      blue.port,
      "select md5(string_agg(repeat(x::text, 1000), '')) from generate_series(1, 10000) x",
    );
    expect([code, stdout]).toEqual([0, direct.stdout]);
    const rows = await psql(ports[1]!, 'select repeat(x::text, 1000) from generate_series(1, 5000) x');
    expect(rows.stdout.split('\n')).toHaveLength(5001);
  });

  it('behind TLS that ends here answers a client that begins with TLS', async () => {
    // psql learnt to begin with TLS in version 17; s_client says what it would say then.
    const body = Buffer.from('\0\x03\0\0user\0postgres\0database\0postgres\0\0', 'latin1');
    const message = Buffer.concat([Buffer.of(0, 0, 0, body.length + 4), body]);
    const client = await RawClient.connect({ port: ports[2]!, tls: { servername: 'pg.test', ca: ca.pem } });
    client.write(message);
    await client.waitForText('server_version');
    client.destroy();
  });

  it('pgbench goes on across a switch; whoever connects afterwards is at the new one', {
    timeout: 60_000,
  }, async () => {
    const bench = ['-h', '127.0.0.1', '-U', 'postgres', '-n'];
    const setUp = (port: number) =>
      ran('pgbench', ['-h', '127.0.0.1', '-U', 'postgres', '-p', String(port), '-i', '-q', 'postgres']).done;
    for (const { port } of [blue, green]) expect((await setUp(port)).code).toBe(0);
    // Clients that stay connected, and clients that connect for every transaction.
    const lasting = ran('pgbench', [...bench, '-p', String(ports[1]), '-c', '4', '-T', '6', 'postgres']);
    const fresh = ran('pgbench', [...bench, '-C', '-S', '-p', String(ports[1]), '-c', '4', '-T', '6', 'postgres']);
    await until('pgbench', async () => (await p.status()).services.find((each) => each.name === 'pg')!.active >= 4);
    let acknowledged = false;
    const switched = p.switchService('pg', [green.address], {
      probe: true,
      acknowledged: () => {
        acknowledged = true;
      },
    });
    await until('the acknowledgement', () => acknowledged);
    expect((await psql(ports[1]!, 'select label from who')).stdout).toBe('green\n');
    const [a, b] = await Promise.all([lasting.done, fresh.done]);
    for (const each of [a, b]) {
      expect(each.stderr).not.toMatch(/error|abort|connection/i);
      expect(each.code, each.stderr).toBe(0);
      expect(each.stdout).toMatch(/number of failed transactions: 0/);
    }
    const { report } = await switched;
    expect(report).toMatchObject({ clean: true, forcedCloses: 0, errors: 0 });
    expect(report.requestsOld).toBeGreaterThan(4);
    expect(report.requestsNew).toBeGreaterThan(4);
    await p.switchService('pg', 'config', { probe: false });
    expect((await psql(ports[1]!, 'select label from who')).stdout).toBe('blue\n');
  });
});

describe('one port for SSH, HTTPS and a name that passes', () => {
  it('SSH', async () => {
    const { code, stdout, stderr } = await ssh.run(ports[0]!, 'echo reached; cat', 'and echoed').done;
    expect([code, stdout], stderr).toEqual([0, 'reached\nand echoed']);
  });

  it('a large file over SSH', async () => {
    const { code, stdout, stderr } = await ssh.run(
      ports[0]!,
      'head -c 20000000 /dev/zero | tr "\\0" x | md5sum; head -c 3000000 /dev/zero | tr "\\0" y',
    ).done;
    expect(code, stderr).toBe(0);
    expect(stdout).toHaveLength(3_000_036);
  });

  it('HTTPS meanwhile', async () => {
    const session = ssh.run(ports[0]!, 'sleep 2; echo done');
    const { done } = ran('curl', [
      '-s',
      '--cacert',
      ca.file,
      '--resolve',
      `app.test:${ports[0]}:127.0.0.1`,
      `https://app.test:${ports[0]}/`,
    ]);
    expect(await done).toMatchObject({ code: 0, stdout: 'the app' });
    const plain = await ran('curl', [
      '-s',
      '-o',
      '/dev/null',
      '-w',
      '%{http_code} %{redirect_url}',
      '-H',
      'Host: app.test',
      `http://127.0.0.1:${ports[0]}/x`,
    ]).done;
    expect(plain.stdout).toBe(`308 https://app.test/x`);
    expect(await session.done).toMatchObject({ code: 0, stdout: 'done\n' });
  });

  it('openssl s_client sees the certificate of the backend, or ours', async () => {
    const subject = async (name: string): Promise<string> => {
      const args = [
        's_client',
        '-connect',
        `127.0.0.1:${ports[0]}`,
        '-servername',
        name,
        '-CAfile',
        ca.file,
        '-verify_hostname',
        name,
      ];
      const { stdout } = await ran('openssl', [...args, '-verify_return_error']).done;
      return /Verify return code: 0/.test(stdout) ? (/subject=.*/.exec(stdout)?.[0] ?? stdout) : stdout;
    };
    expect(await subject('inner.test')).toMatch(/inner\.test/);
    expect(await subject('app.test')).toMatch(/app\.test/);
    passed.script = (exchange) => exchange.ok('from the inside').connection.fin();
    const request = 'GET / HTTP/1.1\r\nHost: inner.test\r\nConnection: close\r\n\r\n';
    const { stdout } = await ran(
      'openssl',
      ['s_client', '-quiet', '-connect', `127.0.0.1:${ports[0]}`, '-servername', 'inner.test'],
      { input: request },
    ).done;
    expect(stdout).toContain('from the inside');
  });

  it('is counted by what came', async () => {
    const traffic = await p.traffic();
    const edge = traffic.entrypoints.find((each) => each.name === 'edge')!;
    expect(edge.protocols).toMatchObject({ raw: 3, http1: 1 });
    expect(edge.protocols['passthrough']).toBeGreaterThanOrEqual(2);
    expect(edge.protocols['tls']).toBeGreaterThanOrEqual(2);
    expect(edge).toMatchObject({ refused: 0, errors: 0 });
    expect(edge.bytesOut).toBeGreaterThan(3_000_000);
    const tunnel = traffic.tunnels.find((each) => each.service === 'ssh')!;
    expect(tunnel).toMatchObject({ open: 0, failures: 0, ended: { ended: 3 } });
    expect(await p.metrics()).toMatch(/^turnpike_entrypoint_protocols_total\{entrypoint="edge",protocol="raw"\} 3$/m);
  });

  it('is shown by the commands', () => {
    const show = (...args: string[]): string =>
      turnpikeCommand([...args, '--config', p.configFile]).stdout.replace(/ {2,}/g, '  ');
    const routes = show('routes', 'list');
    const rows = [
      `inner.test  -  passes  edge  ${passed.address}`,
      `(tcp)  -  -  pg  ${blue.address}`,
      `(tcp)  -  ends  pgs  ${blue.address}`,
      `(raw)  -  -  edge  ${ssh.address}`,
    ];
    for (const row of rows) expect(routes).toContain(`\n${row}  config.toml:`);
    const traffic = show('traffic', 'status');
    expect(traffic).toMatch(/^edge {2}127\.0\.0\.1:\d+ {2}0 {2}\d+ {2}0 {2}0 {2}\d+ {2}\d+ {2}.*3 raw/m);
    expect(traffic).toMatch(/^inner\.test {2}edge {2}tcp {2}passes {2}inner {2}run$/m);
    expect(traffic).toMatch(/^\(raw\) {2}edge {2}raw fallback {2}- {2}ssh {2}run$/m);
    expect(traffic).toMatch(/^ssh {2}0 {2}0 {2}\d+ {2}\d+ {2}3 ended$/m);
    expect(show('explain', `tcp://localhost:${ports[1]}`)).toContain(`→ bytes pass to ${blue.address}`);
  });

  it('diff tells whom a narrower fallback would close', () => {
    const file = join(p.directory, 'narrower.toml');
    const text = readFileSync(p.configFile, 'utf8');
    writeFileSync(
      file,
      text.replace('raw_fallback_trusted_cidrs = ["127.0.0.1/32"]', 'raw_fallback_trusted_cidrs = ["::1"]'),
    );
    const { stdout } = turnpikeCommand(['diff', '--json', '--with', file, '--config', p.configFile]);
    const { changes, closes } = JSON.parse(stdout) as DiffResult;
    expect(changes!.entrypoints).toEqual([{ kind: 'changed', name: 'edge', details: ['raw_fallback'] }]);
    expect(closes).toEqual([
      { entrypoint: 'edge', connections: 0, why: expect.stringContaining('may not reach the fallback') },
    ]);
  });

  it('a stranger gets HTTPS and no SSH', async () => {
    const stranger = await RawClient.connect({ port: ports[0]!, localAddress: '127.0.0.2' });
    stranger.write('SSH-2.0-stranger\r\n');
    await stranger.waitForEnd();
    expect(stranger.text).toBe('');
    const edge = (await p.traffic()).entrypoints.find((each) => each.name === 'edge')!;
    expect(Object.entries(edge.refusals).filter(([, count]) => count > 0)).toEqual([['raw-source', 1]]);
  });
});

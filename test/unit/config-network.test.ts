// Entrypoints for bytes and datagrams, network services and routers: what a file declares, and every conflict in it.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { compileRouting } from '../../src/config/compile.ts';
import type { Declaration } from '../../src/config/declaration.ts';
import { formatProblem, readConfig } from '../../src/config/load.ts';
import { compileRoutingTable, findPassthrough } from '../../src/model/routing-table.ts';
import { TestCa } from '../support/certificates.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-network-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

async function declare(text: string): Promise<Declaration> {
  const result = await readConfig(text, join(directory, 'config.toml'));
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return result.declaration;
}

async function problemsOf(text: string): Promise<string[]> {
  const result = await readConfig(text, 'config.toml');
  return result.ok ? [] : result.problems.map(formatProblem);
}

async function warningsOf(text: string): Promise<string[]> {
  const result = await readConfig(text, 'config.toml');
  expect(result.ok ? [] : result.problems.map(formatProblem)).toEqual([]);
  return result.warnings.map(formatProblem);
}

const entrypoint = (name: string, protocol: string, port: number, more = ''): string =>
  `[entrypoints.${name}]\naddress = ":${port}"\nprotocol = "${protocol}"\n${more}`;
const router = (kind: string, entrypointName: string, service: string, more = ''): string =>
  `[[routers.${kind}]]\nentrypoint = "${entrypointName}"\nservice = "${service}"\n${more}`;
const services = (...lines: string[]): string => `[network_services]\n${lines.join('\n')}\n`;

const db = services('db = { tcp = "10.0.0.5:5432" }');
const tcp = entrypoint('pg', 'tcp', 5432);
const mux = entrypoint('edge', 'tls_mux', 443);
const smart = (more: string): string => entrypoint('edge', 'smart_tcp', 443, more);
const ca = '[tls.internal_ca]\nenabled = true\n';

describe('a network service', () => {
  test('has its defaults, and no HTTP about it', async () => {
    const { services: declared, routers } = await declare(tcp + db + router('tcp', 'pg', 'db'));
    expect(declared).toEqual([
      {
        name: 'db',
        origin: 'config.toml:5 network_services.db',
        backends: [{ address: '10.0.0.5:5432', host: '10.0.0.5', port: 5432 }],
        backendsOrigin: 'config.toml:5 network_services.db.tcp',
        balance: 'least_requests',
        balanceKey: '',
        stickyCookie: '',
        protocol: 'tcp',
        upstreamTls: null,
        network: {
          transports: ['tcp'],
          sendProxyProtocol: null,
          tcpIdleTimeoutMs: 300_000,
          udpIdleTimeoutMs: 120_000,
        },
        health: null,
        passive: { failures: 5, ejectMs: 10_000 },
        backendLimits: {
          backendConnections: 1000,
          backendConnectTimeoutMs: 10_000,
          backendKeepAliveTimeoutMs: 60_000,
        },
        drainMs: 600_000,
        streamDrainMs: 600_000,
        maxHoldMs: 30_000,
      },
    ]);
    expect(routers).toEqual({
      tcp: [{ entrypoint: 'pg', service: 'db', terminate: null, origin: 'config.toml:6 routers.tcp[0]' }],
      udp: [],
      tls: [],
    });
  });

  test('takes the limits of the file, and its own before those', async () => {
    const text =
      '[limits]\ntcp_idle_timeout = "1m"\ndial_timeout = "3s"\nmax_hold = "1s"\nstream_drain = "1m"\n' +
      services('a = { tcp = "a:1" }', 'b = { tcp = "b:1", tcp_idle_timeout = "unlimited", stream_drain = "2s" }');
    const [a, b] = (await declare(text)).services;
    expect(a).toMatchObject({ streamDrainMs: 60_000, drainMs: 60_000, maxHoldMs: 1000 });
    expect(a).toMatchObject({
      network: { tcpIdleTimeoutMs: 60_000 },
      backendLimits: { backendConnectTimeoutMs: 3000 },
    });
    expect(b).toMatchObject({ streamDrainMs: 2000, drainMs: 2000 });
    expect(b!.network!.tcpIdleTimeoutMs).toBe(Number.MAX_SAFE_INTEGER);
  });

  test('with tcp and udp is one set of backends, in any order', async () => {
    const text = services('game = { tcp = ["a:1", "b:1"], udp = ["b:1", "a:1"] }');
    const [game] = (await declare(text)).services;
    expect(game!.network!.transports).toEqual(['tcp', 'udp']);
    expect(game!.backends.map(({ address }) => address)).toEqual(['a:1', 'b:1']);
    expect(game!.protocol).toBe('tcp');
  });

  test.each([
    ['send_proxy_protocol = "v1"', { network: { sendProxyProtocol: 1 } }],
    ['send_proxy_protocol = "v2"', { network: { sendProxyProtocol: 2 } }],
    ['send_proxy_protocol = true', { network: { sendProxyProtocol: 2 } }],
    ['send_proxy_protocol = false', { network: { sendProxyProtocol: null } }],
    ['balance = "hash_client"', { balance: 'hash_client' }],
    ['balance = "round_robin"', { balance: 'round_robin' }],
    [
      'health = true',
      { health: { type: 'tcp', intervalMs: 5000, timeoutMs: 2000, healthyAfter: 2, unhealthyAfter: 3 } },
    ],
    ['health = { interval = "1s" }', { health: { type: 'tcp', intervalMs: 1000 } }],
    ['health = false', { health: null }],
    ['tls = true', { protocol: 'tls', upstreamTls: { sni: '', verify: true, ca: '', cert: '', key: '' } }],
    ['tls = { sni = "DB.Test.", verify = false }', { protocol: 'tls', upstreamTls: { sni: 'db.test', verify: false } }],
  ])('understands %s', async (line, expected) => {
    const [service] = (await declare(services(`a = { tcp = "a.test:1", ${line} }`))).services;
    expect(service).toMatchObject(expected);
  });

  test('trusts the issuers in its own file', async () => {
    const { pem } = new TestCa('network');
    writeFileSync(join(directory, 'issuers.pem'), pem);
    const [service] = (await declare(services('a = { tcp = "a:1", tls = { ca_file = "issuers.pem" } }'))).services;
    expect(service!.upstreamTls!.ca).toBe(pem);
  });

  test.each([
    ['a = {}', 'network_services.a: has no backends (accepted: tcp or udp, or both)'],
    ['a = { tcp = "x:1", udp = "y:1" }', 'a service with tcp and udp has the same addresses for both'],
    ['a = { udp = "x:1", tls = true }', 'network_services.a.tls: tls is about TCP, and there is no tcp here'],
    ['a = { udp = "x:1", health = true }', 'network_services.a.health: health is about TCP'],
    ['a = { udp = "x:1", send_proxy_protocol = "v2" }', 'send_proxy_protocol is about TCP'],
    ['a = { udp = "x:1", tcp_idle_timeout = "1s" }', 'tcp_idle_timeout is about TCP'],
    ['a = { tcp = "http://x:1" }', '"http://x:1" has a scheme (accepted: "x:1")'],
    ['a = { tcp = "x" }', '"x" has no port'],
    ['a = { tcp = [] }', 'network_services.a.tcp: is empty'],
    ['a = { tcp = "x:1", send_proxy_protocol = "v3" }', '"v3" is not a version of the PROXY protocol'],
    ['a = { tcp = "x:1", balance = "hash_cookie" }', '"hash_cookie" is not a way to balance'],
    ['a = { tcp = "x:1", tls = { cert_file = "c" } }', 'network_services.a.tls.key_file: is missing'],
    ['a = { tcp = "x:1", body_size = "1MB" }', 'body_size belongs to a route'],
    ['a = { tcp = "x:1", drain = "1s" }', 'drain belongs to the backends of a route'],
    ['"a.b" = { tcp = "x:1" }', '"a.b" is not a name'],
  ])('%s is refused', async (line, words) => {
    expect((await problemsOf(services(line))).join('\n')).toContain(words);
  });

  test('may not have the name of a host', async () => {
    const text = `${services('localhost = { tcp = "x:1" }')}[external_routes]\nLocalhost = "y:1"\n`;
    expect(await problemsOf(text)).toEqual([
      'config.toml:2:1: network_services.localhost: is the name of the service of external_routes.Localhost (line 4) (accepted: a name of its own)',
    ]);
  });

  test('that nothing leads to is told, and one that leads back to us', async () => {
    const own = services('a = { tcp = "127.0.0.1:5432" }', 'b = { udp = "127.0.0.1:5432" }');
    expect(await warningsOf(tcp + own + router('tcp', 'pg', 'a'))).toEqual([
      'config.toml:5:13: network_services.a.tcp: 127.0.0.1:5432 is the entrypoint pg: it would go in circles (accepted: another address)',
      'config.toml:6:1: network_services.b: nothing leads here (accepted: a router with service = "b", or raw_fallback = "b")',
    ]);
  });
});

describe('entrypoints', () => {
  test('tcp ones have fewer connections than others, unless they say so', async () => {
    const text =
      `${tcp}${entrypoint('more', 'tcp', 1, 'max_connections = 7\n')}${entrypoint('web', 'http', 80)}` +
      '[limits]\ntcp_connections = 33\nconnections = 44\n';
    const { entrypoints } = await declare(text);
    expect(entrypoints.map(({ name, maxConnections }) => [name, maxConnections])).toEqual([
      ['pg', 33],
      ['more', 7],
      ['web', 44],
    ]);
  });

  test('udp_sessions of an entrypoint go before those of the file', async () => {
    const text = `${entrypoint('a', 'udp', 1)}${entrypoint('b', 'udp', 2, 'udp_sessions = 5\n')}[limits]\nudp_sessions = 9\n`;
    const { entrypoints } = await declare(text);
    expect(entrypoints.map(({ limits }) => limits.udpSessions)).toEqual([9, 5]);
  });

  test('who may reach the raw fallback', async () => {
    const open = await declare(smart('raw_fallback = "db"\nallow_public_raw_fallback = true\n') + ca + db);
    expect(open.entrypoints[0]!.rawFallback).toEqual({ service: 'db', trustedCidrs: null });
    const some = await declare(smart('raw_fallback = "db"\nraw_fallback_trusted_cidrs = ["10.0.0.0/8"]\n') + ca + db);
    expect(some.entrypoints[0]!.rawFallback).toEqual({ service: 'db', trustedCidrs: ['10.0.0.0/8'] });
    expect((await declare(smart('') + ca)).entrypoints[0]!.rawFallback).toBeNull();
  });

  test('PROXY headers are expected from nobody, unless the file says from whom', async () => {
    const text = `${tcp}proxy_protocol_from = ["10.0.0.7"]\n${mux}`;
    const { entrypoints } = await declare(text);
    expect(entrypoints.map((each) => each.proxyProtocolFrom)).toEqual([['10.0.0.7/32'], []]);
  });

  test.each([
    ['raw_fallback = "db"\n', 'entrypoints.edge.raw_fallback: does not say who may reach db'],
    [
      'raw_fallback = "db"\nallow_public_raw_fallback = true\nraw_fallback_trusted_cidrs = ["10.0.0.0/8"]\n',
      'entrypoints.edge.allow_public_raw_fallback: everyone, or only some networks: not both',
    ],
    ['raw_fallback = "db"\nraw_fallback_trusted_cidrs = []\n', 'raw_fallback_trusted_cidrs: lets nobody in'],
    ['raw_fallback_trusted_cidrs = ["10.0.0.0/8"]\n', 'there is no raw_fallback here'],
    ['allow_public_raw_fallback = true\n', 'there is no raw_fallback here'],
    ['raw_fallback = "bd"\nallow_public_raw_fallback = true\n', 'there is no network service "bd"; did you mean "db"?'],
    ['raw_fallback = "voice"\nallow_public_raw_fallback = true\n', 'voice has no tcp backends, only udp'],
  ])('smart_tcp with %s is refused', async (lines, words) => {
    const text = smart(lines) + ca + services('db = { tcp = "10.0.0.5:5432" }', 'voice = { udp = "10.0.0.5:1" }');
    const problems = await problemsOf(text);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(words);
  });

  test.each([
    ['tcp', 'a tcp entrypoint passes everything on (accepted: [[routers.tcp]])'],
    ['tls_mux', 'protocol = "tls_mux" takes nothing raw (accepted: protocol = "smart_tcp")'],
    ['http', 'takes nothing raw'],
  ])('%s has no raw fallback', async (protocol, words) => {
    const text = entrypoint('x', protocol, 1, 'raw_fallback = "db"\nallow_public_raw_fallback = true\n') + db;
    expect((await problemsOf(text)).join('\n')).toContain(words);
  });

  test.each([
    [entrypoint('a', 'tcp', 53) + entrypoint('b', 'udp', 53), null],
    [
      entrypoint('a', 'udp', 53) + entrypoint('b', 'udp', 53),
      'entrypoints.b.address: clashes with entrypoints.a (line 2)',
    ],
    [
      '[entrypoints.a]\naddress = ":443"\nprotocol = "tcp"\n[entrypoints.b]\naddress = "0.0.0.0:443"\nprotocol = "https"\n',
      'clashes with entrypoints.a',
    ],
    [
      '[entrypoints.a]\naddress = "[::]:443"\nprotocol = "udp"\n[entrypoints.b]\naddress = "127.0.0.1:443"\nprotocol = "udp"\n',
      'clashes with entrypoints.a',
    ],
    ['[entrypoints.a]\naddress = ":9464"\nprotocol = "udp"\n[metrics]\naddress = "127.0.0.1:9464"\n', null],
  ])('addresses clash within a transport: %s', async (text, words) => {
    const problems = (await problemsOf(text)).join('\n');
    if (words === null) expect(problems).toBe('');
    else expect(problems).toContain(words);
  });

  test('keys without effect are told', async () => {
    const text =
      entrypoint('u', 'udp', 1, 'max_connections = 5\nheader_timeout = "5s"\n') +
      entrypoint('t', 'tcp', 2, 'public_port = 5\ntls_handshake_timeout = "1s"\nudp_sessions = 1\n') +
      services('s = { tcp = "x:1", udp = "x:1" }') +
      router('tcp', 't', 's') +
      router('udp', 'u', 's');
    expect((await warningsOf(text)).map((each) => each.replace(/^\S+ | \(.*$/g, ''))).toEqual([
      'entrypoints.u.max_connections: has no effect: it is about connections; limits.udp_sessions bounds flows',
      'entrypoints.u.header_timeout: has no effect: it is about HTTP',
      'entrypoints.t.public_port: has no effect: it is about HTTP',
      'entrypoints.t.udp_sessions: has no effect: it is about UDP',
    ]);
  });

  test('one that leads nowhere is told', async () => {
    expect(await warningsOf(tcp)).toEqual([
      'config.toml:1:14: entrypoints.pg: no route is served here (accepted: [[routers.tcp]] with this entrypoint)',
    ]);
    const passing = mux + db + router('tls', 'edge', 'db', 'sni = "db.test"\n');
    expect(await warningsOf(passing)).toEqual([]);
  });

  test('one that ends TLS for a host needs a certificate', async () => {
    const text = `${mux}[external_routes]\n"a.test" = "127.0.0.1:1"\n`;
    expect((await warningsOf(text)).join('\n')).toContain('entrypoints.edge: there is no certificate to serve here');
  });
});

describe('hosts and entrypoints', () => {
  test('a host is on every entrypoint that takes HTTP, and on no other', async () => {
    const text =
      `${tcp}${mux}${entrypoint('web', 'http', 80)}${entrypoint('udp', 'udp', 80)}${entrypoint('one', 'smart_tcp', 81)}` +
      '[external_routes]\n"a.test" = "127.0.0.1:1"\n';
    const [host] = (await declare(text)).hosts;
    expect(host!.entrypoints).toEqual(['edge', 'web', 'one']);
  });

  test('a host cannot ask for a tcp entrypoint', async () => {
    const text = `${tcp}${mux}[external_routes."a.test"]\nto = "127.0.0.1:1"\nentrypoints = ["pg"]\n`;
    expect(await problemsOf(text)).toEqual([
      'config.toml:9:16: external_routes."a.test".entrypoints[0]: pg is a tcp entrypoint: it serves no hosts (accepted: "edge")',
    ]);
  });

  test('smart_tcp and tls_mux count as TLS for tls = "always"', async () => {
    for (const protocol of ['smart_tcp', 'tls_mux']) {
      const text = `${entrypoint('x', protocol, 9)}${ca}[external_routes."a.test"]\nto = "127.0.0.1:1"\ntls = "always"\n`;
      expect(await warningsOf(text)).toEqual([]);
    }
  });
});

describe('routers', () => {
  const two = services('db = { tcp = "10.0.0.5:5432" }', 'voice = { udp = "10.0.0.5:1" }');

  test.each([
    [router('tcp', 'gp', 'db'), 'routers.tcp[0].entrypoint: there is no entrypoint "gp"; did you mean "pg"?'],
    [router('tcp', 'pg', 'bd'), 'routers.tcp[0].service: there is no network service "bd"; did you mean "db"?'],
    [router('tcp', 'pg', 'voice'), 'voice has no tcp backends, only udp (accepted: tcp in [network_services.voice])'],
    [router('udp', 'dns', 'db'), 'db has no udp backends, only tcp'],
    [router('udp', 'pg', 'voice'), 'pg has protocol = "tcp" (accepted: an entrypoint with protocol = "udp")'],
    [router('tcp', 'web', 'db'), 'web has protocol = "http"'],
    [
      router('tcp', 'edge', 'db'),
      'it takes TLS only (accepted: [[routers.tls]], or an entrypoint with protocol = "tcp")',
    ],
    [router('tls', 'pg', 'db', 'sni = "a.test"\n'), 'it passes everything on, whatever the name'],
    [router('tls', 'web', 'db', 'sni = "a.test"\n'), 'an entrypoint with protocol = "tls_mux" or "smart_tcp"'],
    [router('tls', 'edge', 'db'), 'routers.tls[0].sni: is missing'],
    [router('tls', 'edge', 'db', 'sni = "*"\n'), '"*" names no host'],
    [router('tls', 'edge', 'db', 'sni = "10.0.0.1"\n'), 'is an address, which clients do not name'],
    [router('tls', 'edge', 'db', 'sni = []\n'), 'is empty'],
    [router('tls', 'edge', 'db', 'sni = ["a.test", "A.Test."]\n'), 'is the same as item 1'],
    [router('tcp', 'pg', 'db', 'sni = "a.test"\n'), 'routers.tcp[0].sni: has no effect: the bytes pass unread'],
    [router('tcp', 'pg', 'db', 'host = "a.test"\n'), 'unknown key host in a TCP router'],
  ])('%s is refused', async (text, words) => {
    const whole = `${tcp}${mux}${entrypoint('web', 'http', 80)}${entrypoint('dns', 'udp', 53)}${two}${text}`;
    const problems = await problemsOf(whole);
    expect(problems.join('\n')).toContain(words);
    expect(problems).toHaveLength(1);
  });

  test('on smart_tcp the raw service is named by the entrypoint, and who speaks first is told to go elsewhere', async () => {
    expect(await problemsOf(smart('') + ca + db + router('tcp', 'edge', 'db'))).toEqual([
      'config.toml:9:14: routers.tcp[0].entrypoint: edge has protocol = "smart_tcp": it finds out by what the client sends; a service that speaks first (SMTP, FTP, MySQL) needs a tcp entrypoint of its own (accepted: raw_fallback = "db" there, or an entrypoint with protocol = "tcp")',
    ]);
  });

  test('a tcp entrypoint has one router; both are named', async () => {
    const text = tcp + db + router('tcp', 'pg', 'db') + router('tcp', 'pg', 'db');
    expect(await problemsOf(text)).toEqual([
      'config.toml:10:14: routers.tcp[1].entrypoint: pg has a router: routers.tcp[0] (line 6) (accepted: one router for each tcp or udp entrypoint)',
    ]);
  });

  test('a host is no network service', async () => {
    const text = `${tcp}[external_routes]\n"app.test" = "x:1"\nlocalhost = "y:1"\n${router('tcp', 'pg', 'localhost')}`;
    expect((await problemsOf(text)).join('\n')).toContain('"localhost" is a host, which entrypoints for HTTP serve');
  });

  test('ending TLS takes names, or none for all', async () => {
    const { routers } = await declare(tcp + ca + db + router('tcp', 'pg', 'db', 'tls = true\nsni = ["DB.Test"]\n'));
    expect(routers.tcp[0]!.terminate).toEqual({ names: ['db.test'] });
    expect(
      (await declare(tcp + ca + db + router('tcp', 'pg', 'db', 'tls = true\n'))).routers.tcp[0]!.terminate,
    ).toEqual({
      names: [],
    });
    const bare = await warningsOf(tcp + db + router('tcp', 'pg', 'db', 'tls = true\n'));
    expect(bare.join('\n')).toContain('routers.tcp[0].tls: there is no certificate to serve here');
    const nameless = await warningsOf(tcp + ca + db + router('tcp', 'pg', 'db', 'tls = true\n'));
    expect(nameless.join('\n')).toContain('routers.tcp[0].tls: certificates are made for declared names only');
    expect(await warningsOf(tcp + ca + db + router('tcp', 'pg', 'db', 'tls = true\nsni = "db.test"\n'))).toEqual([]);
  });
});

describe('names that pass unopened', () => {
  const passing = (...names: string[]): string =>
    names.map((name) => router('tls', 'edge', 'db', `sni = ["${name}"]\n`)).join('');
  const hosts = (...names: string[]): string =>
    `[external_routes]\n${names.map((name) => `"${name}" = "x:1"\n`).join('')}`;

  test.each([
    [['db.test'], []],
    [['db.test', '*.test'], []],
    [['*.a.test', '*.b.test'], []],
    [['db.test'], ['app.test', '*.test', '*']],
    [['*.db.test'], ['db.test', 'app.test']],
    [['db.test'], ['x.db.test']],
  ] as const)('%j stand beside the hosts %j', async (names, others) => {
    expect(await problemsOf(mux + ca + db + passing(...names) + hosts(...others))).toEqual([]);
  });

  test.each([
    [['db.test', 'DB.test.'], 'routers.tls[1].sni[0]: db.test is taken by routers.tls[0] (line'],
    [['*.test', '*.test'], '*.test is taken by'],
    [
      ['*.example.test', '*.sub.example.test'],
      '*.sub.example.test overlaps with *.example.test of routers.tls[0] (line',
    ],
    [
      ['*.sub.example.test', '*.example.test'],
      '*.example.test overlaps with *.sub.example.test of routers.tls[0] (line',
    ],
  ] as const)('%j clash', async (names, words) => {
    const problems = await problemsOf(mux + db + passing(...names));
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain(words);
  });

  test.each([
    ['db.test', 'db.test'],
    ['*.test', 'app.test'],
    ['*.test', '*.test'],
    ['*.test', '*.app.test'],
    ['*.test', 'deep.app.test'],
  ])('%s hides the host %s, in whatever order they are written', async (name, hidden) => {
    const hint = `${hidden} is under ${name}, which passes edge unopened (routers.tls[0].sni[0], line`;
    for (const text of [passing(name) + hosts(hidden), hosts(hidden) + passing(name)]) {
      const problems = await problemsOf(mux + ca + db + text);
      expect(problems).toHaveLength(1);
      expect(problems[0]).toContain(hint);
    }
  });

  test('on another entrypoint the name is free', async () => {
    const text = `${mux}${entrypoint('web', 'https', 8443)}${ca}${db}${passing('db.test')}`;
    const only = (entrypoints: string): string =>
      `[external_routes."db.test"]\nto = "x:1"\nentrypoints = ["${entrypoints}"]\n`;
    expect(await problemsOf(text + only('web'))).toEqual([]);
    expect(await problemsOf(text + only('edge'))).toHaveLength(1);
    expect(await problemsOf(`${text}[external_routes."x.test"]\nto = "x:1"\naliases = ["db.test"]\n`)).toHaveLength(1);
  });

  test('are found exact before wildcard, one label deep', async () => {
    const text =
      mux +
      services('db = { tcp = "a:1" }', 'any = { tcp = "b:1" }') +
      router('tls', 'edge', 'db', 'sni = "db.test"\n') +
      router('tls', 'edge', 'any', 'sni = "*.test"\n');
    const table = compileRoutingTable(compileRouting(await declare(text)), (each) => each);
    const { passthrough } = table.entrypoints.get('edge')!;
    expect(findPassthrough(passthrough, 'db.test')?.service).toBe('db');
    expect(findPassthrough(passthrough, 'x.test')?.service).toBe('any');
    for (const other of ['a.x.test', 'test', 'other', '10.0.0.1'])
      expect(findPassthrough(passthrough, other)).toBeNull();
  });
});

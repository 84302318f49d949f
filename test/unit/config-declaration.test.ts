// What a valid file declares: defaults, inheritance, canonical values, files and origins.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { unlimited } from '../../src/base/units.ts';
import { compileRouting } from '../../src/config/compile.ts';
import type { Declaration } from '../../src/config/declaration.ts';
import { formatProblem, loadConfig, readConfig } from '../../src/config/load.ts';
import type { Host, Route, RouteAction } from '../../src/model/snapshot.ts';
import { TestCa } from '../support/certificates.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-config-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const file = join(directory, 'config.toml');

async function declare(text: string): Promise<Declaration> {
  const result = await readConfig(text, file);
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return result.declaration;
}

const web = '[entrypoints.web]\naddress = ":80"\nprotocol = "http"\n';

async function hostOf(table: string, pattern = 'a.test'): Promise<Host> {
  const { hosts } = await declare(`${web}[external_routes."a.test"]\n${table}`);
  return hosts.find((host) => host.pattern === pattern)!;
}

async function routeOf(table: string, path = '/'): Promise<Route> {
  return (await hostOf(table)).routes.find((route) => route.path === path)!;
}

async function serviceOf(table: string, name = 'a.test') {
  const declaration = await declare(`${web}[external_routes."a.test"]\n${table}`);
  return declaration.services.find((service) => service.name === name)!;
}

const to = 'to = "127.0.0.1:3000"\n';

describe('the file as a whole', () => {
  test('an empty one has the documented defaults', async () => {
    const declaration = await declare('');
    expect(declaration).toMatchObject({
      file,
      stateDir: join(directory, '.turnpike'),
      workers: 'auto',
      entrypoints: [],
      hosts: [],
      services: [],
      tls: { certificates: [], defaultName: null, internalCa: false },
      log: { level: 'info', access: true, format: 'auto' },
      metrics: null,
      settings: { trustedProxies: [], redirect: true, minVersion: '1.2', accessLog: true, forwardedField: false },
    });
    expect(declaration.settings.limits).toEqual({
      headerTimeoutMs: 10_000,
      tlsHandshakeTimeoutMs: 10_000,
      keepAliveTimeoutMs: 60_000,
      bodyIdleTimeoutMs: 60_000,
      streamIdleTimeoutMs: 3_600_000,
      headerSize: 32_768,
      headerCount: 200,
      targetSize: 8192,
      bodySize: unlimited,
      connections: 10_000,
      connectionsPerPeer: unlimited,
      backendConnections: 1000,
      backendConnectTimeoutMs: 5000,
      backendHeadTimeoutMs: 60_000,
      backendKeepAliveTimeoutMs: 60_000,
      drainMs: 30_000,
      streamDrainMs: 600_000,
      maxHoldMs: 30_000,
      holdRequests: 1000,
      holdSize: 64 * 1024 * 1024,
      h2Streams: 128,
      tcpConnections: 1024,
      dialTimeoutMs: 10_000,
      tcpIdleTimeoutMs: 300_000,
      udpIdleTimeoutMs: 120_000,
      udpSessions: 4096,
      overloadDelayMs: 400,
    });
  });

  test('paths are relative to the file, absolute ones stay', async () => {
    expect((await declare('state_dir = "../state"')).stateDir).toBe(join(directory, '../state'));
    expect((await declare('state_dir = "/var/lib/turnpike"')).stateDir).toBe('/var/lib/turnpike');
  });

  test('a certificate is known by its place and its absolute files', async () => {
    writeFileSync(join(directory, 'site.pem'), '');
    writeFileSync(join(directory, 'site.key'), '', { mode: 0o600 });
    const { tls } = await declare(
      '\n[[tls.certificate]]\ncert_file = "site.pem"\nkey_file = "./site.key"\ndefault = true',
    );
    expect(tls.certificates).toEqual([
      {
        certFile: join(directory, 'site.pem'),
        keyFile: join(directory, 'site.key'),
        pkcs12File: null,
        passphraseFile: null,
        isDefault: true,
        origin: 'config.toml:2 tls.certificate[0]',
        place: { file, line: 2, column: 7, key: 'tls.certificate[0]' },
      },
    ]);
  });

  test.each([
    ['', '1.2'],
    ['[tls]\nprofile = "modern"', '1.3'],
    ['[tls]\nmin_version = "1.3"', '1.3'],
    ['[tls]\nprofile = "modern"\nmin_version = "1.3"', '1.3'],
  ])('%s → TLS %s at least', async (text, version) => {
    expect((await declare(text)).settings.minVersion).toBe(version);
  });

  test.each([
    // Tests have no terminal.
    ['', 'json'],
    ['[log]\nformat = "auto"', 'json'],
    ['[log]\nformat = "json"', 'json'],
    ['[log]\nformat = "pretty"', 'pretty'],
  ])('%s → access log %s', async (text, format) => {
    expect((await declare(text)).settings.accessLogFormat).toBe(format);
  });

  test('a missing, an unreadable and a binary file are problems, not exceptions', async () => {
    const binary = join(directory, 'binary.toml');
    writeFileSync(binary, Buffer.from([0x61, 0x3d, 0xff]));
    const messages: string[] = [];
    for (const path of [join(directory, 'none.toml'), directory, binary]) {
      const result = await loadConfig(path);
      expect(result.ok).toBe(false);
      if (!result.ok) messages.push(formatProblem(result.problems[0]!));
    }
    expect(messages[0]).toBe(
      `${directory}/none.toml: there is no such file (accepted: the path of a configuration file, UTF-8)`,
    );
    expect(messages[1]).toContain('is a directory');
    expect(messages[2]).toContain('is not UTF-8');
  });

  test('tables may be opened after their children, and dotted keys in quotes are one key', async () => {
    const { hosts, settings } = await declare(
      '[tls.internal_ca]\nenabled = true\n[tls]\nredirect = false\n[external_routes]\n"app.example.test" = "127.0.0.1:1"',
    );
    expect(settings.redirect).toBe(false);
    expect(hosts.map((host) => host.pattern)).toEqual(['app.example.test']);
  });
});

describe('entrypoints', () => {
  const address = async (written: string) => {
    const [entrypoint] = (await declare(`[entrypoints.x]\nprotocol = "http"\naddress = "${written}"`)).entrypoints;
    return [entrypoint!.host, entrypoint!.port];
  };

  test.each([
    [':8080', '', 8080],
    ['*:8080', '', 8080],
    ['0.0.0.0:8080', '', 8080],
    ['[::]:8080', '', 8080],
    ['127.0.0.1:1', '127.0.0.1', 1],
    ['[::1]:65535', '::1', 65535],
    ['[0:0:0:0:0:0:0:1]:80', '::1', 80],
    ['[::ffff:10.0.0.1]:80', '10.0.0.1', 80],
  ])('%s listens on host "%s", port %i', async (written, host, port) => {
    expect(await address(written)).toEqual([host, port]);
  });

  test('an IPv4 and an IPv6 loopback on one port, and the same host on two ports, do not clash', async () => {
    const { entrypoints } = await declare(
      ['127.0.0.1:80', '[::1]:80', '127.0.0.1:81']
        .map((each, i) => `[entrypoints.e${i}]\nprotocol = "http"\naddress = "${each}"\n`)
        .join(''),
    );
    expect(entrypoints).toHaveLength(3);
  });

  test('its own limits are nearer than the global ones', async () => {
    const { entrypoints, settings } = await declare(
      `[limits]\nheader_timeout = "3s"\nheader_count = 50\nconnections = 7\n${web}header_timeout = "1s"\nmax_connections = "unlimited"\n` +
        '[entrypoints.other]\naddress = ":81"\nprotocol = "http"',
    );
    expect(entrypoints[0]).toMatchObject({
      maxConnections: unlimited,
      limits: { headerTimeoutMs: 1000, headerCount: 50, h2Streams: 128 },
      origin: 'config.toml:5 entrypoints.web',
    });
    expect(entrypoints[1]).toMatchObject({ maxConnections: 7, limits: { headerTimeoutMs: 3000 } });
    expect(settings.limits.headerTimeoutMs).toBe(3000);
  });

  test('networks are canonical, single addresses get their full prefix', async () => {
    const { settings } = await declare('trusted_proxies = ["10.0.0.0/8", "192.0.2.7", "FD00::/8", "2001:DB8:0::1"]');
    expect(settings.trustedProxies).toEqual(['10.0.0.0/8', '192.0.2.7/32', 'fd00::/8', '2001:db8::1/128']);
  });
});

describe('hosts', () => {
  test.each([
    ['A.Test.', 'a.test'],
    ['bücher.test', 'xn--bcher-kva.test'],
    ['*.A.test', '*.a.test'],
    ['*', '*'],
    ['localhost', 'localhost'],
    ['127.0.0.1', '127.0.0.1'],
    ['[0:0::1]', '[::1]'],
  ])('"%s" is the host %s, and its service has that name', async (written, pattern) => {
    const { hosts, services } = await declare(`[external_routes]\n"${written}" = "127.0.0.1:1"`);
    expect(hosts[0]!.pattern).toBe(pattern);
    expect(services[0]!.name).toBe(pattern);
    expect(hosts[0]!.routes[0]!.action).toEqual({ kind: 'forward', service: pattern, rewrite: null });
  });

  test('the short form equals the table', async () => {
    const short = await declare('[external_routes]\n"a.test" = ["127.0.0.1:1", "127.0.0.1:2"]');
    const long = await declare('[external_routes]\n"a.test" = { to = ["127.0.0.1:1", "127.0.0.1:2"] }');
    const { backendsOrigin: _, ...service } = short.services[0]!;
    expect(long.services[0]).toMatchObject(service);
    expect(long.hosts).toEqual(short.hosts);
  });

  test('is served by all entrypoints unless some are named', async () => {
    const text = `${web}[entrypoints.b]\naddress = ":81"\nprotocol = "http"\n`;
    const { hosts } = await declare(
      `${text}[external_routes]\n"a.test" = "127.0.0.1:1"\n"b.test" = { to = "127.0.0.1:1", entrypoints = ["b"] }`,
    );
    expect(hosts.map((host) => host.entrypoints)).toEqual([['web', 'b'], ['b']]);
  });

  test('aliases are hosts with the same routes and the same service', async () => {
    const text = `${to}aliases = ["B.test", "*.c.test"]\n[[external_routes."a.test".routes]]\npath = "/p"\nto = "127.0.0.1:2"`;
    const declaration = await declare(`${web}[external_routes."a.test"]\n${text}`);
    expect(declaration.hosts.map((host) => host.pattern)).toEqual(['a.test', 'b.test', '*.c.test']);
    expect(declaration.services.map((service) => service.name)).toEqual(['a.test', 'a.test/p']);
    expect(declaration.hosts[1]!.routes).toEqual(declaration.hosts[0]!.routes);
    expect(declaration.hosts[1]!.origin).toBe('config.toml:6 external_routes."a.test".aliases[0]');
  });

  test.each([
    ['hsts = "365d"', 'max-age=31536000'],
    ['hsts = { max_age = "2d", include_subdomains = true }', 'max-age=172800; includeSubDomains'],
    [
      'hsts = { max_age = "400d", include_subdomains = true, preload = true }',
      'max-age=34560000; includeSubDomains; preload',
    ],
    ['hsts = "0s"', 'max-age=0'],
    ['', null],
  ])('%s → %s', async (line, value) => {
    expect((await hostOf(to + line)).hsts).toBe(value);
  });

  test('client certificates: the issuers are read with the file, "none" asks for nothing', async () => {
    const ca = new TestCa('clients');
    writeFileSync(join(directory, 'clients.pem'), ca.pem);
    const mode = (each: string) => `${to}tls = "always"\nclient_auth = { mode = "${each}", ca_file = "clients.pem" }`;
    expect((await hostOf(mode('require'))).clientAuth).toEqual({ mode: 'require', ca: ca.pem });
    expect((await hostOf(mode('request'))).clientAuth).toEqual({ mode: 'request', ca: ca.pem });
    expect((await hostOf(mode('none'))).clientAuth).toBeNull();
  });

  test('the lowest TLS version is its own, else the global one', async () => {
    const { hosts } = await declare(
      '[tls]\nprofile = "modern"\n[external_routes]\n"a.test" = "a:1"\n"b.test" = { to = "a:1", min_version = "1.2" }',
    );
    expect(hosts.map((host) => host.minVersion)).toEqual(['1.3', '1.2']);
  });
});

describe('routes', () => {
  const path = (lines: string): string => `[[external_routes."a.test".routes]]\n${lines}\n`;

  test('the longest path comes first, the host last', async () => {
    const host = await hostOf(to + path('path = "/a"') + path('path = "/a/b/c"') + path('path = "/a/b"'));
    expect(host.routes.map((route) => route.path)).toEqual(['/a/b/c', '/a/b', '/a', '/']);
    expect(host.routes.map((route) => route.id)).toEqual(['a.test/a/b/c', 'a.test/a/b', 'a.test/a', 'a.test']);
    expect(host.routes[0]!.origin).toBe('config.toml:8 external_routes."a.test".routes[1]');
  });

  test('a host may answer on some paths only', async () => {
    const host = await hostOf(path('path = "/a"\nto = "127.0.0.1:1"'));
    expect(host.routes.map((route) => route.path)).toEqual(['/a']);
  });

  test.each<[string, string, RouteAction]>([
    ['of the host', 'path = "/p"', { kind: 'forward', service: 'a.test', rewrite: null }],
    ['of its own', 'path = "/p"\nto = "b:1"', { kind: 'forward', service: 'a.test/p', rewrite: null }],
    [
      'with the path taken away',
      'path = "/p"\nstrip_prefix = true',
      { kind: 'forward', service: 'a.test', rewrite: { kind: 'strip' } },
    ],
    [
      'with the path replaced',
      'path = "/p"\nreplace_prefix = "/q/r/"',
      { kind: 'forward', service: 'a.test', rewrite: { kind: 'replace', to: '/q/r' } },
    ],
    ['a redirect', 'path = "/p"\nredirect = "/q"', { kind: 'redirect', status: 308, to: '/q' }],
    [
      'a temporary redirect',
      'path = "/p"\nredirect = { to = "https://{host}{uri}", status = 302 }',
      { kind: 'redirect', status: 302, to: 'https://{host}{uri}' },
    ],
    [
      'a fixed answer',
      'path = "/p"\nrespond = { status = 404, headers = { A = "b" }, body = "no" }',
      { kind: 'respond', status: 404, headers: [['A', 'b']], body: 'no' },
    ],
  ])('a path has the backends or the answer %s', async (_, lines, action) => {
    expect((await routeOf(to + path(lines), '/p')).action).toEqual(action);
  });

  test.each<[string, RouteAction]>([
    ['redirect = "/x"\n', { kind: 'redirect', status: 308, to: '/x' }],
    ['respond = { body = "x" }\n', { kind: 'respond', status: 200, headers: [], body: 'x' }],
  ])('a path without an answer has that of its host: %s', async (answer, action) => {
    expect((await routeOf(answer + path('path = "/p"\nretry = false'), '/p')).action).toEqual(action);
  });

  test('what a host puts before every path holds for its paths too', async () => {
    const host = await hostOf(
      `${to}replace_prefix = "/base"\n${path('path = "/a"')}${path('path = "/bb"\nstrip_prefix = true')}` +
        `${path('path = "/ccc"\nreplace_prefix = "/"')}${path('path = "/dddd"\nto = "b:1"')}`,
    );
    expect(host.routes.map(({ action }) => (action.kind === 'forward' ? action.rewrite : 'none'))).toEqual([
      null,
      { kind: 'replace', to: '/' },
      { kind: 'replace', to: '/base' },
      { kind: 'replace', to: '/base/a' },
      { kind: 'replace', to: '/base' },
    ]);
  });

  test('the body of an answer may come from a file', async () => {
    writeFileSync(join(directory, 'closed.html'), '<p>closed');
    expect((await routeOf('respond = { status = 503, body_file = "closed.html" }')).action).toMatchObject({
      status: 503,
      body: '<p>closed',
    });
  });

  test('a path takes from its host what it leaves out', async () => {
    const host =
      `${to}compression = true\nretry = false\nrate_limit = { requests = 60, per = "1m" }\n` +
      'request_headers = { set = { A = "1" } }\nhost_header = "inner.test"\nbody_size = "1MB"\n';
    const same = await routeOf(host + path('path = "/p"'), '/p');
    expect(same).toMatchObject({
      compression: { encodings: ['zstd', 'br', 'gzip'], minSize: 1024 },
      retry: false,
      rateLimit: { perSecond: 1, burst: 60 },
      requestHeaders: { set: [['A', '1']], add: [], remove: [] },
      hostHeader: 'inner.test',
      limits: { bodySize: 1_000_000 },
    });
    const other = await routeOf(
      host +
        path(
          'path = "/p"\nto = "b:1"\ncompression = false\nretry = true\nrequest_headers = {}\nbody_size = "unlimited"\n' +
            'rate_limit = { requests = 5, per = "2s", burst = 9 }',
        ),
      '/p',
    );
    expect(other).toMatchObject({
      compression: null,
      retry: true,
      rateLimit: { perSecond: 2.5, burst: 9 },
      requestHeaders: { set: [], add: [], remove: [] },
      hostHeader: null,
      limits: { bodySize: unlimited },
    });
  });

  test('the nearest limit wins: path, host, [limits]', async () => {
    const { hosts } = await declare(
      `[limits]\nbody_size = "1B"\nbody_idle_timeout = "1s"\nbackend_head_timeout = "1s"\n[external_routes."a.test"]\n${to}` +
        `body_idle_timeout = "2s"\nbackend_head_timeout = "2s"\n${path('path = "/p"\nbackend_head_timeout = "3s"')}`,
    );
    expect(hosts[0]!.routes[0]!.limits).toMatchObject({
      bodySize: 1,
      bodyIdleTimeoutMs: 2000,
      backendHeadTimeoutMs: 3000,
    });
    expect(hosts[0]!.routes[1]!.limits).toMatchObject({
      bodySize: 1,
      bodyIdleTimeoutMs: 2000,
      backendHeadTimeoutMs: 2000,
    });
  });

  test('header rules keep the written order, added lists become lines', async () => {
    const rules = '{ set = { B = "2", A = "1" }, add = { X = ["1", "2"], Y = "3" }, remove = ["Server"] }';
    expect((await routeOf(`${to}response_headers = ${rules}`)).responseHeaders).toEqual({
      set: [
        ['B', '2'],
        ['A', '1'],
      ],
      add: [
        ['X', '1'],
        ['X', '2'],
        ['Y', '3'],
      ],
      remove: ['Server'],
    });
  });
});

describe('services', () => {
  test.each([
    ['"127.0.0.1:3000"', '127.0.0.1:3000', '127.0.0.1', 3000, 'http1'],
    ['"App.Internal:80"', 'app.internal:80', 'app.internal', 80, 'http1'],
    ['"[0:0::1]:9000"', '[::1]:9000', '::1', 9000, 'http1'],
    ['"http://[::1]:9000"', '[::1]:9000', '::1', 9000, 'http1'],
    ['"http://a.test"', 'a.test:80', 'a.test', 80, 'http1'],
    ['"https://a.test"', 'a.test:443', 'a.test', 443, 'https'],
    ['"h2c://a.test:50051"', 'a.test:50051', 'a.test', 50051, 'h2c'],
    ['"h2://a.test:1"', 'a.test:1', 'a.test', 1, 'h2'],
    ['"a.test:1"\nprotocol = "h2"', 'a.test:1', 'a.test', 1, 'h2'],
  ])('%s is the backend %s', async (written, address, host, port, protocol) => {
    const service = await serviceOf(`to = ${written}`);
    expect(service.backends).toEqual([{ address, host, port }]);
    expect(service.protocol).toBe(protocol);
  });

  test('has documented defaults', async () => {
    expect(await serviceOf(to)).toEqual({
      name: 'a.test',
      origin: 'config.toml:4 external_routes."a.test"',
      backends: [{ address: '127.0.0.1:3000', host: '127.0.0.1', port: 3000 }],
      backendsOrigin: 'config.toml:5 external_routes."a.test".to',
      balance: 'least_requests',
      balanceKey: '',
      stickyCookie: '',
      protocol: 'http1',
      upstreamTls: null,
      network: null,
      health: null,
      passive: { failures: 5, ejectMs: 10_000 },
      backendLimits: { backendConnections: 1000, backendConnectTimeoutMs: 5000, backendKeepAliveTimeoutMs: 60_000 },
      drainMs: 30_000,
      streamDrainMs: 600_000,
      maxHoldMs: 30_000,
    });
  });

  test('takes limits from its path, its host, the file; nothing else from the host', async () => {
    const text =
      `${to}sticky = true\nhealth = {}\nbalance = "round_robin"\ndrain = "1m"\nmax_hold = "5s"\nbackend_connections = 3\n` +
      '[[external_routes."a.test".routes]]\npath = "/p"\nto = "b:1"\nmax_hold = "6s"';
    const host = await serviceOf(text);
    expect(host).toMatchObject({ balance: 'round_robin', drainMs: 60_000, maxHoldMs: 5000 });
    expect(host.health).toEqual({
      type: 'http',
      path: '/',
      host: '',
      intervalMs: 5000,
      timeoutMs: 2000,
      healthyAfter: 2,
      unhealthyAfter: 3,
    });
    expect(await serviceOf(text, 'a.test/p')).toMatchObject({
      balance: 'least_requests',
      stickyCookie: '',
      health: null,
      drainMs: 60_000,
      maxHoldMs: 6000,
      backendLimits: { backendConnections: 3 },
    });
  });

  test('sticky cookies of two services never share a name', async () => {
    const text = `${to}sticky = true\n[[external_routes."a.test".routes]]\npath = "/p"\nto = "b:1"\nsticky = true`;
    const [one, two] = [await serviceOf(text), await serviceOf(text, 'a.test/p')];
    expect(one.stickyCookie).toMatch(/^turnpike_[0-9a-f]{8}$/);
    expect(one.stickyCookie).not.toBe(two.stickyCookie);
    expect((await serviceOf(`${to}sticky = "mine"`)).stickyCookie).toBe('mine');
    expect((await serviceOf(`${to}sticky = false`)).stickyCookie).toBe('');
  });

  test('TLS to backends: verified unless said otherwise, files read', async () => {
    const ca = new TestCa('backends');
    const pair = ca.leaf(['client'], { client: true });
    writeFileSync(join(directory, 'ca.pem'), ca.pem);
    expect((await serviceOf('to = "https://a.test"')).upstreamTls).toEqual({
      sni: '',
      verify: true,
      ca: '',
      cert: '',
      key: '',
    });
    const table = `{ sni = "Inner.test", verify = false, ca_file = "ca.pem", cert_file = "${pair.certFile}", key_file = "${pair.keyFile}" }`;
    expect((await serviceOf(`to = "https://a.test"\nupstream_tls = ${table}`)).upstreamTls).toEqual({
      sni: 'inner.test',
      verify: false,
      ca: ca.pem,
      cert: pair.cert,
      key: pair.key,
    });
  });
});

describe('compiling', () => {
  test('gives each service the addresses of the file, running', async () => {
    const routing = compileRouting(await declare(`${web}[external_routes]\n"a.test" = "127.0.0.1:3000"`));
    expect(routing.services).toHaveLength(1);
    expect(routing.services[0]).toMatchObject({
      name: 'a.test',
      state: 'run',
      generation: {
        number: 1,
        backends: [{ address: '127.0.0.1:3000', host: '127.0.0.1', port: 3000 }],
        origin: 'config.toml:5 external_routes."a.test"',
      },
    });
    expect(routing.services[0]).not.toHaveProperty('backends');
    expect(routing.services[0]).not.toHaveProperty('backendsOrigin');
  });

  test('gives data that can be sent to another process', async () => {
    const text = await import('node:fs').then((fs) => fs.readFileSync('config.example.toml', 'utf8'));
    const routing = compileRouting(await declare(text));
    expect(structuredClone(routing)).toEqual(routing);
    expect(JSON.parse(JSON.stringify(routing))).toEqual(routing);
  });
});

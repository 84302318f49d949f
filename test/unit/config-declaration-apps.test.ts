// What a file declares for ACME, apps, the gate and administration, once defaults are filled in and paths are absolute.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { isOrderable } from '../../src/config/acme-names.ts';
import { compileRouting } from '../../src/config/compile.ts';
import type { Declaration } from '../../src/config/declaration.ts';
import { formatProblem, readConfig } from '../../src/config/load.ts';
import { TestCa } from '../support/certificates.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-declared-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
mkdirSync(join(directory, 'secrets'));
for (const name of ['eab', 'cloudflare', 'tsig', 'acme-dns.json', 'tor', 'oidc', 'key']) {
  writeFileSync(join(directory, 'secrets', name), 'x\n', { mode: 0o600 });
}
writeFileSync(join(directory, 'secrets', 'otlp'), 'Authorization: x\n', { mode: 0o600 });
writeFileSync(join(directory, 'secrets', 'control'), `${'t'.repeat(40)}\n`, { mode: 0o600 });
const at = (name: string): string => join(directory, name);
const ca = new TestCa('declared');

async function declare(text: string): Promise<Declaration> {
  const result = await readConfig(text, join(directory, 'config.toml'));
  if (!result.ok) throw new Error(result.problems.map(formatProblem).join('\n'));
  return result.declaration;
}

describe('nothing said', () => {
  test('orders nothing, grants nothing, and asks for no login', async () => {
    const { tls, runtime, apps, images, appMounts, appDevices, secrets, backups, telemetry, gate, control } =
      await declare('');
    expect(tls.acme).toBeNull();
    expect(runtime).toBe('auto');
    expect(apps).toEqual({
      directory: null,
      watch: false,
      deploy: 'manual',
      dataRoot: at('.turnpike/data'),
      autoRollback: false,
      history: 20,
      processes: new Map(),
    });
    expect(images).toEqual({ registry: null, allowedRegistries: [], requireDigest: false });
    expect([appMounts.size, appDevices.size]).toEqual([0, 0]);
    expect(secrets).toEqual({ backend: 'file' });
    expect(backups).toEqual({ directory: at('.turnpike/backups'), keep: 7 });
    expect([telemetry, control]).toEqual([null, null]);
    expect(gate).toEqual({
      written: false,
      host: null,
      port: 8000,
      sessionIdleMs: 7 * 86_400_000,
      sessionAbsoluteMs: 30 * 86_400_000,
      dashboardOrigins: [],
      skipInterfaces: [],
      https: 'allow',
      apps: new Map(),
      tor: null,
      forwardAuth: null,
      oidc: null,
    });
  });

  test('an empty [gate] is one all the same', async () => {
    expect((await declare('[gate]')).gate.written).toBe(true);
  });

  test('what is kept in state_dir moves with it', async () => {
    const { apps, backups } = await declare('state_dir = "/srv/turnpike"');
    expect([apps.dataRoot, backups.directory]).toEqual(['/srv/turnpike/data', '/srv/turnpike/backups']);
  });
});

describe('ACME', () => {
  const acmeOf = async (text: string) => (await declare(text)).tls.acme!;

  test('is complete with one word', async () => {
    expect(await acmeOf('[tls.acme]\nenabled = true')).toEqual({
      directories: [
        {
          url: 'https://acme-v02.api.letsencrypt.org/directory',
          eab: null,
          profile: null,
          preferredChain: null,
          ca: null,
        },
      ],
      email: null,
      challenge: 'auto',
      keyType: 'p256',
      ari: true,
      resolvers: [],
      dns: null,
      targets: [],
    });
  });

  test.each([
    ['directory = "https://CA.example/Dir"', ['https://ca.example/Dir']],
    [
      'directory = ["https://a.example/d", { url = "https://b.example/d" }]',
      ['https://a.example/d', 'https://b.example/d'],
    ],
    ['directory = { url = "https://a.example/d" }', ['https://a.example/d']],
    [
      '[[tls.acme.directory]]\nurl = "https://a.example/d"\n[[tls.acme.directory]]\nurl = "https://b.example/d"',
      ['https://a.example/d', 'https://b.example/d'],
    ],
  ])('authorities in the order of trying: %s', async (line, urls) => {
    const { directories } = await acmeOf(`[tls.acme]\nenabled = true\n${line}`);
    expect(directories.map(({ url }) => url)).toEqual(urls);
  });

  test('an authority with everything: its roots are read, its secret is not', async () => {
    const { directories } = await acmeOf(`[tls.acme]
enabled = true
[[tls.acme.directory]]
url = "https://ca.internal:14000/dir"
eab_key_id = "kid-1"
eab_hmac_file = "secrets/eab"
profile = "shortlived"
preferred_chain = "Root X2"
ca_file = "${ca.file}"`);
    expect(directories).toEqual([
      {
        url: 'https://ca.internal:14000/dir',
        eab: { keyId: 'kid-1', hmacFile: at('secrets/eab') },
        profile: 'shortlived',
        preferredChain: 'Root X2',
        ca: ca.pem,
      },
    ]);
  });

  test.each([
    ['cloudflare = { token_file = "secrets/cloudflare" }', { kind: 'cloudflare', tokenFile: at('secrets/cloudflare') }],
    [
      'rfc2136 = { server = "192.0.2.53", key_name = "k.", key_file = "secrets/tsig" }',
      {
        kind: 'rfc2136',
        server: '192.0.2.53:53',
        keyName: 'k.',
        keyFile: at('secrets/tsig'),
        algorithm: 'hmac-sha256',
      },
    ],
    [
      'rfc2136 = { server = "[2001:DB8::53]:5353", key_name = "k.", key_file = "secrets/tsig", algorithm = "hmac-sha512" }',
      {
        kind: 'rfc2136',
        server: '[2001:db8::53]:5353',
        keyName: 'k.',
        keyFile: at('secrets/tsig'),
        algorithm: 'hmac-sha512',
      },
    ],
    [
      'acme_dns = { url = "https://auth.example", credentials_file = "secrets/acme-dns.json" }',
      { kind: 'acme-dns', url: 'https://auth.example/', credentialsFile: at('secrets/acme-dns.json') },
    ],
    ['exec = { command = ["/bin/hook", "-v"] }', { kind: 'exec', command: ['/bin/hook', '-v'], timeoutMs: 60_000 }],
  ])('a DNS provider: %s', async (line, provider) => {
    const { dns } = await acmeOf(`[tls.acme]\nenabled = true\n[tls.acme.dns]\n${line}\npropagation_delay = "5s"`);
    expect(dns).toEqual({ provider, propagationTimeoutMs: 120_000, propagationDelayMs: 5000 });
  });

  const entrypoints = `[entrypoints.web]
address = ":80"
protocol = "http"
[entrypoints.websecure]
address = ":443"
protocol = "https"
[entrypoints.mail]
address = ":993"
protocol = "tcp"
[network_services]
imap = { tcp = "127.0.0.1:143" }
[tls.internal_ca]
enabled = true
`;
  const acme = '[tls.acme]\nenabled = true\ndns = { exec = { command = ["/bin/hook"] } }\n';
  const host = (key: string, line = ''): string => `[external_routes."${key}"]\nto = "127.0.0.1:3000"\n${line}\n`;
  test.each([
    ['a public host', host('App.Example.net.'), ['app.example.net']],
    [
      'its aliases',
      host('a.example.net', 'aliases = ["b.example.net", "c.local"]'),
      ['a.example.net', 'b.example.net'],
    ],
    ['an international name', host('bücher.example.net'), ['xn--bcher-kva.example.net']],
    ['a wildcard', host('*.example.net'), ['*.example.net']],
    ['always', host('a.example.net', 'tls = "always"'), ['a.example.net']],
    ['never "never"', host('a.example.net', 'tls = "never"'), []],
    ['never "*"', host('*'), []],
    ['none without an https entrypoint', host('a.example.net', 'entrypoints = ["web"]'), []],
    ['none that is to have one of the internal CA', host('a.example.net', 'certificate = "internal"'), []],
    ['no name that is private', host('localhost') + host('nas.local') + host('a.home.arpa') + host('a.test'), []],
    ['such a name when asked for', host('nas.internal', 'certificate = "acme"'), ['nas.internal']],
    ['no address', host('9.9.9.9') + host('[2620:fe::fe]'), []],
    ['an address when asked for', host('[2620:FE::FE]', 'certificate = "acme"'), ['[2620:fe::fe]']],
    ['the host of the gate', '[gate]\nhost = "home.example.net"\n', ['home.example.net']],
    [
      'what a tcp router ends TLS for, once',
      `${host('mail.example.net')}[[routers.tcp]]\nentrypoint = "mail"\nservice = "imap"\ntls = true\nsni = ["imap.example.net", "mail.example.net"]\n`,
      ['mail.example.net', 'imap.example.net'],
    ],
  ])('is for %s', async (_, text, names) => {
    const { targets } = await acmeOf(entrypoints + text + acme);
    expect(targets.map(({ name }) => name)).toEqual(names);
  });

  test('a target knows where it is written', async () => {
    const { targets } = await acmeOf(`${entrypoints}${host('a.example.net', 'aliases = ["b.example.net"]')}${acme}`);
    expect(targets.map(({ origin, place }) => [origin, place.line, place.key])).toEqual([
      ['config.toml:14 external_routes."a.example.net"', 14, 'external_routes."a.example.net"'],
      ['config.toml:16 external_routes."a.example.net".aliases[0]', 16, 'external_routes."a.example.net".aliases[0]'],
    ]);
  });

  test('an authority of your own signs for private names, too', async () => {
    const own = `[tls.acme]\nenabled = true\n[tls.acme.directory]\nurl = "https://ca.internal/d"\nca_file = "${ca.file}"\n`;
    const declared = await acmeOf(entrypoints + host('nas.local') + host('10.0.0.7') + host('*') + own);
    expect(declared.targets.map(({ name }) => name)).toEqual(['nas.local', '10.0.0.7']);
    const names = ['app.example.net', 'nas.local', 'localhost', '10.0.0.7', '*'];
    expect(names.filter((name) => isOrderable(name, declared))).toEqual([
      'app.example.net',
      'nas.local',
      'localhost',
      '10.0.0.7',
    ]);
    expect(
      names.filter((name) => isOrderable(name, { directories: [{ ...declared.directories[0]!, ca: null }] })),
    ).toEqual(['app.example.net']);
  });

  test('is off with its switch, whatever else is said', async () => {
    expect(
      (await declare(`${entrypoints}${host('a.example.net')}${acme.replace('true', 'false')}`)).tls.acme,
    ).toBeNull();
  });
});

describe('apps', () => {
  test('keys and apps stand in one table', async () => {
    const { apps } = await declare(`runtime = "none"
[apps]
directory = "apps"
watch = true
deploy = "auto"
data_root = "/srv/apps"
auto_rollback = true
history = 5
[apps.blog.web]
start = ["/usr/bin/node", "server.js", "--port", "{port}"]
address = "127.0.0.1:0"
[apps.blog."web.api"]
stop = ["/usr/bin/systemctl", "stop", "api"]
address = "[::1]:3001"
[apps.other.web]
address = "app.internal:3000"`);
    expect(apps).toEqual({
      directory: at('apps'),
      watch: true,
      deploy: 'auto',
      dataRoot: '/srv/apps',
      autoRollback: true,
      history: 5,
      processes: new Map([
        [
          'blog',
          new Map([
            [
              'web',
              {
                start: ['/usr/bin/node', 'server.js', '--port', '{port}'],
                stop: [],
                address: { address: '127.0.0.1:0', host: '127.0.0.1', port: 0 },
                origin: 'config.toml:9 apps.blog.web',
              },
            ],
            [
              'web.api',
              {
                start: [],
                stop: ['/usr/bin/systemctl', 'stop', 'api'],
                address: { address: '[::1]:3001', host: '::1', port: 3001 },
                origin: 'config.toml:12 apps.blog."web.api"',
              },
            ],
          ]),
        ],
        [
          'other',
          new Map([
            [
              'web',
              {
                start: [],
                stop: [],
                address: { address: 'app.internal:3000', host: 'app.internal', port: 3000 },
                origin: 'config.toml:15 apps.other.web',
              },
            ],
          ]),
        ],
      ]),
    });
  });

  test('port 10 is no port 0', async () => {
    const { apps } = await declare('runtime = "none"\n[apps.blog.web]\naddress = "127.0.0.1:10"');
    expect(apps.processes.get('blog')!.get('web')!.address!.port).toBe(10);
  });

  test('images, mounts, devices, secrets, backups and telemetry', async () => {
    const { images, appMounts, appDevices, secrets, backups, telemetry } = await declare(`[images]
registry = "Registry.Example:5000"
allowed_registries = ["mirror.example", "127.0.0.1:5000"]
require_digest = true
[app_mounts.logs]
source = "logs/../shared"
read_only = true
allowed_apps = ["blog"]
allowed_services = ["web", "web.api"]
[app_devices.gpu]
cdi = "nvidia.com/gpu=0"
allowed_apps = ["blog"]
allowed_services = ["web"]
[secrets]
backend = "pass"
[backups]
directory = "backups"
keep = 3
[telemetry]
endpoint = "https://otel.example"
headers_file = "secrets/otlp"
logs = true`);
    expect(images).toEqual({
      registry: 'registry.example:5000',
      allowedRegistries: ['mirror.example', '127.0.0.1:5000'],
      requireDigest: true,
    });
    expect([...appMounts]).toEqual([
      [
        'logs',
        {
          source: at('shared'),
          readOnly: true,
          allowedApps: ['blog'],
          allowedServices: ['web', 'web.api'],
          origin: 'config.toml:5 app_mounts.logs',
        },
      ],
    ]);
    expect([...appDevices]).toEqual([
      [
        'gpu',
        {
          cdi: ['nvidia.com/gpu=0'],
          allowedApps: ['blog'],
          allowedServices: ['web'],
          origin: 'config.toml:10 app_devices.gpu',
        },
      ],
    ]);
    expect(secrets).toEqual({ backend: 'pass' });
    expect(backups).toEqual({ directory: at('backups'), keep: 3 });
    expect(telemetry).toEqual({
      endpoint: 'https://otel.example/',
      headersFile: at('secrets/otlp'),
      logs: true,
      traces: false,
      metrics: false,
    });
  });
});

describe('the gate', () => {
  test('everything of it', async () => {
    const { gate, entrypoints } = await declare(`[entrypoints.ssh]
address = ":2222"
protocol = "tcp"
requires_session = "gitea"
[gate]
host = "Home.Example.net"
port = 9000
session_idle = "1d"
session_absolute = "2d"
dashboard_origins = ["https://dash.example.net:8443"]
skip_interfaces = ["docker0", "br-*"]
https = "prefer"
[gate.apps.gitea]
policy = "open"
rationale = "has a login of its own"
allowed_origins = ["http://localhost:3000"]
[gate.apps.companion]
session_passthrough = true
[gate.tor]
control = "unix:/run/tor/control"
password_file = "secrets/tor"
[gate.forward_auth]
url = "http://127.0.0.1:9091/verify?x=1"
copy_headers = ["X-User"]
[gate.oidc]
issuer = "https://id.example.net/realms/home"
client_id = "turnpike"
client_secret_file = "secrets/oidc"
allowed_domains = ["Example.net"]`);
    expect(entrypoints.map(({ requiresSession }) => requiresSession)).toEqual(['gitea']);
    expect(gate).toEqual({
      written: true,
      host: 'home.example.net',
      port: 9000,
      sessionIdleMs: 86_400_000,
      sessionAbsoluteMs: 2 * 86_400_000,
      dashboardOrigins: ['https://dash.example.net:8443'],
      skipInterfaces: ['docker0', 'br-*'],
      https: 'prefer',
      apps: new Map([
        [
          'gitea',
          {
            policy: 'open',
            rationale: 'has a login of its own',
            sessionPassthrough: false,
            openPaths: [],
            upgradeOpenPaths: [],
            allowedOrigins: ['http://localhost:3000'],
            origin: 'config.toml:13 gate.apps.gitea',
          },
        ],
        [
          'companion',
          {
            policy: null,
            rationale: null,
            sessionPassthrough: true,
            openPaths: [],
            upgradeOpenPaths: [],
            allowedOrigins: [],
            origin: 'config.toml:17 gate.apps.companion',
          },
        ],
      ]),
      tor: { control: { path: '/run/tor/control' }, passwordFile: at('secrets/tor'), cookieFile: null },
      forwardAuth: { url: 'http://127.0.0.1:9091/verify?x=1', copyHeaders: ['X-User'], timeoutMs: 5000 },
      oidc: {
        name: 'Single sign-on',
        issuer: 'https://id.example.net/realms/home',
        clientId: 'turnpike',
        clientSecretFile: at('secrets/oidc'),
        scopes: ['openid', 'profile', 'email'],
        usernameClaim: 'preferred_username',
        groupsClaim: 'groups',
        allowedUsers: [],
        allowedGroups: [],
        allowedDomains: ['example.net'],
        ownerGroups: [],
      },
    });
  });

  const route = (lines: string): string =>
    `[external_routes."App.test"]\nto = "127.0.0.1:3000"\naliases = ["b.test"]\n${lines}`;
  const plain = { sessionPassthrough: false, openPaths: [], upgradeOpenPaths: [], allowedOrigins: [] };
  const because = 'has a login of its own';
  test.each([
    ['none', route(''), null],
    ['of the route', route('gate = "session"'), { app: 'app.test', policy: 'session', ...plain }],
    ['open', route(`gate = "open"\ngate_rationale = "${because}"`), { app: 'app.test', policy: 'open', ...plain }],
    ['not touched', route(`gate = "none"\ngate_rationale = "${because}"`), null],
    [
      'of [gate.apps]',
      route('[gate.apps."APP.test"]\npolicy = "gated"'),
      { app: 'app.test', policy: 'gated', ...plain },
    ],
    [
      'of the route, with the details of [gate.apps]',
      route(
        'gate = "gated"\n[gate.apps."app.test"]\nopen_paths = ["/hook/*"]\nupgrade_open_paths = ["/ws"]\nsession_passthrough = true\nallowed_origins = ["https://c.test"]',
      ),
      {
        app: 'app.test',
        policy: 'gated',
        sessionPassthrough: true,
        openPaths: ['/hook/*'],
        upgradeOpenPaths: ['/ws'],
        allowedOrigins: ['https://c.test'],
      },
    ],
    ['of another app', route('[gate.apps.app]\npolicy = "gated"'), null],
  ])('the gate of a host, %s: is on every path and alias of it', async (_, text, expected) => {
    const declaration = await declare(
      `${text}\n[[external_routes."App.test".routes]]\npath = "/api"\nto = "127.0.0.1:3001"`,
    );
    const { hosts } = compileRouting(declaration);
    expect(hosts.map(({ pattern }) => pattern)).toEqual(['app.test', 'b.test']);
    for (const host of hosts) expect(host.routes.map(({ gate }) => gate)).toEqual([expected, expected]);
  });

  test('its own host is served by the gate itself, wherever hosts are served', async () => {
    const { hosts } = await declare(
      '[entrypoints.web]\naddress = ":80"\nprotocol = "http"\n[entrypoints.ssh]\naddress = ":22"\nprotocol = "tcp"\n[gate]\nhost = "home.test"',
    );
    expect(hosts.map(({ pattern, tls, entrypoints, origin }) => [pattern, tls, entrypoints, origin])).toEqual([
      ['home.test', 'auto', ['web'], 'config.toml:8 gate.host'],
    ]);
    expect(hosts[0]!.routes.map(({ path, action, gate }) => [path, action, gate])).toEqual([
      ['/', { kind: 'gate' }, null],
    ]);
  });

  test('what is said of a host stands under its canonical name, with its reason and its place', async () => {
    const { gate } = await declare(
      route(`gate = "open"\n[gate.apps."APP.test"]\nrationale = "${because}"\nopen_paths = ["/x"]`),
    );
    expect([...gate.apps]).toEqual([
      [
        'app.test',
        {
          policy: 'open',
          rationale: because,
          ...plain,
          openPaths: ['/x'],
          origin: 'config.toml:4 external_routes."App.test".gate',
        },
      ],
    ]);
  });
});

test('administration over TCP names its files', async () => {
  const pair = ca.leaf(['admin.example.net']);
  const { control } = await declare(
    `[control]\naddress = ":8081"\ntoken_file = "secrets/control"\ncert_file = "${pair.certFile}"\nkey_file = "${pair.keyFile}"`,
  );
  expect(control).toEqual({
    address: { host: '', port: 8081 },
    tokenFile: at('secrets/control'),
    tls: { certFile: pair.certFile, keyFile: pair.keyFile },
  });
});

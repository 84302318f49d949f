// What manifests mean: the models of both formats' examples, equal digests for equal meanings, diffs by name, who overlaps.
import { describe, expect, test } from 'vitest';
import type { App, AppService } from '../../src/manifest/app.ts';
import { environmentOf, exportsLogs } from '../../src/manifest/app.ts';
import { appDigest, changesAppEnv, diffApps, serviceDigest } from '../../src/manifest/diff.ts';
import { formatImage, parseImage } from '../../src/manifest/image.ts';
import { effectiveReadiness } from '../../src/manifest/readiness.ts';
import { isSingleWriter, replacementMode } from '../../src/manifest/replacement.ts';
import { readTomlManifest } from '../../src/manifest/toml.ts';
import { readYamlManifest } from '../../src/manifest/yaml.ts';
import { facts } from '../support/manifest-rows.ts';

function toml(text: string): App {
  const loaded = readTomlManifest(text, 'blog.toml', facts);
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded.app;
}

function yaml(text: string): App {
  const loaded = readYamlManifest(text, 'myapp.yml', facts);
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded.app;
}

const web = (rest: string): string => `name = "blog"\n[services.web]\nimage = "blog:1"\n${rest}`;
const service = (rest: string): AppService => toml(web(rest)).services[0]!;
const boxed = (rest: string): string =>
  `app:\n  id: myapp\n  name: My App\n  version: 1.0.0\n  container:\n    image: vendor/myapp:1\n${rest}`;

const publicHttp = '[[services.web.http]]\nhost = "blog.example.com"\nport = 3000\n';
const internalHttp = '[[services.web.http]]\nvisibility = "internal"\nport = 8080\n';
const gameTcp = '[[services.web.tcp]]\nentrypoint = "game"\nport = 25565\n';
const voiceUdp = '[[services.web.udp]]\nentrypoint = "voice"\nport = 28015\n';
const volume = '[[services.web.volume]]\nname = "data"\npath = "/data"\n';
const bind = '[[services.web.bind]]\nname = "app-logs"\npath = "/var/log/app"\nreadonly = true\n';
const device = 'devices = ["transcode-gpu"]\n';

const full = `
name = "blog"

[env]                              # optional, app-wide public env for all services
APP_ENV = "production"

[services.web]                     # one table per service; the key is the name
image = "gordon.mydomain.com/blog:1.4.2"
command = ["node", "server.js"]    # optional override
stop_grace = "30s"                 # optional, default 30s
devices = ["transcode-gpu"]        # 0..n logical names

[services.web.readiness]           # optional explicit readiness
type = "http"
path = "/healthz"
port = 3000
timeout = "30s"

[[services.web.http]]              # 0..n HTTP interfaces
host = "blog.mydomain.com"
port = 3000
tls = "auto"                       # auto | always | never

[[services.web.http]]              # optional private interface
visibility = "internal"            # public (default) | internal
port = 8080                        # required; no host or tls

[services.web.env]                 # optional, non-secret env for this service only
LOG_LEVEL = "debug"                # overrides an app-wide [env] key of the same name

[services.web.secrets]             # ENV name -> secret name
API_KEY = "api-key"                                       # env delivery
DATABASE_URL = { name = "database-url", as = "file" }     # /run/secrets/DATABASE_URL
DB_PASS = { name = "db-pass", as = "env" }                # explicit env delivery

[[services.web.volume]]            # 0..n named volumes only
name = "web-data"
path = "/data"
readonly = false

[[services.web.bind]]              # 0..n
name = "app-logs"                  # policy name, never a host path
path = "/var/log/app"              # absolute container destination
readonly = true

[[services.web.database]]          # explicit database declarations
name = "main"
type = "postgres"
schedule = "daily"

[services.web.backup]              # backup targets by reference
postgres = ["main"]
volume = ["web-data"]

[[network.shared]]                 # optional shared-network memberships
network = "backend"
services = ["web"]
`;

test('the full TOML example', () => {
  expect(toml(full)).toEqual({
    name: 'blog',
    kind: 'toml',
    display: { title: 'blog', version: null, description: null, upstream: null, launch: [], extensions: {} },
    env: [{ name: 'APP_ENV', value: 'production' }],
    services: [
      {
        name: 'web',
        source: {
          kind: 'image',
          image: { registry: 'gordon.mydomain.com', repository: 'blog', tag: '1.4.2', digest: null },
          pull: 'if-not-present',
        },
        entrypoint: null,
        command: ['node', 'server.js'],
        stopGraceMs: 30_000,
        env: [{ name: 'LOG_LEVEL', value: 'debug' }],
        secrets: [
          { env: 'API_KEY', secret: 'api-key', delivery: 'env' },
          { env: 'DATABASE_URL', secret: 'database-url', delivery: 'file' },
          { env: 'DB_PASS', secret: 'db-pass', delivery: 'env' },
        ],
        devices: ['transcode-gpu'],
        volumes: [{ name: 'web-data', path: '/data', readonly: false }],
        binds: [{ name: 'app-logs', path: '/var/log/app', readonly: true }],
        databases: [{ name: 'main', type: 'postgres', schedule: 'daily' }],
        backup: { postgres: ['main'], volume: ['web-data'] },
        readiness: { type: 'http', path: '/healthz', port: 3000, timeoutMs: 30_000, consecutive: 1 },
        http: [
          { visibility: 'public', host: 'blog.mydomain.com', port: 3000, tls: 'auto' },
          { visibility: 'internal', port: 8080 },
        ],
        tcp: [],
        udp: [],
        publications: [{ container: 3000, protocol: 'tcp', address: '127.0.0.1', hostPort: null }],
        telemetryLogs: null,
        shape: null,
      },
    ],
    sharedNetworks: [{ network: 'backend', services: ['web'] }],
    telemetryLogs: true,
    ports: [],
    external: false,
    dependencies: [],
  } satisfies App);
});

test('the minimal YAML example', () => {
  const app = yaml(`
app:
  id: myapp
  name: My App
  version: 1.0.0
  description: Does something useful
  container:
    image: docker.io/vendor/myapp:1.0.0
    generated_secrets:
      - { name: myapp-admin-password, kind: hex16 }
    secret_env:
      - { key: ADMIN_PASSWORD, secret_file: myapp-admin-password }
  ports:
    - { host: 8090, container: 8080 }
  volumes:
    - { type: bind, source: /var/lib/archipelago/myapp, target: /data, options: [rw] }
  health_check:
    type: http
    path: /health
  interfaces:
    main:
      type: ui
      port: 8090
`);
  expect(app).toEqual({
    name: 'myapp',
    kind: 'yaml',
    display: {
      title: 'My App',
      version: '1.0.0',
      description: 'Does something useful',
      upstream: null,
      launch: [{ key: 'main', name: null, description: null, type: 'ui', port: 8090, protocol: null, path: null }],
      extensions: {},
    },
    env: [],
    services: [
      {
        name: 'main',
        source: {
          kind: 'image',
          image: { registry: 'docker.io', repository: 'vendor/myapp', tag: '1.0.0', digest: null },
          pull: 'if-not-present',
        },
        entrypoint: null,
        command: null,
        stopGraceMs: 30_000,
        env: [],
        secrets: [{ env: 'ADMIN_PASSWORD', secret: 'myapp-admin-password', delivery: 'env' }],
        devices: [],
        volumes: [],
        binds: [],
        databases: [],
        backup: { postgres: [], volume: [] },
        readiness: { type: 'http', path: '/health', port: 8080, timeoutMs: 30_000, consecutive: 1 },
        http: [],
        tcp: [],
        udp: [],
        publications: [{ container: 8080, protocol: 'tcp', address: '', hostPort: 8090 }],
        telemetryLogs: null,
        shape: {
          network: null,
          networkAliases: [],
          derivedEnv: [],
          generatedSecrets: [{ name: 'myapp-admin-password', kind: 'hex16' }],
          generatedCerts: [],
          dataUid: null,
          hostBinds: [{ source: '/var/lib/archipelago/myapp', target: '/data', options: ['rw'], readonly: false }],
          tmpfs: [],
          hostDevices: [],
          security: {
            readonlyRoot: true,
            noNewPrivileges: true,
            capabilities: [],
            networkPolicy: 'isolated',
            apparmorProfile: null,
          },
          resources: { cpus: null, memory: null, disk: null },
          files: [],
          hooks: { postInstall: [], preStart: [] },
          healthCheck: {
            type: 'http',
            endpoint: null,
            path: '/health',
            intervalMs: null,
            timeoutMs: null,
            retries: null,
          },
        },
      },
    ],
    sharedNetworks: [],
    telemetryLogs: true,
    ports: [
      {
        host: 8090,
        container: 8080,
        protocol: 'tcp',
        binds: [''],
        auth: null,
        rationale: null,
        sessionPassthrough: false,
      },
    ],
    external: false,
    dependencies: [],
  } satisfies App);
});

describe('the model is canonical', () => {
  test('hosts, listeners and images are read in one spelling', () => {
    const app = toml(
      `name = "blog"\n[services.web]\nimage = "registry-1.docker.io/library/blog"\n[[services.web.http]]\nhost = "Blog.Example.COM."\nport = 1\n[[services.web.tcp]]\nentrypoint = "game"\nport = 2\npublish = "25565"`,
    );
    const [each] = app.services;
    expect(each!.source).toMatchObject({ image: { registry: 'docker.io', repository: 'library/blog', tag: 'latest' } });
    expect(each!.http).toEqual([{ visibility: 'public', host: 'blog.example.com', port: 1, tls: 'auto' }]);
    expect(each!.tcp).toEqual([{ entrypoint: 'game', port: 2, publish: ':25565' }]);
  });

  test('it survives JSON, and its order does not depend on the file', () => {
    const one = toml(
      web(
        `${publicHttp}${internalHttp}[services.web.env]\nB = "2"\nA = "1"\n[services.db]\nimage = "postgres:17"\n[services.db.secrets]\nY = "y"\nX = "x"`,
      ),
    );
    const other = toml(
      `name = "blog"\n[services.db.secrets]\nX = "x"\nY = "y"\n[services.db]\nimage = "docker.io/library/postgres:17"\n[services.web]\nstop_grace = "30000ms"\nimage = "blog:1"\nenv = { A = "1", B = "2" }\n${internalHttp}${publicHttp}`,
    );
    expect(JSON.parse(JSON.stringify(one))).toEqual(one);
    expect(appDigest(other)).toBe(appDigest(one));
    expect(diffApps(one, other)).toEqual([]);
  });

  test('extensions are kept, sorted, and __proto__ is a key like any other', () => {
    const app = yaml(
      'app:\n  id: a\n  name: A\n  version: "1"\n  zeta: [1, yes, ~, 1.5, 0x10]\n  __proto__: { auth: false }\n  big: 123456789012345678901',
    );
    expect(JSON.stringify(app.display.extensions)).toBe(
      '{"__proto__":{"auth":false},"big":"123456789012345678901","zeta":[1,"yes",null,1.5,16]}',
    );
    expect(({} as { auth?: boolean }).auth).toBeUndefined();
    expect(app.external).toBe(true);
    expect(app.services).toEqual([]);
  });

  test('a reference is written as an engine reads it', () => {
    const digest = `sha256:${'0'.repeat(64)}`;
    for (const [written, read] of [
      ['blog', 'docker.io/library/blog:latest'],
      ['a/b:2', 'docker.io/a/b:2'],
      ['localhost:5000/a', 'localhost:5000/a:latest'],
      [`ghcr.io/a/b@${digest}`, `ghcr.io/a/b@${digest}`],
      [`ghcr.io/a/b:1@${digest}`, `ghcr.io/a/b:1@${digest}`],
      ['GHCR.io/a/b', 'ghcr.io/a/b:latest'],
      ['[::1]:5000/a', '[::1]:5000/a:latest'],
    ] as const) {
      const parsed = parseImage(written);
      expect(parsed.ok && formatImage(parsed.image)).toBe(read);
    }
  });
});

describe('ports of YAML apps are published by their policy', () => {
  const ports = (written: string): App => yaml(boxed(`  ports:\n    - { host: 8090, container: 8080, ${written} }`));
  test.each([
    ['auth: session', '127.0.0.1', null],
    ['auth: gated', '127.0.0.1', 8090],
    ['auth: open, auth_rationale: x', '127.0.0.1', 8090],
    ['auth: local', '127.0.0.1', 8090],
    ['auth: none, auth_rationale: x, bind: 192.0.2.7', '192.0.2.7', 8090],
    ['bind: 0.0.0.0', '', 8090],
    ['bind: "::"', '::', 8090],
  ])('%s', (written, address, hostPort) => {
    expect(ports(written).services[0]!.publications).toEqual([{ container: 8080, protocol: 'tcp', address, hostPort }]);
  });

  test('a host port with several addresses is one port', () => {
    const app = yaml(
      boxed(
        '  ports:\n    - { host: 1, container: 2, bind: 192.0.2.7 }\n    - { host: 1, container: 2, bind: 127.0.0.1 }',
      ),
    );
    expect(app.ports).toEqual([
      {
        host: 1,
        container: 2,
        protocol: 'tcp',
        binds: ['127.0.0.1', '192.0.2.7'],
        auth: null,
        rationale: null,
        sessionPassthrough: false,
      },
    ]);
    expect(app.services[0]!.publications.map(({ address }) => address)).toEqual(['127.0.0.1', '192.0.2.7']);
  });

  test('a container in the network of the machine publishes nothing', () => {
    const app = yaml(boxed('  security: { network_policy: host }\n  ports: [{ host: 1, container: 1 }]'));
    expect(app.services[0]!.publications).toEqual([]);
    expect(app.ports).toHaveLength(1);
  });
});

describe('what differs is named', () => {
  const base = toml(full);
  const changed = (from: string, to: string): readonly string[] => diffApps(base, toml(full.replace(from, to)));
  test.each([
    ['APP_ENV = "production"', 'APP_ENV = "staging"', ['env/APP_ENV']],
    ['APP_ENV = "production"', 'A = "1"\nB = "2"', ['env/A', 'env/APP_ENV', 'env/B']],
    ['LOG_LEVEL = "debug"', 'LOG_LEVEL = "info"', ['service/web/env/LOG_LEVEL']],
    ['API_KEY = "api-key"', 'API_KEY = { name = "api-key", as = "file" }', ['service/web/secret/API_KEY']],
    ['API_KEY = "api-key"', 'OTHER = "api-key"', ['service/web/secret/API_KEY', 'service/web/secret/OTHER']],
    ['devices = ["transcode-gpu"]', 'devices = []', ['service/web/devices']],
    ['blog:1.4.2', 'blog:1.4.3', ['service/web/image']],
    ['tls = "auto"', 'tls = "always"', ['service/web/http/blog.mydomain.com']],
    ['port = 8080', 'port = 8081', ['service/web/http/internal:8080', 'service/web/http/internal:8081']],
    ['stop_grace = "30s"', 'stop_grace = "10s"', ['service/web/stop_grace']],
    ['schedule = "daily"', 'schedule = "hourly"', ['service/web/database/main']],
    ['volume = ["web-data"]', 'volume = []', ['service/web/backup/volume']],
    ['network = "backend"', 'network = "other"', ['network/backend', 'network/other']],
    ['timeout = "30s"', 'timeout = "31s"', ['service/web/readiness']],
    ['timeout = "30s"', '', []],
    ['[env]', '[telemetry]\nlogs = false\n[env]', ['telemetry/logs']],
  ])('%j → %j', (from, to, expected) => {
    expect(changed(from, to)).toEqual(expected);
  });

  test('values are in no entry', () => {
    const entries = [...diffApps(null, base), ...diffApps(base, null)];
    expect(entries).toContain('service/web');
    expect(entries.join('\n')).not.toMatch(/production|debug|api-key|database-url/);
  });

  test('a change of [env] is told apart, for it changes every service', () => {
    expect(changesAppEnv(base, toml(full.replace('production', 'staging')))).toBe(true);
    expect(changesAppEnv(base, toml(full.replace('debug', 'info')))).toBe(false);
  });

  test('one part of several equal names is one entry, whichever of them changed', () => {
    const one = yaml(boxed('  volumes: [{ type: volume, source: a, target: /a }]'));
    const two = yaml(boxed('  volumes: [{ type: volume, source: a, target: /b }]'));
    expect(diffApps(one, two)).toEqual(['service/main/volume/a']);
  });

  test('fields of a YAML container by their names', () => {
    const from = yaml(boxed('  security: { capabilities: [CHOWN] }\n  category: media'));
    const to = yaml(
      boxed('  security: { capabilities: [FOWNER] }\n  category: tools\n  ports: [{ host: 1, container: 1 }]'),
    );
    expect(diffApps(from, to)).toEqual(['extension/category', 'port/1/tcp', 'service/main/security']);
  });
});

describe('the digest of a service', () => {
  const digest = (text: string): string => {
    const app = toml(text);
    return serviceDigest(app, app.services[0]!);
  };
  test.each([
    ['app-wide env', 'production', 'staging', true],
    ['env of its own', 'debug', 'info', true],
    ['delivery of a secret', 'API_KEY = "api-key"', 'API_KEY = { name = "api-key", as = "file" }', true],
    ['telemetry of the app', '[env]', '[telemetry]\nlogs = false\n[env]', true],
    ['the schedule of a backup', '"daily"', '"hourly"', false],
    ['what is backed up', 'postgres = ["main"]', 'postgres = []', false],
    ['a shared network', '"backend"', '"other"', true],
  ])('%s', (_what, from, to, changes) => {
    expect(digest(full.replace(from, to)) !== digest(full)).toBe(changes);
  });

  test('does not change with a shared network of another service', () => {
    const app = (services: string): App =>
      toml(web(`[services.db]\nimage = "postgres:17"\n[[network.shared]]\nnetwork = "n"\nservices = [${services}]`));
    const [one, other] = [app('"web"'), app('"web", "db"')];
    const of = (each: App, name: string): string =>
      serviceDigest(each, each.services.find((found) => found.name === name)!);
    expect(of(other, 'web')).toBe(of(one, 'web'));
    expect(of(other, 'db')).not.toBe(of(one, 'db'));
  });

  test('does not change when the service sets a variable that the app had set alike', () => {
    const one = toml(web('[env]\nA = "1"'));
    const other = toml(web('[env]\nA = "0"\n[services.web.env]\nA = "1"'));
    expect(environmentOf(other, other.services[0]!)).toEqual([{ name: 'A', value: '1' }]);
    expect(serviceDigest(other, other.services[0]!)).toBe(serviceDigest(one, one.services[0]!));
  });

  test('is that of the telemetry in force', () => {
    const app = toml(web('[telemetry]\nlogs = false\n[services.web.telemetry]\nlogs = true'));
    expect(exportsLogs(app, app.services[0]!)).toBe(true);
    expect(serviceDigest(app, app.services[0]!)).toBe(digest(web('')));
  });
});

describe('replacement', () => {
  const stateless = service(`${publicHttp}${gameTcp}`);
  test.each([
    ['volume', volume],
    ['bind', bind],
    ['device', device],
    ['UDP', voiceUdp],
  ])('a %s in the new, the running or both: sequential', (_what, written) => {
    const holder = service(written);
    expect(isSingleWriter(holder)).toBe(true);
    expect(replacementMode(holder, stateless)).toBe('sequential');
    expect(replacementMode(stateless, holder)).toBe('sequential');
    expect(replacementMode(holder, holder)).toBe('sequential');
    expect(replacementMode(holder, null)).toBe('sequential');
  });

  test('stateless HTTP and TCP overlap', () => {
    expect(isSingleWriter(stateless)).toBe(false);
    expect(replacementMode(stateless, stateless)).toBe('overlap');
    expect(replacementMode(stateless, null)).toBe('overlap');
  });

  test.each([
    [
      'a bind',
      '  volumes: [{ type: bind, source: /var/lib/archipelago/a, target: /a, options: [ro] }]',
      true,
      'sequential',
    ],
    ['a named volume', '  volumes: [{ type: volume, source: a, target: /a }]', true, 'sequential'],
    ['a device', '  devices: [/dev/dri]', true, 'sequential'],
    ['a UDP port', '  ports: [{ host: 1, container: 1, protocol: udp }]', true, 'sequential'],
    ['a fixed port', '  ports: [{ host: 1, container: 1, auth: gated }]', false, 'sequential'],
    ['the network of the machine', '  security: { network_policy: host }', false, 'sequential'],
    ['a port that we take', '  ports: [{ host: 1, container: 1, auth: session }]', false, 'overlap'],
    ['a tmpfs', '  volumes: [{ type: tmpfs, target: /tmp }]', false, 'overlap'],
  ] as const)('a YAML app with %s', (_what, written, single, mode) => {
    const [each] = yaml(boxed(written)).services;
    expect(isSingleWriter(each!)).toBe(single);
    expect(replacementMode(each!, each!)).toBe(mode);
  });
});

describe('readiness in force', () => {
  const none = '[services.web.readiness]\ntype = "none"\n';
  const asked = { timeoutMs: 30_000, consecutive: 1, internal: false };
  test.each([
    ['public HTTP only', publicHttp, { type: 'http', path: '/', port: 3000, ...asked }],
    ['with none declared', `${publicHttp}${none}`, { type: 'http', path: '/', port: 3000, ...asked }],
    [
      'two public ports: the lowest',
      `${publicHttp}[[services.web.http]]\nhost = "a.example.com"\nport = 80\n`,
      { type: 'http', path: '/', port: 80, ...asked },
    ],
    ['one TCP interface', gameTcp, { type: 'tcp', port: 25565, ...asked }],
    ['two TCP interfaces', `${gameTcp}[[services.web.tcp]]\nentrypoint = "rcon"\nport = 25575\n`, null],
    ['HTTP and TCP', `${publicHttp}${gameTcp}`, null],
    ['public and internal HTTP', `${publicHttp}${internalHttp}`, null],
    ['internal HTTP only', internalHttp, null],
    ['UDP', voiceUdp, null],
    ['TCP and UDP', `${gameTcp}${voiceUdp}`, null],
    ['a volume', `${publicHttp}${volume}`, null],
    ['no interface', '', null],
    [
      'http on the only public port',
      `${publicHttp}${internalHttp}[services.web.readiness]\ntype = "http"\npath = "/up"`,
      { type: 'http', path: '/up', port: 3000, ...asked },
    ],
    [
      'http on an internal port',
      `${publicHttp}${internalHttp}[services.web.readiness]\ntype = "http"\npath = "/up"\nport = 8080`,
      { type: 'http', path: '/up', port: 8080, ...asked, internal: true },
    ],
    [
      'tcp on the only internal port',
      `${internalHttp}[services.web.readiness]\ntype = "tcp"\ntimeout = "2s"\nconsecutive = 3`,
      { type: 'tcp', port: 8080, timeoutMs: 2000, consecutive: 3, internal: true },
    ],
    [
      'log',
      '[services.web.readiness]\ntype = "log"\ncontains = "up"',
      { type: 'log', contains: 'up', timeoutMs: 30_000 },
    ],
  ])('%s', (_what, written, probe) => {
    expect(effectiveReadiness(service(written))).toEqual(probe);
  });

  test.each([
    ['the only port', '', { type: 'http', path: '/', port: 8080 }],
    [
      'an endpoint',
      '    endpoint: http://localhost:9000/up\n',
      { type: 'http', path: '/up', port: 9000, internal: true },
    ],
    [
      'an endpoint by the host port',
      '    endpoint: http://127.0.0.1:8090\n    path: /x\n',
      { type: 'http', path: '/x', port: 8080, internal: false },
    ],
    ['patience', '    interval: 1m\n    retries: 5\n', { timeoutMs: 300_000 }],
    ['not more than ten minutes', '    interval: 1h\n', { timeoutMs: 600_000 }],
  ])('of a YAML health check: %s', (_what, written, probe) => {
    const app = yaml(boxed(`  ports: [{ host: 8090, container: 8080 }]\n  health_check:\n    type: http\n${written}`));
    expect(effectiveReadiness(app.services[0]!)).toMatchObject(probe);
  });

  test('a YAML app without a health check is not probed', () => {
    expect(effectiveReadiness(yaml(boxed('  ports: [{ host: 8090, container: 8080 }]')).services[0]!)).toBeNull();
  });
});

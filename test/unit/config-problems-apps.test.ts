// What is wrong with ACME, apps, the gate and administration over TCP, and what the operator is told: key path, line, and
// words. A row lists all problems of its text, so that a missing one and a superfluous one both fail.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { formatProblem, readConfig } from '../../src/config/load.ts';
import { TestCa } from '../support/certificates.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-problems-apps-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const file = (name: string, content: string, mode: number): string => {
  const path = join(directory, name);
  writeFileSync(path, content);
  // Whatever the umask says.
  chmodSync(path, mode);
  return path;
};
const secret = file('secret', 'x\n', 0o600);
const shared = file('shared', 'x\n', 0o640);
const open = file('open', 'x\n', 0o644);
const token = file('token', `${'t'.repeat(32)}\n`, 0o600);
const short = file('short', `${'t'.repeat(31)}\n`, 0o600);
const spaced = file('spaced', `${'t'.repeat(20)} ${'t'.repeat(20)}\n`, 0o600);
const ca = new TestCa('problems');
const wild = ca.leaf(['*.wild.example.net']);
const openKey = file('open.key', wild.key, 0o644);

type Expected = readonly [key: string, line: number, words: string];
type Row = readonly [text: string, ...expected: Expected[]];

async function read(text: string) {
  return readConfig(text, join(directory, 'config.toml'));
}

function check(rows: readonly Row[]): void {
  const cases = rows.map(([text, ...expected]) => ({ text, expected }));
  test.each(cases)('$text', async ({ text, expected }) => {
    const result = await read(text);
    const problems = result.ok ? [] : result.problems;
    const seen = problems.map(({ key, line }) => [key, line]);
    expect(seen, problems.map(formatProblem).join('\n')).toEqual(expected.map(([key, line]) => [key, line]));
    for (const [i, [, , words]] of expected.entries()) {
      expect(`${problems[i]!.message} | ${problems[i]!.accepted}`).toContain(words);
    }
  });
}

const acme = (lines: string): string => `[tls.acme]\nenabled = true\n${lines}`;
const dns = (line: string): string => acme(`[tls.acme.dns]\n${line}`);
const web = '[entrypoints.web]\naddress = ":80"\nprotocol = "http"\n';
const secure = '[entrypoints.websecure]\naddress = ":443"\nprotocol = "https"\n';
const both = `${web}${secure}`;
const host = (key: string, line = ''): string => `[external_routes."${key}"]\nto = "127.0.0.1:3000"\n${line}\n`;
const cloudflare = `[tls.acme.dns]\ncloudflare = { token_file = "${secret}" }\n`;

describe('certificate authorities', () => {
  const directories = (...items: string[]): string => acme(`directory = [${items.join(', ')}]`);
  check([
    [acme('directory = "acme.example.com"'), ['tls.acme.directory', 3, 'is not a URL']],
    [acme('directory = "http://ca.example.com/dir"'), ['tls.acme.directory', 3, 'not protected on its way']],
    [acme('directory = "https://u:p@ca.example.com/dir"'), ['tls.acme.directory', 3, 'holds a password']],
    [acme('directory = "https://ca.example.com/dir#x"'), ['tls.acme.directory', 3, 'has a fragment']],
    [acme('directory = "http://127.0.0.1:14000/dir"')],
    [acme('directory = "http://localhost:14000/dir"')],
    [acme('directory = []'), ['tls.acme.directory', 3, 'is empty']],
    [acme('directory = 5'), ['tls.acme.directory', 3, '5 is an integer | the URL of a directory']],
    [directories('"https://a.example/d"', '"nope"'), ['tls.acme.directory[1]', 3, 'is not a URL']],
    [
      directories('"https://a.example/d"', '{ url = "https://A.example/d" }'),
      ['tls.acme.directory[1]', 3, 'is the same directory as the one in line 3'],
    ],
    [directories('{}'), ['tls.acme.directory[0].url', 3, 'is missing']],
    [
      acme('[[tls.acme.directory]]\nurl = "https://a.example/d"\neab_key_id = "k"'),
      ['tls.acme.directory[0].eab_hmac_file', 3, 'eab_key_id and eab_hmac_file together'],
    ],
    [
      acme(`[tls.acme.directory]\nurl = "https://a.example/d"\neab_hmac_file = "${secret}"`),
      ['tls.acme.directory.eab_key_id', 3, 'is missing'],
    ],
    [
      acme('[tls.acme.directory]\nurl = "https://a.example/d"\neab_key_id = "k"\neab_hmac_file = "none"'),
      ['tls.acme.directory.eab_hmac_file', 6, 'does not exist'],
    ],
    [
      acme(`[tls.acme.directory]\nurl = "https://a.example/d"\neab_key_id = "k"\neab_hmac_file = "${open}"`),
      ['tls.acme.directory.eab_hmac_file', 6, `chmod 600 ${open}`],
    ],
    [
      acme(`[tls.acme.directory]\nurl = "https://a.example/d"\nca_file = "${secret}"`),
      ['tls.acme.directory.ca_file', 5, 'holds no certificate'],
    ],
    [
      acme('[tls.acme.directory]\nurl = "https://a.example/d"\nprofile = "short lived"'),
      ['tls.acme.directory.profile', 5, 'is not one word'],
    ],
    [
      acme('[tls.acme.directory]\nurl = "https://a.example/d"\npreferred_chain = ""'),
      ['tls.acme.directory.preferred_chain', 5, 'is empty'],
    ],
    [acme('email = "ops"'), ['tls.acme.email', 3, 'is not an e-mail address']],
    [acme('email = "a@b.example, c@d.example"'), ['tls.acme.email', 3, 'is not an e-mail address']],
    [acme('challenge = "http"'), ['tls.acme.challenge', 3, '"auto", "http-01", "tls-alpn-01" or "dns-01"']],
    [acme('key_type = "p512"'), ['tls.acme.key_type', 3, '"p256", "p384", "rsa2048" or "rsa4096"']],
    [acme('resolvers = ["dns.example"]'), ['tls.acme.resolvers[0]', 3, 'is not a name server']],
    [acme('resolvers = ["::1"]'), ['tls.acme.resolvers[0]', 3, 'an IPv6 address needs brackets | "[::1]"']],
    [acme('resolvers = ["1.1.1.1:0"]'), ['tls.acme.resolvers[0]', 3, 'is not a name server']],
    [acme('resolvers = ["1.1.1.1", "1.1.1.1:53"]'), ['tls.acme.resolvers[1]', 3, 'the same as item 1']],
    [acme('ca = "x"'), ['tls.acme.ca', 3, 'unknown key ca in ACME']],
  ]);
});

describe('DNS providers', () => {
  check([
    [acme('challenge = "dns-01"'), ['tls.acme.challenge', 3, 'dns-01 needs somebody who writes records']],
    [dns(''), ['tls.acme.dns', 3, 'cloudflare, rfc2136, acme_dns or exec']],
    [dns('propagation_timeout = "1m"'), ['tls.acme.dns', 3, 'names no provider']],
    [
      dns(`cloudflare = { token_file = "${secret}" }\nexec = { command = ["/bin/true"] }`),
      ['tls.acme.dns.exec', 5, 'cloudflare is there too'],
    ],
    [acme(`challenge = "http-01"\n${cloudflare}`), ['tls.acme.dns', 4, 'has no effect: challenge = "http-01"']],
    [
      dns('cloudflare = { token = "abc" }'),
      ['tls.acme.dns.cloudflare.token_file', 4, 'is missing'],
      ['tls.acme.dns.cloudflare.token', 4, 'did you mean token_file?'],
    ],
    [dns(`cloudflare = { token_file = "${open}" }`), ['tls.acme.dns.cloudflare.token_file', 4, 'open to every user']],
    [dns(`cloudflare = { token_file = "${shared}" }`)],
    [dns(`cloudflare = { token_file = "${directory}" }`), ['tls.acme.dns.cloudflare.token_file', 4, 'is a directory']],
    [
      dns(`rfc2136 = { server = "ns.example", key_name = "k", key_file = "${secret}" }`),
      ['tls.acme.dns.rfc2136.server', 4, 'is not a name server'],
    ],
    [
      dns(`rfc2136 = { server = "192.0.2.1", key_name = "k", key_file = "${secret}", algorithm = "hmac-md5" }`),
      ['tls.acme.dns.rfc2136.algorithm', 4, '"hmac-sha256", "hmac-sha384" or "hmac-sha512"'],
    ],
    [
      dns('acme_dns = { url = "http://auth.example", credentials_file = "none" }'),
      ['tls.acme.dns.acme_dns.url', 4, 'not protected'],
    ],
    [
      dns('acme-dns = { url = "https://auth.example" }'),
      ['tls.acme.dns', 3, 'names no provider'],
      ['tls.acme.dns.acme-dns', 4, 'did you mean acme_dns?'],
    ],
    [dns('exec = { command = "/bin/hook" }'), ['tls.acme.dns.exec.command', 4, 'is a string, not a list']],
    [dns('exec = { command = [] }'), ['tls.acme.dns.exec.command', 4, 'is empty']],
    [dns('exec = { command = ["a\\u0000b"] }'), ['tls.acme.dns.exec.command[0]', 4, 'holds a NUL']],
    [dns('exec = { command = ["/bin/true"], timeout = "1h" }'), ['tls.acme.dns.exec.timeout', 4, 'out of range']],
  ]);
});

describe('where certificates of hosts come from', () => {
  const pair = `[[tls.certificate]]\ncert_file = "${wild.certFile}"\nkey_file = "${wild.keyFile}"\n`;
  check([
    [
      `${both}${host('a.example.net', 'certificate = "letsencrypt"')}`,
      ['external_routes."a.example.net".certificate', 9, '"auto", "acme" or "internal"'],
    ],
    [
      `${both}${host('a.example.net', 'certificate = "acme"')}`,
      ['external_routes."a.example.net".certificate', 9, 'tls.acme.enabled = true'],
    ],
    [
      `${both}${host('a.example.net', 'certificate = "internal"')}`,
      ['external_routes."a.example.net".certificate', 9, 'tls.internal_ca.enabled = true'],
    ],
    [
      `${both}${host('a.example.net', 'tls = "never"\ncertificate = "acme"')}${acme('')}`,
      ['external_routes."a.example.net".certificate', 10, 'tls is "never"'],
    ],
    [
      `${both}${host('*', 'certificate = "acme"')}${acme('')}`,
      ['external_routes."*".certificate', 9, 'no name that a certificate could have'],
    ],
    [`${both}${host('*.wild.example.net')}${acme('')}`, ['external_routes."*.wild.example.net"', 7, 'takes dns-01']],
    [
      `${both}${host('*.wild.example.net')}${acme('challenge = "http-01"')}`,
      ['external_routes."*.wild.example.net"', 7, '[tls.acme.dns]'],
    ],
    [
      `${both}${host('a.example.net', 'aliases = ["*.wild.example.net"]')}${acme('')}`,
      ['external_routes."a.example.net".aliases[0]', 9, 'takes dns-01'],
    ],
    [`${both}${host('*.wild.example.net')}${acme(cloudflare)}`],
    [`${both}${host('*.wild.example.net')}${acme('')}\n${pair}`],
    [
      `${both}${host('*.other.example.net')}${acme('')}\n${pair}`,
      ['external_routes."*.other.example.net"', 7, 'takes dns-01'],
    ],
    [`${both}${host('*.wild.example.net', 'tls = "never"')}${acme('')}`],
    [`${web}${host('*.wild.example.net')}${acme('')}`],
    [`${both}${host('*.wild.example.net', 'entrypoints = ["web"]')}${acme('')}`],
    [`${both}${host('*.wild.internal')}${acme('')}`],
    [
      `${both}${host('*.wild.internal')}${acme(`[tls.acme.directory]\nurl = "https://ca.internal/d"\nca_file = "${ca.file}"`)}`,
      ['external_routes."*.wild.internal"', 7, 'takes dns-01'],
    ],
    [
      `${both}${host('192.0.2.7', 'certificate = "acme"')}${acme('')}`,
      ['external_routes."192.0.2.7"', 7, 'no authority signs for 192.0.2.7'],
    ],
    [
      `${both}${host('10.0.0.7', 'certificate = "acme"')}${acme('')}`,
      ['external_routes."10.0.0.7"', 7, 'certificate = "internal"'],
    ],
    [`${both}${host('9.9.9.9', 'certificate = "acme"')}${acme('')}`],
    [
      `${both}${host('9.9.9.9', 'certificate = "acme"')}${acme(`challenge = "dns-01"\n${cloudflare}`)}`,
      ['external_routes."9.9.9.9"', 7, 'dns-01 proves no addresses'],
    ],
  ]);
});

describe('keys that every user of the machine could read', () => {
  check([
    [
      `[[tls.certificate]]\ncert_file = "${wild.certFile}"\nkey_file = "${openKey}"`,
      ['tls.certificate[0].key_file', 3, `chmod 600 ${openKey}`],
    ],
    [`[[tls.certificate]]\npkcs12_file = "${open}"`, ['tls.certificate[0].pkcs12_file', 2, 'open to every user']],
    [
      `[[tls.certificate]]\npkcs12_file = "${secret}"\npassphrase_file = "${open}"`,
      ['tls.certificate[0].passphrase_file', 3, 'open to every user'],
    ],
    [
      `${host('a.test').replace('127.0.0.1:3000', 'https://127.0.0.1:3000')}upstream_tls = { cert_file = "${wild.certFile}", key_file = "${openKey}" }`,
      ['external_routes."a.test".upstream_tls.key_file', 4, 'open to every user'],
    ],
  ]);
});

describe('apps', () => {
  const service = (lines: string): string => `runtime = "none"\n[apps.blog.web]\n${lines}`;
  check([
    ['[apps]\nwatch = true', ['apps.watch', 2, 'has no effect without a directory']],
    ['[apps]\ndeploy = "auto"', ['apps.deploy', 2, 'has no effect without a directory']],
    ['[apps]\ndirectory = "apps"\ndeploy = "auto"', ['apps.deploy', 3, 'has no effect without watch']],
    ['[apps]\ndirectory = "apps"\ndeploy = "always"', ['apps.deploy', 3, '"manual" or "auto"']],
    ['[apps]\nhistory = 1', ['apps.history', 2, 'from 2 to 1000']],
    ['[apps]\ndirectoy = "apps"', ['apps.directoy', 2, 'did you mean directory?']],
    ['[apps]\nwatch = { web = {} }', ['apps.watch', 2, 'is a table, not a boolean']],
    ['[apps.Blog.web]\nstart = ["x"]', ['apps.Blog', 1, 'is not the name of an app']],
    ['[apps.my--blog.web]\nstart = ["x"]', ['apps.my--blog', 1, 'single hyphens']],
    ['[apps.blog."Web"]\nstart = ["x"]', ['apps.blog.Web', 1, 'lower-case letters']],
    ['[apps.blog]\nstart = ["x"]', ['apps.blog.start', 2, 'is a list, not a table']],
    [service(''), ['apps.blog.web', 2, 'says nothing']],
    [service('start = "node server.js"'), ['apps.blog.web.start', 3, 'is a string, not a list']],
    [service('start = [""]'), ['apps.blog.web.start[0]', 3, 'the path of a program']],
    [service('start = ["node", "{port}"]')],
    [service('start = ["node"]\naddress = "127.0.0.1:0"')],
    [service('address = "127.0.0.1:0"'), ['apps.blog.web.address', 3, 'start beside it']],
    [service('address = "http://127.0.0.1:3001"'), ['apps.blog.web.address', 3, 'has a scheme']],
    [service('address = "127.0.0.1"'), ['apps.blog.web.address', 3, 'has no port']],
    [service('address = "127.0.0.1:65536"'), ['apps.blog.web.address', 3, 'is not a port']],
    [service('address = "127.0.0.1:3001"\nenv = {}'), ['apps.blog.web.env', 4, 'unknown key env']],
    [service('start = ["node", "{port}"]\naddress = "[::1]:0"')],
    ['runtime = "containerd"', ['runtime', 1, '"auto", "docker", "podman" or "none"']],
    ['[images]\nregistry = "https://registry.example"', ['images.registry', 2, 'more than a host and a port']],
    ['[images]\nallowed_registries = ["*.example"]', ['images.allowed_registries[0]', 2, 'has a wildcard']],
    ['[images]\nallowed_registries = ["r.example/blog"]', ['images.allowed_registries[0]', 2, 'more than a host']],
    ['[images]\nallowed_registries = ["r.example:0"]', ['images.allowed_registries[0]', 2, 'is not a registry']],
    ['[images]\nallowed_registries = ["R.example", "r.example"]', ['images.allowed_registries[1]', 2, 'item 1']],
    ['[images]\nrequire_digest = "yes"', ['images.require_digest', 2, 'true or false']],
    ['[secrets]\nbackend = "vault"', ['secrets.backend', 2, '"file" or "pass"']],
    ['[backups]\nkeep = 0', ['backups.keep', 2, 'from 1 to 10000']],
    ['[telemetry]\nlogs = true', ['telemetry.endpoint', 1, 'is missing']],
    ['[telemetry]\nendpoint = "http://otel.example:4318"\nlogs = true', ['telemetry.endpoint', 2, 'not protected']],
    [
      `[telemetry]\nendpoint = "http://127.0.0.1:4318"\nheaders_file = "${secret}"`,
      ['telemetry.headers_file', 3, 'line 1 is not "Name: value"'],
    ],
  ]);
});

describe('what manifests may name', () => {
  const grant = 'allowed_apps = ["blog"]\nallowed_services = ["web"]';
  const mount = (source: string): string => `[app_mounts.logs]\nsource = "${source}"\n${grant}`;
  check([
    [
      '[app_mounts.logs]\nsource = "/var/log/blog"',
      ['app_mounts.logs.allowed_apps', 1, 'is missing'],
      ['app_mounts.logs.allowed_services', 1, 'is missing'],
    ],
    [
      '[app_mounts.logs]\nsource = "/x"\nallowed_apps = []\nallowed_services = ["web"]',
      ['app_mounts.logs.allowed_apps', 3, 'is empty'],
    ],
    [
      '[app_mounts.logs]\nsource = "/x"\nallowed_apps = ["*"]\nallowed_services = ["web"]',
      ['app_mounts.logs.allowed_apps[0]', 3, 'is not the name of an app'],
    ],
    [
      '[app_mounts.logs]\nsource = "/x"\nallowed_apps = ["blog"]\nallowed_services = ["*"]',
      ['app_mounts.logs.allowed_services[0]', 4, 'is not a name'],
    ],
    [
      '[app_mounts.logs]\nsource = "/x"\nallowed_apps = ["blog", "blog"]\nallowed_services = ["web"]',
      ['app_mounts.logs.allowed_apps[1]', 3, 'the same as item 1'],
    ],
    [`[app_mounts.logs]\n${grant}`, ['app_mounts.logs.source', 1, 'is missing']],
    [`[app_mounts.a--b]\nsource = "/x"\n${grant}`, ['app_mounts.a--b', 1, 'two hyphens']],
    [`[app_mounts."Logs"]\nsource = "/x"\n${grant}`, ['app_mounts.Logs', 1, 'is not a name']],
    [mount('/'), ['app_mounts.logs.source', 2, 'belongs to the system']],
    [mount('/proc/1'), ['app_mounts.logs.source', 2, 'belongs to the system']],
    [mount('/dev/../dev/sda'), ['app_mounts.logs.source', 2, '"/dev/sda" belongs to the system']],
    [mount('/devices')],
    [mount('.turnpike'), ['app_mounts.logs.source', 2, 'holds keys and state of Turnpike']],
    [mount('.turnpike/certs'), ['app_mounts.logs.source', 2, 'holds keys and state of Turnpike']],
    [mount('.turnpike/data/blog')],
    [mount('.turnpike-other')],
    [mount('.'), ['app_mounts.logs.source', 2, 'holds keys and state of Turnpike']],
    [`state_dir = "/var/lib/turnpike"\n${mount('.')}`, ['app_mounts.logs.source', 3, 'holds this configuration']],
    [`[app_devices.gpu]\ncdi = "/dev/dri"\n${grant}`, ['app_devices.gpu.cdi', 2, 'is not a CDI name']],
    [`[app_devices.gpu]\ncdi = []\n${grant}`, ['app_devices.gpu.cdi', 2, 'is empty']],
    [
      `[app_devices.gpu]\ncdi = ["nvidia.com/gpu=0", "nvidia.com/gpu=0"]\n${grant}`,
      ['app_devices.gpu.cdi[1]', 2, 'item 1'],
    ],
    [
      '[app_devices.gpu]\ncdi = "nvidia.com/gpu=all"',
      ['app_devices.gpu.allowed_apps', 1, 'is missing'],
      ['app_devices.gpu.allowed_services', 1, 'is missing'],
    ],
  ]);
});

describe('the gate', () => {
  const app = (line: string): string => `[gate.apps.blog]\n${line}`;
  const route = 'external_routes."a.example.net"';
  const gated = (lines: string, more = ''): string => `${host('a.example.net', lines)}${more}`;
  const oidc = (lines: string): string =>
    `[gate.oidc]\nissuer = "https://id.example"\nclient_id = "t"\nclient_secret_file = "${secret}"\n${lines}`;
  check([
    ['[gate]\nhost = "*.example"', ['gate.host', 2, 'is not a host name']],
    ['[gate]\nport = 0', ['gate.port', 2, 'from 1 to 65535']],
    ['[gate]\nsession_idle = "1s"', ['gate.session_idle', 2, 'out of range']],
    ['[gate]\nsession_idle = "31d"', ['gate.session_idle', 2, 'longer than session_absolute']],
    ['[gate]\nsession_absolute = "1d"', ['gate.session_absolute', 2, 'longer than session_absolute']],
    ['[gate]\ndashboard_origins = ["home.example"]', ['gate.dashboard_origins[0]', 2, 'is not an origin']],
    [
      '[gate]\ndashboard_origins = ["https://home.example:443/"]',
      ['gate.dashboard_origins[0]', 2, '"https://home.example"'],
    ],
    ['[gate]\ndashboard_origins = ["*"]', ['gate.dashboard_origins[0]', 2, 'is not an origin']],
    ['[gate]\nskip_interfaces = ["*"]', ['gate.skip_interfaces[0]', 2, 'is not an interface']],
    ['[gate]\nskip_interfaces = ["eth0/1"]', ['gate.skip_interfaces[0]', 2, 'is not an interface']],
    ['[gate]\nhttps = "require"', ['gate.https', 2, '"allow" or "prefer"']],
    ['[gate]\nenabled = true', ['gate.enabled', 2, 'unknown key enabled in the gate']],
    [`[gate]\nport = 80\n${web}`, ['gate.port', 2, 'clashes with entrypoints.web (line 4)']],
    [
      `${web}[gate]\nhost = "a.example.net"\n${host('A.example.net')}`,
      ['gate.host', 5, 'is the host of an external route (line 6)'],
    ],
    [app('policy = "public"'), ['gate.apps.blog.policy', 2, '"session", "gated", "open", "none" or "local"']],
    [app('policy = "open"'), ['gate.apps.blog', 1, 'rationale beside it']],
    [app('policy = "none"'), ['gate.apps.blog', 1, 'does not say why that is safe']],
    [app('policy = "none"\nrationale = "because"'), ['gate.apps.blog.rationale', 3, 'at least ten characters']],
    [app('policy = "open"\nrationale = "two\\nlines of reason"'), ['gate.apps.blog.rationale', 3, 'one line']],
    [
      app('policy = "gated"\nrationale = "has a login of its own"'),
      ['gate.apps.blog.rationale', 3, 'nothing needs a reason here'],
    ],
    [
      app('policy = "local"\nrationale = "nobody gets there"'),
      ['gate.apps.blog.rationale', 3, '"none" and "open" only'],
    ],
    [app('rationale = "has a login of its own"'), ['gate.apps.blog.rationale', 2, 'nothing needs a reason here']],
    [
      app('policy = "session"\nsession_passthrough = true'),
      ['gate.apps.blog.session_passthrough', 3, 'policy = "gated"'],
    ],
    [app('session_passthrough = true')],
    [app('policy = "local"\nopen_paths = ["/x"]'), ['gate.apps.blog.open_paths', 3, 'the gate does not touch "local"']],
    [app('open_paths = ["webhook"]'), ['gate.apps.blog.open_paths[0]', 2, 'does not begin with "/"']],
    [app('open_paths = ["/a/*/b"]'), ['gate.apps.blog.open_paths[0]', 2, 'elsewhere than as its last segment']],
    [app('open_paths = ["/a*"]'), ['gate.apps.blog.open_paths[0]', 2, 'elsewhere than as its last segment']],
    [app('open_paths = ["/a/../b"]'), ['gate.apps.blog.open_paths[0]', 2, 'is not a plain path']],
    [app('open_paths = ["/a%2fb"]'), ['gate.apps.blog.open_paths[0]', 2, 'nothing encoded']],
    [app('open_paths = ["/a//b"]'), ['gate.apps.blog.open_paths[0]', 2, 'is not a plain path']],
    [app('open_paths = ["/a?x"]'), ['gate.apps.blog.open_paths[0]', 2, 'is not a plain path']],
    [app('open_paths = ["/a\\\\b"]'), ['gate.apps.blog.open_paths[0]', 2, 'is not a plain path']],
    [app('open_paths = ["/a", "/a"]'), ['gate.apps.blog.open_paths[1]', 2, 'item 1']],
    [app('upgrade_open_paths = ["x"]'), ['gate.apps.blog.upgrade_open_paths[0]', 2, 'does not begin']],
    [app('allowed_origins = ["null"]'), ['gate.apps.blog.allowed_origins[0]', 2, 'is not an origin']],
    [app('allowed_origins = ["https://*.example"]'), ['gate.apps.blog.allowed_origins[0]', 2, 'origin']],
    ['[gate.apps.a.example.net]\npolicy = "gated"', ['gate.apps.a.example.net', 1, '[gate.apps."a.example.net"]']],
    [app('polcy = "gated"'), ['gate.apps.blog.polcy', 2, 'did you mean policy?']],
    ['[gate.apps."Not A Host"]', ['gate.apps."Not A Host"', 1, 'neither an app nor a host']],
    ['[gate.apps."b.example.net"]\npolicy = "gated"', ['gate.apps."b.example.net"', 1, 'there is no external route']],
    [
      gated('', '[gate.apps."a.exmple.net"]\npolicy = "gated"'),
      ['gate.apps."a.exmple.net"', 4, 'did you mean "a.example.net"?'],
    ],
    [
      gated('aliases = ["b.example.net"]', '[gate.apps."b.example.net"]\npolicy = "gated"'),
      ['gate.apps."b.example.net"', 4, 'is an alias of a.example.net'],
    ],
    [
      gated('', '[gate.apps."a.example.net"]\npolicy = "gated"\n[gate.apps."A.example.net"]\npolicy = "gated"'),
      ['gate.apps."A.example.net"', 6, 'is the same host as gate.apps."a.example.net"'],
    ],
    [gated('gate = "local"'), [`${route}.gate`, 3, '"session", "gated", "open" or "none"']],
    [gated('gate = "open"'), [`${route}.gate`, 3, 'gate_rationale beside it']],
    [gated('gate = "none"'), [`${route}.gate`, 3, 'lets everybody in']],
    [
      gated('gate = "gated"\ngate_rationale = "has a login of its own"'),
      [`${route}.gate_rationale`, 4, 'nothing needs a reason here'],
    ],
    [gated('gate_rationale = "has a login of its own"'), [`${route}.gate_rationale`, 3, 'nothing needs a reason here']],
    [
      gated('gate = "gated"', '[gate.apps."a.example.net"]\npolicy = "open"\nrationale = "has a login of its own"'),
      [`${route}.gate`, 3, 'has a policy, too (line 5)'],
    ],
    [
      gated('', '[gate.apps."a.example.net"]\npolicy = "local"'),
      ['gate.apps."a.example.net".policy', 5, 'not "local"'],
    ],
    [gated('', '[gate.apps."a.example.net"]\nopen_paths = ["/x"]'), ['gate.apps."a.example.net"', 4, 'has no policy']],
    [
      gated('', '[gate.apps."a.example.net"]\npolicy = "open"'),
      ['gate.apps."a.example.net".policy', 5, 'rationale beside it'],
    ],
    [gated('gate = "open"', '[gate.apps."a.example.net"]\nrationale = "has a login of its own"')],
    [gated('gate = "gated"', '[gate.apps."A.Example.net"]\nopen_paths = ["/webhook/*"]\nsession_passthrough = true')],
    [
      gated('gate = "session"', '[gate.apps."a.example.net"]\nsession_passthrough = true'),
      ['gate.apps."a.example.net".session_passthrough', 5, 'has no effect with "session"'],
    ],
    ['[gate.tor]\ncontrol = "10.0.0.1:9051"', ['gate.tor.control', 2, 'is not a port of this machine']],
    ['[gate.tor]\ncontrol = "unix:run/tor"', ['gate.tor.control', 2, 'has no absolute path']],
    ['[gate.tor]\ncontrol = ":9051"', ['gate.tor.control', 2, 'is not a port of this machine']],
    [
      `[gate.tor]\ncontrol = "127.0.0.1:9051"\npassword_file = "${secret}"\ncookie_file = "/run/c"`,
      ['gate.tor.cookie_file', 4, 'password_file is there, too'],
    ],
    [
      `[gate.tor]\ncontrol = "127.0.0.1:9051"\npassword_file = "${open}"`,
      ['gate.tor.password_file', 3, 'open to every user'],
    ],
    ['[gate.forward_auth]\nurl = "http://auth.example/verify"', ['gate.forward_auth.url', 2, 'not protected']],
    [
      '[gate.forward_auth]\nurl = "https://auth.example/verify"\ncopy_headers = ["Remote User"]',
      ['gate.forward_auth.copy_headers[0]', 3, 'is not a header name'],
    ],
    [
      '[gate.forward_auth]\nurl = "https://auth.example/verify"\ncopy_headers = ["Content-Length"]',
      ['gate.forward_auth.copy_headers[0]', 3, 'written by the proxy'],
    ],
    [
      '[gate.forward_auth]\nurl = "https://auth.example/verify"\ncopy_headers = ["A", "a"]',
      ['gate.forward_auth.copy_headers[1]', 3, 'item 1'],
    ],
    [oidc(''), ['gate.oidc', 1, 'one of allowed_users, allowed_groups and allowed_domains']],
    [oidc('allowed_users = []'), ['gate.oidc', 1, 'lets everybody in']],
    [oidc('allowed_users = ["ada"]\nscopes = ["email"]'), ['gate.oidc.scopes', 6, '"openid" is missing']],
    [oidc('allowed_domains = ["example.net"]\nscopes = ["openid"]'), ['gate.oidc.scopes', 6, '"email" is missing']],
    [oidc('allowed_domains = ["*"]'), ['gate.oidc.allowed_domains[0]', 5, 'is not a host name']],
    [
      oidc('allowed_groups = ["family"]\nclient_secret = "x"'),
      ['gate.oidc.client_secret', 6, 'did you mean client_secret_file?'],
    ],
    [
      `${web}requires_session = "blog"`,
      ['entrypoints.web.requires_session', 4, 'protocol = "http" asks for logins by itself'],
    ],
    [
      `${web.replace('"http"', '"smart_tcp"')}requires_session = "blog"`,
      ['entrypoints.web.requires_session', 4, 'gate in the routes'],
    ],
    [
      `${web.replace('"http"', '"tcp"')}requires_session = "Blog!"`,
      ['entrypoints.web.requires_session', 4, 'neither an app nor a host'],
    ],
  ]);
});

describe('administration over TCP', () => {
  const control = (lines: string): string => `[control]\n${lines}`;
  const pair = `cert_file = "${wild.certFile}"\nkey_file = "${wild.keyFile}"`;
  check([
    [control('address = "127.0.0.1:8081"'), ['control.token_file', 1, 'is missing']],
    [control(`token_file = "${token}"`), ['control.token_file', 2, 'has no effect without an address']],
    [control(`address = "127.0.0.1:8081"\ntoken_file = "${token}"`)],
    [control(`address = "[::1]:8081"\ntoken_file = "${token}"`)],
    [control(`address = ":8081"\ntoken_file = "${token}"`), ['control.address', 2, 'there is no TLS']],
    [control(`address = "192.0.2.1:8081"\ntoken_file = "${token}"`), ['control.address', 2, 'others could listen in']],
    [control(`address = ":8081"\ntoken_file = "${token}"\n${pair}`)],
    [
      control(`address = ":8081"\ntoken_file = "${token}"\ncert_file = "${wild.certFile}"`),
      ['control.key_file', 1, 'cert_file and key_file together'],
    ],
    [control(`address = "127.0.0.1:8081"\ntoken_file = "${short}"`), ['control.token_file', 3, 'holds no token']],
    [
      control(`address = "127.0.0.1:8081"\ntoken_file = "${spaced}"`),
      ['control.token_file', 3, 'openssl rand -hex 32'],
    ],
    [control(`address = "127.0.0.1:8081"\ntoken_file = "${open}"`), ['control.token_file', 3, 'chmod 600']],
    [
      control(`address = "127.0.0.1:8081"\ntoken = "abc"`),
      ['control.token_file', 1, 'is missing'],
      ['control.token', 3, 'did you mean token_file?'],
    ],
    [
      `${control(`address = "127.0.0.1:80"\ntoken_file = "${token}"`)}\n${web}`,
      ['control.address', 2, 'clashes with entrypoints.web'],
    ],
  ]);
});

describe('warnings never fail', () => {
  test.each([
    [`${secure}${host('a.example.net')}${acme('challenge = "http-01"')}`, 'tls.acme', 'asks at port 80'],
    [
      `${web}[entrypoints.s]\naddress = ":8443"\nprotocol = "https"\n${host('a.example.net')}${acme('challenge = "tls-alpn-01"')}`,
      'tls.acme',
      'asks at port 443',
    ],
    [
      `[entrypoints.s]\naddress = ":8443"\nprotocol = "https"\n${host('a.example.net')}${acme('')}`,
      'tls.acme',
      'asks at port 80',
    ],
    [
      `${both}${host('*.wild.example.net')}${acme('')}\n[[tls.certificate]]\npkcs12_file = "${secret}"`,
      'external_routes."*.wild.example.net"',
      'unless one of your own covers it',
    ],
    [
      `${both}${host('a.example.net', 'tls = "never"\ngate = "gated"')}[tls.internal_ca]\nenabled = true`,
      'external_routes."a.example.net".gate',
      'would pass in plaintext',
    ],
    [`${web}${host('a.example.net')}[gate]\nhost = "home.example.net"`, 'gate.host', 'no https entrypoint serves it'],
    [
      `runtime = "docker"\n${web}${host('a.example.net')}[apps.blog.web]\naddress = "127.0.0.1:3001"`,
      'apps.blog.web',
      'runtime = "docker" runs containers',
    ],
    [
      `${web}${host('a.example.net')}[app_mounts.engine]\nsource = "/run/docker.sock"\nallowed_apps = ["blog"]\nallowed_services = ["web"]`,
      'app_mounts.engine.source',
      'has the machine',
    ],
    [`${web}${host('a.example.net')}[backups]\nkeep = 3`, 'backups', 'in this version'],
    [
      `${web}${host('a.example.net')}[telemetry]\nendpoint = "http://127.0.0.1:4318"\ntraces = true`,
      'telemetry.traces',
      'in this version',
    ],
  ])('%s', async (text, key, words) => {
    const result = await read(text);
    const { warnings } = result;
    expect(result.ok ? [] : result.problems).toEqual([]);
    expect(warnings.map(formatProblem).join('\n')).toContain(words);
    expect(warnings.map((warning) => warning.key)).toEqual([key]);
  });

  test.each([
    `${both}${host('a.example.net')}${acme('')}`,
    `[entrypoints.web]\naddress = ":8080"\npublic_port = 80\nprotocol = "http"\n${host('a.example.net')}${acme('')}`,
    `${both}${host('a.example.net', 'gate = "gated"')}${acme('')}[gate]\nhost = "home.example.net"`,
  ])('a sound configuration has none: %s', async (text) => {
    const { warnings } = await read(text);
    expect(warnings.map(formatProblem)).toEqual([]);
  });
});

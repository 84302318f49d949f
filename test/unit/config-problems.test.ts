// Every kind of bad input, and what the operator is told: key path, line, and words that say what is wrong.
// A row lists all problems of its text, so that a missing one and a superfluous one both fail.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { formatProblem, readConfig } from '../../src/config/load.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-problems-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
const empty = join(directory, 'empty');
writeFileSync(empty, '', { mode: 0o600 });
const large = join(directory, 'large');
writeFileSync(large, Buffer.alloc(1024 * 1024 + 1, 'x'));

type Expected = readonly [key: string, line: number, words: string];
type Row = readonly [text: string, ...expected: Expected[]];

async function problemsOf(text: string) {
  const result = await readConfig(text, 'config.toml');
  return result.ok ? [] : result.problems;
}

async function warningsOf(text: string) {
  const result = await readConfig(text, 'config.toml');
  expect(result.ok ? [] : result.problems).toEqual([]);
  return result.warnings;
}

function check(rows: readonly Row[]): void {
  const cases = rows.map(([text, ...expected]) => ({ text, expected }));
  test.each(cases)('$text', async ({ text, expected }) => {
    const problems = await problemsOf(text);
    const seen = problems.map(({ key, line }) => [key, line]);
    expect(seen, problems.map(formatProblem).join('\n')).toEqual(expected.map(([key, line]) => [key, line]));
    for (const [i, [, , words]] of expected.entries()) {
      expect(`${problems[i]!.message} | ${problems[i]!.accepted}`).toContain(words);
    }
  });
}

const route = 'external_routes."a.test"';
const inRoute = (line: string): string => `[${route}]\nto = "127.0.0.1:3000"\n${line}`;
const inPath = (line: string): string => `[${route}]\nto = "127.0.0.1:3000"\n[[${route}.routes]]\npath = "/p"\n${line}`;
const inEntrypoint = (line: string): string => `[entrypoints.web]\nprotocol = "http"\n${line}`;

describe('TOML that is none', () => {
  check([
    ['a = ', ['', 1, 'not TOML']],
    ['[tls]\nredirect = yes', ['', 2, 'not TOML']],
    ['x = "open', ['', 1, 'unfinished string']],
    ['[a.b.c]\nz=9\n[[u]]\nx=1\n[a]\nb.c.t="no"', ['', 6, 'redefine']],
    ['r={p={},p.x=1}', ['', 1, 'redefine']],
    ['workers=1\n"workers"=2', ['', 2, 'redefine']],
    ['[log]\nlevel = "info"\n[log]\naccess = true', ['', 3, 'redefine']],
    ['[tls\nredirect = true', ['', 1, 'not TOML']],
    ['workers = 01', ['', 1, 'not TOML']],
    [`a = ${'['.repeat(2000)}`, ['', 1, 'not TOML']],
  ]);
});

describe('unknown keys', () => {
  check([
    ['state_dri = "x"', ['state_dri', 1, 'did you mean state_dir?']],
    ['prot = 1', ['prot', 1, 'unknown key prot in the configuration']],
    ['[entrypoint.web]', ['entrypoint', 1, 'did you mean entrypoints?']],
    ['[__proto__]\nadmin = true', ['__proto__', 1, 'unknown key __proto__']],
    ['a.constructor.prototype.x = 1', ['a', 1, 'unknown key a']],
    ['[constructor.prototype]\nx = 1', ['constructor', 1, 'unknown key constructor']],
    [inRoute('__proto__ = { admin = true }'), [`${route}.__proto__`, 3, 'unknown key __proto__']],
    [inRoute('balence = "round_robin"'), [`${route}.balence`, 3, 'did you mean balance?']],
    [inRoute('upstream = "127.0.0.1:1"'), [`${route}.upstream`, 3, 'did you mean to?']],
    [inRoute('hold = "30s"'), [`${route}.hold`, 3, 'did you mean max_hold?']],
    [inRoute('"to " = "127.0.0.1:1"'), [`${route}."to "`, 3, 'unknown key "to "']],
    [inRoute('health = { pth = "/up" }'), [`${route}.health.pth`, 3, 'did you mean path?']],
    [inEntrypoint('address = ":80"\nlisten = ":81"'), ['entrypoints.web.listen', 4, 'did you mean address?']],
    ['[tls]\nredirects = true', ['tls.redirects', 2, 'did you mean redirect?']],
    ['[tls.internal_ca]\nenable = true', ['tls.internal_ca.enable', 2, 'did you mean enabled?']],
    ['[limits]\nheader_time = "1s"', ['limits.header_time', 2, 'unknown key header_time in limits']],
    ['[log]\nlvl = "info"', ['log.lvl', 2, 'level, access, format']],
    ['[metrics]\nadress = ":9"', ['metrics.adress', 2, 'did you mean address?']],
  ]);
});

describe('keys in the wrong place', () => {
  check([
    [inPath('gate = "open"'), [`${route}.routes[0].gate`, 5, 'a host has one gate for all its paths']],
    [inPath('certificate = "acme"'), [`${route}.routes[0].certificate`, 5, 'holds for the whole host']],
    ['header_timeout = "5s"', ['header_timeout', 1, 'limits.header_timeout']],
    [inRoute('header_timeout = "5s"'), [`${route}.header_timeout`, 3, 'is judged before a route is known']],
    [inRoute('hold_size = "1MiB"'), [`${route}.hold_size`, 3, 'limits.hold_size']],
    [inEntrypoint('address = ":80"\nbody_size = "1MB"'), ['entrypoints.web.body_size', 4, 'belongs to a route']],
    [inEntrypoint('address = ":80"\ndrain = "1s"'), ['entrypoints.web.drain', 4, 'belongs to the backends']],
    [inEntrypoint('address = ":80"\nconnections = 5'), ['entrypoints.web.connections', 4, 'max_connections']],
    [inPath('tls = "never"'), [`${route}.routes[0].tls`, 5, 'holds for the whole host']],
    [inPath('aliases = ["b.test"]'), [`${route}.routes[0].aliases`, 5, 'holds for the whole host']],
    [inRoute('path = "/x"'), [`${route}.path`, 3, 'a host covers every path']],
    [inRoute('strip_prefix = true'), [`${route}.strip_prefix`, 3, 'strip_prefix needs a path']],
  ]);
});

describe('values of the wrong type or out of range', () => {
  check([
    ['workers = 0', ['workers', 1, '0 is out of range']],
    ['workers = 2.0', ['workers', 1, '2.0 is a float, not an integer']],
    ['workers = "two"', ['workers', 1, '"two" is not a number of workers']],
    ['workers = true', ['workers', 1, 'true is a boolean']],
    ['state_dir = 5', ['state_dir', 1, '5 is an integer, not a string']],
    ['state_dir = ""', ['state_dir', 1, '"" is not a path']],
    ['trusted_proxies = "10.0.0.0/8"', ['trusted_proxies', 1, 'not a list']],
    ['tls = true', ['tls', 1, 'true is a boolean, not a table | a table with the keys redirect, profile, min_version']],
    ['entrypoints = []', ['entrypoints', 1, 'not a table']],
    ['external_routes = "x"', ['external_routes', 1, 'not a table']],
    ['[tls]\nredirect = "yes"', ['tls.redirect', 2, '"yes" is a string, not a boolean']],
    ['[tls]\nmin_version = 1.2', ['tls.min_version', 2, '1.2 is a float, not a string']],
    ['[tls]\nmin_version = "1.1"', ['tls.min_version', 2, '"1.2" or "1.3"']],
    ['[tls]\ncertificate = { cert_file = "x" }', ['tls.certificate', 2, 'not a list']],
    ['[log]\nlevel = "Info"', ['log.level', 2, 'did you mean "info"?']],
    ['[log]\nformat = "xml"', ['log.format', 2, '"auto", "json" or "pretty"']],
    [inEntrypoint('address = ":80"\npublic_port = 8080.0'), ['entrypoints.web.public_port', 4, '8080.0 is a float']],
    [inEntrypoint('address = ":80"\npublic_port = 1e3'), ['entrypoints.web.public_port', 4, '1e3 is a float']],
    [inEntrypoint('address = ":80"\npublic_port = 65536'), ['entrypoints.web.public_port', 4, 'out of range']],
    [inEntrypoint('address = ":80"\npublic_port = 0'), ['entrypoints.web.public_port', 4, 'from 1 to 65535']],
    [inEntrypoint('address = ":80"\npublic_port = -1'), ['entrypoints.web.public_port', 4, '-1 is out of range']],
    [
      inEntrypoint('address = ":80"\npublic_port = "443"'),
      ['entrypoints.web.public_port', 4, 'is a string, not an integer'],
    ],
    [
      inEntrypoint('address = ":80"\npublic_port = 9007199254740993'),
      ['entrypoints.web.public_port', 4, '9007199254740993 is out of range'],
    ],
    ['[limits]\nheader_timeout = 1979-05-27', ['limits.header_timeout', 2, '1979-05-27 is a date or time']],
    ['[limits]\nheader_timeout = 07:32:00', ['limits.header_timeout', 2, 'is a date or time']],
    ['[limits]\nheader_timeout = inf', ['limits.header_timeout', 2, 'inf is a float']],
    ['[limits]\nheader_timeout = -1', ['limits.header_timeout', 2, '-1 is an integer, not a string']],
    ['[limits]\nheader_timeout = 30', ['limits.header_timeout', 2, 'a duration like "30s"']],
    ['[limits]\nheader_timeout = "30"', ['limits.header_timeout', 2, '"30" is not a duration with a unit']],
    ['[limits]\nheader_timeout = "30 s"', ['limits.header_timeout', 2, 'is not a duration']],
    ['[limits]\nheader_timeout = "-5s"', ['limits.header_timeout', 2, 'is not a duration']],
    ['[limits]\nheader_timeout = "0s"', ['limits.header_timeout', 2, 'out of range']],
    ['[limits]\nheader_timeout = "unlimited"', ['limits.header_timeout', 2, 'is not a duration']],
    ['[limits]\nbody_size = 1000', ['limits.body_size', 2, 'a size like "32KiB"']],
    ['[limits]\nbody_size = "10 megabytes"', ['limits.body_size', 2, 'is not a size with a unit']],
    ['[limits]\nbody_size = "10mb"', ['limits.body_size', 2, 'is not a size with a unit']],
    ['[limits]\nconnections = "many"', ['limits.connections', 2, 'or "unlimited"']],
    ['[limits]\nconnections = 1e3', ['limits.connections', 2, '1e3 is a float']],
    ['[limits]\nheader_count = "unlimited"', ['limits.header_count', 2, 'is a string, not an integer']],
    ['[limits]\ntarget_size = "64KiB"', ['limits.target_size', 2, 'target_size is larger than header_size']],
    [
      '[entrypoints.web]\naddress = ":80"\nprotocol = "http"\nheader_size = "4KiB"',
      ['entrypoints.web.header_size', 4, 'target_size is larger than header_size'],
    ],
    [inRoute('tls = "Always"'), [`${route}.tls`, 3, 'did you mean "always"?']],
    [inRoute('tls = true'), [`${route}.tls`, 3, 'true is a boolean']],
    [inRoute('retry = 3'), [`${route}.retry`, 3, '3 is an integer, not a boolean']],
    [inRoute('sticky = 1'), [`${route}.sticky`, 3, 'true, false or the name of a cookie']],
    [inRoute('sticky = "a b"'), [`${route}.sticky`, 3, '"a b" is not a name']],
    [inRoute('balance = "leastconn"'), [`${route}.balance`, 3, 'is not a way to balance']],
    [inRoute('protocol = "h3"'), [`${route}.protocol`, 3, 'is not a protocol of backends']],
    [inRoute('compression = "gzip"'), [`${route}.compression`, 3, 'true, false or a table']],
    [inRoute('compression = { encodings = ["deflate"] }'), [`${route}.compression.encodings[0]`, 3, '"deflate"']],
    [inRoute('compression = { encodings = [] }'), [`${route}.compression.encodings`, 3, 'is empty']],
    [
      inRoute('compression = { encodings = ["br", "br"] }'),
      [`${route}.compression.encodings[1]`, 3, 'the same as item 1'],
    ],
    [inRoute('compression = { types = ["html"] }'), [`${route}.compression.types[0]`, 3, 'is not a media type']],
    [inRoute('rate_limit = 100'), [`${route}.rate_limit`, 3, 'not a table']],
    [inRoute('rate_limit = { per = "1s" }'), [`${route}.rate_limit.requests`, 3, 'is missing']],
    [inRoute('rate_limit = { requests = 0 }'), [`${route}.rate_limit.requests`, 3, 'out of range']],
    [inRoute('health = "/up"'), [`${route}.health`, 3, 'not a table']],
    [inRoute('health = { path = "up" }'), [`${route}.health.path`, 3, '"up" is not a path']],
    [inRoute('health = { type = "grpc" }'), [`${route}.health.type`, 3, '"http" or "tcp"']],
    [inRoute('health = { type = "tcp", path = "/" }'), [`${route}.health.path`, 3, 'asks for no path']],
    [inRoute('health = { interval = "1ms" }'), [`${route}.health.interval`, 3, 'out of range']],
    [inRoute('health = { unhealthy_after = 0 }'), [`${route}.health.unhealthy_after`, 3, 'out of range']],
    [inRoute('passive_health = { failures = -1 }'), [`${route}.passive_health.failures`, 3, 'out of range']],
    [inRoute('hsts = true'), [`${route}.hsts`, 3, 'a duration like "365d", or a table']],
    [inRoute('hsts = { include_subdomains = true }'), [`${route}.hsts.max_age`, 3, 'is missing']],
    [inRoute('hsts = { max_age = "1d", preload = true }'), [`${route}.hsts.preload`, 3, 'for a year']],
    [inRoute('max_hold = "2h"'), [`${route}.max_hold`, 3, 'out of range']],
    [inRoute('routes = { path = "/" }'), [`${route}.routes`, 3, 'not a list']],
    [inRoute('routes = ["/"]'), [`${route}.routes[0]`, 3, 'not a table']],
  ]);
});

describe('entrypoints and addresses', () => {
  check([
    ['[entrypoints.web]\nprotocol = "http"', ['entrypoints.web.address', 1, 'is missing']],
    ['[entrypoints.web]\naddress = ":80"', ['entrypoints.web.protocol', 1, 'is missing']],
    ['[entrypoints.web]', ['entrypoints.web.address', 1, 'is missing'], ['entrypoints.web.protocol', 1, 'is missing']],
    [inEntrypoint('address = 80'), ['entrypoints.web.address', 3, '80 is an integer, not a string']],
    [inEntrypoint('address = "80"'), ['entrypoints.web.address', 3, '":80"']],
    [inEntrypoint('address = "localhost:80"'), ['entrypoints.web.address', 3, '"127.0.0.1:80"']],
    [inEntrypoint('address = "example.com:80"'), ['entrypoints.web.address', 3, 'is not an IP address']],
    [inEntrypoint('address = "::1:80"'), ['entrypoints.web.address', 3, '"[::1]:80"']],
    [inEntrypoint('address = "[::1]"'), ['entrypoints.web.address', 3, 'is not an address to listen on']],
    [inEntrypoint('address = ":0"'), ['entrypoints.web.address', 3, '"0" is not a port']],
    [inEntrypoint('address = ":65536"'), ['entrypoints.web.address', 3, 'is not a port']],
    [inEntrypoint('address = "http://:80"'), ['entrypoints.web.address', 3, 'is not an IP address']],
    [inEntrypoint('address = ":80"\nprotocol = "http"'), ['', 4, 'redefine']],
    [
      '[entrypoints."my web"]\naddress = ":80"\nprotocol = "http"',
      ['entrypoints."my web"', 1, '"my web" is not a name'],
    ],
    ['[entrypoints.w]\naddress = ":80"\nprotocol = "quic"', ['entrypoints.w.protocol', 3, '"quic" is not a protocol']],
    [
      '[entrypoints.a]\naddress = ":443"\nprotocol = "http"\n[entrypoints.b]\naddress = "0.0.0.0:443"\nprotocol = "https"',
      ['entrypoints.b.address', 5, 'clashes with entrypoints.a (line 2)'],
    ],
    [
      '[entrypoints.a]\naddress = "127.0.0.1:80"\nprotocol = "http"\n[entrypoints.b]\naddress = "[::]:80"\nprotocol = "http"',
      ['entrypoints.b.address', 5, 'clashes with entrypoints.a (line 2)'],
    ],
    [
      '[entrypoints.a]\naddress = "[::1]:80"\nprotocol = "http"\n[entrypoints.b]\naddress = "[0:0::1]:80"\nprotocol = "http"',
      ['entrypoints.b.address', 5, 'clashes with entrypoints.a (line 2)'],
    ],
    [
      '[entrypoints.a]\naddress = "127.0.0.1:80"\nprotocol = "http"\n[entrypoints.b]\naddress = "[::ffff:127.0.0.1]:80"\nprotocol = "http"',
      ['entrypoints.b.address', 5, 'clashes with entrypoints.a (line 2)'],
    ],
    [
      '[metrics]\naddress = "127.0.0.1:80"\n[entrypoints.a]\naddress = ":80"\nprotocol = "http"',
      ['metrics.address', 2, 'clashes with entrypoints.a (line 4)'],
    ],
    ['trusted_proxies = ["10.0.0.0/33"]', ['trusted_proxies[0]', 1, '/0 to /32']],
    ['trusted_proxies = ["10.0.0.1/8"]', ['trusted_proxies[0]', 1, '"10.0.0.0/8"']],
    ['trusted_proxies = ["fd00::1/8"]', ['trusted_proxies[0]', 1, 'bits beyond its prefix']],
    ['trusted_proxies = ["fd00::/129"]', ['trusted_proxies[0]', 1, '/0 to /128']],
    ['trusted_proxies = ["10.0.0.0/8/8"]', ['trusted_proxies[0]', 1, 'is not a network']],
    ['trusted_proxies = ["10.0.0/8"]', ['trusted_proxies[0]', 1, 'is not a network']],
    ['trusted_proxies = ["cdn.test"]', ['trusted_proxies[0]', 1, 'is not a network']],
    ['trusted_proxies = ["::ffff:10.0.0.1"]', ['trusted_proxies[0]', 1, 'is an IPv4 network']],
    [
      'trusted_proxies = [\n"10.0.0.0/8",\n5,\n"10.0.0.0/8"]',
      ['trusted_proxies[1]', 3, 'is an integer'],
      ['trusted_proxies[2]', 4, 'the same as item 1'],
    ],
    [
      inEntrypoint('address = ":80"\ntrusted_cidrs = ["x"]'),
      ['entrypoints.web.trusted_cidrs[0]', 4, 'is not a network'],
    ],
  ]);
});

describe('TLS', () => {
  check([
    ['[tls]\nprofile = "modern"\nmin_version = "1.2"', ['tls.min_version', 3, 'the profile modern is TLS 1.3 only']],
    ['[tls]\nprofile = "old"', ['tls.profile', 2, '"intermediate" or "modern"']],
    ['[[tls.certificate]]', ['tls.certificate[0]', 1, 'cert_file and key_file, or pkcs12_file']],
    [`[[tls.certificate]]\ncert_file = "${empty}"`, ['tls.certificate[0]', 1, 'is not one certificate']],
    [
      `[[tls.certificate]]\ncert_file = "${empty}"\nkey_file = "${empty}"\npkcs12_file = "${empty}"`,
      ['tls.certificate[0]', 1, 'is not one certificate'],
    ],
    [
      '[[tls.certificate]]\ncert_file = "no.pem"\nkey_file = "no.key"',
      ['tls.certificate[0].cert_file', 2, 'does not exist'],
      ['tls.certificate[0].key_file', 3, 'does not exist'],
    ],
    [
      `[[tls.certificate]]\npkcs12_file = "${empty}"\ndefault = true\n[[tls.certificate]]\npkcs12_file = "${empty}"\ndefault = true`,
      ['tls.certificate[1].default', 6, 'is the second default (line 3)'],
    ],
    [
      `[tls]\ndefault_certificate = "a.test"\n[[tls.certificate]]\npkcs12_file = "${empty}"\ndefault = true`,
      ['tls.certificate[0].default', 5, 'tls.default_certificate names another (line 2)'],
    ],
    [
      `[[tls.certificate]]\ncert_file = "${empty}"\npkcs12_file = "${empty}"`,
      ['tls.certificate[0]', 1, 'is not one certificate'],
    ],
    [
      `[[tls.certificate]]\ncert_file = "${empty}"\npkcs12_file = "${empty}"`,
      ['tls.certificate[0]', 1, 'is not one certificate'],
    ],
    ['[tls]\ndefault_certificate = "*.a.test"', ['tls.default_certificate', 2, 'is not a host name']],
    [
      'tls.certificate = [{ cert = "x" }, 7]',
      ['tls.certificate[0].cert', 1, 'unknown key cert'],
      ['tls.certificate[1]', 1, 'is an integer, not a table'],
    ],
    [
      inRoute('client_auth = { mode = "always", ca_file = "x" }'),
      [`${route}.client_auth.mode`, 3, 'is not a mode'],
      [`${route}.client_auth.ca_file`, 3, 'does not exist'],
    ],
    [inRoute('tls = "always"\nclient_auth = {}'), [`${route}.client_auth.ca_file`, 4, 'is missing']],
    [
      inRoute(`tls = "always"\nclient_auth = { ca_file = "${empty}" }`),
      [`${route}.client_auth.ca_file`, 4, 'holds no certificate'],
    ],
    [inRoute('min_version = "TLSv1.3"'), [`${route}.min_version`, 3, 'is not a TLS version']],
  ]);
});

describe('hosts', () => {
  const host = (key: string): string => `[external_routes]\n${key} = "127.0.0.1:3000"`;
  check([
    [host('"a.test,b.test"'), ['external_routes."a.test,b.test"', 2, 'is not one host']],
    [host('"https://a.test"'), ['external_routes."https://a.test"', 2, 'only the host: "a.test"']],
    [host('"a.test/"'), ['external_routes."a.test/"', 2, 'only the host: "a.test"']],
    [host('"a.test/api"'), ['external_routes."a.test/api"', 2, 'is a URL']],
    [host('""'), ['external_routes.""', 2, 'is empty']],
    [host('"a.test:8080"'), ['external_routes."a.test:8080"', 2, 'the entrypoints decide the port']],
    [host('"a..test"'), ['external_routes."a..test"', 2, 'is not a host']],
    [host('"a.test.."'), ['external_routes."a.test.."', 2, 'is not a host']],
    [host('".a.test"'), ['external_routes.".a.test"', 2, 'is not a host']],
    [host('"a b.test"'), ['external_routes."a b.test"', 2, 'is not one host']],
    [host('"user@a.test"'), ['external_routes."user@a.test"', 2, 'is not a host']],
    [host('"::1"'), ['external_routes."::1"', 2, '"[::1]"']],
    [host('"[::1"'), ['external_routes."[::1"', 2, 'is not a host']],
    [host('"*a.test"'), ['external_routes."*a.test"', 2, 'is not a wildcard']],
    [host('"a.*.test"'), ['external_routes."a.*.test"', 2, '"*.example.com" for exactly one label']],
    [host('"**.test"'), ['external_routes."**.test"', 2, 'is not a wildcard']],
    [host('"*.127.0.0.1"'), ['external_routes."*.127.0.0.1"', 2, 'is not a wildcard']],
    [host(`"${'a'.repeat(64)}.test"`), [`external_routes."${'a'.repeat(64)}.test"`, 2, 'is not a host']],
    [
      '[external_routes]\n"a.test" = "127.0.0.1:1"\n"A.TEST." = "127.0.0.1:2"',
      ['external_routes."A.TEST."', 3, 'is the same host as "a.test" (line 2)'],
    ],
    [
      '[external_routes."bücher.test"]\nto = "127.0.0.1:1"\n[external_routes."xn--bcher-kva.test"]\nto = "127.0.0.1:2"',
      ['external_routes."xn--bcher-kva.test"', 3, 'is the same host as "bücher.test" (line 1)'],
    ],
    [
      '[external_routes]\n"[::1]" = "127.0.0.1:1"\n"[0:0:0:0:0:0:0:1]" = "127.0.0.1:2"',
      ['external_routes."[0:0:0:0:0:0:0:1]"', 3, '(line 2): [::1]'],
    ],
    [
      '[external_routes]\n"b.test" = "127.0.0.1:1"\n[external_routes."a.test"]\nto = "127.0.0.1:2"\naliases = ["B.test"]',
      ['external_routes."a.test".aliases[0]', 5, 'is the same host as "b.test" (line 2)'],
    ],
    [inRoute('aliases = ["https://b.test"]'), [`${route}.aliases[0]`, 3, 'only the host']],
    [
      '[external_routes.legacy.example.com]\nto = "127.0.0.1:1"',
      ['external_routes.legacy.example.com', 1, '[external_routes."legacy.example.com"]'],
    ],
    [
      '[external_routes]\nlegacy.example.com = "127.0.0.1:1"',
      ['external_routes.legacy.example.com', 2, '"legacy.example.com" = …'],
    ],
    ['external_routes.legacy.test = "127.0.0.1:1"', ['external_routes.legacy.test', 1, '"legacy.test" = …']],
    [
      '[external_routes.127.0.0.1]\nto = "127.0.0.1:1"',
      ['external_routes.127.0.0.1', 1, '[external_routes."127.0.0.1"]'],
    ],
    [
      '[external_routes.app.example.com]\nto = "127.0.0.1:1"\n[external_routes.app.example.org]\nto = "127.0.0.1:2"',
      ['external_routes.app.example.com', 1, '[external_routes."app.example.com"]'],
      ['external_routes.app.example.org', 3, '[external_routes."app.example.org"]'],
    ],
    [
      '[[external_routes.app.example.com.routes]]\npath = "/"\nto = "127.0.0.1:1"',
      ['external_routes.app.example.com', 1, 'tables inside tables'],
    ],
    [
      '[external_routes.localhost]\nto = "127.0.0.1:1"\n[external_routes.localhost.helth]\npath = "/"',
      ['external_routes.localhost.helth', 3, 'did you mean health?'],
    ],
    [
      '[external_routes.localhost]\nto = "127.0.0.1:1"\nbackend = "127.0.0.1:2"',
      ['external_routes.localhost.backend', 3, 'did you mean to?'],
    ],
    [inRoute('entrypoints = ["web"]'), [`${route}.entrypoints[0]`, 3, 'there is no entrypoint "web"']],
    [
      `[entrypoints.web]\naddress = ":80"\nprotocol = "http"\n${inRoute('entrypoints = ["wbe"]')}`,
      [`${route}.entrypoints[0]`, 6, 'did you mean "web"?'],
    ],
    ['[external_routes.localhost]', ['external_routes.localhost', 1, 'has no answer']],
    [
      '[external_routes]\napp = { example = { com = { to = "127.0.0.1:1" } } }',
      ['external_routes.app.example.com', 2, 'tables inside tables'],
    ],
    [
      '[external_routes]\n"app" = { to = "127.0.0.1:1", example = { com = { to = "127.0.0.1:1" } } }',
      ['external_routes.app.example', 2, 'unknown key example'],
    ],
    [inRoute('entrypoints = [5, "nope"]'), [`${route}.entrypoints[0]`, 3, '5 is an integer']],
    [inRoute('entrypoints = []'), [`${route}.entrypoints`, 3, 'is empty']],
    [inRoute('entrypoints = "web"'), [`${route}.entrypoints`, 3, 'not a list']],
  ]);
});

describe('backends', () => {
  const to = (value: string): string => `[${route}]\nto = ${value}`;
  check([
    [to('[]'), [`${route}.to`, 2, 'is empty']],
    [to('3000'), [`${route}.to`, 2, '3000 is an integer']],
    [to('""'), [`${route}.to`, 2, 'has no port']],
    [to('"127.0.0.1"'), [`${route}.to`, 2, '"127.0.0.1" has no port']],
    [to('":3000"'), [`${route}.to`, 2, '"" is not a host']],
    [to('"a.test:0"'), [`${route}.to`, 2, 'is not a port']],
    [to('"a.test:65536"'), [`${route}.to`, 2, 'is not a port']],
    [to('"a.test:http"'), [`${route}.to`, 2, 'is not a port']],
    [to('"::1:9000"'), [`${route}.to`, 2, '"[::1]:9000"']],
    [to('"[::1]"'), [`${route}.to`, 2, 'has no port']],
    [to('"127.0.0.300:80"'), [`${route}.to`, 2, 'is not an IPv4 address']],
    [to('"a.test:80/api"'), [`${route}.to`, 2, 'use replace_prefix']],
    [to('"http://a.test:80/"'), [`${route}.to`, 2, 'is more than an address']],
    [to('"ftp://a.test:21"'), [`${route}.to`, 2, 'is not a protocol of backends']],
    [to('"a.test:1,b.test:2"'), [`${route}.to`, 2, 'a list of strings']],
    [to('"user@a.test:1"'), [`${route}.to`, 2, 'is more than an address']],
    [to('["a.test:1", "A.TEST:1"]'), [`${route}.to[1]`, 2, 'the same as item 1']],
    [to('["a.test:1", 2, "b"]'), [`${route}.to[1]`, 2, 'is an integer'], [`${route}.to[2]`, 2, 'has no port']],
    [to('["http://a.test:1", "https://b.test:2"]'), [`${route}.to`, 2, 'speak one protocol']],
    [to('"https://a.test:1"\nprotocol = "http1"'), [`${route}.protocol`, 3, 'the scheme in to means "https"']],
    [
      to('"a.test:1"\nupstream_tls = { verify = false }'),
      [`${route}.upstream_tls`, 3, 'there is no TLS with the protocol http1'],
    ],
    [
      to(`"https://a.test:1"\nupstream_tls = { cert_file = "${empty}" }`),
      [`${route}.upstream_tls.key_file`, 3, 'is missing'],
      [`${route}.upstream_tls.cert_file`, 3, 'holds no certificate'],
    ],
    [
      to('"https://a.test:1"\nupstream_tls = { ca_file = "/none.pem" }'),
      [`${route}.upstream_tls.ca_file`, 3, 'does not exist'],
    ],
    [
      to('"https://a.test:1"\nupstream_tls = { sni = "https://b" }'),
      [`${route}.upstream_tls.sni`, 3, 'is not a host name'],
    ],
    [to('"a.test:1"\nbalance = "hash_header"'), [`${route}.balance_key`, 1, 'is missing with balance = "hash_header"']],
    [to('"a.test:1"\nbalance_key = "X-A"'), [`${route}.balance_key`, 3, 'has no effect']],
    [to('"a.test:1"\nhost_header = "a b"'), [`${route}.host_header`, 3, 'is not a host']],
    ['[external_routes]\n"a.test" = ["a:1", "b"]', [`${route}[1]`, 2, 'has no port']],
    ['[external_routes]\n"a.test" = 3000', [route, 2, '3000 is an integer']],
  ]);
});

describe('answers and paths of a route', () => {
  check([
    ['[external_routes."a.test"]', [route, 1, 'has no answer']],
    ['[external_routes."a.test"]\nroutes = []', [route, 1, 'has no answer']],
    [
      `[${route}]\nreplace_prefix = "/x"\n[[${route}.routes]]\npath = "/p"\nto = "127.0.0.1:1"`,
      [`${route}.replace_prefix`, 2, 'nothing is forwarded here'],
    ],
    [inRoute('redirect = "/x"'), [`${route}.redirect`, 3, 'one of to, redirect']],
    [inRoute('respond = { status = 200 }'), [`${route}.respond`, 3, 'a route has one answer']],
    [`[${route}]\nredirect = "/x"\ndrain = "1s"`, [`${route}.drain`, 3, 'there is no to here']],
    [`[${route}]\nredirect = "/x"\nreplace_prefix = "/y"`, [`${route}.replace_prefix`, 3, 'nothing is forwarded here']],
    [`[${route}]\nredirect = "evil.test"`, [`${route}.redirect`, 2, 'is neither a URL nor a path']],
    [`[${route}]\nredirect = "//evil.test"`, [`${route}.redirect`, 2, 'is neither a URL nor a path']],
    [`[${route}]\nredirect = "{uri}"`, [`${route}.redirect`, 2, 'is neither a URL nor a path']],
    [`[${route}]\nredirect = "/{uri}"`, [`${route}.redirect`, 2, 'is neither a URL nor a path']],
    [`[${route}]\nredirect = "https://{domain}/"`, [`${route}.redirect`, 2, '{host} and {uri}']],
    [`[${route}]\nredirect = "javascript:alert(1)"`, [`${route}.redirect`, 2, 'is neither a URL nor a path']],
    [
      `[${route}]\nredirect = { to = "/x", status = 200 }`,
      [`${route}.redirect.status`, 2, '301, 302, 303, 307 or 308'],
    ],
    [`[${route}]\nredirect = { status = 301 }`, [`${route}.redirect.to`, 2, 'is missing']],
    [`[${route}]\nrespond = "ok"`, [`${route}.respond`, 2, 'is a string, not a table']],
    [`[${route}]\nrespond = { status = 101 }`, [`${route}.respond.status`, 2, 'from 200 to 599']],
    [`[${route}]\nrespond = { status = 204, body = "x" }`, [`${route}.respond.body`, 2, 'an answer 204 has no body']],
    [
      `[${route}]\nrespond = { body = "x", body_file = "${empty}" }`,
      [`${route}.respond.body_file`, 2, 'body is there too'],
    ],
    [`[${route}]\nrespond = { body_file = "/" }`, [`${route}.respond.body_file`, 2, 'is a directory']],
    [`[${route}]\nrespond = { body_file = "/dev/zero" }`, [`${route}.respond.body_file`, 2, 'is not a file']],
    [
      `[${route}]\nrespond = { headers = { "Content-Length" = "5" } }`,
      [`${route}.respond.headers.Content-Length`, 2, 'is written by the proxy itself'],
    ],
    [inPath('').replace('path = "/p"', ''), [`${route}.routes[0].path`, 3, 'is missing']],
    [inPath('').replace('/p', 'p'), [`${route}.routes[0].path`, 4, 'does not begin with "/"']],
    [inPath('').replace('/p', '/p/'), [`${route}.routes[0].path`, 4, 'ends with a slash']],
    [inPath('').replace('/p', '/p/*'), [`${route}.routes[0].path`, 4, '"/p" covers everything below']],
    [inPath('').replace('/p', '/p?x'), [`${route}.routes[0].path`, 4, 'has a query']],
    [inPath('').replace('/p', '/a/../b'), [`${route}.routes[0].path`, 4, 'dot segments']],
    [inPath('').replace('/p', '/a//b'), [`${route}.routes[0].path`, 4, 'dot segments']],
    [inPath('').replace('/p', '/ä'), [`${route}.routes[0].path`, 4, 'percent-encoded']],
    [
      inPath(`[[${route}.routes]]\npath = "/p"\nto = "127.0.0.1:1"`),
      [`${route}.routes[1].path`, 6, '"/p" is taken (line 3)'],
    ],
    [inPath('').replace('/p', '/'), [`${route}.routes[0].path`, 4, '"/" is taken (line 2)']],
    [`[[${route}.routes]]\npath = "/p"`, [`${route}.routes[0]`, 1, 'has no answer']],
    [inPath('sticky = true'), [`${route}.routes[0].sticky`, 5, 'there is no to here']],
    [inPath('host_header = "b.test"'), [`${route}.routes[0].host_header`, 5, 'there is no to here']],
    [
      inPath('strip_prefix = true\nreplace_prefix = "/q"'),
      [`${route}.routes[0].strip_prefix`, 5, 'replace_prefix says what to put instead'],
    ],
    [
      inPath('redirect = "/x"\nstrip_prefix = true'),
      [`${route}.routes[0].strip_prefix`, 6, 'nothing is forwarded here'],
    ],
    [inPath('replace_prefix = "x"'), [`${route}.routes[0].replace_prefix`, 5, 'does not begin with "/"']],
  ]);
});

describe('header rules', () => {
  check([
    [
      inRoute('request_headers = { set = { "X A" = "b" } }'),
      [`${route}.request_headers.set."X A"`, 3, 'is not a header name'],
    ],
    [inRoute('request_headers = { set = { Host = "b" } }'), [`${route}.request_headers.set.Host`, 3, 'host_header']],
    [
      inRoute('request_headers = { add = { Connection = "b" } }'),
      [`${route}.request_headers.add.Connection`, 3, 'written by the proxy'],
    ],
    [
      inRoute('request_headers = { set = { A = "b\\r\\nC: d" } }'),
      [`${route}.request_headers.set.A`, 3, 'cannot be a header value'],
    ],
    [
      inRoute('request_headers = { set = { A = " b" } }'),
      [`${route}.request_headers.set.A`, 3, 'cannot be a header value'],
    ],
    [
      inRoute('request_headers = { set = { A = "€" } }'),
      [`${route}.request_headers.set.A`, 3, 'cannot be a header value'],
    ],
    [inRoute('request_headers = { set = { A = 5 } }'), [`${route}.request_headers.set.A`, 3, 'is an integer']],
    [inRoute('request_headers = { set = { A = ["x"] } }'), [`${route}.request_headers.set.A`, 3, 'is a list']],
    [
      inRoute('request_headers = { set = { A = "1", a = "2" } }'),
      [`${route}.request_headers.set.a`, 3, 'is the same header as A'],
    ],
    [inRoute('response_headers = { add = { A = [] } }'), [`${route}.response_headers.add.A`, 3, 'is empty']],
    [inRoute('response_headers = { remove = "Server" }'), [`${route}.response_headers.remove`, 3, 'not a list']],
    [
      inRoute('response_headers = { remove = ["Server", "server"] }'),
      [`${route}.response_headers.remove[1]`, 3, 'the same as item 1'],
    ],
    [
      inRoute('response_headers = { remove = ["Transfer-Encoding"] }'),
      [`${route}.response_headers.remove[0]`, 3, 'written by the proxy'],
    ],
    [
      inRoute('response_headers = { delete = ["Server"] }'),
      [`${route}.response_headers.delete`, 3, 'set, add, remove'],
    ],
  ]);
});

test('all problems of a file are told in one pass, in the order of the file', async () => {
  const problems = await problemsOf(`workers = 0
prot = 1
[entrypoints.web]
address = "x"
protocol = "http"
[external_routes."a.test"]
to = ["b"]
tls = "Always"
entrypoints = ["nope", "web"]
[external_routes."A.test"]
to = "127.0.0.1:1"
[limits]
header_timeout = 5
`);
  expect(problems.map(({ key, line }) => `${line} ${key}`)).toEqual([
    '1 workers',
    '2 prot',
    '4 entrypoints.web.address',
    '7 external_routes."a.test".to[0]',
    '8 external_routes."a.test".tls',
    '9 external_routes."a.test".entrypoints[0]',
    '10 external_routes."A.test"',
    '13 limits.header_timeout',
  ]);
});

test('a problem points at the column of the value, or of the key when the key is wrong', async () => {
  const [value, key] = await problemsOf('[log]\nlevel =   "loud"\n  lvl = 1');
  expect([value!.line, value!.column]).toEqual([2, 11]);
  expect([key!.line, key!.column]).toEqual([3, 3]);
  expect(formatProblem(value!)).toBe(
    'config.toml:2:11: log.level: "loud" is not a log level (accepted: "error", "warn", "info" or "debug")',
  );
});

test('names of TOML never reach a prototype', async () => {
  await problemsOf('[__proto__]\nadmin = true\n[external_routes."__proto__"]\nadmin = true');
  await problemsOf('a.constructor.prototype.admin = true\n[entrypoints.__proto__]\nadmin = true');
  expect(({} as { admin?: boolean }).admin).toBeUndefined();
});

describe('warnings never fail', () => {
  const web = '[entrypoints.web]\naddress = ":80"\nprotocol = "http"\n';
  const secure = '[entrypoints.websecure]\naddress = ":443"\nprotocol = "https"\n[tls.internal_ca]\nenabled = true\n';
  const app = '[external_routes."a.test"]\nto = "127.0.0.1:3000"\n';
  test.each([
    ['', 'entrypoints', 'nothing will be served'],
    [web, 'entrypoints.web', 'no route is served here'],
    [`${web}${app}tls = "always"`, `${route}.tls`, 'every request will be answered 421'],
    [`${secure}${app}tls = "never"`, `${route}.tls`, 'no request will reach it'],
    [`${web}${app}hsts = "1d"`, `${route}.hsts`, 'has no effect: no https entrypoint'],
    [`${web}${secure}${app}tls = "never"\nmin_version = "1.3"`, `${route}.min_version`, 'tls is "never"'],
    [`${web}${app}[entrypoints.s]\naddress = ":443"\nprotocol = "https"`, 'entrypoints.s', 'there is no certificate'],
    [`trusted_proxies = ["0.0.0.0/0"]\n${web}${app}`, 'trusted_proxies', 'lets anybody choose the client address'],
    [`${web}trusted_proxies = ["::/0"]\n${app}`, 'entrypoints.web.trusted_proxies', 'lets anybody'],
    [`${web}[external_routes."a.test"]\nto = "127.0.0.1:80"`, `${route}.to`, 'requests would go in circles'],
    [`${web}[external_routes."a.test"]\nto = "localhost:80"`, `${route}.to`, 'is the entrypoint web'],
  ])('%s', async (text, key, words) => {
    const warnings = await warningsOf(text);
    expect(warnings.map(formatProblem).join('\n')).toContain(words);
    expect(warnings.map((warning) => warning.key)).toEqual([key]);
  });

  test('a sound configuration has none', async () => {
    expect(await warningsOf(`${web}${secure}${app}`)).toEqual([]);
  });
});

// The TLS policy table as data: policy × entrypoints × SNI × Host × redirect setting, over HTTP/1.1 and HTTP/2, with
// connections that are reused for another host; curl and openssl must see the same.
import { spawn } from 'node:child_process';
import { type ConnectionOptions, connect, type SecureVersion, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type Pair, TestCa } from '../support/certificates.ts';
import { closeH2Connections, H2Connection } from '../support/h2-frames.ts';
import { freePorts } from '../support/ports.ts';
import { type Answer, closeRawClients, fieldValue, RawClient, requestHead } from '../support/raw-client.ts';
import { type Line, Recorder, valuesOf } from '../support/recorder.ts';
import { Turnpike } from '../support/turnpike.ts';

type Policy = 'auto' | 'always' | 'never';
type Served = 'both' | 'web' | 'secure';
type Version = 'h1' | 'h2';

const policies: readonly Policy[] = ['auto', 'always', 'never'];
const servedBy: readonly Served[] = ['both', 'web', 'secure'];
const versions: readonly Version[] = ['h1', 'h2'];

/** Host names tell what they are: policy, entrypoints, and which certificate covers them. */
const hostOf = (policy: Policy, served: Served): string => `${policy}-${served}.a.test`;

const ca = new TestCa('TLS policy tests');
const clientCa = new TestCa('Clients');
const client = clientCa.leaf(['someone'], { client: true });
const hosts = policies.flatMap((policy) =>
  servedBy.map((served) => ({ policy, served, host: hostOf(policy, served) })),
);
// `never` on a TLS entrypoint alone could never be served and is not configured.
const configured = hosts.filter(({ policy, served }) => !(policy === 'never' && served === 'secure'));
const certA: Pair = ca.leaf(['a.test', '*.a.test']);
const certB: Pair = ca.leaf(['b.test', '*.b.test']);

interface Place {
  readonly redirect: boolean;
  turnpike: Turnpike;
  web: number;
  secure: number;
}

const places: Place[] = [true, false].map((redirect) => ({
  redirect,
  turnpike: null as unknown as Turnpike,
  web: 0,
  secure: 0,
}));
let app: Recorder;

beforeAll(async () => {
  app = await Recorder.start();
  const entrypointsOf = (served: Served): string =>
    ({ both: '["web", "websecure"]', web: '["web"]', secure: '["websecure"]' })[served];
  for (const place of places) {
    [place.web, place.secure] = (await freePorts(2)) as [number, number];
    place.turnpike = await Turnpike.start({
      config: `
workers = 2
trusted_proxies = ["127.0.0.2/32"]
[entrypoints.web]
address = "127.0.0.1:${place.web}"
protocol = "http"
[entrypoints.websecure]
address = "127.0.0.1:${place.secure}"
protocol = "https"
[tls]
redirect = ${place.redirect}
[[tls.certificate]]
cert_file = "${certA.certFile}"
key_file = "${certA.keyFile}"
default = ${place.redirect}
[[tls.certificate]]
cert_file = "${certB.certFile}"
key_file = "${certB.keyFile}"
${configured
  .map(
    ({ policy, served, host }) => `
[external_routes."${host}"]
to = ["${app.address}"]
tls = "${policy}"
entrypoints = ${entrypointsOf(served)}
`,
  )
  .join('')}
[external_routes."twin.a.test"]
to = ["${app.address}"]
[external_routes."other.b.test"]
to = ["${app.address}"]
[external_routes."uncovered.test"]
to = ["${app.address}"]
[external_routes."uncovered-always.test"]
to = ["${app.address}"]
tls = "always"
[external_routes."strict.a.test"]
to = ["${app.address}"]
min_version = "1.3"
[external_routes."mutual.a.test"]
to = ["${app.address}"]
client_auth = { mode = "require", ca_file = "${clientCa.file}" }
[log]
format = "json"
`,
    });
  }
});

afterEach(async () => {
  closeRawClients();
  closeH2Connections();
  await app.backToIdle();
  app.reset();
  for (const { turnpike } of places) expect(turnpike.bugs).toEqual([]);
});

afterAll(async () => {
  for (const { turnpike } of places) await turnpike?.stop();
  await app?.close();
});

interface TlsAsk {
  readonly host: string;
  /** '' sends none. */
  readonly sni: string;
  readonly from?: string;
  readonly tls?: ConnectionOptions;
}

/** An open connection, to send one request or several over it. */
async function openTls(place: Place, version: Version, ask: Omit<TlsAsk, 'host'>): Promise<RawClient | H2Connection> {
  const options = {
    port: place.secure,
    ...(ask.from === undefined ? {} : { localAddress: ask.from }),
    // An empty server name sends none; the certificate is looked at by the tests, not by the client.
    tls: { ca: ca.pem, servername: ask.sni, checkServerIdentity: () => undefined, ...ask.tls } as ConnectionOptions,
  };
  return version === 'h1' ? RawClient.connect(options) : H2Connection.connect(options);
}

async function over(connection: RawClient | H2Connection, host: string, lines: readonly Line[] = []): Promise<Answer> {
  if (connection instanceof RawClient) {
    return connection.ask(requestHead('GET', '/x?y=1', [['Host', host], ...lines]));
  }
  return connection.open(H2Connection.request('GET', host, '/x?y=1', lines)).answer();
}

async function overTls(place: Place, version: Version, ask: TlsAsk): Promise<Answer | string> {
  try {
    return await over(await openTls(place, version, ask), ask.host);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return code ?? message;
  }
}

async function overPlaintext(place: Place, version: Version, host: string, from?: string, lines: Line[] = []) {
  const options = { port: place.web, ...(from === undefined ? {} : { localAddress: from }) };
  const connection =
    version === 'h1' ? await RawClient.connect(options) : await H2Connection.connect({ ...options, tls: undefined });
  return over(connection, host, lines);
}

/** What the policy table says about a plaintext request. */
function plaintextVerdict(policy: Policy, served: Served, redirect: boolean): 200 | 308 | 404 | 421 {
  if (served === 'secure') return 404;
  const tlsServes = served === 'both';
  if (policy === 'never') return 200;
  if (policy === 'auto') return tlsServes && redirect ? 308 : 200;
  return tlsServes ? 308 : 421;
}

/** A 421 comes from us alone: no app was asked, no cookie is set. */
function expectMisdirected(answer: Answer | string): void {
  if (typeof answer === 'string') throw new Error(`expected 421, got ${answer}`);
  expect(answer.status).toBe(421);
  expect(valuesOf(answer.lines, 'set-cookie')).toEqual([]);
  expect(app.exchanges.length).toBe(0);
}

function expectServed(answer: Answer | string): void {
  if (typeof answer === 'string') throw new Error(`expected 200, got ${answer}`);
  expect(answer.status).toBe(200);
  expect(app.exchanges.length).toBe(1);
}

for (const place of places) {
  describe(`redirect = ${place.redirect}`, () => {
    describe.each(versions)('%s', (version) => {
      describe('a plaintext request', () => {
        it.each(configured)('for $host', async ({ policy, served, host }) => {
          const answer = await overPlaintext(place, version, host);
          const expected = plaintextVerdict(policy, served, place.redirect);
          expect(answer.status).toBe(expected);
          expect(app.exchanges.length).toBe(expected === 200 ? 1 : 0);
          if (expected === 308) expect(fieldValue(answer, 'location')).toBe(`https://${host}/x?y=1`);
        });

        it('keeps path and query byte for byte, and finds the TLS port', async () => {
          const host = hostOf('always', 'both');
          const target = '/p%2Fq//r/../s;t?a=b%2Fc&d=%zz&e=%C3%BC';
          const connection = await RawClient.connect({ port: place.web });
          const answer = await connection.ask(
            requestHead('POST', target, [
              ['Host', `${host}:${place.web}`],
              ['Content-Length', '0'],
            ]),
            { method: 'POST' },
          );
          expect(answer.status).toBe(308);
          expect(fieldValue(answer, 'location')).toBe(`https://${host}:${place.secure}${target}`);
          const odd = await RawClient.connect({ port: place.web });
          const kept = await odd.ask(requestHead('GET', '/', [['Host', `${host}:4242`]]));
          expect(fieldValue(kept, 'location')).toBe(`https://${host}:4242/`);
        });

        it('is sent to the matched host, not to what a header claims', async () => {
          const host = hostOf('always', 'both');
          for (const from of [undefined, '127.0.0.2']) {
            const answer = await overPlaintext(place, version, host, from, [['x-forwarded-host', 'evil.test']]);
            expect(answer.status).toBe(308);
            expect(fieldValue(answer, 'location')).toBe(`https://${host}/x?y=1`);
          }
        });

        // homeall/caddy-reverse-proxy-cloudflare#4, tenancy/multi-tenant#669, NginxProxyManager/nginx-proxy-manager#852
        it.each([
          ['a trusted peer', '127.0.0.2', 'https', 200, 308],
          // A list grows to the right: the last word is what the trusted peer itself has seen.
          ['a trusted peer with a list', '127.0.0.2', 'http, https', 200, 308],
          ['a trusted peer whose own hop was http', '127.0.0.2', 'https, http', place.redirect ? 308 : 200, 308],
          ['a trusted peer that says http', '127.0.0.2', 'http', place.redirect ? 308 : 200, 308],
          ['a stranger', '127.0.0.1', 'https', place.redirect ? 308 : 200, 308],
        ] as const)('with X-Forwarded-Proto from %s', async (_who, from, proto, auto, always) => {
          const lines: Line[] = [['x-forwarded-proto', proto]];
          expect((await overPlaintext(place, version, hostOf('auto', 'both'), from, lines)).status).toBe(auto);
          expect((await overPlaintext(place, version, hostOf('always', 'both'), from, lines)).status).toBe(always);
          expect((await overPlaintext(place, version, hostOf('always', 'web'), from, lines)).status).toBe(421);
        });

        it('for a host without a certificate: auto is served, always is 421', async () => {
          expect((await overPlaintext(place, version, 'uncovered.test')).status).toBe(200);
          app.reset();
          expectMisdirected(await overPlaintext(place, version, 'uncovered-always.test'));
        });

        it('for an unknown host is 404', async () => {
          expect((await overPlaintext(place, version, 'nobody.test')).status).toBe(404);
        });
      });

      describe('a TLS request whose SNI is its host', () => {
        it.each(configured)('for $host', async ({ policy, served, host }) => {
          const outcome = await overTls(place, version, { host, sni: host });
          if (policy === 'never') {
            expect(outcome).toBe('ERR_SSL_TLSV1_UNRECOGNIZED_NAME');
          } else if (served === 'web') {
            // The name is not served here: no handshake for it, or an answer that is not the app's.
            if (typeof outcome !== 'string') expect([404, 421]).toContain(outcome.status);
            expect(app.exchanges.length).toBe(0);
          } else {
            expectServed(outcome);
          }
        });

        it('in capitals and with a dot is the same', async () => {
          const host = hostOf('auto', 'both');
          expectServed(await overTls(place, version, { host, sni: host.toUpperCase() }));
          app.reset();
          expectServed(await overTls(place, version, { host: `${host}.`, sni: `${host}.` }));
          app.reset();
          expect(await overTls(place, version, { host: hostOf('never', 'both'), sni: 'NEVER-both.a.test.' })).toBe(
            'ERR_SSL_TLSV1_UNRECOGNIZED_NAME',
          );
        });
      });

      // projectcontour/contour#5240, nginx/nginx-gateway-fabric#3659, quarkusio/quarkus#55586, caddyserver/caddy#7134
      describe('a TLS connection reused for another host', () => {
        const sni = hostOf('auto', 'both');

        it('of the same certificate and policy is served', async () => {
          expectServed(await overTls(place, version, { host: 'twin.a.test', sni }));
          app.reset();
          expectServed(await overTls(place, version, { host: hostOf('always', 'secure'), sni }));
        });

        it.each([
          ['another certificate', 'other.b.test'],
          ['no certificate at all', 'uncovered.test'],
          ['policy never', hostOf('never', 'both')],
          ['a higher minimum version', 'strict.a.test'],
          ['client certificates', 'mutual.a.test'],
        ])('with %s is 421, and the connection goes on', async (_what, host) => {
          const connection = await openTls(place, version, { sni });
          expectMisdirected(await over(connection, host));
          expectServed(await over(connection, sni));
        });

        it('after a 421 a fresh connection with the right SNI is served', async () => {
          expectMisdirected(await overTls(place, version, { host: 'other.b.test', sni }));
          expectServed(await overTls(place, version, { host: 'other.b.test', sni: 'other.b.test' }));
        });

        it('that nobody configured is 404', async () => {
          const outcome = await overTls(place, version, { host: 'nobody.a.test', sni });
          expect(outcome).toMatchObject({ status: 404 });
          const foreign = await overTls(place, version, { host: 'nobody.test', sni });
          expect(foreign).toMatchObject({ status: 404 });
        });

        it('by a trusted load balancer skips the identity test, never the profile test', async () => {
          const from = '127.0.0.2';
          expectServed(await overTls(place, version, { host: 'other.b.test', sni, from }));
          app.reset();
          expectMisdirected(await overTls(place, version, { host: 'mutual.a.test', sni, from }));
          expectMisdirected(await overTls(place, version, { host: 'strict.a.test', sni, from }));
          expectMisdirected(await overTls(place, version, { host: hostOf('never', 'both'), sni, from }));
        });

        it('from one with client certificates to one without is 421, too', async () => {
          const tls = { cert: client.cert, key: client.key };
          const connection = await openTls(place, version, { sni: 'mutual.a.test', tls });
          expectServed(await over(connection, 'mutual.a.test'));
          app.reset();
          expectMisdirected(await over(connection, sni));
        });
      });

      describe('a TLS connection without SNI', () => {
        it(
          place.redirect ? 'gets the default certificate, then Host decides' : 'is refused without a default',
          async () => {
            const outcome = await overTls(place, version, { host: hostOf('auto', 'both'), sni: '' });
            if (!place.redirect) {
              expect(typeof outcome).toBe('string');
              return;
            }
            expectServed(outcome);
            app.reset();
            expectMisdirected(await overTls(place, version, { host: 'other.b.test', sni: '' }));
            expectMisdirected(await overTls(place, version, { host: hostOf('never', 'both'), sni: '' }));
            expectMisdirected(await overTls(place, version, { host: 'mutual.a.test', sni: '' }));
          },
        );
      });

      describe('TLS settings of a host', () => {
        it('a minimum version is kept', async () => {
          const host = 'strict.a.test';
          expectServed(await overTls(place, version, { host, sni: host }));
          const old = { maxVersion: 'TLSv1.2' } as const;
          expect(await overTls(place, version, { host, sni: host, tls: old })).toBe(
            'ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
          );
          expect(typeof (await overTls(place, version, { host: 'twin.a.test', sni: 'twin.a.test', tls: old }))).toBe(
            'object',
          );
        });

        it('a client certificate is asked for and verified', async () => {
          const host = 'mutual.a.test';
          const without = await overTls(place, version, { host, sni: host });
          expect(typeof without, JSON.stringify(without)).toBe('string');
          const foreign = ca.leaf(['stranger'], { client: true });
          const wrong = await overTls(place, version, {
            host,
            sni: host,
            tls: { cert: foreign.cert, key: foreign.key },
          });
          expect(typeof wrong).toBe('string');
          expect(app.exchanges.length).toBe(0);
          const right = { cert: client.cert, key: client.key };
          expectServed(await overTls(place, version, { host, sni: host, tls: right }));
        });

        it.each(['TLSv1.2', 'TLSv1.3'] as const)('a %s session of one host is no ticket to another', async (only) => {
          const tls = { minVersion: only, maxVersion: only } as const;
          const session = await sessionOf(place, version, 'twin.a.test', only);
          // It is good for the host that it was made for, so that the refusal below has a reason of its own.
          const again = await openTls(place, version, { sni: 'twin.a.test', tls: { ...tls, session } });
          expect((again.socket as TLSSocket).isSessionReused()).toBe(true);
          const outcome = await overTls(place, version, {
            host: 'mutual.a.test',
            sni: 'mutual.a.test',
            tls: { ...tls, session },
          });
          expect(typeof outcome, JSON.stringify(outcome)).toBe('string');
          expect(app.exchanges.length).toBe(0);
        });
      });
    });
  });
}

/** A session to resume, as a client gets it from a handshake for this name. */
function sessionOf(place: Place, version: Version, servername: string, only: SecureVersion): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect({
      port: place.secure,
      host: '127.0.0.1',
      servername,
      ca: ca.pem,
      minVersion: only,
      maxVersion: only,
      ALPNProtocols: [version === 'h1' ? 'http/1.1' : 'h2'],
    });
    socket.once('error', reject);
    socket.once('session', (session: Buffer) => {
      resolve(session);
      socket.destroy();
    });
  });
}

describe('TLS 1.1', () => {
  it('gets the alert protocol_version', async () => {
    const { output } = await sClient(places[0]!, [
      ...['-servername', 'twin.a.test', '-tls1_1', '-cipher', 'DEFAULT@SECLEVEL=0'],
    ]);
    expect(output).toMatch(/alert protocol version|alert number 70/i);
  });
});

interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly output: string;
}

/** Runs a program beside this process, which goes on serving as the backend. */
function run(command: string, args: readonly string[]): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], timeout: 15_000 });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stdout, output: stdout + stderr }));
    child.stdin.end();
  });
}

function sClient(place: Place, args: readonly string[]): Promise<Ran> {
  return run('openssl', ['s_client', '-connect', `127.0.0.1:${place.secure}`, '-CAfile', ca.file, ...args]);
}

/** curl's status code for a URL, its address replaced by ours; 0 and curl's exit code when there is no answer. */
async function curl(
  place: Place,
  version: Version,
  scheme: 'http' | 'https',
  host: string,
): Promise<{ status: number; exit: number | null }> {
  const port = scheme === 'http' ? place.web : place.secure;
  const { code, stdout } = await run('curl', [
    ...['--silent', '--output', '/dev/null', '--write-out', '%{http_code}', '--max-time', '10'],
    ...['--cacert', ca.file, '--connect-to', `::127.0.0.1:${port}`, '--noproxy', '*'],
    version === 'h1' ? '--http1.1' : scheme === 'http' ? '--http2-prior-knowledge' : '--http2',
    `${scheme}://${host}/`,
  ]);
  return { status: Number(stdout), exit: code };
}

describe.each(versions)('curl agrees, %s', (version) => {
  it.each(configured)('about $host', async ({ policy, served, host }) => {
    for (const place of places) {
      expect((await curl(place, version, 'http', host)).status).toBe(plaintextVerdict(policy, served, place.redirect));
      if (served === 'web' && policy !== 'never') continue;
      const { status, exit } = await curl(place, version, 'https', host);
      // 35: the handshake failed.
      if (policy === 'never') expect({ status, exit }).toEqual({ status: 0, exit: 35 });
      else expect({ status, exit }).toEqual({ status: 200, exit: 0 });
    }
  });
});

describe('openssl agrees', () => {
  it.each(configured.filter(({ served }) => served !== 'web'))('about $host', async ({ policy, host }) => {
    for (const place of places) {
      const { output } = await sClient(place, ['-servername', host, '-verify_hostname', host, '-alpn', 'h2,http/1.1']);
      if (policy === 'never') {
        expect(output).toMatch(/unrecognized name|alert number 112/i);
      } else {
        expect(output).toContain('Verification: OK');
        expect(output).toContain('ALPN protocol: h2');
      }
    }
  });

  it('about a name that has client authentication: the issuers are named', async () => {
    const { output } = await sClient(places[0]!, ['-servername', 'mutual.a.test', '-tls1_2']);
    expect(output).toContain('CN = Clients');
  });

  it('about ALPN: http/1.1 when asked for, and no protocol that we do not speak', async () => {
    const [place] = places as [Place];
    const ask = async (alpn: string): Promise<string> =>
      (await sClient(place, ['-servername', 'twin.a.test', '-alpn', alpn])).output;
    expect(await ask('http/1.1')).toContain('ALPN protocol: http/1.1');
    expect(await ask('spdy/3')).not.toContain('ALPN protocol: spdy');
  });
});

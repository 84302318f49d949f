import { afterEach, expect, test } from 'vitest';
import type { TlsFacts } from '../../src/message/stream.ts';
import type { Certificate, CertificatesPart, Host, RoutingPart } from '../../src/model/snapshot.ts';
import { H2Connection } from '../support/h2-frames.ts';
import { type Answer, closeRawClients, fieldValue, RawClient } from '../support/raw-client.ts';
import { Recorder } from '../support/recorder.ts';
import { entrypoint, host, route, routing, service, settings } from '../support/routing.ts';
import { sleep, until } from '../support/wait.ts';
import { Edge, type EdgeOptions } from './http-kit.ts';

let edge: Edge;
const recorders: Recorder[] = [];

afterEach(async () => {
  closeRawClients();
  await edge.close();
  for (const recorder of recorders.splice(0)) await recorder.close();
});

async function backend(name = 'app'): Promise<Recorder> {
  const recorder = await Recorder.start({ name });
  recorders.push(recorder);
  return recorder;
}

async function start(part: RoutingPart, over: Partial<EdgeOptions> = {}): Promise<void> {
  edge = await Edge.start({ routing: part, ...over });
}

async function ask(bytes: string): Promise<Answer> {
  const client = await RawClient.connect({ port: edge.port });
  const answer = await client.ask(bytes);
  client.destroy();
  return answer;
}

const get = (hostName: string, more = ''): Promise<Answer> =>
  ask(`GET /p?q=%2F HTTP/1.1\r\nHost: ${hostName}\r\n${more}\r\n`);

function certificate(...names: string[]): Certificate {
  return {
    id: names.join(),
    source: 'static',
    origin: 'test',
    names,
    notBefore: 0,
    notAfter: 4e12,
    chain: '',
    key: '',
  };
}
const certificates = (...list: Certificate[]): CertificatesPart => ({
  certificates: list,
  defaultId: null,
  internalCa: false,
  pending: [],
});

function facts(over: Partial<TlsFacts> = {}): TlsFacts {
  return {
    serverName: 'a.test',
    certificateId: 'a',
    certificateNames: ['a.test'],
    profileId: 'default',
    version: 'TLSv1.3',
    clientSubject: null,
    ...over,
  };
}

const respond = (body: string, over: Partial<Host> = {}, pattern = 'a.test'): Host =>
  host(pattern, [route(pattern, '', { action: { kind: 'respond', status: 200, headers: [], body } })], {
    entrypoints: ['web', 'secure'],
    ...over,
  });
const both = [entrypoint('web', { port: 8080 }), entrypoint('secure', { port: 8443, protocol: 'https' })];

test('hosts match in any spelling; what is not a host, or two hosts, is refused', async () => {
  await start(routing({ hosts: [respond('A'), respond('six', {}, '[::1]'), respond('wild', {}, '*.w.test')] }));
  for (const name of ['a.test', 'A.TEST', 'a.test.', 'a.test.:8080'])
    expect((await get(name)).body.toString()).toBe('A');
  for (const name of ['[::1]', '[0:0::1]:80']) expect((await get(name)).body.toString()).toBe('six');
  expect((await get('x.w.test')).body.toString()).toBe('wild');
  expect((await get('x.y.w.test')).status).toBe(404);
  for (const name of ['a.test..', 'a.test/x', 'a b', 'u@a.test', '::1', '[::1', 'a.test:99999']) {
    expect((await get(name)).status, name).toBe(400);
  }
  expect((await ask('GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n')).status).toBe(400);
  expect((await ask('GET http://A.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n')).status).toBe(200);
  expect((await get('unknown.test')).status).toBe(404);
  expect((await ask('CONNECT a.test:80 HTTP/1.1\r\nHost: a.test\r\n\r\n')).status).toBe(405);
});

test('plaintext of auto hosts goes to https only when a TLS entrypoint and a certificate exist', async () => {
  const hosts = [respond('A')];
  await start(routing({ hosts, entrypoints: both }), { certificates: certificates(certificate('a.test')) });
  const redirect = await ask(`POST /p?q=%2F HTTP/1.1\r\nHost: a.test:${edge.port}\r\nContent-Length: 0\r\n\r\n`);
  expect(redirect.status).toBe(308);
  expect(fieldValue(redirect, 'location')).toBe('https://a.test:8443/p?q=%2F');
  expect(fieldValue(await get('a.test'), 'location')).toBe('https://a.test/p?q=%2F');
  expect(fieldValue(await get('a.test:9999'), 'location')).toBe('https://a.test:9999/p?q=%2F');
  edge.publish(routing({ hosts, entrypoints: both }));
  expect((await get('a.test')).status).toBe(200);
  edge.publish(
    routing({ hosts, entrypoints: both, settings: { ...settings, redirect: false } }),
    certificates(certificate('a.test')),
  );
  expect((await get('a.test')).status).toBe(200);
});

test('always is 308 whatever a header says and 421 without a TLS entrypoint; never is served', async () => {
  const hosts = [respond('A', { tls: 'always' }), respond('N', { tls: 'never' }, 'n.test')];
  await start(routing({ hosts, entrypoints: both }), {
    certificates: certificates(certificate('a.test', 'n.test')),
    trustedPeer: true,
  });
  expect((await get('a.test', 'X-Forwarded-Proto: https\r\n')).status).toBe(308);
  expect((await get('n.test')).status).toBe(200);
  edge.publish(routing({ hosts, entrypoints: [entrypoint('web')] }), certificates(certificate('a.test')));
  const misdirected = await get('a.test');
  expect(misdirected.status).toBe(421);
  expect(fieldValue(misdirected, 'set-cookie')).toBeNull();
});

test('only a trusted peer can say that its client used https, and only its own word counts', async () => {
  const options = { certificates: certificates(certificate('a.test')) };
  await start(routing({ hosts: [respond('A')], entrypoints: both }), { ...options, trustedPeer: true });
  expect((await get('a.test', 'X-Forwarded-Proto: https\r\n')).status).toBe(200);
  expect((await get('a.test', 'X-Forwarded-Proto: https, http\r\n')).status).toBe(308);
  edge.trustedPeer = false;
  expect((await get('a.test', 'X-Forwarded-Proto: https\r\n')).status).toBe(308);
});

test('over TLS a host passes by certificate and profile, and 421 keeps every other reserved one out', async () => {
  const mutual = respond('M', { minVersion: '1.3' }, 'm.test');
  await start(
    routing({
      hosts: [respond('A'), respond('B', {}, 'b.test'), respond('N', { tls: 'never' }, 'n.test'), mutual],
      entrypoints: both,
    }),
    { tls: facts({ certificateNames: ['a.test', 'm.test'] }), entrypoint: 'secure' },
  );
  expect((await get('a.test')).status).toBe(200);
  expect((await get('b.test')).status).toBe(421);
  expect((await get('m.test')).status).toBe(421);
  expect((await get('n.test')).status).toBe(421);
  expect((await get('u.test')).status).toBe(404);
  edge.tls = facts({ serverName: 'b.test', certificateNames: ['default.test'] });
  expect((await get('b.test')).status).toBe(200);
  edge.tls = facts({ serverName: null, certificateNames: ['default.test'] });
  expect((await get('b.test')).status).toBe(421);
  edge.trustedPeer = true;
  expect((await get('b.test')).status).toBe(200);
  expect((await get('m.test')).status).toBe(421);
});

test('fixed responses and redirects are answered without a backend, with site headers over TLS', async () => {
  const redirect = route('r.test', '', { action: { kind: 'redirect', status: 301, to: 'https://{host}/new{uri}' } });
  const text = route('a.test', '', { action: { kind: 'respond', status: 203, headers: [['X-A', '1']], body: 'hé' } });
  await start(
    routing({
      hosts: [host('r.test', [redirect]), host('a.test', [text], { hsts: 'max-age=1', entrypoints: ['web'] })],
    }),
  );
  expect(fieldValue(await get('r.test'), 'location')).toBe('https://r.test/new/p?q=%2F');
  const fixed = await get('a.test');
  expect([fixed.status, fieldValue(fixed, 'x-a'), fixed.body.toString()]).toEqual([203, '1', 'hé']);
  expect(fieldValue(fixed, 'strict-transport-security')).toBeNull();
  edge.tls = facts();
  expect(fieldValue(await get('a.test'), 'strict-transport-security')).toBe('max-age=1');
  const head = await ask('HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n');
  expect([fieldValue(head, 'content-length'), head.body.length]).toEqual(['3', 0]);
});

test('errors are HTML for browsers, JSON for who asks for it, text otherwise, and tell nothing inside', async () => {
  await start(
    routing({ hosts: [host('app.test', [route('app.test', 'app')])], services: [service('app', 1, ['127.0.0.1:1'])] }),
  );
  const html = await get('app.test', 'Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n');
  expect(html.status).toBe(502);
  expect(fieldValue(html, 'content-type')).toContain('text/html');
  expect(fieldValue(html, 'content-security-policy')).toContain("default-src 'none'");
  const json = await get('app.test', 'Accept: application/json\r\n');
  expect(JSON.parse(json.body.toString())).toMatchObject({ status: 502, code: 'upstream-refused' });
  const text = await get('app.test');
  expect(fieldValue(text, 'content-type')).toContain('text/plain');
  for (const answer of [html, json, text]) expect(answer.body.toString()).not.toContain('127.0.0.1');
});

test('a stopped service answers 503 with a maintenance page, one without live backends 503', async () => {
  const app = await backend();
  const part = (over: Parameters<typeof service>[3]): RoutingPart =>
    routing({
      hosts: [host('app.test', [route('app.test', 'app')])],
      services: [service('app', 1, [app.address], over)],
    });
  await start(part({ state: 'stopped' }));
  const stopped = await get('app.test', 'Accept: text/html\r\n');
  expect(stopped.status).toBe(503);
  expect(Number(fieldValue(stopped, 'retry-after'))).toBeGreaterThan(0);
  expect(stopped.body.toString()).toContain('maintenance');
  edge.publish(part({ state: 'run' }));
  expect((await get('app.test')).status).toBe(200);
  edge.publish(routing({ hosts: [host('app.test', [route('app.test', 'app')])], services: [service('app', 2, [])] }));
  const none = await get('app.test');
  expect([none.status, fieldValue(none, 'retry-after')]).toEqual([503, '5']);
});

test('requests of a paused service wait, arrive at what holds then, and are dropped when their client leaves', async () => {
  const app = await backend('old');
  const next = await backend('new');
  const part = (number: number, address: string, state: 'run' | 'paused', maxHoldMs = 30_000): RoutingPart =>
    routing({
      hosts: [host('app.test', [route('app.test', 'app')])],
      services: [service('app', number, [address], { state, maxHoldMs })],
    });
  await start(part(1, app.address, 'paused'));
  const leaver = await RawClient.connect({ port: edge.port });
  leaver.write('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
  const waiting = get('app.test');
  const service1 = edge.traffic.service('app')!;
  await until('two to wait', () => service1.waiting === 2);
  leaver.reset();
  await until('one to leave', () => service1.waiting === 1);
  edge.publish(part(2, next.address, 'run'));
  expect((await waiting).body.toString()).toBe('new');
  expect(app.exchanges.length).toBe(0);
  expect((await edge.log(2)).map((line) => line.reason)).toEqual(['client-gone', 'held']);
  edge.publish(part(2, next.address, 'paused', 100));
  const late = await get('app.test');
  expect([late.status, fieldValue(late, 'retry-after')]).toEqual([503, '5']);
});

test('a rate limit is counted per client address and route', async () => {
  const limited = route('a.test', '', {
    action: { kind: 'respond', status: 200, headers: [], body: 'ok' },
    rateLimit: { perSecond: 0.5, burst: 2 },
  });
  await start(
    routing({ hosts: [host('a.test', [limited])], settings: { ...settings, trustedProxies: ['127.0.0.1'] } }),
    {
      trustedPeer: true,
    },
  );
  const from = (address: string): Promise<Answer> => get('a.test', `X-Forwarded-For: ${address}\r\n`);
  const statuses: number[] = [];
  for (let i = 0; i < 3; i++) statuses.push((await from('1.1.1.1')).status);
  expect(statuses).toEqual([200, 200, 429]);
  const refused = await from('1.1.1.1');
  expect(Number(fieldValue(refused, 'retry-after'))).toBeGreaterThanOrEqual(1);
  expect((await from('2.2.2.2')).status).toBe(200);
  // A reload that does not concern the limit refills nothing.
  edge.publish(
    routing({
      hosts: [host('a.test', [limited]), respond('B', {}, 'b.test')],
      settings: { ...settings, trustedProxies: ['127.0.0.1'] },
    }),
  );
  expect((await from('1.1.1.1')).status).toBe(429);
});

test('metrics grow by routes and classes, not by what clients make up, and go with their route', async () => {
  await start(routing({ hosts: [respond('A')] }));
  const size = (): number => edge.metrics.collect().reduce((sum, family) => sum + family.values.length, 0);
  await get('a.test');
  await get('unknown.test');
  await ask('FOO1 / HTTP/1.1\r\nHost: a.test\r\n\r\n');
  await ask('BAD\r\n\r\n');
  const before = size();
  for (let i = 0; i < 20; i++) {
    await get(`host-${i}.test`);
    await ask(`FOO${i} /${i} HTTP/1.1\r\nHost: a.test\r\n\r\n`);
  }
  expect(size()).toBe(before);
  expect(edge.metric('http_requests_total', { route: 'a.test', method: 'other', status: '2xx' })).toBe(21);
  expect(edge.metric('http_requests_total', { route: 'other', method: 'GET', status: '4xx' })).toBe(21);
  edge.publish(routing({ hosts: [respond('B', {}, 'b.test')] }));
  expect(edge.metric('http_requests_total', { route: 'a.test', method: 'other', status: '2xx' })).toBe(0);
  expect(size()).toBeLessThan(before);
});

test('plans that were replaced keep no snapshot in memory, whoever still knows them', async () => {
  await start(routing({ hosts: [respond('A')] }));
  const client = await RawClient.connect({ port: edge.port });
  expect((await client.ask('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n')).body.toString()).toBe('A');
  const before = edge.handler.plans;
  edge.publish(routing({ hosts: [respond('B')] }));
  expect(() => before.compiled).toThrow('replaced');
  expect((await client.ask('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n')).body.toString()).toBe('B');
});

test('the log line names what decided and nothing secret', async () => {
  const app = await backend();
  await start(
    routing({ hosts: [host('app.test', [route('app.test', 'app')])], services: [service('app', 7, [app.address])] }),
  );
  await get('app.test', 'Authorization: Bearer s3cret\r\nCookie: sid=s3cret\r\n');
  const [line] = await edge.log(1);
  expect(line).toMatchObject({
    method: 'GET',
    host: 'app.test',
    path: '/p',
    status: 200,
    reason: 'served',
    route: 'app.test',
    service: 'app',
    generation: 7,
    backend: app.address,
    bytes_out: 3,
    client: '127.0.0.1',
    entrypoint: 'web',
  });
  expect(JSON.stringify(line)).not.toContain('s3cret');
  expect(JSON.stringify(line)).not.toContain('q=');
});

test('a drain ends what still runs past its limit: a waiting request with 503, a begun answer visibly cut', async () => {
  const app = await backend('old');
  const part = (number: number, drainMs: number): RoutingPart =>
    routing({
      hosts: [host('app.test', [route('app.test', 'app')])],
      services: [service('app', number, [app.address], { drainMs, streamDrainMs: drainMs })],
    });
  await start(part(1, 100));
  app.script = (exchange) => {
    if (exchange.target === '/begun') exchange.send('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc');
  };
  const silent = ask('GET /silent HTTP/1.1\r\nHost: app.test\r\n\r\n');
  const begun = ask('GET /begun HTTP/1.1\r\nHost: app.test\r\n\r\n');
  await app.waitForExchange(2);
  await sleep(20);
  edge.publish(part(2, 100));
  expect((await silent).status).toBe(503);
  expect((await begun).complete).toBe(false);
  await until('the drain', () => edge.drained.length === 1);
  expect(edge.drained[0]).toMatchObject({ service: 'app', generation: 1, forced: 2 });
});

test('an h2 request for two hosts is refused, and CONNECT without a protocol', async () => {
  await start(routing({ hosts: [respond('A')] }));
  const connection = await H2Connection.connect({ port: edge.port });
  const open = (lines: [string, string][]): Promise<Answer> => connection.open(lines, { endStream: true }).answer();
  const base: [string, string][] = [
    [':method', 'GET'],
    [':scheme', 'http'],
    [':path', '/'],
    [':authority', 'a.test'],
  ];
  expect((await open(base)).body.toString()).toBe('A');
  expect((await open([...base, ['host', 'b.test']])).status).toBe(400);
  expect(
    (
      await open([
        [':method', 'GET'],
        [':scheme', 'http'],
        [':path', '/#x'],
        [':authority', 'a.test'],
      ])
    ).status,
  ).toBe(400);
  expect(
    (
      await open([
        [':method', 'CONNECT'],
        [':authority', 'a.test:80'],
      ])
    ).status,
  ).toBe(405);
  expect(
    (
      await open([
        [':method', 'GET'],
        [':scheme', 'http'],
        [':path', `/${'x'.repeat(9000)}`],
        [':authority', 'a.test'],
      ])
    ).status,
  ).toBe(414);
  const many: [string, string][] = Array.from({ length: 201 }, (_, i) => [`x-${i}`, '1']);
  expect((await open([...base, ...many])).status).toBe(431);
  expect(
    (await open([...base, ['x-a', 'a'.repeat(15_000)], ['x-b', 'b'.repeat(15_000)], ['x-c', 'c'.repeat(4000)]])).status,
  ).toBe(431);
  connection.destroy();
});

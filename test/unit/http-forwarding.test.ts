import { afterEach, expect, test } from 'vitest';
import type { RoutingPart } from '../../src/model/snapshot.ts';
import { H2Connection } from '../support/h2-frames.ts';
import { type Answer, closeRawClients, fieldValue, RawClient } from '../support/raw-client.ts';
import { Recorder } from '../support/recorder.ts';
import { host, route, routing, service, settings } from '../support/routing.ts';
import { sleep, until } from '../support/wait.ts';
import { Edge, type EdgeOptions, routeLimits } from './http-kit.ts';

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

function oneRoute(
  recorder: Recorder,
  over: Parameters<typeof route>[2] = {},
  addresses = [recorder.address],
): RoutingPart {
  return routing({
    hosts: [host('app.test', [route('app.test', 'app', over)])],
    services: [service('app', 1, addresses)],
  });
}

async function start(part: RoutingPart, over: Partial<EdgeOptions> = {}): Promise<void> {
  edge = await Edge.start({ routing: part, ...over });
}

async function ask(bytes: string): Promise<Answer> {
  const client = await RawClient.connect({ port: edge.port });
  return client.ask(bytes);
}

test('a request reaches the backend with forwarded fields and its answer comes back unchanged', async () => {
  const app = await backend();
  app.script = (exchange) =>
    exchange.reply(
      'HTTP/1.1 302 Found\r\nLocation: /next\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nhi',
    );
  await start(oneRoute(app));
  const answer = await ask(
    'GET /a?b=%2Fc HTTP/1.1\r\nHost: APP.test.:8080\r\nX-Forwarded-For: 10.0.0.1\r\nX-Real-IP: 10.0.0.1\r\nx_forwarded_for: 10.0.0.2\r\nX-Forwarded-Ssl: on\r\nForwarded: for=10.0.0.1\r\n\r\n',
  );
  expect(answer.status).toBe(302);
  expect(answer.lines.map(([name, value]) => `${name}: ${value}`)).toEqual([
    'Location: /next',
    'Set-Cookie: a=1',
    'Set-Cookie: b=2',
    'Content-Length: 2',
  ]);
  expect(answer.body.toString()).toBe('hi');
  const { target, lines } = app.last;
  expect(target).toBe('/a?b=%2Fc');
  expect(lines.map(([name, value]) => `${name}: ${value}`)).toEqual([
    'Host: app.test:8080',
    'X-Forwarded-For: 127.0.0.1',
    'X-Forwarded-Proto: http',
    'X-Forwarded-Host: app.test:8080',
    `X-Forwarded-Port: ${edge.port}`,
    'X-Real-IP: 127.0.0.1',
    expect.stringMatching(/^X-Request-Id: [a-z0-9-]+$/),
  ]);
});

test('nothing that a client nominates in Connection can strip our fields', async () => {
  const app = await backend();
  await start(oneRoute(app));
  await ask(
    'GET / HTTP/1.1\r\nHost: app.test\r\nConnection: close, X-Forwarded-For, X-Real-IP, Host, X-Secret\r\nX-Secret: s\r\nKeep-Alive: x\r\nProxy-Connection: x\r\nTE: trailers\r\nUpgrade: foo\r\n\r\n',
  );
  const { last } = app;
  expect(last.values('x-forwarded-for')).toEqual(['127.0.0.1']);
  expect(last.values('x-real-ip')).toEqual(['127.0.0.1']);
  expect(last.values('host')).toEqual(['app.test']);
  for (const name of ['x-secret', 'keep-alive', 'proxy-connection', 'upgrade']) expect(last.values(name)).toEqual([]);
  expect(last.values('te')).toEqual(['trailers']);
});

test('the chain of a trusted peer is appended to in one line, and its scheme is honoured', async () => {
  const app = await backend();
  await start(
    { ...oneRoute(app), settings: { ...settings, trustedProxies: ['10.0.0.0/8', '127.0.0.1'], forwardedField: true } },
    { trustedPeer: true },
  );
  await ask(
    'GET / HTTP/1.1\r\nHost: app.test\r\nX-Forwarded-For: 6.6.6.6, 203.0.113.9\r\nX-Forwarded-For: 10.1.1.1\r\nX-Forwarded-Proto: https\r\nX-Request-Id: from-lb\r\nForwarded: for=203.0.113.9\r\n\r\n',
  );
  const { last } = app;
  expect(last.values('x-forwarded-for')).toEqual(['6.6.6.6, 203.0.113.9, 10.1.1.1, 127.0.0.1']);
  expect(last.values('x-forwarded-proto')).toEqual(['https']);
  expect(last.values('x-forwarded-port')).toEqual(['443']);
  expect(last.values('x-real-ip')).toEqual(['203.0.113.9']);
  expect(last.values('x-request-id')).toEqual(['from-lb']);
  expect(last.values('forwarded')).toEqual(['for=203.0.113.9, for=127.0.0.1;host=app.test;proto=http']);
});

test('header rules, host override and path rewrite apply to the request, rules to the answer', async () => {
  const app = await backend();
  app.script = (exchange) => exchange.reply('HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 0\r\n\r\n');
  const over = {
    path: '/api',
    hostHeader: 'inner.test',
    action: { kind: 'forward', service: 'app', rewrite: { kind: 'strip' } },
    requestHeaders: { remove: ['X-Drop'], set: [['X-User', 'proxy']], add: [['X-More', '1']] },
    responseHeaders: { remove: ['server'], set: [['X-Frame-Options', 'DENY']], add: [] },
  } as const;
  await start(oneRoute(app, over));
  const answer = await ask(
    'GET /api?x=1 HTTP/1.1\r\nHost: app.test\r\nX-Drop: 1\r\nX_User: root\r\nx-user: root\r\nX-More: 0\r\n\r\n',
  );
  expect(answer.lines.map(([name]) => name)).toEqual(['X-Frame-Options', 'Content-Length']);
  const { last } = app;
  expect(last.target).toBe('/?x=1');
  expect(last.values('host')).toEqual(['inner.test']);
  expect(last.values('x-drop')).toEqual([]);
  expect(last.values('x_user')).toEqual([]);
  expect(last.values('x-user')).toEqual(['proxy']);
  expect(last.values('x-more')).toEqual(['0', '1']);
  expect((await ask('GET /apix HTTP/1.1\r\nHost: app.test\r\n\r\n')).status).toBe(404);
});

test('cookie lines become one', async () => {
  const app = await backend();
  await start(oneRoute(app));
  await ask('GET / HTTP/1.1\r\nHost: app.test\r\nCookie: a=1\r\nX: y\r\nCookie: b=2\r\n\r\n');
  expect(app.last.values('cookie')).toEqual(['a=1; b=2']);
  const connection = await H2Connection.connect({ port: edge.port });
  const stream = connection.open(
    [
      [':method', 'GET'],
      [':scheme', 'http'],
      [':path', '/'],
      [':authority', 'app.test'],
      ['cookie', 'a=1'],
      ['cookie', 'sid=xyz'],
    ],
    { endStream: true },
  );
  expect((await stream.answer()).status).toBe(200);
  expect(app.last.values('cookie')).toEqual(['a=1; sid=xyz']);
  expect(app.last.values('host')).toEqual(['app.test']);
  connection.destroy();
});

test('a body is forwarded, and one over the limit is refused whether declared or counted', async () => {
  const app = await backend();
  await start(oneRoute(app, { limits: routeLimits({ bodySize: 5 }) }));
  const fine = await ask('POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 5\r\n\r\nhello');
  expect(fine.status).toBe(200);
  expect(app.last.body.toString()).toBe('hello');
  const declared = await ask('POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 6\r\n\r\nhello!');
  expect(declared.status).toBe(413);
  const counted = await ask(
    'POST / HTTP/1.1\r\nHost: app.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n3\r\nlo!\r\n0\r\n\r\n',
  );
  expect(counted.status).toBe(413);
  expect(app.exchanges.filter((each) => each.bodyComplete).length).toBe(1);
});

test('GET is tried once more on another backend when the first one resets, POST is not', async () => {
  const bad = await backend('bad');
  const good = await backend('good');
  bad.script = (exchange) => exchange.connection.reset();
  await start(oneRoute(bad, {}, [bad.address, good.address]));
  const answers: Answer[] = [];
  for (let i = 0; i < 4; i++) answers.push(await ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n'));
  expect(answers.map((each) => each.status)).toEqual([200, 200, 200, 200]);
  expect(bad.exchanges.length).toBeGreaterThan(0);
  bad.reset();
  good.reset();
  bad.script = (exchange) => exchange.connection.reset();
  const statuses: number[] = [];
  for (let i = 0; i < 4; i++) {
    const { status } = await ask('POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n');
    statuses.push(status);
  }
  expect(statuses.filter((status) => status === 502).length).toBe(bad.exchanges.length);
  expect(good.exchanges.length + bad.exchanges.length).toBe(4);
  const log = await edge.log(8);
  expect(log.filter((line) => line.retries === 1).every((line) => line.reason === 'retried')).toBe(true);
});

test('a backend that refuses connections is avoided by the second try, for POST as well', async () => {
  const gone = await backend('gone');
  await gone.close();
  const good = await backend('good');
  await start(
    routing({
      hosts: [host('app.test', [route('app.test', 'app')])],
      services: [service('app', 1, [gone.address, good.address], { balance: 'hash_header', balanceKey: 'X-Key' })],
    }),
  );
  const statuses: number[] = [];
  for (let i = 0; i < 16; i++) {
    const head = `POST / HTTP/1.1\r\nHost: app.test\r\nX-Key: ${i}\r\nContent-Length: 2\r\n\r\n`;
    statuses.push((await ask(`${head}hi`)).status);
  }
  expect(statuses).toEqual(Array(16).fill(200));
  expect(good.exchanges.map((each) => each.body.toString())).toEqual(Array(16).fill('hi'));
});

test('a second try arrives anew: what the client sent is matched with the routing that holds by then', async () => {
  const old = await backend('old');
  const fresh = await backend('fresh');
  const strip = { kind: 'forward', service: 'app', rewrite: { kind: 'strip' } } as const;
  const sets = (name: string, value: string) => ({ remove: [], set: [[name, value]], add: [] }) as const;
  await start(
    oneRoute(old, { path: '/api', action: strip, hostHeader: 'inner.test', requestHeaders: sets('X-Route', 'old') }),
  );
  old.script = (exchange) => {
    edge.publish(
      routing({
        hosts: [host('app.test', [route('app.test', 'app', { path: '/api', requestHeaders: sets('X-New', '1') })])],
        services: [service('app', 2, [fresh.address])],
      }),
    );
    exchange.connection.reset();
  };
  const answer = await ask('GET /api/x HTTP/1.1\r\nHost: app.test\r\n\r\n');
  expect(answer.body.toString()).toBe('fresh');
  expect([old.last.target, old.last.value('host')]).toEqual(['/x', 'inner.test']);
  expect([fresh.last.target, fresh.last.value('host')]).toEqual(['/api/x', 'app.test']);
  expect(fresh.last.values('x-route')).toEqual([]);
  expect(fresh.last.values('x-new')).toEqual(['1']);
  expect(fresh.last.values('x-forwarded-for')).toEqual(['127.0.0.1']);
});

test('a body that arrives while the second try waits is not lost', async () => {
  const app = await backend();
  const part = (state: 'run' | 'paused'): RoutingPart =>
    routing({
      hosts: [host('app.test', [route('app.test', 'app')])],
      services: [service('app', 1, [app.address], { state })],
    });
  await start(part('run'));
  app.script = (exchange) => {
    edge.publish(part('paused'));
    exchange.connection.reset();
  };
  const client = await RawClient.connect({ port: edge.port });
  client.write('PUT / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 5\r\n\r\n');
  await until('the second try to wait', () => edge.traffic.service('app')!.waiting === 1);
  client.write('hello');
  await sleep(50);
  app.reset();
  edge.publish(part('run'));
  expect((await client.ask('')).status).toBe(200);
  expect(app.last.body.toString()).toBe('hello');
});

test('a backend that dies in the middle leaves an answer that is visibly cut', async () => {
  const app = await backend();
  app.script = (exchange) => {
    exchange.send('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc');
    setTimeout(() => exchange.connection.fin(), 20);
  };
  await start(oneRoute(app));
  const answer = await ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
  expect(answer.status).toBe(200);
  expect(answer.complete).toBe(false);
  expect(answer.body.toString()).toBe('abc');
  const connection = await H2Connection.connect({ port: edge.port });
  for (const start of ['Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n', 'Content-Length: 10\r\n\r\nabc']) {
    app.script = (exchange) => {
      exchange.send(`HTTP/1.1 200 OK\r\n${start}`);
      setTimeout(() => exchange.connection.fin(), 20);
    };
    const stream = connection.open(H2Connection.request('GET', 'app.test', '/', [], 'http'));
    const cut = await stream.answer();
    expect(cut.body.toString()).toBe('abc');
    expect(cut.resetCode).toBe(2);
    expect(stream.ended, 'END_STREAM in front of the reset').toBe(false);
  }
  connection.destroy();
  const log = await edge.log(3);
  expect(log.map((line) => [line.status, line.reason, line.aborted])).toEqual(
    Array(3).fill([200, 'upstream-failed', true]),
  );
});

test('interim answers are relayed, a hundred only to who waits for it, and a flood of them is cut off', async () => {
  const app = await backend();
  await start(oneRoute(app));
  app.script = (exchange) => {
    exchange.send(
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nConnection: X\r\nX: 1\r\n\r\n',
    );
    exchange.ok('done');
  };
  const hinted = await ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
  expect(hinted.interim.map(({ status, lines }) => [status, ...lines.flat()])).toEqual([
    [103, 'Link', '</a.css>; rel=preload'],
  ]);
  expect(fieldValue(hinted, 'link')).toBeNull();
  app.script = (exchange) => exchange.reply('HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(200));
  expect((await ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n')).status).toBe(502);
});

test('the backend decides about 100-continue; its refusal is the only thing the client sees', async () => {
  const app = await backend();
  await start(oneRoute(app));
  app.script = (exchange) => exchange.reply('HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n');
  const head = 'POST /up HTTP/1.1\r\nHost: app.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n';
  const refused = await ask(head);
  expect(refused.status).toBe(413);
  expect(refused.interim).toEqual([]);
  app.script = (exchange) => {
    exchange.send('HTTP/1.1 100 Continue\r\n\r\n');
    void exchange.whole().then(() => exchange.ok(exchange.body));
  };
  const client = await RawClient.connect({ port: edge.port });
  client.write(head);
  await client.waitForText('100 Continue');
  const answer = await client.ask('hello');
  expect(answer.body.toString()).toBe('hello');
  expect((await ask('GET / HTTP/1.1\r\nHost: app.test\r\nExpect: foo\r\n\r\n')).status).toBe(417);
});

test('a silent backend does not keep a client waiting for its hundred', async () => {
  const app = await backend();
  await start(oneRoute(app));
  const client = await RawClient.connect({ port: edge.port });
  client.write('POST /up HTTP/1.1\r\nHost: app.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n');
  await client.waitForText('100 Continue');
  expect((await client.ask('hello')).status).toBe(200);
  expect(app.last.body.toString()).toBe('hello');
});

test('a client that leaves takes its backend request with it', async () => {
  const app = await backend();
  app.script = () => {};
  await start(oneRoute(app));
  const client = await RawClient.connect({ port: edge.port });
  client.write('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
  const { connection } = await app.waitForExchange();
  client.reset();
  await until('the backend connection to close', () => !connection.open);
  const [line] = await edge.log(1);
  expect(edge.metric('http_reasons_total', { reason: 'client-gone' })).toBe(1);
  expect(line).toMatchObject({ status: 499, reason: 'client-gone', backend: app.address });
});

test('trailers pass to who asked for them, but for those that may not travel', async () => {
  const app = await backend();
  app.script = (exchange) =>
    exchange.reply(
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\ngrpc-status: 0\r\nx-sum: 9\r\nSet-Cookie: a=1\r\nX_Forwarded_For: 1\r\n\r\n',
    );
  await start(oneRoute(app));
  const with1 = await ask('GET / HTTP/1.1\r\nHost: app.test\r\nTE: trailers\r\nConnection: TE\r\n\r\n');
  expect(with1.trailers).toEqual([
    ['grpc-status', '0'],
    ['x-sum', '9'],
  ]);
  const without = await ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
  expect([without.complete, without.trailers]).toEqual([true, []]);
  const connection = await H2Connection.connect({ port: edge.port });
  const stream = connection.open(
    [
      [':method', 'GET'],
      [':scheme', 'http'],
      [':path', '/'],
      [':authority', 'app.test'],
    ],
    { endStream: true },
  );
  const h2 = await stream.answer();
  expect([h2.complete, h2.body.toString(), h2.trailers]).toEqual([
    true,
    'hi',
    [
      ['grpc-status', '0'],
      ['x-sum', '9'],
    ],
  ]);
  connection.destroy();
});

test('trailers of an upload pass as well, under the same rule, also when all of it comes at once', async () => {
  const app = await backend();
  await start(oneRoute(app));
  const connection = await H2Connection.connect({ port: edge.port });
  const lines: [string, string][] = [
    [':method', 'POST'],
    [':scheme', 'http'],
    [':path', '/'],
    [':authority', 'app.test'],
  ];
  connection.socket.cork();
  const stream = connection.open(lines, { endStream: false });
  const sent = stream.send('data');
  stream.sendTrailers([
    ['x-sum', '9'],
    ['x-forwarded-for', '6.6.6.6'],
  ]);
  connection.socket.uncork();
  await sent;
  expect((await stream.answer()).status).toBe(200);
  expect(app.last.body.toString()).toBe('data');
  expect(app.last.trailers).toEqual([['x-sum', '9']]);
  connection.destroy();
});

test('an answer that stops in the middle is cut after the idle limit, one that keeps moving is not', async () => {
  const app = await backend();
  await start(oneRoute(app, { limits: routeLimits({ bodyIdleTimeoutMs: 200, backendHeadTimeoutMs: 200 }) }));
  app.script = (exchange) => exchange.send('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc');
  expect((await ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n')).complete).toBe(false);
  app.script = (exchange) => {
    exchange.send('HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n');
    let sent = 0;
    const timer = setInterval(() => {
      exchange.send('x');
      if (++sent === 8) clearInterval(timer);
    }, 60);
  };
  expect((await ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n')).complete).toBe(true);
  app.script = () => {};
  expect((await ask('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n')).status).toBe(504);
  const client = await RawClient.connect({ port: edge.port });
  expect((await client.ask('POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 10\r\n\r\nabc')).status).toBe(408);
  app.script = (exchange) => exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n');
  const events = await RawClient.connect({ port: edge.port });
  events.write('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
  await events.waitForText('data: 1');
  await new Promise((resolve) => setTimeout(resolve, 400));
  expect(events.ended).toBe(false);
});

// Public reports about gates, replayed: ways past a login, stolen credentials, sessions that live on.
// Invariant: each test names the report or the attack; what may not pass leaves no request at the app.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { defaultGateSettings } from '../../src/model/gate-policy.ts';
import type { GateSettings, RouteGate } from '../../src/model/snapshot.ts';
import { closeH2Connections } from '../support/h2-frames.ts';
import { type Answer, closeRawClients, fieldValue, RawClient } from '../support/raw-client.ts';
import { type Line, Recorder, valuesOf } from '../support/recorder.ts';
import {
  entrypoint,
  host,
  noCertificates,
  route,
  routing,
  settings as routingSettings,
  service,
} from '../support/routing.ts';
import { Requester, type Transport } from '../support/transports.ts';
import { until } from '../support/wait.ts';
import { acceptHandshake, decodeWsFrames, echoScript, encodeWsFrame, handshake } from '../support/websocket-frames.ts';
import { Edge } from '../unit/http-kit.ts';

let app: Recorder;
let edge: Edge;
const requesters: Requester[] = [];

const gate = (name: string, over: Partial<RouteGate> = {}): RouteGate => ({
  app: name,
  policy: 'gated',
  sessionPassthrough: false,
  openPaths: [],
  upgradeOpenPaths: [],
  allowedOrigins: [],
  ...over,
});

const hosts = [
  host('app1.test', [route('app1.test', 'app', { gate: gate('app1') })]),
  host('app2.test', [route('app2.test', 'app', { gate: gate('app2') })]),
  host('open.test', [route('open.test', 'app', { gate: gate('open', { policy: 'open' }) })]),
  host('session.test', [route('session.test', 'app', { gate: gate('session', { policy: 'session' }) })]),
  host('rules.test', [
    route('rules.test', 'app', {
      gate: gate('rules', { openPaths: ['/public/*', '/webhook/*', '/exact'], upgradeOpenPaths: ['/ws'] }),
    }),
  ]),
  host('split.test', [
    route('split.test/admin', 'app', { path: '/admin', gate: gate('split') }),
    route('split.test', 'app'),
  ]),
  host('listed.test', [
    route('listed.test', 'app', { gate: gate('listed', { allowedOrigins: ['https://friend.test'] }) }),
  ]),
  host('passthrough.test', [route('passthrough.test', 'app', { gate: gate('through', { sessionPassthrough: true }) })]),
  host('free.test', [route('free.test', 'app')]),
  host('down.test', [route('down.test', 'down', { gate: gate('down') })]),
  host('down-session.test', [
    route('down-session.test', 'down', { gate: gate('down-session', { policy: 'session' }) }),
  ]),
];

function publish(overrides: Record<string, boolean> = {}, settings: Partial<GateSettings> = {}): void {
  const services = [service('app', 1, [app.address]), service('down', 1, ['127.0.0.1:9'])];
  edge.publish(routing({ hosts, services }), noCertificates, {
    overrides,
    settings: { ...defaultGateSettings, ...settings },
  });
}

beforeAll(async () => {
  app = await Recorder.start({ name: 'app' });
  edge = await Edge.start({ routing: routing({ hosts: [], services: [] }) });
  edge.gate.user('anna', { role: 'owner' });
  edge.gate.user('ben', { apps: ['app1'] });
  publish();
});

afterEach(() => {
  for (const requester of requesters.splice(0)) requester.close();
  closeRawClients();
  closeH2Connections();
  app.reset();
  edge.trustedPeer = false;
  edge.gate.waits = {};
  edge.gate.wrongTokens.length = 0;
});

afterAll(async () => {
  await edge?.close();
  await app?.close();
});

/** Tunnels of earlier tests may still be lingering. */
const claims = (): number => [...edge.traffic.generations()].reduce((sum, { active }) => sum + active, 0);

const cookieOf = (id: string): Line => ['Cookie', `turnpike_session=${id}`];
const anna = (name = 'anna'): string => edge.gate.session(name, 'anna');

function requester(transport: Transport): Requester {
  const made = new Requester(transport, { plainPort: edge.port, tlsPort: edge.port, ca: '' });
  requesters.push(made);
  return made;
}

function ask(
  name: string,
  path: string,
  lines: readonly Line[] = [],
  method = 'GET',
  transport: Transport = 'h1',
): Promise<Answer> {
  return requester(transport).request({ host: name, path, lines, method });
}

/** The exact bytes: a client library would mend some of them. */
async function raw(head: string): Promise<Answer> {
  const client = await RawClient.connect({ port: edge.port });
  return client.ask(head);
}

async function expectGated(answer: Answer, what = ''): Promise<void> {
  expect(answer.status, what).toBe(401);
  expect(
    app.exchanges.map(({ target }) => target),
    what,
  ).toEqual([]);
}

describe('no header talks its way past the gate', () => {
  it.each([
    ['GHSA-5hvv-m4w4-gf6v: the User-Agent of a health check', [['User-Agent', 'kube-probe/1.29']]],
    [
      'a load balancer’s health check',
      [
        ['User-Agent', 'GoogleHC/1.0'],
        ['User-Agent', 'ELB-HealthChecker/2.0'],
      ],
    ],
    [
      'GHSA-7x63-xv5r-3p2x: X-Forwarded-Uri of an open path',
      [
        ['X-Forwarded-Uri', '/public/x'],
        ['X-Original-URL', '/public/x'],
      ],
    ],
    [
      'X-Forwarded-Host and Forwarded of another host',
      [
        ['X-Forwarded-Host', 'open.test'],
        ['Forwarded', 'host=open.test'],
      ],
    ],
    ['X-HTTP-Method-Override', [['X-HTTP-Method-Override', 'OPTIONS']]],
    [
      'CVE-2025-64484: identity headers in every spelling',
      [
        ['Remote-User', 'anna'],
        ['X-Turnpike-User', 'anna'],
        ['X_Turnpike_User', 'anna'],
        ['X-Auth-Request-User', 'anna'],
      ],
    ],
    [
      'a fake internal marker',
      [
        ['X-Turnpike-Down', '1'],
        ['X-Request-Id', 'internal'],
      ],
    ],
  ] as [string, Line[]][])('%s', async (_, lines) => {
    await expectGated(await ask('rules.test', '/private', lines));
  });

  it('tinyauth: name and password by Basic are no session, with or without a second factor', async () => {
    const basic = Buffer.from('anna:correct horse battery').toString('base64');
    await expectGated(await ask('app1.test', '/', [['Authorization', `Basic ${basic}`]]));
  });

  it('umbrel: an upgrade is judged as everything else', async () => {
    const { answer } = await requester('h1').webSocket({ host: 'app1.test', path: '/ws' });
    await expectGated(answer);
    const h2 = await requester('h2c').webSocket({ host: 'app1.test', path: '/ws' });
    await expectGated(h2.answer);
  });

  it('a token in the query opens nothing', async () => {
    const token = edge.gate.token('query', 'app1');
    await expectGated(await ask('app1.test', `/?token=${token}&access_token=${token}`));
  });

  it('two tokens are none', async () => {
    const token = edge.gate.token('twice', 'app1');
    const twice: Line[] = [
      ['Authorization', `Bearer ${token}`],
      ['Authorization', `Bearer ${token}`],
    ];
    await expectGated(await ask('app1.test', '/', twice));
  });

  it('later requests of a connection are judged by what they bring themselves', async () => {
    const connection = requester('h1');
    const id = anna('keepalive');
    expect((await connection.request({ host: 'app1.test', path: '/1', lines: [cookieOf(id)] })).status).toBe(200);
    expect((await connection.request({ host: 'app1.test', path: '/2' })).status).toBe(401);
    expect((await connection.request({ host: 'app2.test', path: '/3' })).status).toBe(401);
    expect(app.exchanges.map(({ target }) => target)).toEqual(['/1']);
  });
});

describe('a path has one meaning where it decides (caddyserver/caddy#7941, GHSA-pxq7-h93f-9jrg, GHSA-7rh7-c77v-6434)', () => {
  const spellings = [
    '/public/../admin',
    '/public/%2e%2e/admin',
    '/public/..%2fadmin',
    '/public/%252e%252e/admin',
    '/public\\..\\admin',
    '/public/..;/admin',
    '//admin',
    '/public%2fx',
    '/public/./x',
    '/public/%00',
    '/%zz',
    '/public/%5c..',
    '/public/x;y',
    '/public//admin',
    '/public/%2E',
    '/public/%',
    '/public/%2',
    '/public/x%23',
    '/public/x%3f',
  ];
  it.each(spellings)('%s is refused', async (path) => {
    const answer = await raw(`GET ${path} HTTP/1.1\r\nHost: rules.test\r\n\r\n`);
    expect(answer.status).toBe(400);
    expect(app.exchanges).toEqual([]);
    const upgrade = await raw(handshake('rules.test', path));
    expect(upgrade.status).toBe(400);
    const overH2 = await ask('rules.test', path, [], 'GET', 'h2c');
    expect(overH2.status).toBe(400);
    expect(app.exchanges).toEqual([]);
  });

  it.each([
    '/PUBLIC/x',
    '/publicx',
    '/public',
    '/admin?/public/',
    '/exact/',
    '/Exact',
    '/exact/more',
    '/webhook',
    '/webhookx',
  ])('%s asks for a login', async (path) => expectGated(await ask('rules.test', path)));

  it('a fragment has no place in a request', async () => {
    const answer = await raw('GET /admin#/public/ HTTP/1.1\r\nHost: rules.test\r\n\r\n');
    expect([400, 401]).toContain(answer.status);
    expect(app.exchanges).toEqual([]);
  });

  it('what is decided on is what is forwarded', async () => {
    expect((await ask('rules.test', '/%70ublic/%7Ex%c3%a9?a=%2e%2e/&b=%70')).status).toBe(200);
    expect(app.last.target).toBe('/public/~x%C3%A9?a=%2e%2e/&b=%70');
  });

  it('an app without rules gets the raw path', async () => {
    const path = '/a/../b//c;d=1/%2e%2e/%2f?x';
    const answer = await raw(
      `GET ${path} HTTP/1.1\r\nHost: app1.test\r\nCookie: turnpike_session=${anna('rawpath')}\r\n\r\n`,
    );
    expect(answer.status).toBe(200);
    expect(app.last.target).toBe(path);
  });

  it.each(['/%61dmin', '//admin', '/x/../admin', '/admin;x', '/%2561dmin', '/./admin'])(
    'a gated route beside an open one is not got around by %s',
    async (path) => {
      const answer = await raw(`GET ${path} HTTP/1.1\r\nHost: split.test\r\n\r\n`);
      expect([400, 401]).toContain(answer.status);
      expect(app.exchanges).toEqual([]);
    },
  );

  it('open paths pass with the app’s own Authorization and without an identity', async () => {
    const lines: Line[] = [
      ['Authorization', 'Bearer app-token'],
      ['Remote-User', 'x'],
    ];
    for (const path of ['/webhook/', '/webhook/x', '/exact', '/exact?a']) {
      expect((await ask('rules.test', path, lines)).status, path).toBe(200);
      expect(app.last.values('authorization'), path).toEqual(['Bearer app-token']);
      expect(app.last.head, path).not.toMatch(/turnpike-user|remote-user/i);
    }
  });

  it('a path that is open to upgrades is open to nothing else', async () => {
    app.script = echoScript;
    const { answer } = await requester('h1').webSocket({ host: 'rules.test', path: '/ws' });
    expect(answer.status).toBe(101);
    app.reset();
    await expectGated(await ask('rules.test', '/ws'));
    await expectGated(
      await ask('rules.test', '/ws', [
        ['Connection', 'Upgrade'],
        ['Upgrade', 'websocket'],
      ]),
      'no key',
    );
    app.reset();
    // An app that does not care for the upgrade answers the page.
    const refused = await raw(handshake('rules.test', '/ws'));
    expect(refused.status).toBe(401);
    expect(refused.body.toString()).not.toBe('app');
  });
});

describe('credentials stay with the gate', () => {
  it.each(['h1', 'h2c'] as const)(
    'our cookie is taken out in every spelling, the rest keeps its order [%s]',
    async (transport) => {
      const id = anna('spelled');
      const lines: Line[] = [
        ['Cookie', `a=1; turnpike_session=${id}; b="x y"`],
        ['Cookie', `Turnpike_Session=${id};c=3`],
        ['Cookie', `turnpike_session="${id}"; __Host-turnpike_session=${id}; turnpike_visit=${id}`],
      ];
      expect((await ask('app1.test', '/', lines, 'GET', transport)).status).toBe(200);
      expect(app.last.values('cookie')).toEqual(['a=1; b="x y";c=3']);
      expect(app.last.head).not.toContain(id);
    },
  );

  it.each(['h1', 'h2c'] as const)(
    'that holds for every request of a connection, whoever changes in between [%s]',
    async (transport) => {
      const connection = requester(transport);
      const [first, second] = [anna('again'), edge.gate.session('again-ben', 'ben')];
      const sent = [
        `a=1; turnpike_session=${first}`,
        `a=1; turnpike_session=${first}`,
        `turnpike_session=${second}; b=2`,
        `turnpike_session=${second}`,
        `turnpike_session=${second}`,
        `a=1; turnpike_session=${first}`,
      ];
      for (const cookie of sent) {
        expect((await connection.request({ host: 'app1.test', path: '/', lines: [['Cookie', cookie]] })).status).toBe(
          200,
        );
      }
      expect(app.exchanges.map((each) => each.value('cookie'))).toEqual(['a=1', 'a=1', 'b=2', null, null, 'a=1']);
      expect(app.exchanges.map((each) => each.value('x-turnpike-user'))).toEqual([
        'anna',
        'anna',
        'ben',
        'ben',
        'ben',
        'anna',
      ]);
    },
  );

  it('a cookie line that was ours alone is no line any more', async () => {
    expect((await ask('app1.test', '/', [cookieOf(anna('alone'))])).status).toBe(200);
    expect(app.last.head.toLowerCase()).not.toContain('cookie');
  });

  it('an Authorization of the app stays beside a session', async () => {
    const lines: Line[] = [cookieOf(anna('both')), ['Authorization', 'Basic YW5uYTpzZWNyZXQ=']];
    expect((await ask('app1.test', '/', lines)).status).toBe(200);
    expect(app.last.values('authorization')).toEqual(['Basic YW5uYTpzZWNyZXQ=']);
  });

  it('an app that is not behind the gate sees neither cookie nor token, when they are sent to it', async () => {
    const token = edge.gate.token('stray', 'app1');
    const lines: Line[] = [
      ['Cookie', `a=1; turnpike_session=${anna('stray')}`],
      ['Authorization', `Bearer ${token}`],
      ['X-Turnpike-User', 'x'],
    ];
    expect((await ask('free.test', '/', lines)).status).toBe(200);
    expect(app.last.values('cookie')).toEqual(['a=1']);
    expect(app.last.head).not.toMatch(/tp_|turnpike/i);
  });

  it('session_passthrough hands the session on to a first-party companion', async () => {
    const id = anna('through');
    expect(
      (await ask('passthrough.test', '/', [['Cookie', `a=1; turnpike_session=${id}; turnpike_visit=v`]])).status,
    ).toBe(200);
    expect(app.last.values('cookie')).toEqual([`a=1; turnpike_session=${id}`]);
    publish({ through: false });
    expect((await ask('passthrough.test', '/', [cookieOf(id)])).status).toBe(200);
    expect(app.last.values('cookie')).toEqual([]);
    publish();
  });

  it('identity headers are ours alone, on gated and open apps, in every spelling (oauth2-proxy CVE-2025-64484)', async () => {
    const forged: Line[] = [
      ['Remote-User', 'x'],
      ['Remote_User', 'x'],
      ['remote.user', 'x'],
      ['X-Turnpike-Role', 'x'],
      ['X_TURNPIKE_ROLE', 'x'],
      ['X-Forwarded-User', 'x'],
      ['X_Forwarded-User', 'x'],
      ['X-Auth-Request-Email', 'x'],
      ['X-WEBAUTH-USER', 'x'],
    ];
    edge.trustedPeer = true;
    expect((await ask('app1.test', '/', [cookieOf(anna('identity')), ...forged])).status).toBe(200);
    const kept = app.last.lines.filter(([, value]) => value === 'x');
    expect(kept).toEqual([]);
    expect(['user', 'role', 'app'].map((each) => app.last.value(`x-turnpike-${each}`))).toEqual([
      'anna',
      'owner',
      'app1',
    ]);
    expect((await ask('open.test', '/', forged)).status).toBe(200);
    expect(app.last.lines.filter(([, value]) => value === 'x')).toEqual([]);
    expect(app.last.head).not.toMatch(/x-turnpike/i);
  });

  it('the app cannot set or clear our cookie, and the lines are counted', async () => {
    const before = edge.metric('gate_foreign_cookies_total', {});
    app.script = (exchange) =>
      exchange.ok(
        '',
        [
          'turnpike_session=evil; Domain=test',
          'TURNPIKE_SESSION=; Max-Age=0',
          '=turnpike_session=evil',
          'mine=1; Path=/',
          '__Host-turnpike_session=evil; Secure; Path=/',
          ' turnpike_visit=evil',
          'theirs=turnpike_session',
        ]
          .map((each) => `Set-Cookie: ${each}\r\n`)
          .join(''),
      );
    const answer = await ask('app1.test', '/', [cookieOf(anna('foreign'))]);
    expect(valuesOf(answer.lines, 'set-cookie')).toEqual(['mine=1; Path=/', 'theirs=turnpike_session']);
    expect(edge.metric('gate_foreign_cookies_total', {}) - before).toBe(5);
  });
});

describe('sessions', () => {
  it('of two cookies with different identities none counts, of one alive and one unknown the live one does', async () => {
    const first = anna('one');
    const second = edge.gate.session('two', 'ben');
    const pair = (a: string, b: string): Line[] => [['Cookie', `turnpike_session=${a}; turnpike_session=${b}`]];
    await expectGated(await ask('app1.test', '/', pair(first, second)));
    expect((await ask('app1.test', '/', pair(first, 'x'.repeat(43)))).status).toBe(200);
    expect((await ask('app1.test', '/', pair(first, first))).status).toBe(200);
  });

  it('born on https is not taken in the clear, nor on another name', async () => {
    const id = edge.gate.session('secure', 'anna', { secure: true, host: 'app1.test' });
    await expectGated(
      await ask('app1.test', '/', [['Cookie', `turnpike_session=${id}; __Host-turnpike_session=${id}`]]),
    );
    edge.trustedPeer = true;
    const proxied: Line[] = [
      ['X-Forwarded-Proto', 'https'],
      ['Cookie', `__Host-turnpike_session=${id}`],
    ];
    expect((await ask('app1.test', '/', proxied)).status).toBe(200);
    app.reset();
    await expectGated(await ask('app2.test', '/', proxied));
    edge.trustedPeer = false;
    await expectGated(await ask('app1.test', '/', proxied), 'nobody else may say that it is https');
  });

  it('GHSA-f24x-5g9q-753f: an id that nobody gave out is never taken up', async () => {
    const planted = 'F'.repeat(43);
    await expectGated(await ask('app1.test', '/', [cookieOf(planted)]));
    const page = await ask('app1.test', '/.turnpike/login', [cookieOf(planted)]);
    expect(valuesOf(page.lines, 'set-cookie').join()).not.toContain(planted);
  });
});

describe('cross-site WebSocket', () => {
  const origins: [string | null, number][] = [
    ['http://evil.test', 403],
    ['null', 403],
    ['http://app1.test.evil.test', 403],
    ['http://app2.test', 403],
    ['https://app1.test', 403],
    ['http://app1.test:8443', 403],
    ['http://app1.test@evil.test', 403],
    ['', 403],
    ['http://app1.test', 101],
    ['http://app1.test:80', 101],
    ['HTTP://APP1.TEST', 101],
    [null, 101],
  ];
  it.each(origins)('with a session and Origin %s: %s', async (origin, status) => {
    app.script = echoScript;
    const lines: Line[] = [cookieOf(anna('ws')), ...(origin === null ? [] : [['Origin', origin] as Line])];
    const { answer } = await requester('h1').webSocket({ host: 'app1.test', path: '/ws', lines });
    expect(answer.status).toBe(status);
    expect(app.exchanges.length).toBe(status === 101 ? 1 : 0);
    const h2 = await requester('h2c').webSocket({ host: 'app1.test', path: '/ws', lines });
    expect(h2.answer.status).toBe(status === 101 ? 200 : 403);
  });

  it('a token needs no Origin, a listed origin is as good as the own one', async () => {
    app.script = echoScript;
    const bearer: Line[] = [['Authorization', `Bearer ${edge.gate.token('native', 'app1')}`]];
    expect((await requester('h1').webSocket({ host: 'app1.test', path: '/ws', lines: bearer })).answer.status).toBe(
      101,
    );
    const listed: Line[] = [cookieOf(anna('listed')), ['Origin', 'https://friend.test']];
    expect((await requester('h1').webSocket({ host: 'listed.test', path: '/ws', lines: listed })).answer.status).toBe(
      101,
    );
  });
});

describe('what a session opened ends with it', () => {
  it('a WebSocket gets 1008 between two frames within a second, and nothing from the client passes any more', async () => {
    app.script = (exchange) => void exchange.send(acceptHandshake(exchange));
    const id = anna('ends-ws');
    const client = await RawClient.connect({ port: edge.port });
    client.write(handshake('app1.test', '/ws', [cookieOf(id)]));
    await client.waitForText('101');
    const { connection } = await app.waitForExchange();
    const began = performance.now();
    edge.gate.endSession(id);
    client.write(encodeWsFrame(1, 'too late', { mask: true }));
    await client.waitForEnd();
    expect(performance.now() - began).toBeLessThan(1000);
    const { frames } = decodeWsFrames(client.received.subarray(client.received.indexOf('\r\n\r\n') + 4));
    expect(frames.map(({ opcode, payload }) => [opcode, payload.readUInt16BE(0)])).toEqual([[8, 1008]]);
    await until('the end at the app', () => connection.closedAt !== null || connection.finAt !== null);
    expect(connection.raw.length).toBe(0);
  });

  it('a frame that does not end is cut within a second', async () => {
    app.script = (exchange) => void exchange.send(acceptHandshake(exchange));
    const id = anna('ends-frame');
    const client = await RawClient.connect({ port: edge.port });
    client.write(handshake('app1.test', '/ws', [cookieOf(id)]));
    await client.waitForText('101');
    const { connection } = await app.waitForExchange();
    connection.send(Buffer.from([0x82, 0x7e, 0x40, 0x00, 1, 2, 3]));
    await until('the frame at the client', () => client.received.includes(Buffer.from([1, 2, 3])));
    const began = performance.now();
    edge.gate.endSession(id);
    await client.waitForEnd();
    expect(performance.now() - began).toBeLessThan(1000);
  });

  it.each(['h1', 'h2c'] as const)(
    'an event stream is cut visibly, and so is an answer that has not begun [%s]',
    async (transport) => {
      app.script = (exchange) => {
        if (exchange.target === '/events')
          exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n');
      };
      const before = claims();
      const id = anna(`ends-${transport}`);
      const live = await requester(transport).open({ host: 'app1.test', path: '/events', lines: [cookieOf(id)] });
      await live.seen('data: 1');
      const waiting = ask('app1.test', '/slow', [cookieOf(id)], 'GET', transport);
      await app.waitForExchange(2);
      const began = performance.now();
      edge.gate.endSession(id);
      const cut = await live.answer();
      expect(performance.now() - began).toBeLessThan(1000);
      expect(cut.complete).toBe(false);
      expect((await waiting).status).toBe(401);
      await until('the claims to be released', () => claims() <= before);
      expect((await ask('app1.test', '/', [cookieOf(id)])).status).toBe(401);
    },
  );

  it('a revoked token ends its streams, and so does a right that was taken away; other sessions live on', async () => {
    app.script = echoScript;
    const token = edge.gate.token('ends', 'app1');
    edge.gate.user('carl', { apps: ['app1'] });
    const carl = edge.gate.session('carl', 'carl');
    const stays = anna('stays');
    const open = async (line: Line) =>
      (await requester('h1').webSocket({ host: 'app1.test', path: '/ws', lines: [line] })).tunnel;
    const byToken = await open(['Authorization', `Bearer ${token}`]);
    const byRight = await open(cookieOf(carl));
    const other = await open(cookieOf(stays));
    edge.gate.endToken(token);
    edge.gate.user('carl', { apps: [] });
    await byToken.waitForEnd(1000);
    await byRight.waitForEnd(1000);
    other.send(encodeWsFrame(1, 'still here', { mask: true }));
    expect((await other.waitForFrames(1))[0]?.payload.toString()).toBe('still here');
    expect((await ask('app1.test', '/', [cookieOf(carl)])).status).toBe(403);
  });
});

describe('clients are answered in their own way', () => {
  it('Expect: 100-continue is not answered by 100, and the body is not read', async () => {
    const client = await RawClient.connect({ port: edge.port });
    const answer = await client.ask(
      'POST /up HTTP/1.1\r\nHost: app1.test\r\nExpect: 100-continue\r\nContent-Length: 1000000\r\n\r\n',
    );
    expect([answer.status, answer.interim.length]).toEqual([401, 0]);
    expect(app.exchanges).toEqual([]);
  });

  it('HEAD is led to the login like GET, and gets no body', async () => {
    const answer = await ask('app1.test', '/x', [['Accept', 'text/html']], 'HEAD');
    expect([answer.status, answer.body.length]).toEqual([303, 0]);
  });

  it('XMLHttpRequest on plain http, where browsers send no Sec-Fetch fields', async () => {
    const lines: Line[] = [
      ['Accept', 'text/html, */*'],
      ['X-Requested-With', 'XMLHttpRequest'],
      ['User-Agent', 'Mozilla/5.0'],
    ];
    const answer = await ask('app1.test', '/x', lines);
    expect(answer.status).toBe(401);
    expect(valuesOf(answer.lines, 'www-authenticate').join()).not.toContain('Basic');
  });

  it('native clients that wait for a Basic challenge get one', async () => {
    const answer = await ask('app1.test', '/x', [['User-Agent', 'git/2.43']]);
    expect(valuesOf(answer.lines, 'www-authenticate').map((each) => each.split(' ')[0])).toEqual(['Bearer', 'Basic']);
  });

  it('wrong tokens are counted by address, once each, and answered 429 when there were too many', async () => {
    const wrong = `tp_${'w'.repeat(43)}`;
    for (let i = 0; i < 3; i++) await ask('app1.test', '/', [['Authorization', `Bearer ${wrong}`]]);
    expect(edge.gate.wrongTokens).toEqual(['127.0.0.1']);
    edge.gate.waits = { '127.0.0.1': 42 };
    const answer = await ask('app1.test', '/', [
      ['Authorization', `Bearer ${wrong}`],
      ['X-Forwarded-For', '9.9.9.9'],
    ]);
    expect([answer.status, fieldValue(answer, 'retry-after')]).toEqual([429, '42']);
    const right = edge.gate.token('unaffected', 'app1');
    expect((await ask('app1.test', '/', [['Authorization', `Bearer ${right}`]])).status).toBe(200);
    expect((await ask('app1.test', '/', [cookieOf(anna('unaffected'))])).status).toBe(200);
  });

  it('tokens are narrowed by path, method and address, and a second spelling of the path is another path', async () => {
    const token = edge.gate.token('narrow', 'app1', { paths: ['/api/*'], methods: ['GET'] });
    const bearer: Line[] = [['Authorization', `Bearer ${token}`]];
    expect((await ask('app1.test', '/api/x', bearer)).status).toBe(200);
    app.reset();
    for (const path of ['/', '/apix', '/api/../x', '/api/%2e%2e/x', '/api//x']) {
      const answer = await raw(`GET ${path} HTTP/1.1\r\nHost: app1.test\r\nAuthorization: Bearer ${token}\r\n\r\n`);
      expect(answer.status, path).toBe(403);
    }
    expect((await ask('app1.test', '/api/x', bearer, 'POST')).status).toBe(403);
    const elsewhere = edge.gate.token('elsewhere', 'app1', { cidrs: ['10.0.0.0/8'] });
    expect((await ask('app1.test', '/', [['Authorization', `Bearer ${elsewhere}`]])).status).toBe(403);
    const claims: Line[] = [
      ['Authorization', `Bearer ${elsewhere}`],
      ['X-Forwarded-For', '10.1.2.3'],
    ];
    expect((await ask('app1.test', '/', claims)).status).toBe(403);
    expect(app.exchanges).toEqual([]);
    edge.trustedPeer = true;
    expect((await ask('app1.test', '/', claims)).status).toBe(200);
  });
});

describe('gated and open apps in the dashboard’s frame', () => {
  const headers = (...lines: string[]): string => lines.map((line) => `${line}\r\n`).join('');
  const policy = "default-src 'self';frame-ancestors  'none' ; img-src *";

  it('X-Frame-Options goes, frame-ancestors becomes the dashboard’s, everything else keeps its bytes', async () => {
    publish({}, { port: 8000, dashboardOrigins: ['https://home.example'] });
    app.script = (exchange) =>
      exchange.ok(
        '',
        headers(
          'X-Frame-Options: DENY',
          `Content-Security-Policy: ${policy}`,
          `content-security-policy-report-only: Frame-Ancestors none,script-src x`,
          'Content-Security-Policy: img-src y',
        ),
      );
    const answer = await ask('open.test', '/');
    expect(fieldValue(answer, 'x-frame-options')).toBe(null);
    const sources = "'self' http://open.test:8000 https://home.example";
    expect(valuesOf(answer.lines, 'content-security-policy')).toEqual([
      `default-src 'self';frame-ancestors ${sources} ; img-src *`,
      'img-src y',
    ]);
    expect(fieldValue(answer, 'content-security-policy-report-only')).toBe(`Frame-Ancestors ${sources},script-src x`);
    publish();
  });

  it('an app that forbade frames is not opened to every site, and one that said nothing is left alone', async () => {
    app.script = (exchange) => exchange.ok('', headers('X-Frame-Options: SAMEORIGIN'));
    expect(fieldValue(await ask('open.test', '/'), 'content-security-policy')).toBe("frame-ancestors 'self'");
    app.script = (exchange) => exchange.ok('');
    expect(fieldValue(await ask('open.test', '/'), 'content-security-policy')).toBe(null);
  });

  it('an app with the policy session keeps its own word', async () => {
    app.script = (exchange) => exchange.ok('', headers('X-Frame-Options: DENY', `Content-Security-Policy: ${policy}`));
    const answer = await ask('session.test', '/', [cookieOf(anna('frames'))]);
    expect([fieldValue(answer, 'x-frame-options'), fieldValue(answer, 'content-security-policy')]).toEqual([
      'DENY',
      policy,
    ]);
  });
});

describe('while the app is down', () => {
  it('people get a page that waits, others a 503 in their format', async () => {
    const id = anna('down');
    const page = await ask('down.test', '/x', [cookieOf(id), ['Accept', 'text/html']]);
    expect([page.status, fieldValue(page, 'retry-after'), fieldValue(page, 'x-turnpike-down')]).toEqual([
      503,
      '5',
      '1',
    ]);
    expect(page.body.toString()).toContain('down is not running');
    const json = await ask('down.test', '/x', [cookieOf(id), ['Accept', 'application/json']]);
    expect([json.status, JSON.parse(json.body.toString()).code]).toEqual([503, 'app-down']);
    expect((await ask('down.test', '/x')).status).toBe(401);
  });

  it('an app with the policy session gives a plain 502', async () => {
    const answer = await ask('down-session.test', '/x', [cookieOf(anna('down-session')), ['Accept', 'text/html']]);
    expect([answer.status, fieldValue(answer, 'x-turnpike-down')]).toEqual([502, null]);
  });

  it('a 503 that the app means is the app’s, and without our mark the page does not wait', async () => {
    app.script = (exchange) => exchange.reply('HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nmine');
    const answer = await ask('open.test', '/', [['Accept', 'text/html']]);
    expect([answer.body.toString(), fieldValue(answer, 'x-turnpike-down')]).toEqual(['mine', null]);
  });
});

describe('overrides at run time', () => {
  it('win both ways on the next request of an open connection', async () => {
    const connection = requester('h1');
    const status = async (name: string) => (await connection.request({ host: name, path: '/' })).status;
    expect([await status('app1.test'), await status('open.test'), await status('session.test')]).toEqual([
      401, 200, 401,
    ]);
    publish({ app1: false, open: true, session: false });
    expect([await status('app1.test'), await status('open.test'), await status('session.test')]).toEqual([
      200, 401, 200,
    ]);
    publish();
    expect([await status('app1.test'), await status('open.test'), await status('session.test')]).toEqual([
      401, 200, 401,
    ]);
  });

  it('rules about paths stay, whatever is asked for', async () => {
    publish({ rules: false });
    const answer = await raw('GET /public/../admin HTTP/1.1\r\nHost: rules.test\r\n\r\n');
    expect(answer.status).toBe(400);
    publish();
  });
});

describe('the gate’s own addresses', () => {
  const form = async (
    transport: Transport,
    body: string,
    lines: readonly Line[] = [],
    unknownLength = false,
  ): Promise<Answer> => {
    const page = await ask('app1.test', '/.turnpike/login');
    const mark = fieldValue(page, 'set-cookie')!.split(';', 1)[0]!;
    const token = /name="token" value="([^"]+)"/.exec(page.body.toString())![1]!;
    return requester(transport).request({
      method: 'POST',
      host: 'app1.test',
      path: '/.turnpike/login',
      lines: [['Cookie', mark], ['Content-Type', 'application/x-www-form-urlencoded'], ...lines],
      body: `token=${token}&user=anna&password=p&rd=%2Fx${body}`,
      unknownLength,
    });
  };

  it.each(['h1', 'h2c'] as const)('take a form of known and of unknown length [%s]', async (transport) => {
    edge.gate.answer = ({ topic }) => (topic === 'login' ? { kind: 'ok', id: 'n'.repeat(43) } : null);
    for (const unknownLength of [false, true]) {
      const answer = await form(transport, '', [], unknownLength);
      expect([answer.status, fieldValue(answer, 'location')]).toEqual([303, '/x']);
      expect(fieldValue(answer, 'set-cookie')).toMatch(/^turnpike_session=n{43}; /);
    }
    expect(edge.gate.asked.at(-1)).toMatchObject({
      topic: 'login',
      ask: { user: 'anna', password: 'p', caller: { address: '127.0.0.1', host: 'app1.test', secure: false } },
    });
    expect(app.exchanges).toEqual([]);
  });

  it('read no more than a form, and nothing that is none', async () => {
    edge.gate.asked.length = 0;
    expect((await form('h1', `&x=${'x'.repeat(9000)}`, [], true)).status).toBe(413);
    expect((await form('h1', `&x=${'x'.repeat(9000)}`)).status).toBe(403);
    const json = await ask(
      'app1.test',
      '/.turnpike/login',
      [
        ['Content-Type', 'application/json'],
        ['Content-Length', '0'],
      ],
      'POST',
    );
    expect(json.status).toBe(403);
    expect(edge.gate.asked).toEqual([]);
  });

  it('are there for nobody who left, and for no other host', async () => {
    const client = await RawClient.connect({ port: edge.port });
    client.write(
      'POST /.turnpike/login HTTP/1.1\r\nHost: app1.test\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ntoken=',
    );
    client.reset();
    expect((await ask('free.test', '/.turnpike/login')).status).toBe(200);
    expect(app.last.target).toBe('/.turnpike/login');
    app.reset();
    expect((await ask('split.test', '/.turnpike/x')).status).toBe(404);
    expect((await ask('open.test', '/.turnpike/login?rd=/')).status).toBe(200);
    expect(app.exchanges).toEqual([]);
  });

  it('a bug in one is a 500 without detail, and the supervisor that cannot be asked a 503', async () => {
    edge.gate.answer = () => {
      throw new Error('secret detail');
    };
    const answer = await form('h1', '');
    expect([answer.status, answer.body.toString().includes('secret detail')]).toEqual([500, false]);
    edge.gate.answer = () => null;
    expect((await form('h1', '')).status).toBe(503);
  });
});

it('behind a trusted proxy that ends TLS, cookies are those of https; nobody else may say so', async () => {
  const page = async (): Promise<string> =>
    fieldValue(await ask('app1.test', '/.turnpike/login', [['X-Forwarded-Proto', 'https']]), 'set-cookie') ?? '';
  expect(await page()).toMatch(/^turnpike_visit=[^;]+; Path=\/; Max-Age=3600; HttpOnly; SameSite=Lax$/);
  edge.trustedPeer = true;
  expect(await page()).toMatch(/^__Host-turnpike_visit=[^;]+; Path=\/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure$/);
});

describe('the login for other names', () => {
  const both = [entrypoint('web'), entrypoint('secure', { port: 8443, protocol: 'https' })];
  const entrypoints = ['web', 'secure'];
  const gated = (name: string) => [route(name, 'app', { gate: gate(name) })];
  const names = ['tls.test', 'always.test'];
  const certificate = { id: 'c', source: 'static', origin: 'test', names, notBefore: 0, notAfter: 4e12 } as const;

  function publishLogin(redirect = true): void {
    const shared = [
      host('login.test', [route('login.test', '', { action: { kind: 'gate' } })]),
      host('plain.test', gated('plain.test')),
      host('tls.test', gated('tls.test'), { entrypoints }),
      host('always.test', gated('always.test'), { entrypoints, tls: 'always' }),
      host('*.wild.test', gated('*.wild.test')),
      host('*', gated('*'), { entrypoints }),
    ];
    const services = [service('app', 1, [app.address])];
    edge.publish(
      routing({ hosts: shared, services, entrypoints: both, settings: { ...routingSettings, redirect } }),
      { ...noCertificates, certificates: [{ ...certificate, chain: '', key: '' }] },
      { overrides: {}, settings: { ...defaultGateSettings, host: 'login.test' } },
    );
  }

  /** Where somebody who is logged in is led, with the mark of whoever wrote the link. */
  async function leads(to: string): Promise<string | null> {
    const path = `/.turnpike/login?rd=${encodeURIComponent(to)}&v=${'a'.repeat(43)}`;
    const id = edge.gate.session('leads', 'anna', { host: 'login.test' });
    return fieldValue(await ask('login.test', path, [cookieOf(id)]), 'location');
  }

  beforeAll(() => {
    edge.gate.answer = ({ topic }) => (topic === 'handOver' ? { code: 'c'.repeat(43) } : null);
    publishLogin();
  });

  afterAll(() => {
    edge.gate.answer = () => null;
    publish();
  });

  it.each(['http://plain.test', 'https://tls.test', 'https://always.test', 'https://a.wild.test'])(
    'hands its code to %s',
    async (origin) => {
      expect(await leads(`${origin}/x`)).toBe(`${origin}/.turnpike/callback?code=${'c'.repeat(43)}`);
    },
  );

  it.each(['http://evil.test', 'https://evil.test', 'http://evil.test:8080', 'https://192.0.2.66:8443'])(
    'gives none to %s, which the catch-all alone would take',
    async (origin) => {
      expect(await leads(`${origin}/x`)).toBe('/');
    },
  );

  it('gives none in the clear to a name that is not served in the clear', async () => {
    expect([await leads('http://tls.test/x'), await leads('http://tls.test:8080/x')]).toEqual(['/', '/']);
    expect(await leads('http://always.test/x')).toBe('/');
    publishLogin(false);
    expect(await leads('http://tls.test/x')).toMatch(/^http:\/\/tls\.test\/\.turnpike\/callback/);
    expect(await leads('http://always.test/x')).toBe('/');
    publishLogin();
  });

  it('is on the name itself where the catch-all takes it', async () => {
    const page: Line[] = [
      ['Accept', 'text/html'],
      ['Sec-Fetch-Mode', 'navigate'],
      ['Sec-Fetch-Dest', 'document'],
    ];
    const location = async (name: string): Promise<string | null> =>
      fieldValue(await ask(name, '/x', page), 'location');
    expect(await location('plain.test')).toMatch(/^http:\/\/login\.test\/\.turnpike\/login\?rd=/);
    expect(await location('any.test')).toBe('/.turnpike/login?rd=%2Fx');
    expect((await ask('any.test', '/.turnpike/login?rd=%2Fx')).status).toBe(200);
  });
});

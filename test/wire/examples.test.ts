// The set-ups of docs/examples, driven: each runs as documented, on ports of its own, and keeps what its words promise.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { Stage, type StageOptions } from '../support/example-stage.ts';
import { exampleNames } from '../support/examples.ts';
import { type Answer, fieldValue, type RawClient } from '../support/raw-client.ts';
import { until } from '../support/wait.ts';
import { encodeWsFrame, Opcode } from '../support/websocket-frames.ts';

let stage: Stage | null = null;
afterEach(async () => {
  await stage?.strike();
  stage = null;
});

const driven: string[] = [];

/** One process for each set-up: a test walks through all that it promises. */
function drive(name: string, promise: string, options: StageOptions, walk: (s: Stage) => Promise<void>): void {
  driven.push(name);
  it(`${name}: ${promise}`, async () => {
    stage = await Stage.set(name, options);
    await walk(stage);
  });
}

const bodyOf = (answer: Answer): string => answer.body.toString();
const page = [['Accept', 'text/html']] as const;
const hello = encodeWsFrame(Opcode.Text, 'hi', { mask: true });

/** A person's browser is sent to the login, everybody else is told to bring credentials. */
async function asksForLogin(s: Stage, host: string, path: string): Promise<void> {
  const navigation = await s.secure(443, { host, path, lines: page });
  expect([navigation.status, fieldValue(navigation, 'location')?.includes('/.turnpike/')]).toEqual([303, true]);
  const other = await s.secure(443, { host, path });
  expect([other.status, fieldValue(other, 'www-authenticate') !== null]).toEqual([401, true]);
}

async function sentTo(answer: Answer): Promise<readonly [number, string | null]> {
  return [answer.status, fieldValue(answer, 'location')];
}

describe('docs/examples', () => {
  drive(
    'agent-gateway',
    'a page behind a login, and a WebSocket that brings its own token untouched',
    {},
    async (s) => {
      const host = 'agents.example.com';
      expect(await sentTo(await s.plain(80, { host, path: '/a?b' }))).toEqual([308, 'https://agents.example.com/a?b']);
      await asksForLogin(s, host, '/');
      await asksForLogin(s, host, '/ws');
      expect(s.at('127.0.0.1:18789').exchanges).toEqual([]);
      const { answer, tunnel } = await s.webSocket(443, { host, lines: [['Authorization', 'Bearer of-the-app']] });
      expect(answer.status).toBe(101);
      tunnel.send(hello);
      expect((await tunnel.waitForFrames(1))[0]!.payload.toString()).toBe('hi');
      expect(s.at('127.0.0.1:18789').last.values('authorization')).toEqual(['Bearer of-the-app']);
      expect((await s.webSocket(443, { host, path: '/other' })).answer.status).toBe(401);
      const login = await s.secure(443, { host });
      expect(login.status).toBe(401);
    },
  );

  drive(
    'camera-recorder',
    'the page behind a login, the API not; RTSP for the house, WebRTC over TCP and UDP for all',
    { networks: { '192.168.0.0/16': '127.0.0.2/32' } },
    async (s) => {
      const host = 'cameras.local';
      const app = s.at('127.0.0.1:5000');
      await asksForLogin(s, host, '/');
      await asksForLogin(s, host, '/apis');
      app.script = (exchange) =>
        exchange.ok(JSON.stringify({ events: 'x'.repeat(4000) }), 'Content-Type: application/json\r\n');
      const lines = [
        ['Authorization', 'Bearer of-the-app'],
        ['Accept-Encoding', 'gzip'],
      ] as const;
      const api = await s.secure(443, { host, path: '/api/events', lines });
      expect([api.status, fieldValue(api, 'content-encoding')]).toEqual([200, 'gzip']);
      expect(gunzipSync(api.body).toString()).toContain('{"events":"xxx');
      expect([app.last.target, app.last.value('authorization')]).toEqual(['/api/events', 'Bearer of-the-app']);
      expect((await s.secure(443, { host, path: '/api/../secret' })).status).toBe(400);
      expect(app.exchanges).toHaveLength(1);
      expect(await s.tcp(8554, 'OPTIONS', '127.0.0.2')).toBe('10.88.0.5:8554 heard OPTIONS');
      expect(await s.tcp(8554, 'OPTIONS', '127.0.0.3')).toBe('');
      expect(await s.tcp(8555, 'offer', '127.0.0.3')).toBe('10.88.0.5:8555 heard offer');
      expect(await s.udp(8555, 'stun')).toBe('10.88.0.5:8555 heard stun');
    },
  );

  drive(
    'cdn-origin',
    'only the CDN may connect, says who the client is, and may ask for any host',
    { networks: { '192.0.2.0/24': '127.0.0.2/32' } },
    async (s) => {
      const cdn = {
        from: '127.0.0.2',
        tls: { servername: 'cdn-origin.example.com', checkServerIdentity: () => undefined },
      };
      await expect(s.secure(443, { ...cdn, host: 'customer.example.net', from: '127.0.0.3' })).rejects.toThrow();
      const apps = [s.at('10.0.0.11:3000'), s.at('10.0.0.12:3000')];
      await until('health checks of both', () =>
        apps.every((app) => app.exchanges.some(({ target }) => target === '/up')),
      );
      const lines = [
        ['X-Forwarded-For', '203.0.113.9'],
        ['X-Forwarded-Proto', 'https'],
      ] as const;
      const first = await s.secure(443, { ...cdn, host: 'customer.example.net', path: '/shop', lines });
      const served = apps.find(({ name }) => name === bodyOf(first))!;
      expect([served.last.value('host'), served.last.value('x-forwarded-for')]).toEqual([
        'customer.example.net',
        '203.0.113.9, 127.0.0.2',
      ]);
      const cookie = fieldValue(first, 'set-cookie')!.split(';')[0]!;
      for (let i = 0; i < 6; i++) {
        const again = await s.secure(443, { ...cdn, host: 'customer.example.net', lines: [['Cookie', cookie]] });
        expect(bodyOf(again)).toBe(served.name);
      }
      expect(bodyOf(await s.secure(443, { ...cdn, host: 'admin.example.com' }))).toBe('10.0.0.11:3100');
    },
  );

  drive(
    'cloud-and-office',
    'discovery is rewritten, and the office server is spoken to over its own TLS',
    { tls: { '127.0.0.1:9980': ['office.example.com'], '127.0.0.1:9981': ['something.else'] } },
    async (s) => {
      const cloud = s.at('127.0.0.1:8081');
      for (const [path, target] of [
        ['/.well-known/carddav', '/remote.php/dav'],
        ['/.well-known/caldav/ada?x=1', '/remote.php/dav/ada?x=1'],
        ['/.well-known/other', '/.well-known/other'],
      ] as const) {
        expect((await s.secure(443, { host: 'cloud.example.com', path, method: 'PROPFIND' })).status).toBe(200);
        expect([cloud.last.method, cloud.last.target]).toEqual(['PROPFIND', target]);
      }
      const answer = await s.secure(443, { host: 'cloud.example.com' });
      expect(fieldValue(answer, 'strict-transport-security')).toBe('max-age=15552000');
      expect(bodyOf(await s.secure(443, { host: 'office.example.com' }))).toBe('127.0.0.1:9980');
      expect(bodyOf(await s.secure(443, { host: 'office-test.example.com' }))).toBe('127.0.0.1:9981');
      const { answer: upgraded, tunnel } = await s.webSocket(443, { host: 'office.example.com' });
      expect(upgraded.status).toBe(101);
      tunnel.send(hello);
      expect((await tunnel.waitForFrames(1))[0]!.payload.toString()).toBe('hi');
      const large = await s.tls(443, { host: 'cloud.example.com' });
      large.write('PUT /film HTTP/1.1\r\nHost: cloud.example.com\r\nContent-Length: 99999999999\r\n\r\nbegin');
      await until('the upload to pass', () => cloud.last.target === '/film' && cloud.last.body.toString() === 'begin');
      large.destroy();
    },
  );

  drive(
    'front-end-and-api',
    'two services of several names each, who the client is from the balancer only, the API below the front end too',
    { networks: { '10.0.0.0/8': '127.0.0.2/32' } },
    async (s) => {
      const fronts = [s.at('10.0.1.11:3000'), s.at('10.0.1.12:3000')];
      const apis = [s.at('10.0.1.21:8000'), s.at('10.0.1.22:8000')];
      await until('health checks of all', () =>
        [...fronts, ...apis].every((app) => app.exchanges.some(({ target }) => target === '/up')),
      );
      for (const host of ['shop.example.com', 'www.shop.example.com', 'shop.example.org']) {
        expect(fronts.map(({ name }) => name)).toContain(bodyOf(await s.plain(80, { host })));
      }
      for (const host of ['api.shop.example.com', 'api.shop.example.org']) {
        expect(apis.map(({ name }) => name)).toContain(bodyOf(await s.plain(80, { host })));
      }
      const lines = [
        ['X-Forwarded-For', '203.0.113.9'],
        ['X-Forwarded-Proto', 'https'],
      ] as const;
      const seen = async (from: string): Promise<readonly (string | null)[]> => {
        const app = apis.find(({ name }) => name.length > 0)!;
        const answer = await s.plain(80, { host: 'shop.example.com', path: '/api/users', lines, from });
        const last = (apis.find(({ name }) => name === bodyOf(answer)) ?? app).exchanges.findLast(
          ({ target }) => target !== '/up',
        )!;
        return [last.target, last.value('x-forwarded-for'), last.value('x-forwarded-proto')];
      };
      expect(await seen('127.0.0.2')).toEqual(['/users', '203.0.113.9, 127.0.0.2', 'https']);
      expect(await seen('127.0.0.3')).toEqual(['/users', '127.0.0.3', 'http']);
      const upload = { host: 'api.shop.example.com', method: 'POST', lines: [['Content-Length', '50000001']] as const };
      expect((await s.plain(80, upload)).status).toBe(413);
    },
  );

  drive('game-server', 'TCP and UDP on one number lead to one service', {}, async (s) => {
    expect(await s.tcp(3990, 'join')).toBe('127.0.0.1:3979 heard join');
    expect(await s.udp(3990, 'ping')).toBe('127.0.0.1:3979 heard ping');
    const { report } = await s.p.switchService('game', [s.at('127.0.0.1:3979').address]);
    expect(report).toMatchObject({ service: 'game' });
  });

  drive('git-host', 'redirects name the mapped port, pushes have no limit, SSH passes', {}, async (s) => {
    const host = 'git.example.com';
    expect(await sentTo(await s.plain(8080, { host, path: '/a' }))).toEqual([308, 'https://git.example.com:9443/a']);
    const app = s.at('127.0.0.1:3000');
    const push = await s.tls(8443, { host });
    push.write(
      'POST /repo.git/git-receive-pack HTTP/1.1\r\nHost: git.example.com\r\nContent-Length: 9999999999\r\n\r\nPACK',
    );
    await until('the push to pass', () => app.exchanges.length > 0 && app.last.body.toString() === 'PACK');
    push.destroy();
    expect(await s.tcp(8022, 'SSH-2.0-test')).toBe('127.0.0.1:22 heard SSH-2.0-test');
  });

  drive('home-server', 'one login in front of everything but what says why not', {}, async (s) => {
    await asksForLogin(s, 'anything.home.example.com', '/');
    await asksForLogin(s, 'photos.home.example.com', '/album');
    await asksForLogin(s, 'nas.local', '/');
    expect(bodyOf(await s.secure(443, { host: 'photos.home.example.com', path: '/share/abc' }))).toBe('127.0.0.1:2283');
    expect(bodyOf(await s.secure(443, { host: 'git.home.example.com', path: '/x.git/info/refs' }))).toBe(
      '127.0.0.1:3000',
    );
    expect((await s.secure(443, { host: 'photos.home.example.com', path: '/share/../album' })).status).toBe(400);
    expect(s.at('127.0.0.1:8123').exchanges).toEqual([]);
    expect(s.at('127.0.0.1:5000').exchanges).toEqual([]);
    expect(await s.tcp(2222, 'SSH-2.0-test')).toBe('');
    expect(s.at('127.0.0.1:22').connections).toEqual([]);
  });

  drive('http-and-https', 'the app decides whom it sends to https; one name is https only', {}, async (s) => {
    const host = 'site.example.com';
    expect(bodyOf(await s.plain(80, { host }))).toBe('127.0.0.1:3000');
    expect(bodyOf(await s.secure(443, { host }))).toBe('127.0.0.1:3000');
    const sensor = await s.plain(80, { host, path: '/sensor.json' });
    expect([bodyOf(sensor), fieldValue(sensor, 'cache-control')]).toEqual(['127.0.0.1:3000', 'no-store']);
    const account = { host: 'account.example.com', path: '/me' };
    expect(await sentTo(await s.plain(80, account))).toEqual([308, 'https://account.example.com/me']);
    expect(bodyOf(await s.secure(443, account))).toBe('127.0.0.1:3001');
  });

  drive('many-tenants', 'a reload that adds one touches no stream of the others', {}, async (s) => {
    const { answer, tunnel } = await s.webSocket(443, { host: 'anna.tenants.example.com' });
    expect(answer.status).toBe(101);
    const added = s.text.replace(
      '[external_routes]\n',
      `[external_routes]\n"emil.tenants.example.com" = "${s.at('10.1.0.4:7000').address}"\n`,
    );
    expect((await s.p.reload(added)).outcome).toBe('applied');
    expect(bodyOf(await s.secure(443, { host: 'emil.tenants.example.com' }))).toBe('10.1.0.4:7000');
    const moved = added.replace(s.at('10.1.0.1:7000').address, s.at('10.1.0.2:7000').address);
    expect((await s.p.reload(moved)).outcome).toBe('applied');
    expect(bodyOf(await s.secure(443, { host: 'anna.tenants.example.com' }))).toBe('10.1.0.2:7000');
    tunnel.send(hello);
    expect((await tunnel.waitForFrames(1))[0]!.payload.toString()).toBe('hi');
  });

  drive('matrix', 'discovery for other origins, and a prefix that the sync proxy knows nothing of', {}, async (s) => {
    const host = 'example.com';
    const server = await s.secure(443, { host, path: '/.well-known/matrix/server' });
    expect(JSON.parse(bodyOf(server))).toEqual({ 'm.server': 'example.com:443' });
    const client = await s.secure(443, { host, path: '/.well-known/matrix/client' });
    expect(JSON.parse(bodyOf(client))['m.homeserver']).toEqual({ base_url: 'https://example.com' });
    for (const answer of [server, client]) {
      expect([fieldValue(answer, 'content-type'), fieldValue(answer, 'access-control-allow-origin')]).toEqual([
        'application/json',
        '*',
      ]);
    }
    for (const [path, address, target] of [
      ['/_matrix/client/versions', '127.0.0.1:8008', '/_matrix/client/versions'],
      ['/sliding-sync/v3/sync?t=1', '127.0.0.1:8009', '/v3/sync?t=1'],
      ['/_matrixes', '127.0.0.1:8000', '/_matrixes'],
    ] as const) {
      expect(bodyOf(await s.secure(443, { host, path }))).toBe(address);
      expect(s.at(address).last.target).toBe(target);
    }
    s.at('127.0.0.1:8000').script = (exchange) => exchange.ok('a'.repeat(5000), 'Content-Type: text/html\r\n');
    const packed = await s.secure(443, { host, lines: [['Accept-Encoding', 'gzip']] });
    expect(gunzipSync(packed.body).toString()).toBe('a'.repeat(5000));
  });

  drive('tenants-by-subdomain', 'names of one label, each with its backend; www is sent away', {}, async (s) => {
    const first = bodyOf(await s.secure(443, { host: 'ada.example.com' }));
    for (let i = 0; i < 5; i++) expect(bodyOf(await s.secure(443, { host: 'ada.example.com' }))).toBe(first);
    const served = new Set<string>();
    for (let i = 0; i < 20; i++) served.add(bodyOf(await s.secure(443, { host: `t${i}.example.com` })));
    expect([...served].toSorted()).toEqual(['127.0.0.1:3000', '127.0.0.1:3001']);
    expect(bodyOf(await s.secure(443, { host: 'example.com' }))).toBe('127.0.0.1:3100');
    expect(await sentTo(await s.secure(443, { host: 'www.example.com', path: '/a?b' }))).toEqual([
      308,
      'https://example.com/a?b',
    ]);
    await expect(s.secure(443, { host: 'a.b.example.com' })).rejects.toThrow();
    const astray = { host: 'a.b.example.com', tls: { servername: 'ada.example.com' } };
    expect((await s.secure(443, astray)).status).toBe(404);
  });

  drive(
    'two-proxies',
    'the inner proxy gets its own host, its Server stays inside, early hints pass',
    { tls: { '10.2.0.5:8443': ['inner.example.internal'] } },
    async (s) => {
      const inner = s.at('10.2.0.5:8443');
      inner.script = (exchange) =>
        exchange.reply(
          'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n' +
            'HTTP/1.1 200 OK\r\nServer: inner\r\nX-Powered-By: inner\r\nX-Kept: 1\r\nContent-Length: 2\r\n\r\nok',
        );
      const answer = await s.secure(443, {
        host: 'www.example.com',
        lines: [
          ['X-Debug', '1'],
          ['X-Edge', 'forged'],
        ],
      });
      expect(answer.interim.map(({ status }) => status)).toEqual([103]);
      expect(['server', 'x-powered-by', 'x-kept'].map((name) => fieldValue(answer, name))).toEqual([null, null, '1']);
      const { last } = inner;
      expect([last.values('host'), last.values('x-edge'), last.values('x-debug')]).toEqual([
        ['inner.example.internal'],
        ['1'],
        [],
      ]);
    },
  );

  drive(
    'voice-server',
    'voice over UDP, raw ports over TCP, the dashboard over TLS 1.3 only',
    { networks: { '10.0.0.0/8': '127.0.0.2/32' } },
    async (s) => {
      const host = 'voice.example.com';
      expect(await sentTo(await s.plain(80, { host }))).toEqual([308, 'https://voice.example.com/']);
      const app = s.at('127.0.0.1:8080');
      app.script = (exchange) =>
        exchange.reply(
          'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="voice"\r\nContent-Length: 0\r\n\r\n',
        );
      const asked = await s.secure(443, { host, lines: [['Authorization', 'Basic YTpi']] });
      expect([asked.status, fieldValue(asked, 'www-authenticate')]).toEqual([401, 'Basic realm="voice"']);
      expect(app.last.value('authorization')).toBe('Basic YTpi');
      expect(
        ['x-frame-options', 'referrer-policy', 'strict-transport-security'].map((name) => fieldValue(asked, name)),
      ).toEqual(['DENY', 'no-referrer', 'max-age=31536000; includeSubDomains']);
      await expect(s.secure(443, { host, tls: { maxVersion: 'TLSv1.2' } })).rejects.toThrow();
      expect(await s.udp(9987, 'voice')).toBe('10.88.0.9:9987 heard voice');
      expect(await s.tcp(10011, 'login', '127.0.0.2')).toBe('10.88.0.9:10011 heard login');
      expect(await s.tcp(10011, 'login', '127.0.0.3')).toBe('');
      expect(await s.tcp(10022, 'SSH-2.0-test')).toBe('10.88.0.9:10022 heard SSH-2.0-test');
      expect(await s.tcp(30033, 'file')).toBe('10.88.0.9:30033 heard file');
    },
  );

  drive('wildcard-certificates', 'the closest certificate is served, and a renewed one at once', {}, async (s) => {
    const serial = async (servername: string): Promise<string> => {
      const client: RawClient = await s.tls(443, { host: servername, tls: { checkServerIdentity: () => undefined } });
      const { serialNumber } = (client.socket as TLSSocket).getPeerCertificate();
      client.destroy();
      return serialNumber;
    };
    const [bare, any, sub, below, unknown] = await Promise.all(
      ['example.com', 'a.example.com', 'sub.example.com', 'b.sub.example.com', 'elsewhere.net'].map(serial),
    );
    expect([any, unknown]).toEqual([bare, bare]);
    expect(below).toBe(sub);
    expect(sub).not.toBe(bare);
    const renewed = s.ca.leaf(['sub.example.com', '*.sub.example.com']);
    writeFileSync(join(s.directory, 'certs/sub.pem'), renewed.cert);
    writeFileSync(join(s.directory, 'certs/sub.key'), renewed.key);
    await until('the renewed certificate', async () => (await serial('b.sub.example.com')) !== sub);
    for (const [host, address] of [
      ['example.com', '127.0.0.1:3000'],
      ['a.example.com', '127.0.0.1:3001'],
      ['sub.example.com', '127.0.0.1:3002'],
      ['b.sub.example.com', '127.0.0.1:3003'],
    ] as const) {
      expect(bodyOf(await s.secure(443, { host }))).toBe(address);
    }
  });

  drive(
    'workflow-editor',
    'the editor behind a login, webhooks and forms without one, and never too large',
    {},
    async (s) => {
      const host = 'flows.example.com';
      const app = s.at('127.0.0.1:5678');
      expect((await s.plain(80, { host, path: '/webhook/x' })).status).toBe(308);
      await asksForLogin(s, host, '/');
      await asksForLogin(s, host, '/webhooks/x');
      expect((await s.webSocket(443, { host, path: '/push' })).answer.status).toBe(401);
      for (const prefix of ['webhook', 'webhook-test', 'form', 'form-test', 'form-waiting', 'mcp-server']) {
        const answer = await s.secure(443, {
          host,
          path: `/${prefix}/x?y=1`,
          method: 'POST',
          lines: [['Content-Length', '0']],
        });
        expect([prefix, answer.status, app.last.target]).toEqual([prefix, 200, `/${prefix}/x?y=1`]);
      }
      const large = { host, path: '/webhook/x', method: 'POST', lines: [['Content-Length', '67108865']] as const };
      expect((await s.secure(443, large)).status).toBe(413);
      const client = await s.tls(443, { host });
      const statuses = new Set<number>();
      for (let i = 0; i < 160; i++) {
        const { status } = await client.ask(`GET /webhook/x HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
        statuses.add(status);
        if (status === 429) break;
      }
      expect(statuses).toContain(429);
    },
  );

  it('every set-up is driven', () => {
    expect(driven.toSorted()).toEqual([...exampleNames]);
  });
});

// Forward authentication: another program says who may pass.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { defaultGateSettings } from '../../src/model/gate-policy.ts';
import type { ForwardAuth, RouteGate } from '../../src/model/snapshot.ts';
import { closeH2Connections } from '../support/h2-frames.ts';
import { type Answer, closeRawClients, fieldValue, RawClient } from '../support/raw-client.ts';
import { type Line, Recorder, valuesOf } from '../support/recorder.ts';
import { host, noCertificates, route, routing, service } from '../support/routing.ts';
import { Requester, type Transport } from '../support/transports.ts';
import { until } from '../support/wait.ts';
import { echoScript, encodeWsFrame } from '../support/websocket-frames.ts';
import { Edge } from '../unit/http-kit.ts';

let app: Recorder;
let edge: Edge;
let program: Server;
let asked: IncomingMessage[] = [];
let say: (request: IncomingMessage, response: ServerResponse) => void;
const requesters: Requester[] = [];

const gate = (policy: RouteGate['policy']): RouteGate => ({
  app: policy,
  policy,
  sessionPassthrough: false,
  openPaths: [],
  upgradeOpenPaths: [],
  allowedOrigins: [],
});

function publish(over: Partial<ForwardAuth> = {}, changed: Partial<RouteGate> = {}): void {
  const hosts = (['gated', 'open'] as const).map((policy) =>
    host(`${policy}.test`, [route(`${policy}.test`, 'app', { gate: { ...gate(policy), ...changed } })]),
  );
  const { port } = program.address() as { port: number };
  edge.publish(routing({ hosts, services: [service('app', 1, [app.address])] }), noCertificates, {
    overrides: {},
    settings: {
      ...defaultGateSettings,
      forwardAuth: {
        url: `http://127.0.0.1:${port}/authz?x=1`,
        copyHeaders: ['Remote-User', 'X-Group'],
        timeoutMs: 1000,
        ...over,
      },
    },
  });
}

beforeAll(async () => {
  app = await Recorder.start({ name: 'app' });
  program = createServer((request, response) => {
    asked.push(request);
    say(request, response);
  });
  await new Promise<void>((resolve) => program.listen(0, '127.0.0.1', resolve));
  edge = await Edge.start({ routing: routing() });
  edge.gate.user('anna', { role: 'owner' });
  publish();
});

afterEach(() => {
  for (const requester of requesters.splice(0)) requester.close();
  closeRawClients();
  closeH2Connections();
  app.reset();
  asked = [];
});

afterAll(async () => {
  program.closeAllConnections();
  await new Promise<void>((resolve) => program.close(() => resolve()));
  await edge.close();
  await app.close();
});

function requester(transport: Transport): Requester {
  const made = new Requester(transport, { plainPort: edge.port, tlsPort: edge.port, ca: '' });
  requesters.push(made);
  return made;
}

const ask = (
  path: string,
  lines: readonly Line[] = [],
  more: { method?: string; body?: string; name?: string } = {},
  transport: Transport = 'h1',
): Promise<Answer> => requester(transport).request({ host: more.name ?? 'gated.test', path, lines, ...more });

const agrees = (_: IncomingMessage, response: ServerResponse): void => {
  response.writeHead(200, { 'Remote-User': 'anna', 'X-Group': 'family', 'X-Other': 'no' });
  response.end();
};

describe('a request that brings nothing of ours', () => {
  it.each(['h1', 'h2c'] as const)(
    'passes when the program agrees, with the fields that it gives and no others [%s]',
    async (transport) => {
      say = agrees;
      const lines: Line[] = [
        ['Cookie', 'theirs=1; turnpike_session=x'],
        ['Authorization', 'Basic YTpi'],
        ['Remote-User', 'forged'],
        ['x_group', 'forged'],
        ['X-Forwarded-Uri', '/public'],
      ];
      const answer = await ask('/x?y=1', lines, { method: 'POST', body: 'precious' }, transport);
      expect(answer.status).toBe(200);
      expect(app.last.body.toString()).toBe('precious');
      expect([app.last.value('remote-user'), app.last.value('x-group'), app.last.value('x-other')]).toEqual([
        'anna',
        'family',
        null,
      ]);
      expect(app.last.head).not.toMatch(/forged|turnpike_session/);
      expect(asked).toHaveLength(1);
      expect(asked[0]!.method).toBe('GET');
      expect(asked[0]!.headers).toMatchObject({
        'x-forwarded-method': 'POST',
        'x-forwarded-proto': 'http',
        'x-forwarded-host': 'gated.test',
        'x-forwarded-uri': '/x?y=1',
        'x-forwarded-for': '127.0.0.1',
        cookie: 'theirs=1',
        authorization: 'Basic YTpi',
      });
    },
  );

  it.each(['h1', 'h2c'] as const)('says nothing in the name of the program in its trailers [%s]', async (transport) => {
    say = agrees;
    const trailers: Line[] = [
      ['X-Sum', '9'],
      ['X-Group', 'forged'],
      ['x_group', 'forged'],
      ['Remote.User', 'forged'],
      ['X-Turnpike-User', 'forged'],
    ];
    for (const name of ['gated.test', 'open.test']) {
      const live = await requester(transport).open({ method: 'POST', host: name });
      await live.send('ok');
      live.end(trailers);
      expect((await live.answer()).status).toBe(200);
      expect(app.last.body.toString()).toBe('ok');
      expect(app.last.trailers.map(([field, value]) => [field.toLowerCase(), value])).toEqual([['x-sum', '9']]);
    }
  });

  it('is told what the program says, and no byte of it reaches the app', async () => {
    say = (_, response) => {
      response.writeHead(302, {
        Location: 'https://auth.test/?rd=x',
        'Set-Cookie': ['a=1', 'turnpike_session=evil'],
        'X-Other': 'no',
      });
      response.end('go there');
    };
    const answer = await ask('/x', [], { method: 'POST', body: 'precious' });
    expect([answer.status, fieldValue(answer, 'location'), answer.body.toString()]).toEqual([
      302,
      'https://auth.test/?rd=x',
      'go there',
    ]);
    expect(valuesOf(answer.lines, 'set-cookie')).toEqual(['a=1']);
    expect([fieldValue(answer, 'x-other'), fieldValue(answer, 'cache-control')]).toEqual([null, 'no-store']);
    const { answer: socket } = await requester('h1').webSocket({ host: 'gated.test', path: '/ws' });
    expect(socket.status).toBe(302);
    expect(app.exchanges).toEqual([]);
  });

  it('does not pass when the program fails, is silent, talks without an end, or is not there', async () => {
    say = (_, response) => {
      response.statusCode = 500;
      response.end();
    };
    expect((await ask('/x')).status).toBe(503);
    say = (request) => request.socket.destroy();
    expect((await ask('/x')).status).toBe(503);
    say = (_, response) => {
      response.writeHead(401);
      response.end('x'.repeat(100_000));
    };
    expect((await ask('/x')).status).toBe(503);
    say = () => {};
    publish({ timeoutMs: 100 });
    expect((await ask('/x')).status).toBe(503);
    publish({ url: 'http://127.0.0.1:9/' });
    expect((await ask('/x')).status).toBe(503);
    publish();
    expect(app.exchanges).toEqual([]);
  });

  it.each(['h1', 'h2c'] as const)('opens a WebSocket when the program agrees [%s]', async (transport) => {
    say = agrees;
    app.script = echoScript;
    const lines: Line[] = [['Origin', 'http://gated.test']];
    const { answer, tunnel } = await requester(transport).webSocket({ host: 'gated.test', path: '/ws', lines });
    expect(answer.status).toBe(transport === 'h1' ? 101 : 200);
    tunnel.send(encodeWsFrame(1, 'hello', { mask: true }));
    expect((await tunnel.waitForFrames(1))[0]!.payload.toString()).toBe('hello');
    expect(app.last.value('remote-user')).toBe('anna');
  });

  it.each(['h1', 'h2c'] as const)(
    'opens none for a page of a stranger, whatever cookies it brings [%s]',
    async (transport) => {
      say = agrees;
      const lines: Line[] = [
        ['Origin', 'https://evil.test'],
        ['Cookie', 'theirs=1'],
      ];
      const { answer } = await requester(transport).webSocket({ host: 'gated.test', path: '/ws', lines });
      expect(answer.status).toBe(403);
      expect([asked, app.exchanges]).toEqual([[], []]);
    },
  );

  it('passes though the program closes the kept connection at that moment', async () => {
    say = agrees;
    expect((await ask('/1')).status).toBe(200);
    const [first] = asked;
    say = (request, response) => {
      if (request.socket === first!.socket) request.socket.destroy();
      else agrees(request, response);
    };
    expect((await ask('/2')).status).toBe(200);
    expect(asked.map(({ socket }) => socket === first!.socket)).toEqual([true, true, false]);
  });

  it('arrives anew once the program has agreed: what is in force then counts', async () => {
    let agree = (): void => {};
    say = (request, response) => {
      agree = () => agrees(request, response);
    };
    const answer = ask('/x');
    await until('the question', () => asked.length === 1);
    publish({}, { app: 'another' });
    agree();
    await until('a question about the other app', () => asked.length === 2);
    agree();
    expect((await answer).status).toBe(200);
    publish();
  });

  it('is refused while too many are being asked about, and a program that talks on keeps no place', async () => {
    let waiting: ServerResponse[] = [];
    say = (_, response) => {
      waiting.push(response);
      response.writeHead(200);
      response.write('and so on');
    };
    publish({ timeoutMs: 60_000 });
    const client = requester('h2c');
    const send = (): Promise<Answer> => client.request({ host: 'gated.test', path: '/x' });
    for (let i = 0; i < 256; i += 64) {
      const answers = await Promise.all(Array.from({ length: 64 }, send));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    }
    expect((await send()).status).toBe(503);
    expect(asked).toHaveLength(256);
    const [one, another] = waiting;
    one!.end();
    another!.end('x'.repeat(100_000));
    await until('a free place', async () => (await send()).status === 200);
    await until('another', async () => (await send()).status === 200);
    expect((await send()).status).toBe(503);
    for (const response of waiting) response.end();
    waiting = [];
    publish();
  });

  it('takes its question back when the client leaves', async () => {
    let closed = false;
    say = (request) => {
      request.socket.on('close', () => {
        closed = true;
      });
    };
    const client = await RawClient.connect({ port: edge.port });
    client.write('GET /x HTTP/1.1\r\nHost: gated.test\r\n\r\n');
    await until('the question', () => asked.length === 1);
    client.reset();
    await until('the question to be taken back', () => closed);
    expect(app.exchanges).toEqual([]);
  });
});

it('a session or a token of ours is not asked about, and neither is an open app', async () => {
  say = (_, response) => {
    response.statusCode = 401;
    response.end();
  };
  const session: Line = ['Cookie', `turnpike_session=${edge.gate.session('ours', 'anna')}`];
  expect((await ask('/x', [session, ['Remote-User', 'forged']])).status).toBe(200);
  expect([app.last.value('remote-user'), app.last.value('x-turnpike-user')]).toEqual([null, 'anna']);
  const token: Line = ['Authorization', `Bearer ${edge.gate.token('ours', 'gated')}`];
  expect((await ask('/x', [token])).status).toBe(200);
  expect((await ask('/x', [['Remote-User', 'forged']], { name: 'open.test' })).status).toBe(200);
  expect(app.last.value('remote-user')).toBe(null);
  expect(asked).toEqual([]);
});

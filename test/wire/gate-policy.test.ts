// The gate's table: policy × override × credential × client × listener → what the client gets and what the app sees.
// Invariant: the expectation is told by the few lines of `expected`, never by the code under test; a cell that may not pass
// leaves no byte at the app.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AppPort } from '../../src/manifest/app.ts';
import type { TlsFacts } from '../../src/message/stream.ts';
import { defaultGateSettings } from '../../src/model/gate-policy.ts';
import { defaultProfileId } from '../../src/model/routing-table.ts';
import type { RouteGate } from '../../src/model/snapshot.ts';
import { entrypointName, gatePorts, noPorts, type PortedApp, withPorts } from '../../src/process/gate-ports.ts';
import { app as manifestApp } from '../support/apps.ts';
import { closeH2Connections } from '../support/h2-frames.ts';
import { type Answer, closeRawClients, fieldValue } from '../support/raw-client.ts';
import { type Line, Recorder, valuesOf } from '../support/recorder.ts';
import { host, noCertificates, route, routing, service } from '../support/routing.ts';
import { Requester } from '../support/transports.ts';
import { echoScript } from '../support/websocket-frames.ts';
import { Edge } from '../unit/http-kit.ts';

const policies = ['session', 'gated', 'open'] as const;
const overrides = [null, true, false] as const;
const credentials = [
  'none',
  'session',
  'expired session',
  'session of another user',
  'token',
  'token of another app',
  'expired token',
  'token for another path',
  'token as Basic password',
] as const;
const clients = [
  'navigation',
  'fetch',
  'curl',
  'WebSocket over HTTP/1.1',
  'WebSocket over HTTP/2',
  'event stream',
  'POST',
  'preflight',
  'gRPC',
] as const;
/** Every kind of listener that the gate stands behind: what differs is what the connection is known by. */
const listeners = ['plain', 'tls', 'port', 'onion'] as const;

type Policy = (typeof policies)[number];
type Override = (typeof overrides)[number];
type Credential = (typeof credentials)[number];
type Client = (typeof clients)[number];
type Listener = (typeof listeners)[number];

interface Expectation {
  readonly status: number;
  /** Null: the app sees nothing. '': it sees a request of nobody. */
  readonly user: string | null;
}

function expected(policy: Policy, override: Override, credential: Credential, client: Client): Expectation {
  const answered = client === 'WebSocket over HTTP/1.1' ? 101 : 200;
  const login = override ?? policy !== 'open';
  if (!login) return { status: answered, user: '' };
  switch (credential) {
    case 'session':
      return { status: answered, user: 'anna' };
    case 'token':
    case 'token as Basic password':
      return { status: answered, user: 'token/ci' };
    case 'session of another user':
    case 'token for another path':
      return { status: 403, user: null };
    default:
      return { status: client === 'navigation' ? 303 : 401, user: null };
  }
}

/** How each client asks. */
const asks: Readonly<
  Record<Client, { readonly method?: string; readonly lines?: readonly Line[]; readonly body?: string }>
> = {
  navigation: {
    lines: [
      ['Accept', 'text/html,application/xhtml+xml'],
      ['Sec-Fetch-Mode', 'navigate'],
    ],
  },
  fetch: {
    lines: [
      ['Accept', 'application/json'],
      ['Sec-Fetch-Mode', 'cors'],
      ['Sec-Fetch-Site', 'same-origin'],
    ],
  },
  curl: {
    lines: [
      ['Accept', '*/*'],
      ['User-Agent', 'curl/8.5.0'],
    ],
  },
  'WebSocket over HTTP/1.1': {},
  'WebSocket over HTTP/2': {},
  'event stream': { lines: [['Accept', 'text/event-stream']] },
  POST: {
    method: 'POST',
    lines: [
      ['Accept', 'text/html'],
      ['Content-Type', 'text/plain'],
    ],
    body: 'precious',
  },
  preflight: {
    method: 'OPTIONS',
    lines: [
      ['Origin', 'https://elsewhere.test'],
      ['Access-Control-Request-Method', 'PUT'],
    ],
  },
  gRPC: {
    method: 'POST',
    lines: [
      ['Content-Type', 'application/grpc'],
      ['TE', 'trailers'],
    ],
    body: 'precious',
  },
};

const tls = (name: string): TlsFacts => ({
  serverName: name,
  certificateId: 'test',
  certificateNames: [name, '*.test'],
  profileId: defaultProfileId,
  version: 'TLSv1.3',
  clientSubject: null,
});

const nameOf = (policy: Policy, override: Override): string => `${policy}-${override}.test`;
const gateOf = (app: string, policy: Policy): RouteGate => ({
  app,
  policy,
  sessionPassthrough: false,
  openPaths: [],
  upgradeOpenPaths: [],
  allowedOrigins: [],
});

/** Each policy and override on a port of its own, too. */
const cases = policies.flatMap((policy, i) =>
  overrides.map((override, j) => ({ policy, override, port: 3000 + 10 * i + j })),
);
const isSecure = (listener: Listener): boolean => listener === 'tls';
const entrypointOf = (name: string, listener: Listener): string => {
  if (listener === 'plain' || listener === 'tls') return 'web';
  const { port } = cases.find(({ policy, override }) => nameOf(policy, override) === name)!;
  return listener === 'onion' ? `${port}@onion` : entrypointName(port, '10.0.0.1');
};

function portedApp(name: string, auth: Policy, host: number, address: string): PortedApp {
  const port: AppPort = {
    host,
    container: 80,
    protocol: 'tcp',
    binds: [auth === 'session' ? '10.0.0.1' : '127.0.0.1'],
    auth,
    rationale: null,
    sessionPassthrough: false,
  };
  const run = { instance: 'one', down: false, backends: [{ port: 80, address }] };
  return {
    app: manifestApp(name, [], { ports: [port] }),
    instance: name,
    revision: 1,
    originOf: (of) => `${name} ${of}`,
    run,
  };
}

let app: Recorder;
let edge: Edge;
let cells = 0;
const secrets: string[] = [];

beforeAll(async () => {
  app = await Recorder.start({ name: 'app' });
  const hosts = policies.flatMap((policy) =>
    overrides.map((override) => {
      const name = nameOf(policy, override);
      return host(name, [route(name, 'app', { gate: gateOf(name, policy) })]);
    }),
  );
  const file = routing({ hosts, services: [service('app', 1, [app.address])] });
  const taken = gatePorts(
    cases.map(({ policy, override, port }) => portedApp(nameOf(policy, override), policy, port, app.address)),
    { ...noPorts, tor: { control: { path: '/' }, passwordFile: null, cookieFile: null } },
    { addresses: ['10.0.0.1'], names: [] },
    file.settings,
  );
  const whole = withPorts(file, taken, taken.entrypoints);
  edge = await Edge.start({ routing: whole });
  const set = Object.fromEntries(
    policies.flatMap((policy) =>
      overrides.filter((each) => each !== null).map((override) => [nameOf(policy, override), override] as const),
    ),
  );
  edge.publish(whole, noCertificates, {
    overrides: set,
    settings: defaultGateSettings,
  });
  edge.gate.user('anna', { role: 'owner' });
  edge.gate.user('ben', { apps: ['another'] });
});

afterAll(async () => {
  closeRawClients();
  closeH2Connections();
  await edge?.close();
  await app?.close();
});

/** The field lines that bring the credential, among others that are the app's own. */
function bring(credential: Credential, name: string, listener: Listener): Line[] {
  const secure = isSecure(listener);
  const cookie = secure ? '__Host-turnpike_session' : 'turnpike_session';
  const long = 400 * 24 * 3_600_000;
  const session = (key: string, user: string, age = 0): Line[] => {
    const id = edge.gate.session(`${key}-${listener}-${name.replaceAll('.', '_')}`, user, {
      secure,
      host: name,
      createdAt: Date.now() - age,
      lastUsedAt: Date.now() - age,
    });
    secrets.push(id);
    return [['Cookie', `a=1; ${cookie}=${id}; b=2`]];
  };
  const token = (key: string, of: string, over = {}): string => {
    const text = edge.gate.token(`${key}-${name.replaceAll('.', '_')}`, of, { name: 'ci', ...over });
    secrets.push(text);
    return text;
  };
  const others: Line[] = [['Cookie', 'a=1; b=2']];
  const bearer = (text: string): Line[] => [...others, ['Authorization', `Bearer ${text}`]];
  switch (credential) {
    case 'none':
      return others;
    case 'session':
      return session('own', 'anna');
    case 'expired session':
      return session('old', 'anna', long);
    case 'session of another user':
      return session('ben', 'ben');
    case 'token':
      return bearer(token('good', name));
    case 'token of another app':
      return bearer(token('other', 'another'));
    case 'expired token':
      return bearer(token('past', name, { expiresAt: Date.now() - 1 }));
    case 'token for another path':
      return bearer(token('path', name, { paths: ['/only/*'] }));
    case 'token as Basic password':
      return [...others, ['Authorization', `Basic ${Buffer.from(`ci:${token('good', name)}`).toString('base64')}`]];
  }
}

/** What clients may say of themselves, and apps must not believe. */
const forged: readonly Line[] = [
  ['Remote-User', 'forged'],
  ['X-Turnpike-User', 'forged'],
  ['X_Turnpike_Role', 'forged'],
];

async function ask(
  client: Client,
  name: string,
  path: string,
  lines: readonly Line[],
  listener: Listener,
): Promise<Answer> {
  edge.tls = isSecure(listener) ? tls(name) : null;
  edge.entrypoint = entrypointOf(name, listener);
  const h2 = client === 'WebSocket over HTTP/2' || client === 'gRPC' || client === 'fetch';
  const requester = new Requester(h2 ? 'h2c' : 'h1', { plainPort: edge.port, tlsPort: edge.port, ca: '' });
  try {
    if (client.startsWith('WebSocket')) {
      const { answer } = await requester.webSocket({ host: name, path, lines: [...lines, ...forged] });
      return answer;
    }
    const { method, lines: own = [], body } = asks[client];
    return await requester.request({
      ...(method === undefined ? {} : { method }),
      ...(body === undefined ? {} : { body }),
      host: name,
      path,
      lines: [...own, ...lines, ...forged],
    });
  } finally {
    requester.close();
  }
}

describe.each(listeners)('over %s', (listener) => {
  // `session` ports have no onion service.
  describe.each(policies.filter((policy) => listener !== 'onion' || policy !== 'session'))(
    'an app with the policy %s',
    (policy) => {
      it.each(overrides)('set at run time to %s', async (override) => {
        const name = nameOf(policy, override);
        for (const credential of credentials) {
          for (const client of clients) {
            const cell = `${policy} · ${override} · ${credential} · ${client} · ${listener}`;
            app.reset();
            app.script = client.startsWith('WebSocket') ? echoScript : Recorder.plain;
            const path = `/cell/${cells++}?q=${client.length}`;
            const want = expected(policy, override, credential, client);
            const answer = await ask(client, name, path, bring(credential, name, listener), listener);
            expect(answer.status, cell).toBe(want.status);
            expectAtApp(cell, path, want);
            if (want.user === null) expectRefusal(cell, answer, client, path);
          }
        }
      });
    },
  );
});

function expectAtApp(cell: string, path: string, { user }: Expectation): void {
  if (user === null) {
    expect(app.exchanges.length, `${cell}: the app sees nothing`).toBe(0);
    expect(app.text, cell).toBe('');
    return;
  }
  expect(app.exchanges.length, cell).toBe(1);
  const { head, lines, target } = app.last;
  expect(target, cell).toBe(path);
  expect(valuesOf(lines, 'cookie'), cell).toEqual(['a=1; b=2']);
  expect(valuesOf(lines, 'authorization'), cell).toEqual([]);
  expect(valuesOf(lines, 'x-turnpike-user'), cell).toEqual(user === '' ? [] : [user]);
  expect(head, cell).not.toMatch(/forged|turnpike_|tp_/);
  for (const secret of secrets) expect(head.includes(secret), cell).toBe(false);
}

function expectRefusal(cell: string, answer: Answer, client: Client, path: string): void {
  expect(fieldValue(answer, 'cache-control'), cell).toBe('no-store');
  expect(answer.interim, cell).toEqual([]);
  expect(answer.body.includes('precious'), cell).toBe(false);
  if (answer.status === 303) {
    expect(fieldValue(answer, 'location'), cell).toBe(`/.turnpike/login?rd=${encodeURIComponent(path)}`);
  }
  if (answer.status === 401) {
    expect(fieldValue(answer, 'www-authenticate'), cell).toContain('Bearer');
    expect(fieldValue(answer, 'location'), cell).toBe(null);
  }
  if (client === 'fetch') expect(JSON.parse(answer.body.toString()), cell).toMatchObject({ status: answer.status });
  if (client === 'gRPC' && answer.status === 401) expect(fieldValue(answer, 'grpc-status'), cell).toBe('16');
}

import { describe, expect, it } from 'vitest';
import { explain } from '../../src/control/explain/explain.ts';
import type { Explanation } from '../../src/control/explain/trace.ts';
import { UsageError } from '../../src/control/request-body.ts';
import type { Certificate, Host, RouteGate } from '../../src/model/snapshot.ts';
import type { ExplainFacts } from '../../src/process/operations.ts';
import {
  entrypoint,
  host,
  noChallenges,
  noGate,
  noHealth,
  route,
  routing,
  service,
  settings,
} from '../support/routing.ts';

const certificate = (names: readonly string[], over: Partial<Certificate> = {}): Certificate => ({
  id: names.join(),
  source: 'static',
  origin: `config.toml:5 ${names[0]}`,
  names,
  notBefore: 0,
  notAfter: Date.UTC(2099, 0, 1),
  chain: '',
  key: '',
  ...over,
});

const entrypoints = [
  entrypoint('web', { host: '', port: 80 }),
  entrypoint('websecure', { host: '', port: 443, protocol: 'https' }),
];
const both = ['web', 'websecure'];

const forward = (pattern: string, over: Partial<Host> = {}): Host =>
  host(pattern, [route(pattern, pattern)], { entrypoints: both, ...over });

function facts(hosts: readonly Host[], over: Partial<ExplainFacts> = {}): ExplainFacts {
  const names = new Set(
    hosts.flatMap((each) => each.routes.map(({ action }) => (action.kind === 'forward' ? action.service : ''))),
  );
  names.delete('');
  return {
    revision: 3,
    routing: routing({ entrypoints, hosts, services: [...names].map((name) => service(name, 1, ['127.0.0.1:3001'])) }),
    certificates: {
      certificates: [certificate(['app.test', 'two.test'])],
      defaultId: null,
      internalCa: false,
      pending: [],
    },
    challenges: noChallenges,
    health: noHealth,
    gate: noGate,
    overrides: [],
    ...over,
  };
}

function ask(of: ExplainFacts, url: string, over: Partial<Parameters<typeof explain>[1]> = {}): Explanation {
  return explain(of, { url, method: 'GET', from: null, sni: null, entrypoint: null, ...over });
}

const last = (explanation: Explanation) => explanation.steps.at(-1)!;

describe('the TLS policy of a host', () => {
  const hosts = (['auto', 'always', 'never'] as const).map((tls) => forward('app.test', { tls }));
  const without = { certificates: { certificates: [], defaultId: null, internalCa: false, pending: [] } };
  it.each([
    ['auto', 'http://app.test/a?b', {}, 308, 'redirect-https'],
    ['always', 'http://app.test/a?b', {}, 308, 'redirect-https'],
    ['never', 'http://app.test/a?b', {}, null, 'served'],
    ['auto', 'http://app.test/a?b', without, null, 'served'],
    ['always', 'http://app.test/a?b', without, 421, 'misdirected-plaintext'],
    ['auto', 'https://app.test/a?b', {}, null, 'served'],
    ['always', 'https://app.test/a?b', {}, null, 'served'],
    ['never', 'https://app.test/a?b', {}, null, null],
  ] as const)('%s: %s with %j → %s %s', (policy, url, over, status, reason) => {
    const { outcome } = ask(facts([hosts.find((each) => each.tls === policy)!], over), url);
    expect([outcome.status, outcome.reason]).toEqual([status, reason]);
  });

  it('names the target of the redirect, path and query included', () => {
    expect(ask(facts([forward('app.test')]), 'http://app.test/a?b').outcome.text).toBe('sent to https://app.test/a?b');
  });

  it('names the TLS listener beside the plaintext one, or its public port', () => {
    const [, secure] = entrypoints;
    const high = (publicPort: number | null): ExplainFacts => {
      const of = facts([forward('app.test')]);
      const listeners = [entrypoint('web', { host: '', port: 8080 }), { ...secure!, port: 8443, publicPort }];
      return { ...of, routing: { ...of.routing, entrypoints: listeners } };
    };
    expect(ask(high(null), 'http://app.test:8080/x').outcome.text).toBe('sent to https://app.test:8443/x');
    expect(ask(high(443), 'http://app.test:8080/x').outcome.text).toBe('sent to https://app.test/x');
  });

  it('names the line that decides', () => {
    const explanation = ask(
      facts([forward('app.test', { tls: 'always', origin: 'config.toml:9 app.test' })]),
      'http://app.test/',
    );
    expect(last(explanation)).toMatchObject({ name: 'TLS policy', origin: 'config.toml:9 app.test', stops: true });
  });

  it('a handshake for a plaintext-only host is refused by name', () => {
    const { outcome } = ask(facts([forward('app.test', { tls: 'never' })]), 'https://app.test/');
    expect(outcome.text).toBe('the TLS handshake is refused (unrecognized_name)');
  });
});

describe('a connection that was made for another name', () => {
  const hosts = [
    forward('app.test'),
    forward('two.test'),
    forward('other.test'),
    forward('strict.test', { minVersion: '1.3' }),
  ];
  const certificates = [certificate(['app.test', 'two.test', 'strict.test']), certificate(['other.test'])];
  const of = facts(hosts, { certificates: { certificates, defaultId: null, internalCa: false, pending: [] } });
  it.each([
    ['two.test', null, 'served'],
    ['other.test', 421, 'misdirected-identity'],
    ['strict.test', 421, 'misdirected-profile'],
    ['unknown.test', 404, 'unknown-host'],
  ])('SNI app.test, host %s → %s %s', (name, status, reason) => {
    const { outcome } = ask(of, `https://${name}/`, { sni: 'app.test' });
    expect([outcome.status, outcome.reason]).toEqual([status, reason]);
  });
});

describe('the entrypoint', () => {
  const of = facts([forward('app.test', { tls: 'never' })]);

  it('is the one on the port of the URL', () => {
    expect(ask(of, 'http://app.test/').steps[0]).toMatchObject({
      text: 'web (*:80, http)',
      origin: 'test entrypoints.web',
    });
  });

  it('is guessed, and said to be, when the URL has no port and none listens on the usual one', () => {
    const high = { ...of, routing: { ...of.routing, entrypoints: [entrypoint('web', { host: '', port: 8080 })] } };
    const explanation = ask(high, 'http://app.test/');
    expect(explanation.steps[0]!.text).toBe('web (*:8080, http), assumed: none has port 80');
    expect(explanation.outcome.reason).toBe('served');
  });

  it('is not guessed when a port was given', () => {
    expect(ask(of, 'http://app.test:9999/').outcome).toMatchObject({ status: null, reason: null });
  });

  it('is found by its public port', () => {
    const mapped = {
      ...of,
      routing: { ...of.routing, entrypoints: [entrypoint('web', { port: 8080, publicPort: 80 })] },
    };
    expect(ask(mapped, 'http://app.test/').steps[0]!.text).toBe('web (127.0.0.1:8080, http)');
  });

  it('of TLS gets no plaintext request', () => {
    expect(last(ask(of, 'http://app.test:443/')).text).toBe('websecure (*:443, https) speaks TLS only');
  });

  it('lets in only who may connect', () => {
    const guarded = [entrypoint('web', { host: '', port: 80, trustedCidrs: ['10.0.0.0/8', 'fd00::/8'] })];
    const narrow = { ...of, routing: { ...of.routing, entrypoints: guarded } };
    expect(ask(narrow, 'http://app.test/', { from: '10.1.2.3' }).outcome.reason).toBe('served');
    expect(ask(narrow, 'http://app.test/', { from: 'fd00::1' }).outcome.reason).toBe('served');
    const refused = ask(narrow, 'http://app.test/', { from: '203.0.113.7' });
    expect(last(refused)).toMatchObject({ name: 'client', text: '203.0.113.7 is not in trusted_cidrs' });
    expect(refused.outcome.reason).toBeNull();
  });

  it('tells whether forwarded headers of the peer are believed', () => {
    const trusting = { ...of, routing: { ...of.routing, settings: { ...settings, trustedProxies: ['10.0.0.0/8'] } } };
    expect(ask(trusting, 'http://app.test/', { from: '10.0.0.1' }).steps[1]!.text).toContain('a trusted proxy');
    expect(ask(trusting, 'http://app.test/', { from: '11.0.0.1' }).steps[1]!.text).toBe('11.0.0.1 may connect');
  });
});

describe('host and route', () => {
  const api = route('app.test/api', 'api', {
    path: '/api',
    action: { kind: 'forward', service: 'api', rewrite: { kind: 'strip' } },
    origin: 'config.toml:20 app.test.routes[0]',
  });
  const fixed = route('app.test/ok', '', {
    path: '/ok',
    action: { kind: 'respond', status: 204, headers: [], body: '' },
  });
  const moved = route('app.test/old', '', {
    path: '/old',
    action: { kind: 'redirect', status: 301, to: 'https://new.test{uri}' },
  });
  const of = facts([
    host('app.test', [api, fixed, moved], { entrypoints: both, tls: 'never' }),
    forward('*.wild.test', { tls: 'never' }),
    forward('private.test', { entrypoints: ['websecure'] }),
  ]);

  it.each([
    ['/api/x?q', null, 'served'],
    ['/apix', 404, 'no-route'],
    ['/ok', 204, 'responded'],
    ['/old/x', 301, 'redirected'],
  ])('%s → %s %s', (path, status, reason) => {
    const { outcome } = ask(of, `http://app.test${path}`);
    expect([outcome.status, outcome.reason]).toEqual([status, reason]);
  });

  it('shows where a redirect leads', () => {
    expect(ask(of, 'http://app.test/old/x?y').outcome.text).toBe('sent to https://new.test/old/x?y');
  });

  it('shows what the backend gets when a prefix is stripped', () => {
    const explanation = ask(of, 'http://app.test/api/x?q', { method: 'POST' });
    expect(explanation.outcome.text).toBe('forwarded to 127.0.0.1:3001 as POST /x?q');
    expect(explanation.steps.find((step) => step.name === 'route')).toMatchObject({
      text: '/api and below',
      origin: 'config.toml:20 app.test.routes[0]',
    });
    expect(ask(of, 'http://app.test/api').outcome.text).toBe('forwarded to 127.0.0.1:3001 as GET /');
  });

  it('a wildcard covers one label', () => {
    expect(ask(of, 'http://a.wild.test/').outcome.reason).toBe('served');
    expect(ask(of, 'http://a.b.wild.test/').outcome.reason).toBe('unknown-host');
    expect(ask(of, 'http://wild.test/').outcome.reason).toBe('unknown-host');
  });

  it('tells where a host is served that this entrypoint does not serve', () => {
    expect(last(ask(of, 'http://private.test/')).text).toBe('private.test is served on websecure only');
  });

  it('CONNECT is refused', () => {
    expect(ask(of, 'http://app.test/', { method: 'CONNECT' }).outcome).toMatchObject({
      status: 405,
      reason: 'refused',
    });
  });
});

describe('the service', () => {
  const of = facts([forward('app.test', { tls: 'never' })]);
  const withService = (over: Parameters<typeof service>[3], addresses = ['a:1', 'b:2']): ExplainFacts => ({
    ...of,
    routing: { ...of.routing, services: [service('app.test', 4, addresses, over)] },
  });

  it('names the live backends and how one is chosen', () => {
    const explanation = ask({ ...withService({}), health: { down: { 'app.test': ['a:1'] } } }, 'http://app.test/');
    expect(last(explanation).text).toBe('b:2 (down: a:1)');
    expect(last(ask(withService({}), 'http://app.test/')).text).toBe('the one with the fewest requests of a:1, b:2');
    expect(last(ask(withService({ stickyCookie: 'pin' }), 'http://app.test/')).text).toContain(
      'as the cookie pin says',
    );
  });

  it('answers 503 when every backend is down', () => {
    const explanation = ask(
      { ...withService({}), health: { down: { 'app.test': ['a:1', 'b:2'] } } },
      'http://app.test/',
    );
    expect(explanation.outcome).toMatchObject({ status: 503, reason: 'no-live-backend' });
  });

  it('holds while paused and answers 503 while stopped', () => {
    expect(ask(withService({ state: 'paused' }), 'http://app.test/').outcome).toMatchObject({
      status: null,
      reason: 'held',
    });
    expect(ask(withService({ state: 'stopped' }), 'http://app.test/').outcome).toMatchObject({
      status: 503,
      reason: 'stopped',
    });
  });

  it('shows both addresses when a switch overrides the file', () => {
    const override = { service: 'app.test', addresses: ['a:1', 'b:2'], declared: ['c:3'], since: 0 };
    const explanation = ask({ ...withService({}), overrides: [override] }, 'http://app.test/');
    expect(explanation.steps.find((step) => step.name === 'service')!.text).toBe(
      'app.test, generation 4: a:1, b:2; the file says c:3',
    );
  });
});

describe('an app behind the gate', () => {
  const gate = (policy: 'gated' | 'open'): RouteGate => ({
    app: 'wiki',
    policy,
    sessionPassthrough: false,
    openPaths: ['/hook/*'],
    upgradeOpenPaths: [],
    allowedOrigins: [],
  });
  const of = (policy: 'gated' | 'open', overrides = {}): ExplainFacts =>
    facts(
      [host('app.test', [route('app.test', 'app.test', { gate: gate(policy) })], { entrypoints: both, tls: 'never' })],
      {
        gate: { ...noGate, overrides },
      },
    );
  it.each([
    [of('gated'), '/', 'a login for wiki (policy gated): 303 to it, or 401; with one it goes on'],
    [of('gated'), '/hook/x', 'no login for this path (open_paths)'],
    [of('gated', { wiki: false }), '/', 'no login (set at run time)'],
    [of('open'), '/', 'no login (policy open)'],
    [of('open', { wiki: true }), '/', 'a login for wiki (set at run time): 303 to it, or 401; with one it goes on'],
  ])('%#: %s', (known, path, text) => {
    const { steps, outcome } = ask(known, `http://app.test${path}`);
    expect(steps.find(({ name }) => name === 'gate')?.text).toBe(text);
    expect(outcome.reason).toBe('served');
  });
});

describe('a wrong question', () => {
  const of = facts([]);
  it.each([
    ['app.test', {}, 'http:// or https://'],
    ['ftp://app.test/', {}, 'http:// or https://'],
    ['http://app..test/', {}, 'not a host'],
    ['http://app.test/', { from: 'localhost' }, 'an IP address'],
    ['http://app.test/', { method: 'GE T' }, 'not a method'],
    ['http://app.test/', { entrypoint: 'nope' }, 'there is web, websecure'],
    ['http://app.test/', { sni: 'app.test' }, 'https:// URL'],
  ])('%s %j', (url, over, message) => {
    expect(() => ask(of, url, over)).toThrow(UsageError);
    expect(() => ask(of, url, over)).toThrow(message);
  });
});

it('a certificate authority is answered before everything else, and only what it asks for', () => {
  const challenges = { http: [{ host: 'app.test', token: 'T', answer: 'T.x' }], alpn: [] };
  const of = facts([forward('app.test', { tls: 'always' })], { challenges });
  const path = '/.well-known/acme-challenge/T';
  expect(ask(of, `http://app.test${path}`).outcome).toMatchObject({ status: 200, reason: 'acme-challenge' });
  expect(ask(of, `http://app.test${path}/`).outcome).toMatchObject({ status: 308, reason: 'redirect-https' });
  expect(ask(of, `http://other.test${path}`).outcome).toMatchObject({ reason: 'unknown-host' });
});

// `explain` for what is no HTTP: the same steps that a connection or a datagram goes through.
import { describe, expect, it, test } from 'vitest';
import { explain } from '../../src/control/explain/explain.ts';
import type { CertificatesPart, RoutingPart } from '../../src/model/snapshot.ts';
import type { ExplainFacts } from '../../src/process/operations.ts';
import {
  entrypoint,
  host,
  networkService,
  noChallenges,
  noGate,
  noHealth,
  route,
  routing,
  service,
} from '../support/routing.ts';

const edge = {
  port: 443,
  protocol: 'smart_tcp',
  rawFallback: { service: 'ssh', trustedCidrs: ['10.0.0.0/8'] },
  host: '',
} as const;

const part = (over: Partial<RoutingPart> = {}): RoutingPart =>
  routing({
    entrypoints: [
      entrypoint('edge', edge),
      entrypoint('pg', { port: 5432, protocol: 'tcp', host: '' }),
      entrypoint('pgs', { port: 5433, protocol: 'tcp', host: '' }),
      entrypoint('dns', { port: 53, protocol: 'udp', host: '' }),
    ],
    hosts: [host('app.test', [route('app.test', 'app.test')], { entrypoints: ['edge'], tls: 'never' })],
    services: [
      service('app.test', 1, ['127.0.0.1:1']),
      networkService('ssh', 1, ['127.0.0.1:22']),
      networkService('db', 4, ['127.0.0.1:2', '127.0.0.1:3']),
      networkService('dns', 1, ['127.0.0.1:53']),
    ],
    routers: {
      tcp: [
        { entrypoint: 'pg', service: 'db', terminate: null, origin: 'config.toml:10 routers.tcp[0]' },
        { entrypoint: 'pgs', service: 'db', terminate: { names: ['db.test'] }, origin: 'config.toml:14' },
      ],
      udp: [{ entrypoint: 'dns', service: 'dns', origin: 'config.toml:20' }],
      tls: [{ entrypoint: 'edge', service: 'db', names: ['db.test', '*.db.test'], origin: 'config.toml:30' }],
    },
    ...over,
  });

const certificates: CertificatesPart = { certificates: [], defaultId: null, internalCa: true, pending: [] };

function ask(url: string, question: Partial<Parameters<typeof explain>[1]> = {}, over: Partial<ExplainFacts> = {}) {
  const facts: ExplainFacts = {
    revision: 1,
    routing: part(),
    certificates,
    challenges: noChallenges,
    health: noHealth,
    gate: noGate,
    overrides: [],
    ...over,
  };
  const whole = explain(facts, { url, method: 'GET', from: null, sni: null, entrypoint: null, ...question });
  return { ...whole, last: whole.steps.at(-1)! };
}

test.each([
  ['tcp://localhost:5432', 'bytes pass to one of 127.0.0.1:2, 127.0.0.1:3'],
  ['https://localhost:5432/', 'bytes pass to one of 127.0.0.1:2, 127.0.0.1:3'],
  ['http://localhost:5432/', 'bytes pass to one of 127.0.0.1:2, 127.0.0.1:3'],
  ['udp://localhost:53', 'datagrams pass to 127.0.0.1:53'],
  ['tls://db.test', 'bytes pass to one of 127.0.0.1:2, 127.0.0.1:3'],
  ['https://DB.test/', 'bytes pass to one of 127.0.0.1:2, 127.0.0.1:3'],
  ['https://x.db.test/', 'bytes pass to one of 127.0.0.1:2, 127.0.0.1:3'],
  ['tls://db.test:5433', 'bytes pass to one of 127.0.0.1:2, 127.0.0.1:3'],
  ['tcp://localhost:443', 'bytes pass to 127.0.0.1:22'],
])('%s: %s', (url, text) => {
  expect(ask(url).outcome).toEqual({ status: null, reason: null, text });
});

it('names the line that decides at every step', () => {
  const { steps, request } = ask('tcp://localhost:5432', { from: '10.1.2.3' });
  expect(request).toBe('tcp://localhost:5432');
  expect(steps.map(({ name, text, origin }) => [name, text, origin])).toEqual([
    ['entrypoint', 'pg (*:5432, tcp)', 'test entrypoints.pg'],
    ['client', '10.1.2.3 may connect', 'test entrypoints.pg'],
    ['router', 'every byte as it comes, to db', 'config.toml:10 routers.tcp[0]'],
    ['service', 'db, generation 4: 127.0.0.1:2, 127.0.0.1:3', 'test'],
    ['backend', 'the one with the fewest connections of 127.0.0.1:2, 127.0.0.1:3', 'test db'],
  ]);
});

describe('goes no further', () => {
  test.each([
    ['tcp://localhost:443', { from: '192.0.2.1' }, '192.0.2.1 is not in raw_fallback_trusted_cidrs'],
    ['tls://other.test:5433', {}, 'SNI other.test: no certificate covers the name, and there is no default'],
    ['tcp://localhost:5433', {}, 'TLS ends here, and this is none'],
    ['tcp://localhost:99', {}, 'none listens for this on port 99 (behind a port mapping, name one with --entrypoint)'],
    [
      'udp://localhost:443',
      {},
      'none listens for this on port 443 (behind a port mapping, name one with --entrypoint)',
    ],
    ['tcp://localhost:1', { entrypoint: 'dns' }, 'dns (*:53, udp) takes datagrams only'],
  ])('%s %j: %s', (url, question, text) => {
    expect(ask(url, question).last).toMatchObject({ text, stops: true });
  });

  it('without a router', () => {
    const routers = { tcp: [], udp: [], tls: [] };
    expect(ask('tcp://localhost:5432', {}, { routing: part({ routers }) }).outcome).toMatchObject({
      reason: 'no-route',
    });
    expect(ask('udp://localhost:53', {}, { routing: part({ routers }) }).outcome).toMatchObject({ reason: 'no-route' });
  });

  it('without a raw fallback', () => {
    const routing = part({ entrypoints: [entrypoint('edge', { ...edge, rawFallback: null })] });
    expect(ask('tcp://localhost:443', {}, { routing }).last.text).toBe(
      'neither HTTP nor TLS, and there is no raw_fallback',
    );
  });

  it('without a live backend, or with a service that is stopped', () => {
    const down = { down: { db: ['127.0.0.1:2', '127.0.0.1:3'] } };
    expect(ask('tcp://localhost:5432', {}, { health: down }).outcome).toMatchObject({ reason: 'no-live-backend' });
    const stopped = part({ services: [networkService('db', 1, ['127.0.0.1:2'], { state: 'stopped' })] });
    expect(ask('tcp://localhost:5432', {}, { routing: stopped }).outcome).toEqual({
      status: null,
      reason: 'stopped',
      text: 'the connection is closed; until: turnpike service start db',
    });
  });
});

it('a paused service: it waits', () => {
  const paused = part({ services: [networkService('db', 1, ['127.0.0.1:2'], { state: 'paused' })] });
  expect(ask('tcp://localhost:5432', {}, { routing: paused }).outcome).toEqual({
    status: null,
    reason: 'held',
    text: 'waits at most 30s for `service resume`, then bytes pass to 127.0.0.1:2',
  });
});

it('tells TLS and a PROXY header on the way to the backend', () => {
  const base = networkService('db', 1, ['127.0.0.1:2'], { protocol: 'tls' });
  const services = [{ ...base, network: { ...base.network!, sendProxyProtocol: 2 as const } }];
  expect(ask('tcp://localhost:5432', {}, { routing: part({ services }) }).outcome.text).toBe(
    'bytes pass to 127.0.0.1:2 inside TLS, behind a PROXY header of version 2',
  );
});

it('a name that does not pass is HTTPS', () => {
  expect(ask('tls://app.test').outcome.text).toBe('the TLS handshake is refused (unrecognized_name)');
  expect(ask('http://app.test:443/').outcome).toMatchObject({ reason: 'served' });
});

it('needs a port, or the name of an entrypoint', () => {
  expect(() => ask('tcp://localhost')).toThrow('tcp://localhost has no port');
  expect(ask('tcp://localhost', { entrypoint: 'pg' }).outcome.text).toContain('127.0.0.1:2');
});

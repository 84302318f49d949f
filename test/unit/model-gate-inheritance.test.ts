// Other ways to an app of the gate pass the same gate.
import { describe, expect, it } from 'vitest';
import { frontedPorts, inheritGates } from '../../src/model/gate-inheritance.ts';
import type { RouteGate, RoutingPart } from '../../src/model/snapshot.ts';
import { entrypoint, host, networkService, noRouters, route, routing, service } from '../support/routing.ts';

const gate: RouteGate = {
  app: 'wiki',
  policy: 'gated',
  sessionPassthrough: false,
  openPaths: [],
  upgradeOpenPaths: [],
  allowedOrigins: [],
};
const own = new Set(['wiki/web']);

const part = (over: Partial<RoutingPart> = {}): RoutingPart =>
  routing({
    hosts: [
      host('wiki.test', [route('wiki.test', 'wiki/web', { gate })]),
      host('other.test', [route('other.test/x', 'free', { path: '/x' }), route('other.test', 'other')]),
      host('free.test', [route('free.test', 'free')]),
      host('named.test', [route('named.test', 'other')]),
    ],
    services: [
      service('wiki/web', 1, ['127.0.0.1:3001']),
      service('other', 1, ['10.0.0.9:80', 'localhost:3001']),
      service('free', 1, ['127.0.0.1:3002']),
      networkService('raw', 1, ['[::1]:3001']),
    ],
    ...over,
  });

const inherit = (from: RoutingPart, ports = frontedPorts(from, own)) =>
  inheritGates(from, ports, own, new Set(['named.test']));

describe('a way to a fronted port', () => {
  it('asks what the port asks, whatever it calls this machine, unless its host says itself what it asks for', () => {
    const { routing: result, problems } = inherit(part());
    const gates = result.hosts.flatMap(({ routes }) => routes.map(({ id, gate: each }) => [id, each?.app ?? null]));
    expect(gates).toEqual([
      ['wiki.test', 'wiki'],
      ['other.test/x', null],
      ['other.test', 'wiki'],
      ['free.test', null],
      ['named.test', null],
    ]);
    expect(problems).toEqual([]);
  });

  it.each(['0.0.0.0', '[::]', '[::1]', '127.9.9.9', 'LocalHost', 'wiki.localhost', '[::ffff:7f00:1]', '[::ffff:0:0]'])(
    'is found behind %s',
    (name) => {
      const services = [service('wiki/web', 1, ['127.0.0.1:3001']), service('other', 1, [`${name}:3001`])];
      const hosts = [
        host('wiki.test', [route('wiki.test', 'wiki/web', { gate })]),
        host('other.test', [route('other.test', 'other')]),
      ];
      const { routing: result } = inherit(part({ hosts, services }));
      expect(result.hosts[1]!.routes[0]!.gate?.app).toBe('wiki');
    },
  );

  it('is none to the same port of another machine', () => {
    const services = [
      service('wiki/web', 1, ['127.0.0.1:3001']),
      service('other', 1, ['[::ffff:a00:1]:3001', '0.0.0.1:3001']),
    ];
    const hosts = [
      host('wiki.test', [route('wiki.test', 'wiki/web', { gate })]),
      host('other.test', [route('other.test', 'other')]),
    ];
    const { routing: result } = inherit(part({ hosts, services }));
    expect(result.hosts[1]!.routes[0]!.gate ?? null).toBeNull();
  });

  it('by TCP opens to who is logged in, by TLS that passes or a raw fallback it is refused', () => {
    const tcp = { entrypoint: 'ssh', service: 'raw', terminate: null, origin: 'routers.tcp[0]' };
    const tls = { entrypoint: 'mux', service: 'raw', names: ['x.test'], origin: 'routers.tls[0]' };
    const entrypoints = [
      entrypoint('ssh', { protocol: 'tcp' }),
      entrypoint('smart', { protocol: 'smart_tcp', rawFallback: { service: 'raw', trustedCidrs: null } }),
      entrypoint('web'),
    ];
    const { routing: result, problems } = inherit(
      part({ entrypoints, routers: { ...noRouters, tcp: [tcp], tls: [tls] } }),
    );
    expect(result.entrypoints.map(({ requiresSession }) => requiresSession)).toEqual(['wiki', null, null]);
    expect(problems).toEqual([
      'routers.tls[0]: app wiki asks for a login, and TLS that passes unopened cannot',
      'test entrypoints.smart: app wiki asks for a login, and a raw fallback cannot',
    ]);
  });

  it('to a port that is for this machine alone there is none', () => {
    const { problems } = inherit(part(), [
      { host: '127.0.0.1', port: 3002, gate: null, origin: 'port 3002 of app rpc' },
    ]);
    expect(problems).toEqual([
      'test other.test/x: port 3002 of app rpc is for this machine alone',
      'test free.test: port 3002 of app rpc is for this machine alone',
    ]);
  });

  it('nothing changes where no app has a gate', () => {
    const from = part({ hosts: [host('free.test', [route('free.test', 'other')])] });
    expect(inherit(from).routing).toBe(from);
  });
});

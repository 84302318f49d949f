// What apps claim, and what they add to the routing.
import { describe, expect, test } from 'vitest';
import {
  conflicts,
  entrypointClaims,
  fileClaims,
  formatConflict,
  portClaims,
  revisionClaims,
} from '../../src/apps/claims.ts';
import { appOf, compose, noGround, routingServices } from '../../src/apps/routing.ts';
import { redacted } from '../../src/apps/service-run.ts';
import type { ActiveService, Revision } from '../../src/apps/state.ts';
import { compareVersions, newestOf } from '../../src/control/upstream-check.ts';
import type { App, AppPort, AppService } from '../../src/manifest/app.ts';
import { movingServices } from '../../src/model/moves.ts';
import { compileRoutingTable } from '../../src/model/routing-table.ts';
import type { Entrypoint, RoutingPart } from '../../src/model/snapshot.ts';
import { app, appService, webService } from '../support/apps.ts';
import { entrypoint, host, noRouters, route, routing, service } from '../support/routing.ts';

const listener = (name: string, protocol: Entrypoint['protocol'], address: string, port: number): Entrypoint =>
  entrypoint(name, { protocol, host: address, port });

const revisionOf = (of: App): Revision => ({
  incarnation: of.name,
  number: 1,
  app: of,
  digest: '',
  at: 0,
  file: `${of.name}.toml`,
  why: 'apply',
  origins: {},
  watched: false,
});

const active = (
  of: App,
  of_: AppService,
  addresses: readonly string[] | null = ['127.0.0.1:4000'],
  over: Partial<ActiveService> = {},
): ActiveService => ({
  incarnation: of.name,
  app: of.name,
  name: of_.name,
  service: of_,
  revision: 1,
  origins: {},
  file: `${of.name}.toml`,
  down: false,
  given: [],
  instance:
    addresses === null
      ? null
      : {
          id: `${of.name}-${of_.name}`,
          app: of.name,
          service: of_.name,
          backends: addresses.map((address, i) => ({ port: 3000 + i, address })),
          managed: true,
          revision: 1,
          digest: '',
          stopGraceMs: 1000,
          startedAt: 0,
        },
  ...over,
});

const said = (found: ReturnType<typeof conflicts>): string[] => found.map(formatConflict);

describe('reservations', () => {
  const file: RoutingPart = routing({
    entrypoints: [
      listener('web', 'http', '', 80),
      listener('game', 'tcp', '', 25_565),
      listener('games', 'udp', '', 25_565),
      listener('local', 'tcp', '127.0.0.1', 9000),
    ],
    hosts: [host('taken.test', [route('taken.test', 'taken.test')])],
    services: [service('taken.test', 1, ['127.0.0.1:1']), service('blog/api', 1, ['127.0.0.1:1'])],
    routers: {
      ...noRouters,
      tcp: [{ entrypoint: 'local', service: 'x', terminate: null, origin: 'config.toml:9 routers.tcp[0]' }],
      tls: [{ entrypoint: 'web', service: 'x', names: ['*.pass.test'], origin: 'config.toml:12 routers.tls[0]' }],
    },
  });
  const claimsOf = (of: App) => revisionClaims(revisionOf(of), file.entrypoints);
  const onEntrypoint = (name: string, transport: 'tcp' | 'udp', where: string): App =>
    app(name, [appService('a', { [transport]: [{ entrypoint: where, port: 1, publish: null }] })]);

  test('what belongs to one app never conflicts with itself', () => {
    const own = claimsOf(app('blog', [webService('web', 'blog.test')]));
    expect(conflicts(own, own)).toEqual([]);
  });

  test('a host has one owner, over apps, the file and the installation itself', () => {
    const taken = fileClaims(file, [{ host: 'gate.test', origin: 'config.toml gate.host' }]);
    for (const name of ['taken.test', 'gate.test', 'www.pass.test']) {
      const found = said(conflicts(claimsOf(app('blog', [webService('web', name)])), taken));
      expect(found.length, name).toBe(1);
      expect(found[0]).toContain('app blog wants it too (blog.toml services.web.http');
    }
    expect(conflicts(claimsOf(app('blog', [webService('web', 'free.test')])), taken)).toEqual([]);
  });

  test('an internal interface claims nothing but the name of its service', () => {
    const internal = appService('web', { http: [{ visibility: 'internal', port: 8080 }] });
    expect(claimsOf(app('blog', [internal])).map(({ what }) => what)).toEqual([{ kind: 'service', name: 'blog/web' }]);
  });

  test('a path of the file and a service of an app cannot have one name', () => {
    const found = said(conflicts(claimsOf(app('blog', [appService('api')])), fileClaims(file, [])));
    expect(found).toEqual([expect.stringContaining('the service name blog/api')]);
  });

  test('a listener has one owner; TCP and UDP of one port are two', () => {
    const game = claimsOf(onEntrypoint('minecraft', 'tcp', 'game'));
    expect(said(conflicts(claimsOf(onEntrypoint('other', 'tcp', 'game')), game))).toEqual([
      'tcp *:25565 belongs to app minecraft (minecraft.toml services.a.tcp); app other wants it too (other.toml services.a.tcp)',
    ]);
    expect(conflicts(claimsOf(onEntrypoint('other', 'udp', 'games')), game)).toEqual([]);
    expect(said(conflicts(claimsOf(onEntrypoint('other', 'tcp', 'local')), fileClaims(file, [])))).toEqual([
      expect.stringContaining('(config.toml:9 routers.tcp[0])'),
    ]);
  });

  test.each([
    ['', 80, true],
    ['0.0.0.0', 80, true],
    ['127.0.0.1', 80, true],
    ['127.0.0.1', 9000, true],
    ['127.0.0.2', 9000, false],
    ['::', 9000, true],
    ['', 81, false],
  ])('a host port at "%s":%i against the entrypoints', (bind, number, taken) => {
    const port: AppPort = {
      host: number,
      container: 1,
      protocol: 'tcp',
      binds: [bind],
      auth: null,
      rationale: null,
      sessionPassthrough: false,
    };
    const claims = portClaims(revisionOf(app('nas', [], { ports: [port], external: true })));
    expect(conflicts(claims, entrypointClaims(file.entrypoints)).length > 0).toBe(taken);
  });
});

describe('routing', () => {
  const file = routing({
    entrypoints: [
      listener('web', 'http', '', 80),
      listener('secure', 'https', '', 443),
      listener('git', 'tcp', '', 22),
      listener('dns', 'udp', '', 53),
      listener('smart', 'smart_tcp', '', 8443),
    ],
    hosts: [host('*.wild.test', [route('*.wild.test', 'wild')])],
    services: [service('wild', 1, ['127.0.0.1:9'])],
  });

  test('a public interface is a host on every entrypoint that serves hosts', () => {
    const of = app('blog', [webService('web', 'blog.test')]);
    const { routing: part, instances } = compose(file, [active(of, of.services[0]!)], noGround);
    expect(part.hosts.at(-1)).toMatchObject({
      pattern: 'blog.test',
      tls: 'auto',
      entrypoints: ['web', 'secure', 'smart'],
    });
    expect(part.hosts.at(-1)?.routes).toMatchObject([
      { id: 'app-blog--web--http-blog.test', path: '/', action: { kind: 'forward', service: 'blog/web' } },
    ]);
    expect(part.services.at(-1)).toMatchObject({ name: 'blog/web', state: 'run', protocol: 'http1' });
    expect(instances.get('blog/web')).toBe('blog-web');
    expect(compileRoutingTable(part, String).services.get('blog/web')).toBeDefined();
  });

  test('an internal interface, and a service without any, add nothing', () => {
    const internal = appService('web', { http: [{ visibility: 'internal', port: 8080 }] });
    const of = app('blog', [internal, appService('worker')]);
    expect(
      compose(
        file,
        of.services.map((each) => active(of, each)),
        noGround,
      ).routing,
    ).toEqual(file);
  });

  test('every port beside the first one is a service of its own, and keeps to its address', () => {
    const many = appService('web', {
      http: [
        { visibility: 'public', host: 'a.test', port: 3000, tls: 'auto' },
        { visibility: 'public', host: 'b.test', port: 3000, tls: 'never' },
        { visibility: 'public', host: 'c.test', port: 3001, tls: 'always' },
      ],
      tcp: [{ entrypoint: 'git', port: 3002, publish: null }],
      udp: [{ entrypoint: 'dns', port: 3003, publish: null }],
    });
    const of = app('blog', [many]);
    const row = active(of, many, ['127.0.0.1:1', '127.0.0.1:2', '127.0.0.1:3', '127.0.0.1:4']);
    expect(routingServices(row)).toEqual(['blog/web', 'blog/web:3001', 'blog/web:3002/tcp', 'blog/web:3003/udp']);
    const { routing: part } = compose(file, [row], noGround);
    const addresses = part.services.slice(1).map(({ name, generation }) => [name, generation.backends[0]?.address]);
    expect(addresses).toEqual([
      ['blog/web', '127.0.0.1:1'],
      ['blog/web:3001', '127.0.0.1:2'],
      ['blog/web:3002/tcp', '127.0.0.1:3'],
      ['blog/web:3003/udp', '127.0.0.1:4'],
    ]);
    expect(part.routers.tcp).toMatchObject([{ entrypoint: 'git', service: 'blog/web:3002/tcp', terminate: null }]);
    expect(part.routers.udp).toMatchObject([{ entrypoint: 'dns', service: 'blog/web:3003/udp' }]);
    expect(appOf('blog/web:3001', [row])?.app).toBe('blog');
    expect(appOf('wild', [row])).toBeNull();
  });

  test('a TCP interface on a smart_tcp entrypoint gets what is neither HTTP nor TLS', () => {
    const raw = appService('ssh', { tcp: [{ entrypoint: 'smart', port: 3000, publish: null }] });
    const { routing: part } = compose(file, [active(app('git', [raw]), raw)], noGround);
    expect(part.entrypoints.at(-1)?.rawFallback).toEqual({ service: 'git/ssh', trustedCidrs: null });
    expect(part.routers.tcp).toEqual([]);
  });

  test('an entrypoint that is not there, or takes something else, gets no router', () => {
    const lost = appService('git', {
      tcp: [
        { entrypoint: 'gone', port: 3000, publish: null },
        { entrypoint: 'dns', port: 3000, publish: null },
      ],
      udp: [{ entrypoint: 'git', port: 3001, publish: null }],
    });
    expect(compose(file, [active(app('git', [lost]), lost)], noGround).routing.routers).toEqual(noRouters);
  });

  test('a withdrawn service holds its arrivals; one that is down refuses them', () => {
    const of = app('blog', [webService('web', 'blog.test')]);
    const [web] = of.services as [AppService];
    expect(compose(file, [active(of, web, null)], noGround).routing.services.at(-1)?.state).toBe('paused');
    const down = compose(file, [active(of, web, null, { down: true })], noGround).routing.services.at(-1);
    expect(down).toMatchObject({ state: 'run', generation: { backends: [] } });
  });

  test('a host that moves between services of an app belongs to the newer revision', () => {
    const [old, next] = [webService('a', 'blog.test'), webService('b', 'blog.test')];
    const of = app('blog', [old, next]);
    for (const rows of [
      [active(of, old), active(of, next, ['127.0.0.1:2'], { revision: 2 })],
      [active(of, next, ['127.0.0.1:2'], { revision: 2 }), active(of, old)],
    ]) {
      const { hosts } = compose(file, rows, noGround).routing;
      expect(hosts.filter(({ pattern }) => pattern === 'blog.test')).toMatchObject([
        { routes: [{ action: { service: 'blog/b' } }] },
      ]);
    }
  });

  test('arrivals of a wildcard wait when an app takes one of its hosts, or gives it back', () => {
    const of = app('blog', [webService('web', 'blog.wild.test')]);
    const after = compose(file, [active(of, of.services[0]!)], noGround).routing;
    expect(movingServices(file, after)).toEqual(['wild']);
    expect(movingServices(after, file)).toEqual(['blog/web']);
    const other = app('shop', [webService('web', 'shop.test')]);
    expect(
      movingServices(
        after,
        compose(file, [active(of, of.services[0]!), active(other, other.services[0]!)], noGround).routing,
      ),
    ).toEqual(['wild']);
  });
});

test.each([
  ['password=hunter2 is wrong', 'password=[redacted] is wrong'],
  ['API_KEY: "abc", next', 'API_KEY: [redacted], next'],
  ['Authorization: Bearer abc.def', 'Authorization: [redacted]'],
  ['postgres://app:geheim@db/main', 'postgres://app:[redacted]@db/main'],
  ['listening on 3000', 'listening on 3000'],
])('the last words of a process are shown without secrets: %s', (line, shown) => {
  expect(redacted(line)).toBe(shown);
});

test('versions are compared as numbers, and only what is one counts', () => {
  expect(newestOf(['v1.9.0', 'v1.10.0', 'nightly', 'v2.0.0-rc1', '1.2'])).toBe('v1.10.0');
  expect(newestOf(['nightly'])).toBeNull();
  expect(compareVersions('v1.10', '1.9.9')).toBeGreaterThan(0);
  expect(compareVersions('1.0', 'v1.0.0')).toBe(0);
});

import { describe, expect, test } from 'vitest';
import { compileRoutingTable, findHost, findRoute, pathCovers } from '../../src/model/routing-table.ts';
import { entrypoint, host, route, routing, service } from '../support/routing.ts';

const digest = (text: string): string => text.padEnd(16, '0');

describe('hosts (basecamp/kamal-proxy#30: a wildcard route that matched nothing, or too much)', () => {
  const table = compileRoutingTable(
    routing({
      hosts: [
        host('*.wild.test', [route('*.wild.test', 'A')]),
        host('api.wild.test', [route('api.wild.test', 'B')]),
        host('*', [route('*', 'D')]),
      ],
    }),
    digest,
  );
  const index = table.entrypoints.get('web')!.hosts;
  test.each([
    ['x.wild.test', '*.wild.test'],
    ['api.wild.test', 'api.wild.test'],
    ['a.b.wild.test', '*'],
    ['wild.test', '*'],
    ['xwild.test', '*'],
  ])('%s is served by %s', (name, pattern) => {
    expect(findHost(index, name)?.host.pattern).toBe(pattern);
  });

  test('without a catch-all an unknown host is null', () => {
    const bare = compileRoutingTable(routing({ hosts: [host('a.test', [])] }), digest);
    expect(findHost(bare.reserved, 'b.test')).toBeNull();
  });

  test('a host is only found on the entrypoints that serve it, but is reserved everywhere', () => {
    const two = compileRoutingTable(
      routing({
        entrypoints: [entrypoint('web'), entrypoint('inside', { port: 9090 })],
        hosts: [host('a.test', [], { entrypoints: ['inside'] })],
      }),
      digest,
    );
    expect(findHost(two.entrypoints.get('web')!.hosts, 'a.test')).toBeNull();
    expect(findHost(two.entrypoints.get('inside')!.hosts, 'a.test')?.host.pattern).toBe('a.test');
    expect(findHost(two.reserved, 'a.test')?.host.pattern).toBe('a.test');
  });
});

describe('TLS profiles', () => {
  test('hosts with equal TLS settings share one profile, others do not', () => {
    const table = compileRoutingTable(
      routing({
        hosts: [
          host('a.test', []),
          host('b.test', []),
          host('c.test', [], { minVersion: '1.3' }),
          host('d.test', [], { clientAuth: { mode: 'require', ca: 'CA-1' } }),
          host('e.test', [], { clientAuth: { mode: 'require', ca: 'CA-2' } }),
          host('f.test', [], { clientAuth: { mode: 'request', ca: 'CA-1' } }),
        ],
      }),
      digest,
    );
    const id = (name: string) => findHost(table.reserved, name)!.profileId;
    expect(id('a.test')).toBe(id('b.test'));
    expect(new Set(['a.test', 'c.test', 'd.test', 'e.test', 'f.test'].map(id)).size).toBe(5);
    expect(table.profiles.get(id('d.test'))).toMatchObject({ clientAuth: { mode: 'require', ca: 'CA-1' } });
  });
});

describe('paths', () => {
  test.each([
    ['/', '/anything', true],
    ['/api', '/api', true],
    ['/api', '/api/x', true],
    ['/api', '/api?x=1', true],
    ['/api', '/apix', false],
    ['/api', '/API', false],
    ['/api', '/', false],
  ])('%s covers %s: %s', (path, target, covers) => expect(pathCovers(path, target)).toBe(covers));

  test('the first (longest) route that covers the target is taken', () => {
    const declared = host('a.test', [
      route('a.test/api/v2', 'v2', { path: '/api/v2' }),
      route('a.test/api', 'v1', { path: '/api' }),
    ]);
    expect(findRoute(declared, '/api/v2/x')?.id).toBe('a.test/api/v2');
    expect(findRoute(declared, '/api/v3')?.id).toBe('a.test/api');
    expect(findRoute(declared, '/other')).toBeNull();
  });
});

test('services are found by name', () => {
  const table = compileRoutingTable(routing({ services: [service('a.test', 1, ['127.0.0.1:1'])] }), digest);
  expect(table.services.get('a.test')?.generation.number).toBe(1);
});

test('ports of the gate take every name on their entrypoint, and reserve none', () => {
  const catchAll = (id: string, at: string) => host('*', [route(id, 'A')], { entrypoints: [at], tls: 'either' });
  const entrypoints = [entrypoint('one', { port: 1 }), entrypoint('two', { port: 2 })];
  const table = compileRoutingTable(
    routing({ entrypoints, hosts: [catchAll('A', 'one'), catchAll('B', 'two')] }),
    digest,
  );
  const idAt = (name: string) => findHost(table.entrypoints.get(name)!.hosts, 'x.test')?.host.routes[0]?.id;
  expect([idAt('one'), idAt('two')]).toEqual(['A', 'B']);
  expect(findHost(table.reserved, 'x.test')).toBeNull();
});

import { expect, test } from 'vitest';
import { movingServices } from '../../src/model/moves.ts';
import { entrypoint, host, networkService, noRouters, route, routing, service } from '../support/routing.ts';

const a1 = service('a.test', 1, ['127.0.0.1:1']);
const b1 = service('b.test', 1, ['127.0.0.1:2']);
const before = routing({
  hosts: [host('a.test', [route('a.test', 'a.test')]), host('b.test', [route('b.test', 'b.test')])],
  services: [a1, b1],
});

test('a changed generation moves its service and no other', () => {
  const after = { ...before, services: [service('a.test', 2, ['127.0.0.1:9']), b1] };
  expect(movingServices(before, after)).toEqual(['a.test']);
});

test('an unrelated new host or changed header rule moves nothing', () => {
  const headers = { remove: ['server'], set: [], add: [] };
  const after = {
    ...before,
    hosts: [
      host('a.test', [route('a.test', 'a.test', { responseHeaders: headers })]),
      before.hosts[1]!,
      host('c.test', [route('c.test', 'c.test')]),
    ],
    services: [a1, b1, service('c.test', 1, ['127.0.0.1:3'])],
  };
  expect(movingServices(before, after)).toEqual([]);
});

test('a route that points elsewhere, a policy change, a pause and a removal move the service', () => {
  const to = (hosts: typeof before.hosts, services = before.services) =>
    movingServices(before, { ...before, hosts, services });
  expect(to([host('a.test', [route('a.test', 'b.test')]), before.hosts[1]!])).toEqual(['a.test']);
  expect(to([host('a.test', before.hosts[0]!.routes, { tls: 'always' }), before.hosts[1]!])).toEqual(['a.test']);
  expect(to(before.hosts, [{ ...a1, state: 'paused' }, b1])).toEqual(['a.test']);
  expect(to([before.hosts[1]!], [b1])).toEqual(['a.test']);
});

test('a new exact host takes arrivals from the wildcard that served it', () => {
  const wild = routing({
    hosts: [host('*.w.test', [route('*.w.test', 'w')])],
    services: [service('w', 1, ['127.0.0.1:1'])],
  });
  const after = routing({
    hosts: [...wild.hosts, host('x.w.test', [route('x.w.test', 'x')])],
    services: [...wild.services, service('x', 1, ['127.0.0.1:2'])],
  });
  expect(movingServices(wild, after)).toEqual(['w']);
});

const db = networkService('db', 1, ['127.0.0.1:5']);
const git = networkService('git', 1, ['127.0.0.1:6']);
const router = { entrypoint: 'x', service: 'db', origin: '' };

test.each([
  [
    'a TCP router that leads elsewhere',
    { tcp: [{ ...router, terminate: null }] },
    { tcp: [{ ...router, service: 'git', terminate: null }] },
    ['db'],
  ],
  [
    'a TCP router that ends TLS now',
    { tcp: [{ ...router, terminate: null }] },
    { tcp: [{ ...router, terminate: { names: [] } }] },
    ['db'],
  ],
  ['a UDP router that is gone', { udp: [router] }, {}, ['db']],
  [
    'a name that is gone',
    { tls: [{ ...router, names: ['a.test', 'b.test'] }] },
    { tls: [{ ...router, names: ['a.test'] }] },
    ['db'],
  ],
  [
    'a name beside others',
    { tls: [{ ...router, names: ['a.test'] }] },
    { tls: [{ ...router, names: ['a.test', 'b.test'] }] },
    [],
  ],
  [
    'a name under a wildcard',
    { tls: [{ ...router, names: ['*.test'] }] },
    {
      tls: [
        { ...router, names: ['*.test'] },
        { ...router, service: 'git', names: ['a.test'] },
      ],
    },
    ['db'],
  ],
  [
    'an equal router written elsewhere',
    { tcp: [{ ...router, terminate: null }] },
    { tcp: [{ ...router, origin: 'z', terminate: null }] },
    [],
  ],
])('%s', (_, from, to, moving) => {
  const part = (routers: object) => routing({ services: [db, git], routers: { ...noRouters, ...routers } });
  expect(movingServices(part(from), part(to))).toEqual(moving);
});

test('another raw fallback moves the service that was it', () => {
  const part = (fallback: string | null) =>
    routing({
      services: [db, git],
      entrypoints: [
        entrypoint('x', { rawFallback: fallback === null ? null : { service: fallback, trustedCidrs: null } }),
      ],
    });
  expect(movingServices(part('db'), part('git'))).toEqual(['db']);
  expect(movingServices(part(null), part('git'))).toEqual([]);
});

test('catch-alls of different entrypoints are different hosts: one that comes or goes moves no other', () => {
  const catchAll = (name: string, at: string) => host('*', [route(name, name)], { entrypoints: [at] });
  const one = catchAll('a.test', 'one');
  const two = catchAll('b.test', 'two');
  const both = { ...before, hosts: [one, two] };
  expect(movingServices({ ...before, hosts: [one] }, both)).toEqual([]);
  expect(movingServices(both, { ...before, hosts: [two, one] })).toEqual([]);
  expect(movingServices(both, { ...before, hosts: [two] })).toEqual(['a.test']);
  expect(movingServices(both, { ...before, hosts: [one, catchAll('a.test', 'two')] })).toEqual(['b.test']);
});

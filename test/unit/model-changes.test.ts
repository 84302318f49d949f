import { describe, expect, it } from 'vitest';
import { formatBind, routingChanges } from '../../src/model/changes.ts';
import { entrypoint, host, noRouters, route, routing, service, settings } from '../support/routing.ts';

const before = routing({
  entrypoints: [entrypoint('web'), entrypoint('old', { port: 81 })],
  hosts: [host('app.test', [route('app.test', 'app.test')], { origin: 'config.toml:10 external_routes."app.test"' })],
  services: [service('app.test', 1, ['127.0.0.1:1'])],
});

describe('the changes between two routings', () => {
  it('are empty when nothing differs but the line numbers', () => {
    const [app] = before.hosts;
    const moved = { ...before, hosts: [{ ...app!, origin: 'config.toml:99 external_routes."app.test"' }] };
    expect(routingChanges(before, before).empty).toBe(true);
    expect(routingChanges(before, moved).empty).toBe(true);
  });

  it('name listeners that rebind, come and go', () => {
    const after = {
      ...before,
      entrypoints: [entrypoint('web', { host: '', port: 9090 }), entrypoint('new', { host: '::1', protocol: 'https' })],
    };
    expect(routingChanges(before, after).entrypoints).toEqual([
      { kind: 'removed', name: 'old', details: ['127.0.0.1:81 http'] },
      { kind: 'changed', name: 'web', details: ['rebinds 127.0.0.1:8080 → *:9090'] },
      { kind: 'added', name: 'new', details: ['[::1]:8080 https'] },
    ]);
  });

  it('name who owns a host now, and what differs in its routes', () => {
    const [app] = before.hosts;
    const after = {
      ...before,
      hosts: [
        {
          ...app!,
          origin: 'config.toml:10 external_routes."*.test"',
          tls: 'always' as const,
          routes: [
            route('app.test/api', 'app.test', { path: '/api' }),
            route('app.test', 'app.test', { retry: false }),
          ],
        },
      ],
    };
    expect(routingChanges(before, after).hosts).toEqual([
      {
        kind: 'changed',
        name: 'app.test',
        details: [
          'owner config.toml:10 external_routes."app.test" → config.toml:10 external_routes."*.test"',
          'tls auto → always',
          'route /api added',
          'route /: retry',
        ],
      },
    ]);
  });

  it('name services that move, and hold exactly those', () => {
    const after = { ...before, services: [service('app.test', 2, ['127.0.0.1:2'])] };
    const changes = routingChanges(before, after);
    expect(changes.services).toEqual([{ kind: 'changed', name: 'app.test', details: ['127.0.0.1:1 → 127.0.0.1:2'] }]);
    expect(changes.held).toEqual(['app.test']);
  });

  it('name routers by what leads through them', () => {
    const tcp = { entrypoint: 'pg', service: 'db', terminate: null, origin: 'config.toml:1' };
    const tls = { entrypoint: 'edge', service: 'db', names: ['a.test', 'b.test'], origin: 'config.toml:2' };
    const from = { ...before, routers: { ...noRouters, tcp: [tcp], tls: [tls] } };
    const to = {
      ...before,
      routers: {
        tcp: [{ ...tcp, service: 'other', terminate: { names: [] }, origin: 'config.toml:9' }],
        udp: [{ entrypoint: 'game', service: 'game', origin: 'config.toml:3' }],
        tls: [{ ...tls, names: ['a.test'] }],
      },
    };
    const changes = routingChanges(from, to);
    expect(changes.empty).toBe(false);
    expect(changes.routers).toEqual([
      { kind: 'removed', name: 'tls edge b.test', details: ['to db'] },
      { kind: 'changed', name: 'tcp pg', details: ['db → other', 'terminate'] },
      { kind: 'added', name: 'udp game', details: ['to game'] },
    ]);
    expect(routingChanges(to, to).empty).toBe(true);
  });

  it('spell settings as in the file', () => {
    const after = {
      ...before,
      settings: { ...settings, trustedProxies: ['10.0.0.0/8'], limits: { ...settings.limits, headerTimeoutMs: 1 } },
    };
    expect(routingChanges(before, after).settings).toEqual(['trusted_proxies', 'limits.header_timeout']);
  });
});

it('a bind address reads as one would connect to it', () => {
  expect([formatBind('', 80), formatBind('127.0.0.1', 80), formatBind('::1', 80)]).toEqual([
    '*:80',
    '127.0.0.1:80',
    '[::1]:80',
  ]);
});

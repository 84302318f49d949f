// What `traffic status` says: every counter under its name, whatever the order of the file, and their sums.
import { expect, test } from 'vitest';
import type { Series } from '../../src/process/metrics.ts';
import type { LastReload } from '../../src/process/operations.ts';
import { trafficStatus } from '../../src/process/traffic-status.ts';
import { entrypoint, host, networkService, noRouters, route, routing, service, snapshot } from '../support/routing.ts';

const part = routing({
  entrypoints: [
    entrypoint('web', { port: 80 }),
    entrypoint('games', { port: 81, protocol: 'udp' }),
    entrypoint('edge', {
      port: 82,
      protocol: 'smart_tcp',
      rawFallback: { service: 'ssh', trustedCidrs: ['127.0.0.1/32'] },
    }),
  ],
  hosts: [host('b.test', [route('b.test/', 'b.test')]), host('a.test', [route('a.test/', 'a.test')])],
  services: [
    service('b.test', 1, ['127.0.0.1:1']),
    networkService('ssh', 1, ['127.0.0.1:22'], { state: 'paused' }),
    networkService('db', 1, ['127.0.0.1:3']),
    service('a.test', 1, ['127.0.0.1:2']),
  ],
  routers: {
    ...noRouters,
    udp: [{ entrypoint: 'games', service: 'db', origin: '' }],
    tls: [{ entrypoint: 'edge', service: 'db', names: ['z.test', 'd.test'], origin: '' }],
  },
});

const counted: Readonly<Record<string, readonly Series[]>> = {
  entrypoint_accepted_total: [
    { labels: { entrypoint: 'web' }, value: 5 },
    { labels: { entrypoint: 'edge' }, value: 7 },
    { labels: { entrypoint: 'games' }, value: 2 },
  ],
  entrypoint_refused_total: [
    { labels: { entrypoint: 'edge', reason: 'raw-source' }, value: 3 },
    { labels: { entrypoint: 'games', reason: 'source' }, value: 4 },
  ],
  entrypoint_errors_total: [{ labels: { entrypoint: 'edge' }, value: 1 }],
  entrypoint_protocols_total: [{ labels: { entrypoint: 'edge', protocol: 'raw' }, value: 6 }],
  entrypoint_bytes_total: [
    { labels: { entrypoint: 'web', direction: 'received' }, value: 10 },
    { labels: { entrypoint: 'games', direction: 'received' }, value: 100 },
    { labels: { entrypoint: 'edge', direction: 'sent' }, value: 1000 },
  ],
  http_requests_total: [{ labels: { route: 'a.test/', status: '2xx' }, value: 9 }],
};
const open = { web: 2, games: 8, edge: 4 };

function status(lastReload: LastReload | null = null) {
  return trafficStatus({
    at: 1,
    lastReload,
    snapshot: snapshot(1, part),
    stats: [
      {
        revision: 1,
        rssBytes: 0,
        services: [],
        entrypoints: Object.entries(open).map(([name, connections]) => ({
          name,
          connections,
          problem: name === 'games' ? 'taken' : null,
        })),
        load: { rung: 'calm', delayMs: 0, descriptors: 0, descriptorLimit: 0 },
      },
    ],
    seriesOf: (family) => counted[family] ?? [],
    isEjected: () => false,
  });
}

test('every list is sorted by name, whatever the order of the file', () => {
  const { entrypoints, routers, tunnels, datagrams, routes, services } = status();
  expect(entrypoints.map(({ name }) => name)).toEqual(['edge', 'games', 'web']);
  expect(routers.map(({ entrypoint: at, name }) => `${at} ${name}`)).toEqual([
    'edge (raw)',
    'edge d.test',
    'edge z.test',
    'games (udp)',
  ]);
  expect(tunnels.map((each) => each.service)).toEqual(['db', 'ssh']);
  expect(datagrams.map((each) => each.entrypoint)).toEqual(['games']);
  expect(routes.map((each) => each.route)).toEqual(['a.test/', 'b.test/', 'other']);
  expect(services.map((each) => each.service)).toEqual(['a.test', 'b.test', 'db', 'ssh']);
});

test('what was not seen is there as zero', () => {
  const { entrypoints } = status();
  expect(entrypoints[0]).toMatchObject({
    protocol: 'smart_tcp',
    connections: 4,
    accepted: 7,
    errors: 1,
    bytesIn: 0,
    bytesOut: 1000,
    protocols: { http1: 0, h2c: 0, tls: 0, passthrough: 0, raw: 6 },
    refused: 3,
    refusals: {
      source: 0,
      'raw-source': 3,
      proxy: 0,
      'proxy-expected': 0,
      'no-fallback': 0,
      malformed: 0,
      'sniff-timeout': 0,
      'hello-too-large': 0,
      limit: 0,
      'peer-limit': 0,
    },
  });
  expect(entrypoints[1]).toMatchObject({ protocol: 'udp', refusals: { source: 4 }, protocols: {} });
});

test('the totals add everything up, flows apart from connections', () => {
  expect(status().totals).toEqual({
    connections: 6,
    flows: 8,
    accepted: 14,
    refused: 7,
    errors: 1,
    bytesIn: 110,
    bytesOut: 1000,
    requests: 9,
  });
});

test('a router tells where it leads and whether anybody is served there', () => {
  expect(status().routers.slice(0, 2)).toEqual([
    { entrypoint: 'edge', name: '(raw)', carries: 'raw fallback', tls: '-', service: 'ssh', state: 'paused' },
    { entrypoint: 'edge', name: 'd.test', carries: 'tcp', tls: 'passes', service: 'db', state: 'run' },
  ]);
});

test('an entrypoint that cannot listen says why', () => {
  expect(status().entrypoints.map(({ problem }) => problem)).toEqual([null, 'taken', null]);
});

test('the last reload is part of it: counters of a configuration that was refused would mislead', () => {
  const refused: LastReload = { at: 0, outcome: 'refused', problems: [], fault: null };
  expect(status(refused).lastReload).toEqual(refused);
  expect(status().lastReload).toBeNull();
});

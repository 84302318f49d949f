// Which addresses the gate binds for which policy, and what it finds on this machine.
// Invariant: an app's own address is never taken from it.
import { createServer } from 'node:net';
import type { NetworkInterfaceInfo } from 'node:os';
import { describe, expect, it } from 'vitest';
import type { AppPort, AuthPolicy } from '../../src/manifest/app.ts';
import { gatePorts, noPorts, type PortedApp, type RunningApp, withPorts } from '../../src/process/gate-ports.ts';
import { holdersOf, listenersOf, surroundings } from '../../src/process/machine-addresses.ts';
import { app } from '../support/apps.ts';
import { routing, settings } from '../support/routing.ts';

const around = { addresses: ['10.0.0.1', 'fd00::1'], names: ['box'] };
const running: RunningApp = { instance: 'one', down: false, backends: [{ port: 80, address: '127.0.0.1:49152' }] };

function ported(auth: AuthPolicy | null, binds: readonly string[], run: RunningApp | null): PortedApp {
  const port: AppPort = {
    host: 3001,
    container: 80,
    protocol: 'tcp',
    binds,
    auth,
    rationale: null,
    sessionPassthrough: false,
  };
  return { app: app('wiki', [], { ports: [port] }), instance: 'id', revision: 1, originOf: () => 'wiki.yml', run };
}

const taken = (auth: AuthPolicy | null, binds: readonly string[], run: RunningApp | null, ground = noPorts) =>
  gatePorts([ported(auth, binds, run)], ground, around, settings);

describe('who binds what', () => {
  const everywhere = ['3001@10.0.0.1', '3001@fd00::1'];
  it.each([
    ['session', [''], running, ['3001@*'], ['127.0.0.1:49152']],
    ['session', ['10.0.0.1'], running, ['3001@10.0.0.1'], ['127.0.0.1:49152']],
    ['session', ['127.0.0.1'], running, ['3001@127.0.0.1'], ['127.0.0.1:49152']],
    ['session', [''], null, everywhere, ['127.0.0.1:3001']],
    ['session', ['127.0.0.1', '10.0.0.1'], null, ['3001@10.0.0.1'], ['127.0.0.1:3001']],
    ['gated', ['127.0.0.1'], null, everywhere, ['127.0.0.1:3001']],
    ['gated', ['127.0.0.1'], { ...running, backends: [] }, everywhere, ['127.0.0.1:3001']],
    ['open', ['127.0.0.1'], null, everywhere, ['127.0.0.1:3001']],
    ['none', [''], null, [], null],
    ['local', ['127.0.0.1'], null, [], null],
    [null, [''], null, [], null],
  ] as const)('%s at %j', (auth, binds, run, names, backends) => {
    const { entrypoints, services } = taken(auth, binds, run);
    expect(entrypoints.map(({ name }) => name)).toEqual(names);
    expect(services[0]?.generation.backends.map(({ address }) => address) ?? null).toEqual(backends);
  });

  it('never leads to the port that is ours, when nobody knows where the app is', () => {
    const [service] = taken('session', [''], { ...running, backends: [] }).services;
    expect(service!.generation.backends).toEqual([]);
    const [held] = taken('gated', ['127.0.0.1'], { ...running, instance: null, backends: [] }).services;
    expect([held!.state, held!.generation.backends]).toEqual(['paused', []]);
  });

  it('the word of the configuration wins over the manifest', () => {
    const rule = { sessionPassthrough: false, openPaths: ['/x'], upgradeOpenPaths: [], allowedOrigins: [] };
    const by = (policy: AuthPolicy | null) =>
      taken('gated', ['127.0.0.1'], null, { ...noPorts, rules: new Map([['wiki', { ...rule, policy }]]) });
    expect(by('none').entrypoints).toEqual([]);
    expect(by('open').hosts[0]!.routes[0]!.gate).toMatchObject({ policy: 'open', openPaths: ['/x'] });
    expect(by(null).hosts[0]!.routes[0]!.gate).toMatchObject({ policy: 'gated', openPaths: ['/x'] });
  });

  it('hosts name only entrypoints that could be had', () => {
    const ports = taken('gated', ['127.0.0.1'], null);
    const { hosts, entrypoints } = withPorts(routing(), ports, ports.entrypoints.slice(0, 1));
    expect(entrypoints.map(({ name }) => name)).toContain('3001@10.0.0.1');
    for (const host of hosts) expect(host.entrypoints).toEqual(['3001@10.0.0.1']);
  });
});

describe('this machine', () => {
  const row = (address: string, internal = false): NetworkInterfaceInfo =>
    ({ address, internal, family: address.includes(':') ? 'IPv6' : 'IPv4' }) as NetworkInterfaceInfo;

  it('is reached at every address but loopback, link-local and skipped interfaces', () => {
    const interfaces = {
      lo: [row('127.0.0.1', true), row('::1', true)],
      eth0: [row('192.0.2.1'), row('2001:db8::1'), row('fe80::1'), row('169.254.3.4')],
      docker0: [row('172.17.0.1')],
      'br-1': [row('172.18.0.1')],
    };
    expect(surroundings(['docker0', 'br-*'], interfaces).addresses).toEqual(['192.0.2.1', '2001:db8::1']);
    expect(surroundings([], interfaces).addresses).toContain('172.18.0.1');
  });

  it.each(['127.0.0.1', '0.0.0.0', '::1', '::'])('tells who listens at %s', async (address) => {
    const server = createServer().listen(0, address);
    await new Promise((resolve) => server.once('listening', resolve));
    const found = listenersOf((server.address() as { port: number }).port);
    expect(found.map((each) => each.address)).toEqual([address === '0.0.0.0' || address === '::' ? '' : address]);
    const holders = holdersOf(new Set(found.map(({ inode }) => inode)));
    expect(holders).toEqual([expect.stringContaining(`(pid ${process.pid})`)]);
    server.close();
  });
});

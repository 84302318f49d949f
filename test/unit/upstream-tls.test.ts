import net from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Fault } from '../../src/base/fault.ts';
import type { Service, UpstreamTls } from '../../src/model/snapshot.ts';
import type { Compiled } from '../../src/traffic/traffic.ts';
import { backendTlsCheck, backendTlsProblem } from '../../src/upstream/backend-tls.ts';
import { Backends } from '../../src/upstream/backends.ts';
import { TestCa } from '../support/certificates.ts';
import { Recorder, type RecorderOptions } from '../support/recorder.ts';
import { service } from '../support/routing.ts';
import { until } from '../support/wait.ts';
import { ask, HandClock, Heard, upstreamDeps } from './upstream-kit.ts';

const ca = new TestCa('upstream');
const strangers = new TestCa('strangers');
const pair = ca.leaf(['backend.test']);
const addressPair = ca.leaf(['127.0.0.1']);
const clientPair = ca.leaf(['client.test'], { client: true });
const tlsTo = (over: Partial<UpstreamTls> = {}): UpstreamTls => ({
  sni: 'backend.test',
  verify: true,
  ca: ca.pem,
  cert: '',
  key: '',
  ...over,
});

let deps = upstreamDeps();
const open: { close(): unknown }[] = [];
beforeEach(() => {
  deps = upstreamDeps();
});
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
  deps.deadlines.close();
});

async function recorder(tls: NonNullable<RecorderOptions['tls']>): Promise<Recorder> {
  const started = await Recorder.start({ tls });
  open.push(started);
  return started;
}

async function get(address: string, upstreamTls: UpstreamTls | null, over: Partial<Service> = {}): Promise<Heard> {
  const made = service('app.test', 1, [address], { protocol: 'https', upstreamTls, ...over });
  const backends = new Backends(made, [], deps);
  open.push(backends);
  const heard = new Heard();
  backends.open(ask(), heard);
  return heard.end();
}

describe('TLS to a backend', () => {
  it('serves when the certificate is for the name we expect, by an issuer we trust', async () => {
    const target = await recorder(pair);
    const heard = await get(target.address, tlsTo());
    expect([heard.head?.status, heard.ended]).toEqual([200, true]);
  });

  it('checks the certificate against the address when there is no name', async () => {
    expect((await get((await recorder(addressPair)).address, tlsTo({ sni: '' }))).ended).toBe(true);
    expect((await get((await recorder(pair)).address, tlsTo({ sni: '' }))).fault?.code).toBe('upstream-tls');
  });

  it.each<[string, Partial<UpstreamTls>]>([
    ['another name', { sni: 'other.test' }],
    ['an unknown issuer', { ca: strangers.pem }],
    ['an issuer the system does not know', { ca: '' }],
  ])('refuses %s', async (_name, over) => {
    const target = await recorder(pair);
    const heard = await get(target.address, tlsTo(over));
    expect(heard.fault).toMatchObject({ code: 'upstream-tls', retry: 'yes', status: 502 });
    expect(target.exchanges.length).toBe(0);
  });

  it('verifies when nothing is said about TLS at all', async () => {
    expect((await get((await recorder(pair)).address, null)).fault?.code).toBe('upstream-tls');
  });

  it('takes any certificate only when verification is switched off', async () => {
    expect((await get((await recorder(pair)).address, tlsTo({ sni: 'x.test', ca: '', verify: false }))).ended).toBe(
      true,
    );
  });

  it('shows its client certificate to a backend that wants one', async () => {
    const target = await recorder({ ...pair, ca: ca.pem });
    const { cert, key } = clientPair;
    expect((await get(target.address, tlsTo({ cert, key }))).ended).toBe(true);
    const refused = await get(target.address, tlsTo());
    expect(refused.ended).toBe(false);
    expect(refused.fault?.side).toBe('upstream');
  });

  it('sends the name of the backend as SNI', async () => {
    const target = await recorder(pair);
    const names: unknown[] = [];
    target.accepted = (connection) => void names.push((connection.socket as { servername?: unknown }).servername);
    await get(target.address, tlsTo());
    expect(names).toEqual(['backend.test']);
  });

  it('refuses a backend that does not agree on h2', async () => {
    const target = await recorder({ ...pair, alpn: ['http/1.1'] });
    expect((await get(target.address, tlsTo(), { protocol: 'h2' })).fault?.code).toBe('upstream-tls');
    const silent = await recorder(pair);
    expect((await get(silent.address, tlsTo(), { protocol: 'h2' })).fault?.code).toBe('upstream-tls');
  });

  it('gives up a handshake that does not move', async () => {
    const clock = new HandClock();
    deps.deadlines.close();
    deps = upstreamDeps(clock);
    const accepted: net.Socket[] = [];
    const mute = net.createServer((socket) => void accepted.push(socket)).listen(0, '127.0.0.1');
    await new Promise((resolve) => mute.once('listening', resolve));
    open.push(mute);
    const ended = get(`127.0.0.1:${(mute.address() as net.AddressInfo).port}`, tlsTo());
    await until('the connection', () => accepted.length === 1);
    clock.advance(5100);
    expect((await ended).fault?.code).toBe('upstream-connect-timeout');
    accepted[0]!.destroy();
  });

  it('reports a backend that hangs up in the handshake, or speaks plaintext', async () => {
    const plain = net.createServer((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')).listen(0, '127.0.0.1');
    await new Promise((resolve) => plain.once('listening', resolve));
    open.push(plain);
    const { port } = plain.address() as net.AddressInfo;
    expect((await get(`127.0.0.1:${port}`, tlsTo())).fault?.code).toBe('upstream-tls');
  });
});

describe('TLS material', () => {
  const broken = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n';

  it.each<[string, Partial<UpstreamTls>]>([
    ['a CA file without a certificate', { ca: 'not PEM' }],
    ['a CA file with a broken certificate', { ca: `${ca.pem}${broken}` }],
    ['a certificate without its key', { cert: clientPair.cert }],
    ['a key of another certificate', { cert: clientPair.cert, key: pair.key }],
    ['a broken key', { cert: clientPair.cert, key: 'x' }],
  ])('%s is found before it is used', (_name, over) => {
    expect(backendTlsProblem(tlsTo(over))).toEqual(expect.any(String));
  });

  it('that is sound is accepted', () => {
    expect(backendTlsProblem(tlsTo({ cert: clientPair.cert, key: clientPair.key }))).toBeNull();
    expect(backendTlsProblem(tlsTo({ ca: '' }))).toBeNull();
  });

  it('that is unusable refuses a publication, once and for changes only', () => {
    const compiled = (services: readonly Service[]): Compiled =>
      ({
        table: { part: { services }, services: new Map(services.map((each) => [each.name, each])) },
      }) as unknown as Compiled;
    const made = (upstreamTls: UpstreamTls, protocol: Service['protocol'] = 'https'): Compiled =>
      compiled([service('app.test', 1, ['127.0.0.1:1'], { protocol, upstreamTls })]);
    const routing = new Set(['routing'] as const);
    const good = made(tlsTo());
    const bad = made(tlsTo({ ca: broken }));
    expect(() => backendTlsCheck.prepare(good, null, routing)).not.toThrow();
    expect(() => backendTlsCheck.prepare(bad, good, routing)).toThrow(Fault);
    expect(() => backendTlsCheck.prepare(bad, bad, routing)).not.toThrow();
    expect(() => backendTlsCheck.prepare(bad, good, new Set(['keys'] as const))).not.toThrow();
    expect(() => backendTlsCheck.prepare(made(tlsTo({ ca: broken }), 'http1'), good, routing)).not.toThrow();
  });

  it('that is unusable after all fails the requests, not the process', async () => {
    const heard = await get('127.0.0.1:1', tlsTo({ ca: broken }));
    expect(heard.fault?.code).toBe('upstream-tls');
  });
});

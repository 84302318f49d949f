import { expect, test } from 'vitest';
import { authorityOf } from '../../src/http/authority.ts';
import { clientAddress, trustedAddresses } from '../../src/http/client-address.ts';
import { compileRules, rulesName } from '../../src/http/header-rules.ts';
import { httpsEndpoint } from '../../src/http/https-endpoint.ts';
import { jsonText } from '../../src/http/json-text.ts';
import { limitKey, RateLimiter } from '../../src/http/rate-limit.ts';
import { rewritten } from '../../src/http/request-headers.ts';
import { isUsableRequestId, RequestIds } from '../../src/http/request-id.ts';
import { isStreamType } from '../../src/http/stream-kind.ts';
import { digestOf } from '../../src/model/digest.ts';
import { compileRoutingTable } from '../../src/model/routing-table.ts';
import type { Certificate, CertificatesPart, EntrypointProtocol, Host, TlsPolicy } from '../../src/model/snapshot.ts';
import { entrypoint, host, routing } from '../support/routing.ts';

test('the client is the right-most address that is not trusted', () => {
  const trusted = trustedAddresses(['10.0.0.0/8', '::1', 'fd00::/8']);
  const of = (chain: string | null): string => clientAddress('10.0.0.1', chain, trusted);
  expect(of(null)).toBe('10.0.0.1');
  expect(of('6.6.6.6, 203.0.113.9, 10.2.2.2')).toBe('203.0.113.9');
  expect(of('203.0.113.9:4711, 10.2.2.2')).toBe('203.0.113.9');
  expect(of('[2001:db8::1]:4711')).toBe('2001:db8::1');
  expect(of('2001:db8::1, fd00::7')).toBe('2001:db8::1');
  expect(of('10.3.3.3, 10.2.2.2')).toBe('10.3.3.3');
  expect(of('6.6.6.6, nonsense, 10.2.2.2')).toBe('10.2.2.2');
  expect(of('unknown')).toBe('10.0.0.1');
});

test('an IPv6 client is limited by its /64, whatever the spelling', () => {
  expect(limitKey('203.0.113.9')).toBe('203.0.113.9');
  expect(limitKey('2001:db8:1:2:aaaa::1')).toBe(limitKey('2001:0DB8:1:2::ffff'));
  expect(limitKey('2001:db8:1:2::1')).not.toBe(limitKey('2001:db8:1:3::1'));
  expect(limitKey('::1')).toBe('0:0:0:0');
  expect(limitKey('fe80::1%eth0')).toBe('fe80:0:0:0');
  expect(limitKey('2001:db8::')).toBe('2001:db8:0:0');
});

test('a bucket fills with time up to its burst, and a worker grants its share', () => {
  const limiter = new RateLimiter({ perSecond: 10, burst: 4 }, 2);
  expect([limiter.take('a', 0), limiter.take('a', 0)]).toEqual([0, 0]);
  expect(limiter.take('a', 0)).toBe(200);
  expect(limiter.take('a', 100)).toBeCloseTo(100);
  expect(limiter.take('a', 200)).toBe(0);
  expect(limiter.take('b', 200)).toBe(0);
  expect([limiter.take('a', 99_999), limiter.take('a', 99_999)]).toEqual([0, 0]);
  expect(limiter.take('a', 99_999)).toBeGreaterThan(0);
});

test('a busy client keeps its bucket while a flood of addresses passes', () => {
  const limiter = new RateLimiter({ perSecond: 0.001, burst: 1 }, 1);
  expect(limiter.take('busy', 0)).toBe(0);
  for (let i = 0; i < 100_000; i++) {
    limiter.take(`client-${i}`, 0);
    if (i % 10_000 === 0) expect(limiter.take('busy', 0)).toBeGreaterThan(0);
  }
});

test('a rewrite takes off or replaces the path of the route and keeps the rest byte for byte', () => {
  expect(rewritten('/api/x?q=%2F#', '/api', { kind: 'strip' })).toBe('/x?q=%2F#');
  expect(rewritten('/api', '/api', { kind: 'strip' })).toBe('/');
  expect(rewritten('/api?x', '/api', { kind: 'strip' })).toBe('/?x');
  expect(rewritten('/x', '/', { kind: 'strip' })).toBe('/x');
  expect(rewritten('/api/x', '/api', { kind: 'replace', to: '/v2' })).toBe('/v2/x');
  expect(rewritten('/api/x', '/api', { kind: 'replace', to: '/v2/' })).toBe('/v2/x');
  expect(rewritten('/api?x', '/api', { kind: 'replace', to: '/v2' })).toBe('/v2?x');
  expect(rewritten('/a//b', '/', { kind: 'replace', to: '/' })).toBe('/a//b');
  expect(rewritten('/api', '/api', { kind: 'replace', to: '' })).toBe('/');
  expect(rewritten('*', '/', { kind: 'replace', to: '/v2' })).toBe('*');
});

test('absolute-form and Host must name one host and one port', () => {
  const of = (authority: string | null, otherAuthority: string | null, version = 11): unknown => {
    const judged = authorityOf({ authority, otherAuthority, version });
    return judged instanceof Error ? judged.code : judged;
  };
  expect(of('A.test.', 'a.TEST')).toEqual({ host: 'a.test', port: null });
  expect(of('a.test:80', 'a.test')).toBe('host-mismatch');
  expect(of('a.test', 'b.test')).toBe('host-mismatch');
  expect(of('a.test', 'b test')).toBe('bad-host');
  expect(of(null, 'a.test')).toEqual({ host: 'a.test', port: null });
  expect(of(null, null, 10)).toEqual({ host: '', port: null });
  expect(of(null, null, 20)).toBe('bad-host');
});

test('an HTTPS endpoint needs an entrypoint that serves the host, and a certificate', () => {
  const certificate = (...names: string[]): Certificate => ({
    id: 'c',
    source: 'static',
    origin: '',
    names,
    notBefore: 0,
    notAfter: 0,
    chain: '',
    key: '',
  });
  const part = (names: string[], internalCa = false): CertificatesPart => ({
    certificates: names.length === 0 ? [] : [certificate(...names)],
    defaultId: null,
    internalCa,
    pending: [],
  });
  const find = (
    pattern: string,
    name: string,
    certificates: CertificatesPart,
    protocol: EntrypointProtocol = 'https',
    tls: TlsPolicy = 'auto',
  ): unknown => {
    const found: Host = host(pattern, [], { entrypoints: ['web', 's'], tls });
    const entrypoints = [entrypoint('web'), entrypoint('s', { protocol, port: 8443, publicPort: 443 })];
    const table = compileRoutingTable(routing({ entrypoints, hosts: [found] }), digestOf);
    return httpsEndpoint(found, name, table, certificates);
  };
  const endpoint = { port: 8443, publicPort: 443 };
  expect(find('a.test', 'a.test', part(['a.test']))).toEqual(endpoint);
  expect(find('a.test', 'a.test', part(['b.test']))).toBeNull();
  expect(find('a.test', 'a.test', part([], true))).toEqual(endpoint);
  expect(find('*.a.test', 'x.a.test', part(['x.a.test']))).toEqual(endpoint);
  expect(find('*.a.test', 'y.a.test', part(['x.a.test']))).toBeNull();
  expect(find('*', 'y.test', part([], true))).toBeNull();
  const pending = { ...part([], true), pending: ['a.test'] };
  expect(find('a.test', 'a.test', pending)).toBeNull();
  expect(find('a.test', 'a.test', pending, 'https', 'always')).toEqual(endpoint);
  for (const protocol of ['tls_mux', 'smart_tcp'] as const) {
    expect(find('a.test', 'a.test', part(['a.test']), protocol)).toEqual(endpoint);
  }
  expect(find('a.test', 'a.test', part(['a.test']), 'http')).toBeNull();
});

test('text becomes one JSON literal, whatever a client put into it', () => {
  for (const text of ['plain', 'a"b', 'a\\b', 'a\nb', 'é', '\u2028', '\x7f', '']) {
    expect(JSON.parse(jsonText(text))).toBe(text);
    expect(jsonText(text)).not.toContain('\n');
  }
});

test('request ids differ, and one from outside is kept only when it can be printed', () => {
  const ids = new RequestIds();
  const made = new Set(Array.from({ length: 100 }, () => ids.next()));
  expect(made.size).toBe(100);
  for (const id of made) expect(isUsableRequestId(id)).toBe(true);
  expect(['', 'a b', 'a\n', 'é', 'x'.repeat(129)].map(isUsableRequestId)).toEqual([false, false, false, false, false]);
  expect(new RequestIds().next()).not.toBe(new RequestIds().next());
});

test('streams are told by their media type', () => {
  const streams = [
    'text/event-stream',
    'Text/Event-Stream; charset=utf-8',
    'application/x-ndjson',
    'application/grpc+proto',
  ];
  expect(streams.map(isStreamType)).toEqual([true, true, true, true]);
  expect(['text/html', 'application/json', 'multipart/form-data; boundary=x', ''].map(isStreamType)).toEqual(
    Array(4).fill(false),
  );
});

test('a rule names its field in any spelling', () => {
  const rules = compileRules({ remove: ['X-Gone'], set: [['X-User', 'é']], add: [] });
  expect(rulesName(rules, 'x-user')).toBe(true);
  expect(rulesName(rules, 'x-gone')).toBe(true);
  expect(rulesName(rules, 'x-other')).toBe(false);
  expect(Buffer.from(rules.set[0]!.value, 'latin1').toString('utf8')).toBe('é');
});

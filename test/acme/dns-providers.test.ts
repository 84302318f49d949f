// DNS providers whose servers cannot run here, against local ones that answer as their documentation says and write down
// what they were asked; and the bytes of dynamic updates.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { AcmeDnsKeeper } from '../../src/certificates/acme/dns/acme-dns.ts';
import { CloudflareKeeper } from '../../src/certificates/acme/dns/cloudflare.ts';
import { nameBytes, readReply, updateMessage } from '../../src/certificates/acme/dns/dns-message.ts';
import { addressAndPort } from '../../src/certificates/acme/dns/server-address.ts';
import { judgeReply, signMessage, type TsigKey } from '../../src/certificates/acme/dns/tsig.ts';
import { HttpClient } from '../../src/certificates/acme/http.ts';
import { failureOf, unhurried } from '../support/acme.ts';
import { until } from '../support/wait.ts';

interface Asked {
  readonly line: string;
  readonly body: unknown;
  readonly headers: IncomingHttpHeaders;
}

const directory = mkdtempSync(join(tmpdir(), 'turnpike-providers-'));
const http = new HttpClient({ clock: systemClock, timeoutMs: 5000, caPem: null, keepAlive: false });
const asked: Asked[] = [];
let answer: (line: string, body: Record<string, unknown>) => { status?: number; body: unknown; retryAfter?: string };
let server: Server;
let base = '';

beforeAll(async () => {
  server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    request.on('end', () => {
      const line = `${request.method} ${request.url}`;
      const sent = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
      asked.push({ line, body: sent, headers: request.headers });
      const { status = 200, body, retryAfter } = answer(line, sent);
      response.writeHead(status, retryAfter === undefined ? {} : { 'retry-after': retryAfter });
      response.end(JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

const connections = (): Promise<number> =>
  new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));

afterEach(async () => {
  asked.length = 0;
  // A connection that is kept would keep the process from ending.
  await until('no connection to be left', async () => (await connections()) === 0, { timeoutMs: 2000 });
});

afterAll(async () => {
  server.close();
  rmSync(directory, { recursive: true, force: true });
});

function file(name: string, content: string): string {
  const path = join(directory, name);
  writeFileSync(path, content, { mode: 0o600 });
  return path;
}

describe('Cloudflare, as a local server that answers like its API', () => {
  const ok = (result: unknown) => ({ body: { success: true, errors: [], result } });
  const records = [
    { name: '_acme-challenge.app.example.org', value: 'one' },
    { name: '_acme-challenge.app.example.org', value: 'two' },
  ];
  const keeper = (): CloudflareKeeper =>
    new CloudflareKeeper({ tokenFile: file('token', ' secret-token \r\nof ops@example.org\n'), http, base });
  const zones = (line: string) => (line.includes('name=example.org') ? ok([{ id: 'z1' }]) : ok([]));

  it('finds the zone once, adds every value as a record of its own, and shows the token in a header only', async () => {
    answer = (line) => (line.includes('/dns_records') ? ok({ id: 'r' }) : zones(line));
    await keeper().add(records, unhurried);
    expect(asked.map(({ line }) => line)).toEqual([
      'GET /zones?name=_acme-challenge.app.example.org&per_page=1',
      'GET /zones?name=app.example.org&per_page=1',
      'GET /zones?name=example.org&per_page=1',
      'POST /zones/z1/dns_records',
      'POST /zones/z1/dns_records',
    ]);
    expect(asked.slice(3).map(({ body }) => body)).toEqual(
      ['one', 'two'].map((value) => ({
        type: 'TXT',
        name: '_acme-challenge.app.example.org',
        content: `"${value}"`,
        ttl: 60,
      })),
    );
    expect(new Set(asked.map(({ headers }) => headers.authorization))).toEqual(new Set(['Bearer secret-token']));
  });

  it('takes a record that is there already for set', async () => {
    const identical = { success: false, result: null, errors: [{ code: 81058, message: 'identical' }] };
    answer = (line) => (line.startsWith('POST') ? { status: 400, body: identical } : zones(line));
    await keeper().add(records, unhurried);
    expect(asked.filter(({ line }) => line.startsWith('POST'))).toHaveLength(2);
  });

  it('removes its own values and no others', async () => {
    const held = [
      { id: 'mine', content: '"one"' },
      { id: 'unquoted', content: 'two' },
      { id: 'theirs', content: '"three"' },
    ];
    answer = (line) => (line.includes('type=TXT') ? ok(held) : zones(line));
    await keeper().remove(records, unhurried);
    expect(asked.map(({ line }) => line).filter((line) => line.startsWith('DELETE'))).toEqual([
      'DELETE /zones/z1/dns_records/mine',
      'DELETE /zones/z1/dns_records/unquoted',
    ]);
  });

  it('tells what the API said, with its Retry-After and without the token', async () => {
    const errors = [{ code: 10000, message: 'no access for secret-token' }];
    answer = () => ({ status: 403, body: { success: false, errors, result: null }, retryAfter: '7' });
    const failure = await failureOf(keeper().add(records, unhurried));
    expect([failure.kind, failure.detail, failure.retryAfterMs]).toEqual([
      'presentation',
      'Cloudflare: no access for … (10000)',
      7000,
    ]);
  });

  it('is not asked with a token that is not there', async () => {
    const empty = new CloudflareKeeper({ tokenFile: file('empty', '\ntoken\n'), http, base });
    expect((await failureOf(empty.add(records, unhurried))).detail).toMatch(/empty: its first line is empty$/);
    expect(asked).toEqual([]);
  });

  it('says that no zone is within reach', async () => {
    answer = () => ok([]);
    const failure = await failureOf(keeper().add(records, unhurried));
    expect(failure.detail).toMatch(/no zone for _acme-challenge.app.example.org is within reach/);
  });
});

describe('acme-dns, as a local server that answers like it', () => {
  const registration = { username: 'user', password: 'password', subdomain: 'sub', fulldomain: 'sub.auth.example' };
  const two = ['one', 'two'].map((value) => ({ name: 'sub.auth.example', value }));
  const keeper = (content: unknown): AcmeDnsKeeper =>
    new AcmeDnsKeeper({ url: base, credentialsFile: file('acme-dns.json', JSON.stringify(content)), http });

  it.each([
    ['what the server answered', registration],
    ['registrations by domain', { 'app.test': registration }],
  ])('is updated with %s', async (_what, content) => {
    answer = (_line, { txt }) => ({ body: { txt } });
    await keeper(content).add(two, unhurried);
    expect(asked.map(({ line, body }) => [line, body])).toEqual([
      ['POST /update', { subdomain: 'sub', txt: 'one' }],
      ['POST /update', { subdomain: 'sub', txt: 'two' }],
    ]);
    expect(asked[0]?.headers).toMatchObject({ 'x-api-user': 'user', 'x-api-key': 'password' });
  });

  it('is not asked to hold more values than it keeps, nor for a name that does not lead to it', async () => {
    const three = [...two, { name: 'sub.auth.example', value: 'three' }];
    expect((await failureOf(keeper(registration).add(three, unhurried))).detail).toMatch(/more than 2 values/);
    const stray = [{ name: '_acme-challenge.app.test', value: 'one' }];
    expect((await failureOf(keeper(registration).add(stray, unhurried))).detail).toBe(
      'acme-dns: _acme-challenge.app.test must be a CNAME to a registered subdomain: sub.auth.example',
    );
    expect(asked).toEqual([]);
  });

  it('is quoted without the password', async () => {
    answer = () => ({ status: 401, body: { error: 'forbidden password' } });
    const { detail } = await failureOf(keeper(registration).add(two, unhurried));
    expect(detail).toBe('acme-dns: answered 401: {"error":"forbidden …"}');
  });

  it('with credentials that are none, names the file', async () => {
    const { detail } = await failureOf(keeper({ user: 1 }).add(two, unhurried));
    expect(detail).toMatch(/acme-dns\.json: no registration in it/);
  });
});

describe('messages of dynamic updates', () => {
  const key: TsigKey = { name: 'Key.Test.', algorithm: 'hmac-sha256', secret: Buffer.alloc(32, 5) };
  const update = updateMessage({
    id: 7,
    zone: 'zone.test',
    action: 'add',
    records: [{ name: 'a.zone.test', value: 'value' }],
    ttlSeconds: 60,
  });
  const request = signMessage(update, key, 1_700_000_000_000);
  const reply = (bytes: Buffer) => readReply(bytes)!;

  it('end in a TSIG under the name of the key', () => {
    expect(reply(request.bytes).tsig?.name).toBe('key.test');
    expect(request.bytes.subarray(12).toString('latin1')).toContain('\x04zone\x04test\0');
  });

  it('count as answered only by a reply that was signed for them', () => {
    expect(judgeReply(request.bytes, reply(request.bytes), key, request.mac)).toEqual({ kind: 'unsigned' });
    expect(judgeReply(update, reply(update), key, request.mac)).toEqual({ kind: 'unsigned' });
  });

  it('read back from anything without throwing', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 600 }), fc.nat(request.bytes.length), (noise, at) => {
        const spoiled = Buffer.concat([request.bytes.subarray(0, at), noise]);
        const read = readReply(spoiled);
        if (read !== null) expect(judgeReply(spoiled, read, key, request.mac).kind).not.toBe('signed');
      }),
      { numRuns: 2000 },
    );
  });

  it('refuse pointers that do not go back', () => {
    const loop = Buffer.concat([update.subarray(0, 12), Buffer.of(0xc0, 12, 0, 6, 0, 1)]);
    expect(readReply(loop)).toBeNull();
  });

  it.each(['a..b', `${'a'.repeat(64)}.test`, Array(60).fill('abcde').join('.')])('have no place for %s', (name) => {
    expect(() => nameBytes(name)).toThrow(/no domain name/);
  });

  it.each([
    ['ns.test', 'ns.test', 53],
    ['ns.test:5353', 'ns.test', 5353],
    ['192.0.2.1:5353', '192.0.2.1', 5353],
    ['[2001:db8::1]:5353', '2001:db8::1', 5353],
    ['2001:db8::1', '2001:db8::1', 53],
  ])('go to %s', (server, host, port) => {
    expect(addressAndPort(server, 53)).toEqual({ host, port });
  });
});

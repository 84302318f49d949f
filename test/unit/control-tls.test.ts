import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Fault } from '../../src/base/fault.ts';
import { silentLog } from '../../src/base/log.ts';
import { createControlHandler } from '../../src/control/server.ts';
import type { Operations } from '../../src/process/operations.ts';
import type { TlsNameStatus, TlsOperations, TlsPlan } from '../../src/process/tls-operations.ts';
import { run } from '../support/command.ts';
import { fakeOperations } from '../support/fake-operations.ts';

const day = 86_400_000;
let directory: string;
let server: Server | null = null;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-tls-'));
  mkdirSync(join(directory, '.turnpike'));
  writeFileSync(join(directory, 'config.toml'), 'workers = 1\n');
});
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((done) => server?.close(done) ?? done(null));
  server = null;
  rmSync(directory, { recursive: true });
});

async function serve(tls: Partial<TlsOperations>, over: Partial<Operations> = {}): Promise<void> {
  const operations = fakeOperations({ tls: tls as TlsOperations, ...over });
  const listening = createServer(createControlHandler(operations, silentLog));
  server = listening;
  await new Promise<void>((done) => listening.listen(join(directory, '.turnpike/turnpike.sock'), done));
}

const failing: TlsNameStatus = {
  name: 'a.test',
  source: 'pending',
  why: 'it has no certificate yet',
  issuer: null,
  notAfter: null,
  nextAttempt: Date.now() + day,
  lastError: { at: Date.now() - 60_000, kind: 'validation', detail: 'no answer at 192.0.2.1' },
  challenge: { kind: 'http-01', why: 'entrypoint web takes HTTP on port 80' },
};

const planned: TlsPlan = {
  now: Date.now(),
  storeTrouble: 'the certificate store cannot be used: EROFS',
  rows: [
    {
      names: ['a.test'],
      urgency: 'missing',
      at: Date.now() + day,
      directory: 'https://ca.test/directory',
      why: 'it has no certificate yet; waits: pause after 3 failures in a row',
      challenge: 'http-01',
      failures: 3,
    },
    {
      names: ['*.b.test'],
      urgency: 'missing',
      at: null,
      directory: null,
      why: 'no provider',
      challenge: '',
      failures: 0,
    },
  ],
  authorities: [
    {
      directory: 'https://ca.test/directory',
      failures: 2,
      pausedUntil: Date.now() + day,
      pausedWhy: 'the CA asked for a pause',
      ordersLeft: 297,
    },
  ],
};

describe('tls status', () => {
  it('tells for each name what clients get, and below what went wrong and how it is proved', async () => {
    const status = await fakeOperations().tlsStatus();
    await serve({}, { tlsStatus: async () => ({ ...status, names: [failing] }) });
    const { out, code } = await run(['tls', 'status'], directory);
    expect(code).toBe(0);
    expect(out).toMatch(/a\.test +pending +- +- +\d{4}-\d\d-\d\d \d\d:\d\d \(in .*\) +http-01/);
    expect(out).toContain('! a.test: no answer at 192.0.2.1 (validation, ');
    expect(out).toContain('it is proved by http-01: entrypoint web takes HTTP on port 80');
    const json = JSON.parse((await run(['tls', 'status', '--json'], directory)).out) as { names: unknown };
    expect(json.names).toEqual([failing]);
  });
});

describe('tls plan', () => {
  it('tells what is ordered when and why, what is not, and what CAs leave', async () => {
    await serve({ plan: () => planned });
    const { out } = await run(['tls', 'plan'], directory);
    expect(out).toContain('! the certificate store cannot be used: EROFS');
    expect(out).toMatch(/a\.test +\d{4}-.* ca\.test +3 +it has no certificate yet; waits: pause after 3 failures/);
    expect(out).toMatch(/\*\.b\.test +never +- +0 +no provider/);
    expect(out).toMatch(/https:\/\/ca\.test\/directory +297 +paused until .*: the CA asked for a pause/);
    expect(JSON.parse((await run(['tls', 'plan', '--json'], directory)).out)).toEqual(planned);
  });

  it('says what is missing where no CA is configured', async () => {
    await serve({ plan: () => null });
    const { code, err } = await run(['tls', 'plan'], directory);
    expect([code, err]).toEqual([1, expect.stringContaining('[tls.acme]')]);
  });
});

describe('tls renew, revoke and account rollover', () => {
  it('say what was done', async () => {
    const asked: unknown[] = [];
    await serve({
      renew: async (name) => {
        asked.push(name);
        return { names: [name], issuer: 'Test CA', notAfter: Date.UTC(2030, 0, 2) };
      },
      revoke: async (name, reason) => {
        asked.push([name, reason]);
        return { names: [name], id: 'f00d' };
      },
      rollover: async () => ({ directories: ['https://ca.test/directory'] }),
    });
    const renewed = await run(['tls', 'renew', 'a.test'], directory);
    expect(renewed.out).toBe('a.test: a new certificate of Test CA is served, until 2030-01-02.\n');
    const revoked = await run(['tls', 'revoke', 'a.test', '--reason', 'key-compromise'], directory);
    expect(revoked.out).toContain('The certificate of a.test is revoked.');
    await run(['tls', 'revoke', 'b.test', '--json'], directory);
    expect(asked).toEqual(['a.test', ['a.test', 'key-compromise'], ['b.test', 'unspecified']]);
    const rolled = await run(['tls', 'account', 'rollover'], directory);
    expect(rolled.out).toBe('https://ca.test/directory: the account has a new key.\n');
  });

  it('fail with what the CA said, and say what to look at', async () => {
    await serve({
      renew: async () => {
        throw new Fault('acme-failed', 'a.test: no answer at 192.0.2.1');
      },
      revoke: async () => {
        throw new Fault('acme-unknown-name', 'no certificate is ordered for x.test');
      },
    });
    const renewed = await run(['tls', 'renew', 'a.test'], directory);
    expect(renewed.code).toBe(1);
    expect(renewed.err).toContain('a.test: no answer at 192.0.2.1 (acme-failed)');
    expect(renewed.err).toContain('turnpike tls plan');
    const revoked = await run(['tls', 'revoke', 'x.test'], directory);
    expect(revoked.err).toContain('no certificate is ordered for x.test');
    expect((await run(['tls', 'revoke', 'x.test', '--reason', 'boredom'], directory)).code).toBe(2);
  });
});

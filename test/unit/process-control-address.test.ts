// Administration over TCP: who gets in, and what a reload changes.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import type { DeclaredControl } from '../../src/config/declaration.ts';
import { ControlAddress } from '../../src/process/control-address.ts';
import { TestCa } from '../support/certificates.ts';
import { freePort } from '../support/ports.ts';
import { closeRawClients, fieldValue, RawClient } from '../support/raw-client.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-control-'));
const ca = new TestCa('control');
const pair = ca.leaf(['admin.test']);
const newPair = ca.leaf(['admin.test']);
const tokenFile = join(directory, 'token');
const token = 'a'.repeat(40);
const newToken = 'b'.repeat(40);
writeToken(token);

afterAll(() => rmSync(directory, { recursive: true, force: true }));

function writeToken(text: string): void {
  writeFileSync(tokenFile, `${text}\n`);
  chmodSync(tokenFile, 0o600);
}

let control: ControlAddress | null = null;
let asked: string[] = [];
afterEach(() => {
  closeRawClients();
  control?.close();
  control = null;
  asked = [];
  writeToken(token);
});

const handler = (request: IncomingMessage, response: ServerResponse): void => {
  asked.push(`${request.method} ${request.url}`);
  response.end('done');
};

function declared(port: number, tls: DeclaredControl['tls'] = null): DeclaredControl {
  return { address: { host: '127.0.0.1', port }, tokenFile, tls };
}

async function start(tls: DeclaredControl['tls'] = null): Promise<number> {
  const port = await freePort();
  control = new ControlAddress(handler, silentLog);
  (await control.move(declared(port, tls))).adopt();
  return port;
}

const secure = { servername: 'admin.test', ca: ca.pem };

async function ask(port: number, lines: string, tls?: typeof secure): Promise<number> {
  const client = await RawClient.connect({ port, tls });
  const answer = await client.ask(`GET /v1/status HTTP/1.1\r\nHost: admin\r\n${lines}\r\n`);
  return answer.status;
}

const bearer = (text: string): string => `Authorization: Bearer ${text}\r\n`;

describe('the token', () => {
  it.each([
    ['none', '', 401],
    ['the right one', bearer(token), 200],
    ['in another case of the scheme', `authorization: bearer ${token}\r\n`, 200],
    ['a wrong one', bearer(newToken), 401],
    ['its beginning', bearer(token.slice(1)), 401],
    ['more than it', bearer(`${token}a`), 401],
    ['empty', 'Authorization: Bearer \r\n', 401],
    ['another scheme', `Authorization: Basic ${token}\r\n`, 401],
    ['twice', bearer(token) + bearer(token), 401],
    ['a wrong one beside it', bearer(newToken) + bearer(token), 401],
    ['in a cookie', `Cookie: token=${token}\r\n`, 401],
  ])('%s', async (_, lines, status) => {
    const port = await start();
    expect(await ask(port, lines)).toBe(status);
    expect(asked).toEqual(status === 200 ? ['GET /v1/status'] : []);
  });

  it('whoever brings none is told what is missing, and the connection ends with its body unread', async () => {
    const port = await start();
    const client = await RawClient.connect({ port });
    client.write('POST /v1/reload HTTP/1.1\r\nHost: admin\r\nContent-Length: 1000000\r\n\r\nxx');
    const answer = await client.readAnswer();
    expect([answer.status, fieldValue(answer, 'www-authenticate'), fieldValue(answer, 'cache-control')]).toEqual([
      401,
      'Bearer',
      'no-store',
    ]);
    expect(answer.body.toString()).toContain('control.token_file');
    await client.waitForEnd();
  });
});

describe('a reload', () => {
  it('takes a new token on the same address, and the old one no more', async () => {
    const port = await start();
    const waiting = await RawClient.connect({ port });
    writeToken(newToken);
    const move = await control!.move(declared(port));
    expect(await ask(port, bearer(token))).toBe(200);
    move.adopt();
    expect(await ask(port, bearer(token))).toBe(401);
    expect(await ask(port, bearer(newToken))).toBe(200);
    const answer = await waiting.ask(`GET /v1/status HTTP/1.1\r\nHost: admin\r\n${bearer(token)}\r\n`);
    expect(answer.status).toBe(401);
  });

  it('moves: the old address answers until then, and then is closed', async () => {
    const port = await start();
    const next = await freePort();
    const move = await control!.move(declared(next));
    expect(await ask(port, bearer(token))).toBe(200);
    move.adopt();
    expect(await ask(next, bearer(token))).toBe(200);
    await expect(RawClient.connect({ port })).rejects.toThrow('ECONNREFUSED');
  });

  it('that is given up leaves the old address, and frees the new one', async () => {
    const port = await start();
    const next = await freePort();
    (await control!.move(declared(next))).abandon();
    expect(await ask(port, bearer(token))).toBe(200);
    await expect(RawClient.connect({ port: next })).rejects.toThrow('ECONNREFUSED');
  });

  it('ends it when nothing is declared any more', async () => {
    const port = await start();
    const open = await RawClient.connect({ port });
    (await control!.move(null)).adopt();
    await open.waitForEnd();
    await expect(RawClient.connect({ port })).rejects.toThrow('ECONNREFUSED');
  });

  it('is refused when somebody else has the address, or the token is gone', async () => {
    const port = await start();
    const other = new ControlAddress(handler, silentLog);
    await expect(other.move(declared(port))).rejects.toMatchObject({ code: 'bind-failed' });
    rmSync(tokenFile);
    await expect(control!.move(declared(port))).rejects.toMatchObject({ code: 'config-invalid' });
    expect(await ask(port, bearer(token))).toBe(200);
  });

  it('turns a port from plaintext to TLS, and renews its certificate', async () => {
    const port = await start();
    const tls = (files: typeof pair): DeclaredControl['tls'] => ({ certFile: files.certFile, keyFile: files.keyFile });
    for (const files of [pair, newPair]) {
      (await control!.move(declared(port, tls(files)))).adopt();
      expect(await ask(port, bearer(token), secure)).toBe(200);
      expect(await ask(port, '', secure)).toBe(401);
      await expect(ask(port, bearer(token))).rejects.toThrow();
      const client = await RawClient.connect({ port, tls: secure });
      const { fingerprint256 } = (client.socket as TLSSocket).getPeerCertificate();
      expect(fingerprint256).toBe(files.fingerprint);
    }
  });
});

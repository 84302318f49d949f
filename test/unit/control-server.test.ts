import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, request as httpRequest, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Fault } from '../../src/base/fault.ts';
import { type Log, silentLog } from '../../src/base/log.ts';
import { createControlHandler } from '../../src/control/server.ts';
import type { Operations, SwitchRequest } from '../../src/process/operations.ts';
import { cleanReport, fakeOperations } from '../support/fake-operations.ts';

let directory: string;
let socketPath: string;
let server: Server | null = null;
let logged: string[] = [];

const log: Log = { ...silentLog, error: (event) => void logged.push(event) };

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-api-'));
  socketPath = join(directory, 'turnpike.sock');
  logged = [];
});
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((done) => server?.close(done) ?? done(null));
  server = null;
  rmSync(directory, { recursive: true });
});

async function serve(over: Partial<Operations>): Promise<void> {
  const listening = createServer(createControlHandler(fakeOperations(over), log));
  server = listening;
  await new Promise<void>((done) => listening.listen(socketPath, done));
}

function call(
  method: string,
  path: string,
  body?: string,
  headers: Record<string, string> = { 'content-type': 'application/json' },
): Promise<{ status: number; type: string; text: string }> {
  return new Promise((done, fail) => {
    const request = httpRequest({ socketPath, method, path, headers, agent: false }, async (response) => {
      let text = '';
      for await (const chunk of response) text += String(chunk);
      done({ status: response.statusCode ?? 0, type: response.headers['content-type'] ?? '', text });
    });
    request.on('error', fail);
    request.end(body);
  });
}

describe('the control API', () => {
  it('hands a verb on and answers what it says', async () => {
    await serve({});
    const { status, type, text } = await call('GET', '/v1/status');
    expect(status).toBe(200);
    expect(type).toBe('application/json');
    expect(JSON.parse(text)).toMatchObject({ pid: 4711, revision: 7 });
  });

  it('takes service names as one encoded segment', async () => {
    const asked: string[] = [];
    await serve({
      pauseService: async (service) => {
        asked.push(service);
        return { service, state: 'paused', revision: 8, changed: true };
      },
    });
    expect((await call('POST', `/v1/services/${encodeURIComponent('*.app.test/api')}/pause`)).status).toBe(200);
    expect(asked).toEqual(['*.app.test/api']);
  });

  it('gives metrics as text', async () => {
    await serve({});
    const { type, text } = await call('GET', '/v1/metrics');
    expect(type).toContain('text/plain');
    expect(text).toBe('# no metrics\n');
  });

  it.each([
    ['GET', '/v1/no-such-thing', 404],
    ['GET', '/', 404],
    ['POST', '/v1/status', 405],
    ['GET', '/v1/reload', 405],
    ['GET', '/v1/services/app.test/pause', 405],
    ['POST', '/v1/services/app.test/destroy', 404],
    ['POST', '/v1/services//pause', 404],
    ['POST', '/v1/services/%ff/pause', 404],
    ['POST', '/v1/services/app.test/pause/more', 404],
  ])('refuses %s %s with %i', async (method, path, expected) => {
    await serve({});
    const { status, text } = await call(method, path);
    expect(status).toBe(expected);
    expect(JSON.parse(text).error.code).toBe('usage');
  });

  it('an operator fault is an answer with its code, not a failure of the server', async () => {
    await serve({ pauseService: async () => Promise.reject(new Fault('unknown-service', 'no service x')) });
    const { status, text } = await call('POST', '/v1/services/x/pause');
    expect(status).toBe(404);
    expect(JSON.parse(text)).toEqual({ error: { code: 'unknown-service', message: 'no service x' } });
    expect(logged).toEqual([]);
  });

  it('a bug is logged and answered without its detail', async () => {
    await serve({ status: async () => Promise.reject(new Error('secret detail')) });
    const { status, text } = await call('GET', '/v1/status');
    expect(status).toBe(500);
    expect(text).not.toContain('secret detail');
    expect(logged).toEqual(['control-failed']);
  });
});

describe('a switch over the API', () => {
  const path = '/v1/services/app.test/switch';
  const body = { to: ['127.0.0.1:3002'], drainMs: null, probe: true };

  it('streams progress and ends with the report', async () => {
    const asked: SwitchRequest[] = [];
    await serve({
      switchService: async (request, progress) => {
        asked.push(request);
        progress({ phase: 'probing', elapsedMs: 1, left: null, detail: null });
        progress({ phase: 'draining', elapsedMs: 2, left: 3, detail: null });
        return cleanReport;
      },
    });
    const { status, type, text } = await call('POST', path, JSON.stringify(body));
    expect(status).toBe(200);
    expect(type).toBe('application/x-ndjson');
    const lines = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(lines.map((line) => Object.keys(line)[0])).toEqual(['progress', 'progress', 'report']);
    expect(asked).toEqual([{ service: 'app.test', ...body }]);
  });

  it('a failure after progress is the last line', async () => {
    await serve({
      switchService: async (_request, progress) => {
        progress({ phase: 'probing', elapsedMs: 1, left: null, detail: null });
        throw new Fault('probe-failed', '127.0.0.1:3002 refused');
      },
    });
    const { text } = await call('POST', path, JSON.stringify(body));
    expect(JSON.parse(text.trimEnd().split('\n').at(-1)!)).toEqual({
      error: { code: 'probe-failed', message: '127.0.0.1:3002 refused' },
    });
  });

  it('goes on when the client that asked has left', async () => {
    let finished = (): void => {};
    const ended = new Promise<void>((done) => {
      finished = done;
    });
    let left = (): void => {};
    const gone = new Promise<void>((done) => {
      left = done;
    });
    await serve({
      switchService: async (_request, progress) => {
        progress({ phase: 'probing', elapsedMs: 1, left: null, detail: null });
        await gone;
        progress({ phase: 'committed', elapsedMs: 2, left: null, detail: null });
        finished();
        return cleanReport;
      },
    });
    server?.on('connection', (socket) => socket.on('close', () => left()));
    const request = httpRequest({ socketPath, method: 'POST', path, headers: { 'content-type': 'application/json' } });
    request.on('response', (response) => response.once('data', () => request.destroy()));
    request.on('error', () => {});
    request.end(JSON.stringify(body));
    await ended;
    expect((await call('GET', '/v1/status')).status).toBe(200);
    expect(logged).toEqual([]);
  });

  it.each([
    ['not JSON', 'x', 'not JSON'],
    ['a list', '[]', 'JSON object'],
    ['an unknown member', JSON.stringify({ ...body, force: true }), 'unknown member force'],
    ['no addresses', JSON.stringify({ ...body, to: [] }), 'to: '],
    ['a negative drain', JSON.stringify({ ...body, drainMs: -1 }), 'drainMs: '],
    ['a missing member', JSON.stringify({ to: body.to, drainMs: null }), 'probe: '],
    ['too much', JSON.stringify({ ...body, to: ['x'.repeat(70_000)] }), 'at most 65536 bytes'],
  ])('refuses %s', async (_name, text, message) => {
    await serve({});
    const answer = await call('POST', path, text);
    expect(answer.status).toBe(400);
    expect(JSON.parse(answer.text).error.message).toContain(message);
  });

  it('refuses a body that a web page could send unasked', async () => {
    await serve({});
    const answer = await call('POST', path, JSON.stringify(body), { 'content-type': 'text/plain' });
    expect(answer.status).toBe(400);
  });
});

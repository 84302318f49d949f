import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { get } from 'node:http';
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type DemoBackend, startDemoBackend } from '../../src/control/demo/backend.ts';

let backend: DemoBackend;

beforeEach(async () => {
  backend = await startDemoBackend('green', 0);
});
afterEach(() => backend.close());

function fetchText(path: string): Promise<{ status: number; type: string; who: unknown; text: string }> {
  return new Promise((done, fail) => {
    get({ host: '127.0.0.1', port: backend.port, path, agent: false }, async (response) => {
      let text = '';
      for await (const chunk of response) text += String(chunk);
      const { headers, statusCode } = response;
      done({ status: statusCode ?? 0, type: headers['content-type'] ?? '', who: headers['x-demo-backend'], text });
    }).on('error', fail);
  });
}

describe('a demo backend', () => {
  it('says on its page, in its answers and in a header which one it is', async () => {
    expect(await fetchText('/')).toMatchObject({ status: 200, type: 'text/html; charset=utf-8', who: 'green' });
    expect((await fetchText('/')).text).toContain('green answered');
    expect(JSON.parse((await fetchText('/whoami')).text)).toEqual({ backend: 'green' });
    expect(await fetchText('/healthz')).toMatchObject({ status: 200, text: 'ok\n' });
    expect((await fetchText('/nothing')).status).toBe(404);
  });

  it('streams events at once', async () => {
    const socket = connect(backend.port, '127.0.0.1');
    socket.write('GET /events HTTP/1.1\r\nHost: demo\r\n\r\n');
    let text = '';
    for await (const chunk of socket) {
      text += String(chunk);
      if (text.includes('data: green 1')) break;
    }
    expect(text).toContain('text/event-stream');
  });

  it.each([0, 5, 125, 126, 65_536])('echoes a WebSocket message of %i bytes', async (size) => {
    const socket = new WebSocket(`ws://127.0.0.1:${backend.port}/ws`);
    await once(socket, 'open');
    const message = randomBytes(size);
    socket.send(message);
    const [echo] = (await once(socket, 'message')) as [Buffer];
    expect(createHash('sha1').update(echo).digest('hex')).toBe(createHash('sha1').update(message).digest('hex'));
    socket.close(1000);
    expect((await once(socket, 'close'))[0]).toBe(1000);
  });

  it('rejects when its port is taken', async () => {
    await expect(startDemoBackend('blue', backend.port)).rejects.toMatchObject({ code: 'EADDRINUSE' });
  });
});

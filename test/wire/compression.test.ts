// Compression per route: what is compressed, what never is, and what must still be true of the answer.
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { fieldValue } from '../support/raw-client.ts';
import { valuesOf } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';

const f = useProxy({ app1: 'compression = true' });

const text = '<p>the same words again and again</p>\n'.repeat(400);
const decode: Record<string, (body: Buffer) => Buffer> = {
  gzip: gunzipSync,
  br: brotliDecompressSync,
  zstd: zstdDecompressSync,
};

overTransports('compression', (transport) => {
  const html = (extra = '', body = text): void => {
    f.app1.script = (exchange) => exchange.ok(body, `Content-Type: text/html\r\n${extra}`);
  };
  const ask = (accept: string | null, method = 'GET') =>
    f.requester(transport).request({ method, lines: accept === null ? [] : [['Accept-Encoding', accept]] });

  it.each(['gzip', 'br', 'zstd'])('in %s gives the same text back', async (encoding) => {
    html('ETag: "abc"\r\n');
    const answer = await ask(encoding);
    expect(fieldValue(answer, 'content-encoding')).toBe(encoding);
    expect(decode[encoding]!(answer.body).toString()).toBe(text);
    expect(answer.body.length).toBeLessThan(text.length / 4);
    expect(answer.complete).toBe(true);
    expect(valuesOf(answer.lines, 'vary').join().toLowerCase()).toContain('accept-encoding');
    // The bytes differ from those that the tag was made for (RFC 9110 §8.8.1).
    expect(fieldValue(answer, 'etag')).toMatch(/^W\//);
    const length = fieldValue(answer, 'content-length');
    if (length !== null) expect(Number(length)).toBe(answer.body.length);
  });

  it.each([null, 'identity', 'gzip;q=0', 'deflate', '*;q=0'])('is not forced on Accept-Encoding %s', async (accept) => {
    html();
    const answer = await ask(accept);
    expect(fieldValue(answer, 'content-encoding')).toBeNull();
    expect(answer.body.toString()).toBe(text);
  });

  it('follows the preference of the client where it has one', async () => {
    html();
    expect(fieldValue(await ask('gzip;q=1, br;q=0.1, zstd;q=0'), 'content-encoding')).toBe('gzip');
  });

  it.each([
    ['already encoded', 'Content-Encoding: gzip\r\n'],
    ['marked no-transform', 'Cache-Control: public, no-transform\r\n'],
    ['a part of something', 'Content-Range: bytes 0-99/100\r\n'],
  ])('leaves alone what is %s', async (_what, extra) => {
    html(extra);
    const answer = await ask('gzip');
    expect(answer.body.toString()).toBe(text);
    expect(valuesOf(answer.lines, 'content-encoding')).toEqual(extra.startsWith('Content-Encoding') ? ['gzip'] : []);
  });

  it('leaves small answers, images and answers without a body alone', async () => {
    html('', 'small');
    expect(fieldValue(await ask('gzip'), 'content-encoding')).toBeNull();
    f.app1.script = (exchange) => exchange.ok(text, 'Content-Type: image/png\r\n');
    expect(fieldValue(await ask('gzip'), 'content-encoding')).toBeNull();
    f.app1.script = (exchange) => exchange.reply('HTTP/1.1 304 Not Modified\r\nETag: "abc"\r\n\r\n');
    const notModified = await ask('gzip');
    expect(notModified.status).toBe(304);
    expect(notModified.body.length).toBe(0);
  });

  it('of a HEAD has no body and no length of the plain text', async () => {
    html();
    const answer = await ask('gzip', 'HEAD');
    expect(answer.status).toBe(200);
    expect(answer.body.length).toBe(0);
    const encoded = fieldValue(answer, 'content-encoding') !== null;
    if (encoded) expect(fieldValue(answer, 'content-length')).not.toBe(String(text.length));
  });

  it('of a chunked body flushes each chunk', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n');
      const chunk = `${text.length.toString(16)}\r\n${text}\r\n`;
      exchange.send(chunk);
      setTimeout(() => exchange.reply(`${chunk}0\r\n\r\n`), 600);
    };
    const live = await f.requester(transport).open({ endStream: true, lines: [['Accept-Encoding', 'gzip']] });
    const started = performance.now();
    await live.head();
    let size = 0;
    while (performance.now() - started < 400) {
      size = live.size;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect(size, 'the first chunk is out before the second comes').toBeGreaterThan(40);
    const answer = await live.answer();
    expect(fieldValue(answer, 'content-encoding')).toBe('gzip');
    expect(gunzipSync(answer.body).toString()).toBe(text + text);
  });

  it('of a body that the backend cuts is cut, too', async () => {
    f.app1.script = (exchange) => {
      exchange.send(`HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${text.length + 5}\r\n\r\n${text}`);
      setTimeout(() => exchange.connection.fin(), 50);
    };
    const answer = await ask('gzip');
    expect(answer.complete && answer.status === 200).toBe(false);
  });
});

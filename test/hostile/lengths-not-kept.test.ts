// A message that becomes shorter or longer than its head said, on its way through us: the last line of defence.
//
// Somebody counts wrongly, and what follows is read as part of the message, or the end of the message as the next one
// (CVE-2022-31081, CVE-2023-40175). Whatever goes wrong above the writer (a rewrite, a
// compression, another protocol's idea of a length), it sends not one byte more than it promised, and a message that falls
// short is cut off so that nobody can take it for whole.
import { describe, expect, it } from 'vitest';
import { sleep, until } from '../support/wait.ts';
import { playBackend, request } from '../unit/http1-support/backend.ts';
import { head, playServer } from '../unit/http1-support/server.ts';

const get = 'GET / HTTP/1.1\r\nHost: a.test\r\n\r\n';
const smuggled = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil';

const bodies: readonly (readonly [string, number, readonly string[], string])[] = [
  ['one byte short', 5, ['four'], 'four'],
  ['nothing at all', 5, [], ''],
  ['short by a piece', 10, ['12345'], '12345'],
  ['one byte too long', 3, ['four'], ''],
  ['too long by a piece', 4, ['four', 'more'], 'four'],
  ['too long by what looks like a message', 4, ['body', smuggled], 'body'],
];

describe('an answer', () => {
  it.each(bodies)('with %s than said ends the connection', async (_name, length, pieces, seen) => {
    const server = await playServer(({ stream }) => {
      stream.sendHead(head(200, length), false, false);
      for (const piece of pieces) stream.sendData(Buffer.from(piece));
      stream.sendEnd(null);
    });
    const client = await server.connect();
    client.write(get + get);
    await until('the end of the connection', () => client.ended);
    const text = client.received.toString('latin1');
    expect(text.split('HTTP/1.1 ')).toHaveLength(2);
    expect(text.slice(text.indexOf('\r\n\r\n') + 4)).toBe(seen);
    expect(text).not.toContain('evil');
    // What stood behind it is not answered on a connection that nobody can read any more.
    expect(server.requests).toHaveLength(1);
  });

  it('of the length that it said leaves the connection for the next one', async () => {
    const server = await playServer(({ stream }) => {
      stream.sendHead(head(200, 8), false, false);
      stream.sendData(Buffer.from('four'));
      stream.sendData(Buffer.from('more'));
      stream.sendEnd(null);
    });
    const client = await server.connect();
    client.write(get + get);
    for (let i = 0; i < 2; i++) expect((await client.readAnswer()).body.toString()).toBe('fourmore');
  });

  it('without content never gets any', async () => {
    const server = await playServer(({ stream }) => {
      stream.sendHead(head(204, 0), false, false);
      stream.sendData(Buffer.from(smuggled));
      stream.sendEnd(null);
    });
    const client = await server.connect();
    client.write(get);
    expect((await client.readAnswer()).status).toBe(204);
    await sleep(20);
    expect(client.received.toString('latin1')).not.toContain('evil');
  });
});

describe('a request', () => {
  it.each(bodies)('with %s than said ends the connection to the backend', async (_name, length, pieces, seen) => {
    const backend = await playBackend();
    const exchange = backend.open();
    exchange.stream.sendHead(request('POST', { bodyLength: length }), false);
    for (const piece of pieces) exchange.stream.sendData(Buffer.from(piece));
    exchange.stream.sendEnd(null);
    await until('the end of the connection', () => backend.peer.destroyed || backend.peer.readableEnded);
    const text = backend.received();
    expect(text.slice(text.indexOf('\r\n\r\n') + 4)).toBe(seen);
    expect(backend.connection.idle).toBe(false);
  });
});

// Streams that must pass at once: server-sent events, NDJSON, and what must not hold them back.
import { describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { fieldValue } from '../support/raw-client.ts';
import type { Exchange } from '../support/recorder.ts';
import { isH2, overTransports } from '../support/transports.ts';
import { until } from '../support/wait.ts';

// A body may stand still for one second, a stream for much longer.
const f = useProxy({ limits: 'body_idle_timeout = "1s"\nstream_idle_timeout = "6s"', app1: 'compression = true' });

const chunk = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;

overTransports('events', (transport) => {
  // basecamp/kamal-proxy#46, graphql-hive/gateway#2259, jetty/jetty.project#4317: they arrived when the stream ended.
  it.each([
    ['text/event-stream; charset=utf-8', ''],
    ['application/x-ndjson', ''],
    ['multipart/x-mixed-replace; boundary=x', ''],
    ['text/plain', 'X-Accel-Buffering: no\r\n'],
  ])('of type %s%s reach the client as they are written', async (type, extra) => {
    const sentAt: number[] = [];
    f.app1.script = (exchange) => {
      exchange.send(`HTTP/1.1 200 OK\r\nContent-Type: ${type}\r\n${extra}Transfer-Encoding: chunked\r\n\r\n`);
      let n = 0;
      const timer = setInterval(() => {
        sentAt.push(performance.now());
        exchange.send(chunk(`data: event-${n}\n\n`));
        if (++n < 8) return;
        clearInterval(timer);
        exchange.reply('0\r\n\r\n');
      }, 120);
    };
    const live = await f.requester(transport).open({
      endStream: true,
      lines: [['Accept-Encoding', 'gzip, br, zstd']],
    });
    for (let n = 0; n < 8; n++) {
      await live.seen(`event-${n}`);
      expect(performance.now() - sentAt[n]!, `event ${n}`).toBeLessThan(100);
    }
    const answer = await live.answer();
    expect(answer.complete).toBe(true);
    expect(fieldValue(answer, 'content-encoding')).toBeNull();
  });

  it('of a body that ends with the connection pass as well', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: event-0\n\n');
      setTimeout(() => {
        exchange.send('data: event-1\n\n');
        exchange.connection.fin();
      }, 300);
    };
    const live = await f.requester(transport).open({ endStream: true });
    const started = performance.now();
    await live.seen('event-0');
    expect(performance.now() - started).toBeLessThan(250);
    const answer = await live.answer();
    expect(answer.complete).toBe(true);
    expect(answer.body.toString()).toBe('data: event-0\n\ndata: event-1\n\n');
  });

  it('may be further apart than a body may stand still', { timeout: 15_000 }, async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n');
      exchange.send(chunk('data: event-0\n\n'));
      setTimeout(() => exchange.reply(`${chunk('data: event-1\n\n')}0\r\n\r\n`), 3000);
    };
    const live = await f.requester(transport).open({ endStream: true });
    await live.seen('event-1', 5000);
    expect((await live.answer()).complete).toBe(true);
  });

  it('end for the backend when the client leaves', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: event-0\n\n');
    };
    const live = await f.requester(transport).open({ endStream: true });
    await live.seen('event-0');
    live.abort();
    await until('the backend socket to close', () => f.app1.open.length === 0, { timeoutMs: 1000 });
  });

  it('pass while the request is still being sent', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n');
    };
    f.app1.onContent = (exchange: Exchange, part) => {
      exchange.send(chunk(`echo ${part.toString()}`));
    };
    const live = await f.requester(transport).open({ method: 'POST' });
    for (const word of ['one', 'two', 'three']) {
      await live.send(word);
      await live.seen(`echo ${word}`);
    }
    live.end();
    const exchange = await f.app1.waitForExchange();
    await exchange.whole();
    exchange.reply('0\r\n\r\n');
    expect((await live.answer()).complete).toBe(true);
  });
});

overTransports('a head without content', (transport) => {
  it('reaches the client before the content does', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n');
      setTimeout(() => exchange.reply('late'), 400);
    };
    const live = await f.requester(transport).open({ endStream: true });
    const started = performance.now();
    await live.head();
    expect(performance.now() - started).toBeLessThan(300);
    expect((await live.answer()).body.toString()).toBe('late');
  });
});

overTransports('a body that stands still', (transport) => {
  it('is given up after the limit, visibly cut', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10\r\n\r\nabc');
    };
    const live = await f.requester(transport).open({ endStream: true });
    const started = performance.now();
    const answer = await live.answer(5000);
    expect(answer.complete).toBe(false);
    expect(performance.now() - started).toBeGreaterThan(900);
    expect(performance.now() - started).toBeLessThan(2500);
  });

  it('of a request is answered 408', async () => {
    f.app1.script = () => {};
    const live = await f.requester(transport).open({ method: 'POST', lines: [['Content-Length', '10']] });
    await live.send('abc');
    const answer = await live.answer(5000);
    expect(answer.status).toBe(408);
  });

  it('but moves now and then is never cut', async () => {
    f.app1.script = (exchange) => {
      exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 8\r\n\r\n');
      let n = 0;
      const timer = setInterval(() => {
        exchange.send('x');
        if (++n < 8) return;
        clearInterval(timer);
        exchange.complete();
      }, 400);
    };
    const answer = await f.requester(transport).request();
    expect(answer.complete).toBe(true);
    expect(answer.body.toString()).toBe('xxxxxxxx');
  });
});

describe('many chunks in one packet', () => {
  it('arrive as one message, in order, whatever the framing', async () => {
    const words = Array.from({ length: 500 }, (_each, i) => `word-${i};`);
    f.app1.script = (exchange) => {
      exchange.reply(
        `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${words.map(chunk).join('')}0\r\nx-end: 1\r\n\r\n`,
      );
    };
    for (const transport of ['h1', 'h1+tls', 'h2', 'h2c'] as const) {
      const answer = await f.requester(transport).request();
      expect(answer.body.toString()).toBe(words.join(''));
      if (isH2(transport)) expect(answer.trailers).toEqual([['x-end', '1']]);
    }
  });
});

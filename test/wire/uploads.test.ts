// Request bodies: Expect, answers that come during the upload, limits, reuse of backend sockets and retries.
import { describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import type { Exchange, Line } from '../support/recorder.ts';
import { isH2, overTransports, type Transport } from '../support/transports.ts';
import { sleep, until } from '../support/wait.ts';

const f = useProxy({
  names: ['small.test', 'pair.test'],
  more: ({ app1, app2 }) => `
[external_routes."small.test"]
to = ["${app1.address}"]
body_size = "1MiB"
[external_routes."pair.test"]
to = ["${app1.address}", "${app2.address}"]
balance = "round_robin"
`,
});

const h1Transports: readonly Transport[] = ['h1', 'h1+tls'];

overTransports('Expect: 100-continue is decided by the backend', (transport) => {
  // seanmonstar/warp#383, rekby/lets-proxy#58, haga-rak/fluxzy.core#625, haproxy/haproxy#3316
  const expecting: Line[] = [
    ['Expect', '100-continue'],
    ['Content-Length', '5'],
  ];
  const open = () => f.requester(transport).open({ method: 'POST', path: '/up', lines: expecting });

  it('that refuses at once: the client sees only the refusal, and no body byte is sent on', async () => {
    f.app1.script = (exchange) =>
      exchange.reply('HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno');
    const answer = await (await open()).answer();
    expect(answer.status).toBe(413);
    expect(answer.interim).toEqual([]);
    expect(f.app1.last.values('expect')).toEqual(['100-continue']);
    expect(f.app1.last.bodySize).toBe(0);
  });

  it('that says 100: it is relayed, and the body follows', async () => {
    f.app1.script = (exchange) => {
      setTimeout(() => exchange.send('HTTP/1.1 100 Continue\r\n\r\n'), 50);
      void exchange.whole().then(() => exchange.ok('thanks'));
    };
    const live = await open();
    await sleep(150);
    await live.send('hello');
    if (isH2(transport)) live.end();
    const answer = await live.answer();
    expect(answer.interim.map((each) => each.status)).toEqual([100]);
    expect(answer.status).toBe(200);
    expect(f.app1.last.body.toString()).toBe('hello');
  });

  it('that answers without reading: the client sees only that', async () => {
    f.app1.script = (exchange) => exchange.ok('early', 'Connection: close\r\n');
    const answer = await (await open()).answer();
    expect(answer.status).toBe(200);
    expect(answer.interim).toEqual([]);
    expect(f.app1.last.bodySize).toBe(0);
  });

  it('that stays silent: a client that sends anyway is served', async () => {
    f.app1.script = (exchange) => void exchange.whole().then(() => exchange.ok('late'));
    const live = await open();
    await sleep(300);
    await live.send('hello');
    if (isH2(transport)) live.end();
    const answer = await live.answer();
    expect(answer.status).toBe(200);
    expect(f.app1.last.body.toString()).toBe('hello');
  });

  it('an expectation that nobody knows is 417 or passed on', async () => {
    const answer = await f
      .requester(transport)
      .request({ method: 'POST', path: '/foo', lines: [['Expect', 'foo']], body: 'hello' });
    expect([200, 417]).toContain(answer.status);
    if (answer.status === 200) expect(f.app1.last.values('expect')).toEqual(['foo']);
  });
});

describe.each(h1Transports)('content that does not wait for a 100 [%s]', (transport) => {
  // RFC 9110 §10.1.1: a client need not wait, and nobody owes a 100 to one that does not.
  it.each([0, 5, 40])('is sent on as it comes, after %d ms, to a backend that says nothing', async (ms) => {
    f.app1.script = (exchange) => void exchange.whole().then(() => exchange.ok('late'));
    const lines: Line[] = [
      ['Expect', '100-continue'],
      ['Content-Length', '10'],
    ];
    const live = await f.requester(transport).open({ method: 'POST', path: '/up', lines });
    if (ms > 0) await sleep(ms);
    await live.send('hello');
    await live.send('again');
    const answer = await live.answer();
    expect([answer.status, answer.interim]).toEqual([200, []]);
    expect(f.app1.last.body.toString()).toBe('helloagain');
  });
});

describe('an answer during the upload', () => {
  // villadora/express-http-proxy#546, tinyproxy/tinyproxy#79, unjs/httpxy#170, felladrin/MiniSearch#2609,
  // benoitc/livery#64: the client saw a reset instead of the 413.
  const piece = Buffer.alloc(64 * 1024, 'x');

  /** Sends up to 50 MiB at about 10 MiB/s until an answer is there; gives the answer, or the error. */
  async function upload(transport: Transport, host: string, isChunked: boolean): Promise<number | string> {
    const total = 50 * 1024 * 1024;
    const live = await f.requester(transport).open({
      method: 'POST',
      host,
      path: '/big',
      lines: isChunked ? [] : [['Content-Length', String(total)]],
    });
    let stop = false;
    const sending = (async () => {
      for (let sent = 0; sent < total && !stop; sent += piece.length) {
        await live.send(piece);
        await sleep(6);
      }
    })();
    const outcome = await live.answer(10_000).then(
      (answer) => (answer.complete ? answer.status : `${answer.status} cut`),
      (error: Error) => error.message,
    );
    stop = true;
    live.abort();
    await sending;
    return outcome;
  }

  async function many(count: number, run: () => Promise<number | string>): Promise<Map<number | string, number>> {
    const outcomes = new Map<number | string, number>();
    const lanes = Array.from({ length: 10 }, async () => {
      for (let i = 0; i < count / 10; i++) {
        const outcome = await run();
        outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
      }
    });
    await Promise.all(lanes);
    return outcomes;
  }

  overTransports('is read whole', (transport) => {
    it.each([false, true])(
      'when the backend refuses and closes (chunked: %s)',
      { timeout: 60_000 },
      async (isChunked) => {
        f.app1.script = (exchange) => {
          exchange.reply('HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 7\r\n\r\ntoo big');
          exchange.connection.fin();
        };
        const outcomes = await many(50, () => upload(transport, 'app1.test', isChunked));
        expect(outcomes.get(413) ?? 0, JSON.stringify([...outcomes])).toBeGreaterThanOrEqual(50);
      },
    );

    it('when our own limit is passed, declared or counted', async () => {
      expect(await upload(transport, 'small.test', false)).toBe(413);
      expect(await upload(transport, 'small.test', true)).toBe(413);
    });

    it('when the backend answers 401 and keeps the connection', async () => {
      const unfinished = new Set<Exchange['connection']>();
      f.app1.script = (exchange) => {
        if (exchange.target !== '/big') {
          expect(unfinished.has(exchange.connection), 'a socket with an unfinished request is not pooled').toBe(false);
          exchange.ok('next');
          return;
        }
        unfinished.add(exchange.connection);
        exchange.reply('HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno');
      };
      expect(await upload(transport, 'app1.test', true)).toBe(401);
      const requester = f.requester(transport);
      for (let i = 0; i < 5; i++) expect((await requester.request({ path: '/next' })).body.toString()).toBe('next');
      await until('the unfinished sockets to be dropped', () => [...unfinished].every((each) => !each.open));
    });
  });

  overTransports(
    'leaves no bytes to be taken for a next request',
    (transport) => {
      it('in what follows on the same connection', async () => {
        f.app1.script = (exchange) => {
          exchange.reply('HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno');
          exchange.connection.fin();
        };
        const client = await f.raw(transport);
        client.write('POST /big HTTP/1.1\r\nHost: app1.test\r\nContent-Length: 200000\r\n\r\n');
        const first = await client.readAnswer({ method: 'POST' });
        expect(first.status).toBe(413);
        const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: app1.test\r\n\r\n';
        client.write(smuggled.repeat(200_000 / smuggled.length));
        await sleep(300);
        expect(f.app1.exchanges.map((each) => each.target)).toEqual(['/big']);
      });
    },
    h1Transports,
  );
});

overTransports('a backend that closes its idle socket', (transport) => {
  // caddyserver/caddy#6452, varnishcache/varnish-cache#4413, sozu-proxy/sozu#1442, nodejs/node#47130: a random 502 on
  // reuse, or a POST executed twice.
  const closing = (exchange: Exchange): void => {
    void exchange.whole().then(() => {
      exchange.ok('ok');
      setTimeout(() => exchange.connection.fin(), 100);
    });
  };

  /** 10 clients × 12 pairs of requests, the second 95–105 ms after the first. */
  async function pairs(method: string, body: string | undefined, lines: Line[] = []): Promise<Map<number, number>> {
    const statuses = new Map<number, number>();
    let id = 0;
    await Promise.all(
      Array.from({ length: 10 }, async (_each, lane) => {
        const requester = f.requester(transport);
        for (let i = 0; i < 12; i++) {
          const path = `/${method}-${lane}-${id++}`;
          const answer = await requester.request({ method, path, lines, ...(body === undefined ? {} : { body }) });
          statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
          await sleep(95 + ((i * 7 + lane) % 11));
        }
      }),
    );
    return statuses;
  }

  function executions(): number {
    const counts = new Map<string, number>();
    for (const { target } of f.app1.exchanges) counts.set(target, (counts.get(target) ?? 0) + 1);
    return Math.max(...counts.values());
  }

  it.each(['GET', 'HEAD', 'DELETE', 'PUT'])('costs a %s nothing', async (method) => {
    f.app1.script = closing;
    const statuses = await pairs(method, undefined);
    expect(Object.fromEntries(statuses)).toEqual({ 200: 120 });
  });

  it.each([
    ['POST', undefined, []],
    ['POST', 'body', []],
    ['POST', 'body', [['Idempotency-Key', 'k']]],
    ['PATCH', 'body', []],
  ] as [string, string | undefined, Line[]][])('never makes a %s (%s, %j) run twice', async (method, body, lines) => {
    f.app1.script = closing;
    const statuses = await pairs(method, body, lines);
    expect(executions()).toBe(1);
    expect([...statuses.keys()].every((status) => status === 200 || status === 502)).toBe(true);
    expect(statuses.get(200) ?? 0).toBeGreaterThan(60);
  });

  it('and a request that was read and then reset: GET is tried once more, POST never', async () => {
    const counts = new Map<string, number>();
    f.app1.script = (exchange) => {
      counts.set(exchange.target, (counts.get(exchange.target) ?? 0) + 1);
      if (exchange.target === '/warm' || counts.get(exchange.target) === 2) exchange.ok('ok');
      else exchange.connection.reset();
    };
    const requester = f.requester(transport);
    await requester.request({ path: '/warm' });
    expect((await requester.request({ path: '/get' })).status).toBe(200);
    expect(counts.get('/get')).toBe(2);
    await requester.request({ path: '/warm' });
    expect((await requester.request({ method: 'POST', path: '/post', body: 'x' })).status).toBe(502);
    expect(counts.get('/post')).toBe(1);
  });

  it('a GET is tried at most once more', async () => {
    let count = 0;
    f.app1.script = (exchange) => {
      count++;
      exchange.connection.reset();
    };
    expect((await f.requester(transport).request({ path: '/always' })).status).toBe(502);
    expect(count).toBeLessThanOrEqual(2);
  });

  it('a retry goes to another backend first', async () => {
    f.app1.script = (exchange) => exchange.connection.reset();
    for (let i = 0; i < 4; i++) {
      const answer = await f.requester(transport).request({ host: 'pair.test', path: `/pair-${i}` });
      expect(answer.status).toBe(200);
      expect(answer.body.toString()).toBe('app2');
    }
  });
});

describe('a client that half-closes after its request', () => {
  // agentgateway/agentgateway#2427: the answer was lost.
  it('gets an answer whose head comes within 750 ms', async () => {
    f.app1.script = (exchange) => void setTimeout(() => exchange.ok('after the FIN'), 400);
    const client = await RawClient.connect({ port: f.webPort });
    client.write('GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n');
    client.fin();
    const answer = await client.readAnswer();
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe('after the FIN');
    await client.waitForEnd();
  });

  it('is taken for gone when the answer takes longer', async () => {
    f.app1.script = () => {};
    const client = await RawClient.connect({ port: f.webPort });
    client.write('GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n');
    const exchange = await f.app1.waitForExchange();
    client.fin();
    const started = performance.now();
    await until('the backend request to be given up', () => !exchange.connection.open);
    expect(performance.now() - started).toBeLessThan(1800);
  });
});

overTransports('an upload that was answered', (transport) => {
  it('is served, and nobody left, says the log', async () => {
    for (const [name, text] of Object.entries({ 'log-short': 'body', 'log-long': 'x'.repeat(300_000) })) {
      await f.requester(transport).request({ method: 'POST', path: `/${name}`, body: text, unknownLength: true });
      const line = await until('the line of the log', () =>
        f.p.accessLog.findLast((each) => each['path'] === `/${name}`),
      );
      expect([name, line['reason'], line['status'], line['aborted']]).toEqual([name, 'served', 200, undefined]);
    }
  });
});

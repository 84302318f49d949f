// Limits on clients: slow heads and handshakes, sizes, connections, rates.
import { describe, expect, it } from 'vitest';
import { encodeFrame, FrameType, H2Connection, preface } from '../support/h2-frames.ts';
import { freePorts } from '../support/ports.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { fieldValue, RawClient } from '../support/raw-client.ts';
import { isH2, overTransports, type Transport } from '../support/transports.ts';
import { sleep, until } from '../support/wait.ts';

let narrowPort = 0;
let privatePort = 0;

const f = useProxy({
  names: ['rated.test', 'small.test', 'refused.test'],
  workers: 1,
  limits: `
header_timeout = "1s"
tls_handshake_timeout = "1s"
keep_alive_timeout = "1500ms"
backend_head_timeout = "1500ms"
`,
  more: async ({ app1 }) => {
    [narrowPort, privatePort] = (await freePorts(2)) as [number, number];
    return `
[external_routes."rated.test"]
to = ["${app1.address}"]
rate_limit = { requests = 5, per = "60s" }
[external_routes."small.test"]
to = ["${app1.address}"]
body_size = "1KiB"
[external_routes."refused.test"]
to = ["127.0.0.1:1"]
[external_routes."blackhole.test"]
to = ["10.255.255.1:9"]
backend_connect_timeout = "500ms"
[entrypoints.narrow]
address = "127.0.0.1:${narrowPort}"
protocol = "http"
max_connections = 10
connections_per_peer = 4
[entrypoints.private]
address = "127.0.0.1:${privatePort}"
protocol = "http"
trusted_cidrs = ["127.0.0.9/32"]
`;
  },
});

const h1Transports: readonly Transport[] = ['h1', 'h1+tls'];

describe('a client that never finishes', () => {
  // nodejs/node#33440, warmcat/libwebsockets#2154: the timeout was only looked at when the next byte came.
  const count = 150;

  async function allClosedWithin(ms: number, sockets: readonly RawClient[]): Promise<void> {
    const started = performance.now();
    const served: number[] = [];
    let open = sockets.length;
    while (open > 0 && performance.now() - started < ms) {
      const at = performance.now();
      const answer = await f.requester('h1').request({ host: 'alive.test' });
      expect(answer.status).toBe(200);
      served.push(performance.now() - at);
      await sleep(100);
      open = sockets.filter((client) => !client.ended).length;
    }
    expect(open, 'connections left open').toBe(0);
    served.sort((a, b) => a - b);
    expect(served[Math.floor(served.length / 2)], 'an ordinary client meanwhile').toBeLessThan(250);
  }

  it.each(h1Transports)('a head that drips in is cut off [%s]', async (transport) => {
    const clients = await Promise.all(Array.from({ length: count }, () => f.raw(transport)));
    for (const client of clients) client.write('GET / HTTP/1.1\r\nHost: app1.test\r\n');
    const drip = setInterval(() => {
      for (const client of clients) if (!client.ended) client.write('X');
    }, 200);
    await allClosedWithin(2600, clients);
    clearInterval(drip);
    for (const client of clients) if (client.text !== '') expect(client.text).toMatch(/^HTTP\/1\.1 408 /);
  });

  it('a connection that says nothing is cut off', async () => {
    const clients = await Promise.all(Array.from({ length: count }, () => f.plain()));
    await allClosedWithin(3200, clients);
  });

  it('a connection without a ClientHello, or with half of one, is cut off', async () => {
    const silent = await Promise.all(Array.from({ length: count }, () => RawClient.connect({ port: f.securePort })));
    const half = await Promise.all(Array.from({ length: count }, () => RawClient.connect({ port: f.securePort })));
    for (const client of half) client.write(Buffer.of(0x16, 3, 1, 1, 0, 1, 0, 0, 252, 3, 3));
    const drip = setInterval(() => {
      for (const client of half) if (!client.ended) client.write(Buffer.of(0));
    }, 200);
    await allClosedWithin(3000, [...silent, ...half]);
    clearInterval(drip);
  });

  it.each(['h2', 'h2c'] as const)('a preface without SETTINGS is cut off [%s]', async (transport) => {
    const connections = await Promise.all(
      Array.from({ length: 30 }, () =>
        H2Connection.connect({
          port: transport === 'h2' ? f.securePort : f.webPort,
          greet: false,
          ...(transport === 'h2' ? { tls: { servername: 'app1.test', ca: f.ca.pem } } : {}),
        }),
      ),
    );
    for (const connection of connections) connection.write(preface);
    await until('all of them to be closed', () => connections.every((each) => each.closed), { timeoutMs: 6500 });
  });

  it.each(['h2', 'h2c'] as const)('half a header block is cut off [%s]', async (transport) => {
    const connection = await f.requester(transport).h2();
    connection.write(encodeFrame(FrameType.Headers, 0, 1, Buffer.of(0x82)));
    await connection.waitForEnd(3500);
  });

  it.each(h1Transports)('an idle keep-alive connection is closed, without a word [%s]', async (transport) => {
    const client = await f.raw(transport);
    await client.ask('GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n');
    await client.waitForEnd(3500);
    expect(client.text).toBe('');
  });

  it.each(['h2', 'h2c'] as const)('an idle HTTP/2 connection is closed with GOAWAY [%s]', async (transport) => {
    const requester = f.requester(transport);
    await requester.request();
    const connection = await requester.h2();
    await connection.waitForEnd(4500);
    expect(connection.goaway?.code).toBe(0);
  });
});

overTransports('a request that is too large', (transport) => {
  it('in its target is 414', async () => {
    const answer = await f.requester(transport).request({ path: `/${'a'.repeat(9000)}` });
    expect(answer.status).toBe(414);
  });

  it('in its head is 431', async () => {
    const lines = Array.from({ length: 40 }, (_each, i): [string, string] => [`x-${i}`, 'a'.repeat(1000)]);
    const requester = f.requester(transport);
    const status = await requester.request({ lines }).then(
      (answer) => answer.status,
      (error: Error) => error.message,
    );
    if (isH2(transport)) expect(String(status)).toMatch(/431|reset 11|GOAWAY|ended/);
    else expect(status).toBe(431);
    expect(f.app1.exchanges.length).toBe(0);
  });

  it('in its number of fields is 431', async () => {
    const lines = Array.from({ length: 220 }, (_each, i): [string, string] => [`x-${i}`, 'a']);
    const status = await f.requester(transport).request({ lines });
    expect(status.status).toBe(431);
    expect(f.app1.exchanges.length).toBe(0);
  });

  it('in its body is 413, declared or counted; below the limit it passes', async () => {
    const requester = f.requester(transport);
    const ask = (size: number, unknownLength: boolean) =>
      requester.request({ method: 'POST', host: 'small.test', body: 'x'.repeat(size), unknownLength });
    expect((await ask(1024, false)).status).toBe(200);
    expect((await ask(1025, false)).status).toBe(413);
    expect((await ask(1024, true)).status).toBe(200);
    expect((await ask(1025, true)).status).toBe(413);
  });
});

overTransports('a rate limit', (transport) => {
  it('answers 429 with Retry-After, and counts addresses apart', async () => {
    const octet = 10 + ['h1', 'h1+tls', 'h2', 'h2c'].indexOf(transport);
    const busy = f.requester(transport, { localAddress: `127.0.1.${octet}` });
    const statuses: number[] = [];
    for (let i = 0; i < 8; i++) {
      const answer = await busy.request({ host: 'rated.test' });
      statuses.push(answer.status);
      if (answer.status === 429) expect(Number(fieldValue(answer, 'retry-after'))).toBeGreaterThan(0);
    }
    expect(statuses).toEqual([200, 200, 200, 200, 200, 429, 429, 429]);
    const other = f.requester(transport, { localAddress: `127.0.2.${octet}` });
    expect((await other.request({ host: 'rated.test' })).status).toBe(200);
  });
});

overTransports('a backend', (transport) => {
  it('that refuses is 502', async () => {
    expect((await f.requester(transport).request({ host: 'refused.test' })).status).toBe(502);
  });

  it('that does not answer in time is 504', async () => {
    f.app1.script = () => {};
    const started = performance.now();
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(504);
    expect(performance.now() - started).toBeLessThan(3000);
    await until('the backend socket to close', () => f.app1.open.length === 0);
  });
});

describe('connection limits', () => {
  it('close the one over the limit, and a freed slot is taken again', async () => {
    const port = narrowPort;
    const clients: RawClient[] = [];
    for (let i = 0; i < 10; i++) {
      clients.push(await RawClient.connect({ port, localAddress: `127.0.3.${i + 1}` }));
    }
    const ask = async (client: RawClient): Promise<number> =>
      (await client.ask('GET / HTTP/1.1\r\nHost: alive.test\r\n\r\n')).status;
    for (const client of clients) expect(await ask(client)).toBe(200);
    const over = await RawClient.connect({ port, localAddress: '127.0.3.99' });
    over.write('GET / HTTP/1.1\r\nHost: alive.test\r\n\r\n');
    await over.waitForEnd();
    expect(over.text).not.toContain(' 200 ');
    clients[0]!.destroy();
    await until('the slot to be free', async () => {
      const next = await RawClient.connect({ port, localAddress: '127.0.3.98' });
      return ask(next).then(
        (status) => status === 200,
        () => false,
      );
    });
  });

  it('hold for one address as well', async () => {
    const port = narrowPort;
    const ask = (client: RawClient) => client.ask('GET / HTTP/1.1\r\nHost: alive.test\r\n\r\n');
    for (let i = 0; i < 4; i++) {
      expect((await ask(await RawClient.connect({ port, localAddress: '127.0.4.1' }))).status).toBe(200);
    }
    const over = await RawClient.connect({ port, localAddress: '127.0.4.1' });
    over.write('GET / HTTP/1.1\r\nHost: alive.test\r\n\r\n');
    await over.waitForEnd();
    expect(over.text).not.toContain(' 200 ');
    expect((await ask(await RawClient.connect({ port, localAddress: '127.0.4.2' }))).status).toBe(200);
  });

  it('an entrypoint with trusted_cidrs lets only those in', async () => {
    const port = privatePort;
    const stranger = await RawClient.connect({ port });
    stranger.write('GET / HTTP/1.1\r\nHost: alive.test\r\n\r\n');
    await stranger.waitForEnd();
    expect(stranger.text).toBe('');
    const friend = await RawClient.connect({ port, localAddress: '127.0.0.9' });
    expect((await friend.ask('GET / HTTP/1.1\r\nHost: alive.test\r\n\r\n')).status).toBe(200);
  });
});

describe('pipelined requests', () => {
  it.each(h1Transports)('are answered one by one, in order [%s]', async (transport) => {
    let working = 0;
    let most = 0;
    f.app1.script = (exchange) => {
      most = Math.max(most, ++working);
      setTimeout(() => {
        working--;
        exchange.ok(exchange.target);
      }, 5);
    };
    const client = await f.raw(transport);
    const paths = Array.from({ length: 60 }, (_each, i) => `/p${i}`);
    client.write(paths.map((path) => `GET ${path} HTTP/1.1\r\nHost: app1.test\r\n\r\n`).join(''));
    for (const path of paths) expect((await client.readAnswer()).body.toString()).toBe(path);
    expect(most).toBe(1);
  });
});

// Backends that drip, or stop in the middle: what holds a client must be bounded by a limit, not by the backend's mercy.
//
// The mirror of Slowloris. sagemathinc/http-proxy-3 by default waits for ever for a backend that says nothing
// (http-party/node-http-proxy#783), and a timer that every byte winds up again never rings.
import { afterAll, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { type Exchange, Recorder } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';
import { until } from '../support/wait.ts';
import { acceptHandshake } from '../support/websocket-frames.ts';
import { othersAreServed } from './support/provoke.ts';

let silent: Recorder;

const f = useProxy({
  workers: 1,
  limits: `
backend_connect_timeout = "1s"
backend_head_timeout = "1s"
body_idle_timeout = "1s"
stream_idle_timeout = "1s"
`,
  names: ['silent.test'],
  more: async ({ app1 }) => {
    // Accepts, and that is all; asked in TLS.
    silent = await Recorder.start({ name: 'silent', parse: false });
    return `
[external_routes."silent.test"]
to = ["${silent.address}"]
protocol = "https"
[external_routes."paused.test"]
to = ["${app1.address}"]
max_hold = "1s"
`;
  },
});

afterAll(() => silent.close());

const ok = 'HTTP/1.1 200 OK\r\n';
const chunked = `${ok}Transfer-Encoding: chunked\r\n\r\n`;

/** What the backend says first, what it repeats, and whether a head is out by then. */
const drips: readonly (readonly [name: string, first: string, drip: string, begun: boolean])[] = [
  ['nothing', '', '', false],
  ['a status line', 'HTTP/1.1 200 ', 'O', false],
  ['a field value', `${ok}X: `, 'y', false],
  ['field after field', ok, 'X: y\r\n', false],
  ['interim answers', '', 'HTTP/1.1 103 Early Hints\r\n\r\n', false],
  ['half an interim answer', 'HTTP/1.1 103 Early Hints\r\n', 'X: y\r\n', false],
  ['no body', `${ok}Content-Length: 5\r\n\r\n`, '', true],
  ['half a body', `${ok}Content-Length: 5\r\n\r\nab`, '', true],
  ['a chunk size', chunked, '0', true],
  ['a chunk extension', `${chunked}5;`, 'a', true],
  ['half a chunk', `${chunked}5\r\nab`, '', true],
  ['a trailer', `${chunked}2\r\nab\r\n0\r\nX: `, 'y', true],
  ['a body without an end', `${ok}\r\nab`, '', true],
];

function dripping(first: string, drip: string): (exchange: Exchange) => void {
  return (exchange) => {
    exchange.send(first).complete();
    const timer = setInterval(() => {
      if (!exchange.connection.open || drip === '') clearInterval(timer);
      else exchange.send(drip);
    }, 100);
  };
}

overTransports(
  'a backend that drips',
  (transport) => {
    it('costs its client no more than the limit, whatever it drips', { timeout: 20_000 }, async () => {
      f.app1.script = (exchange) => {
        const [, first, drip] = drips[Number(exchange.target.slice(1))]!;
        dripping(first, drip)(exchange);
      };
      const answers = await Promise.all(
        drips.map((_each, i) => f.requester(transport).request({ path: `/${i}`, timeoutMs: 12_000 })),
      );
      for (const [i, answer] of answers.entries()) {
        const [name, , , begun] = drips[i]!;
        if (begun) expect([name, answer.status, answer.complete]).toEqual([name, 200, false]);
        else expect([name, answer.status]).toEqual([name, answer.status === 502 ? 502 : 504]);
      }
      await othersAreServed(f);
      await until('the backend sockets to close', () => f.app1.open.length === 0);
    });

    it('does not get a tunnel out of it either', async () => {
      f.app1.script = (exchange) => dripping('HTTP/1.1 101 Switching Protocols\r\n', 'X: y\r\n')(exchange);
      expect((await f.requester(transport).webSocket()).answer.status).toBe(504);
      f.app1.script = (exchange) => {
        exchange.reply(acceptHandshake(exchange));
      };
      const { tunnel } = await f.requester(transport).webSocket();
      // An open tunnel in which nothing moves ends as well.
      await tunnel.waitForEnd(8000);
      await until('the backend sockets to close', () => f.app1.open.length === 0);
    });

    it('that accepts and never shakes hands is 504', async () => {
      expect((await f.requester(transport).request({ host: 'silent.test' })).status).toBe(504);
    });
  },
  ['h1', 'h2'],
);

it('a service that is paused holds a bounded number of requests, bodies unread, and forgets who leaves', async () => {
  await f.p.service('paused.test', 'pause');
  const clients = await Promise.all(Array.from({ length: 1200 }, () => f.plain()));
  for (const client of clients) {
    client.write('POST / HTTP/1.1\r\nHost: paused.test\r\nContent-Length: 100000\r\n\r\n');
    client.write(Buffer.alloc(20_000));
  }
  // One thousand wait; the others hear so at once.
  await until(
    'the answers to those that are too many',
    () => clients.filter((client) => client.text !== '').length >= 200,
  );
  await othersAreServed(f);
  const early = clients.filter((client) => client.text !== '');
  for (const client of early) expect(client.text).toMatch(/^HTTP\/1\.1 503 [\s\S]*\r\nRetry-After: \d+\r\n/i);
  for (const client of clients) if (client.text === '') client.reset();
  await until('those that left to be forgotten', async () =>
    /^turnpike_http_requests_in_flight 0$/m.test(await f.p.metrics()),
  );
  expect(f.app1.exchanges).toEqual([]);
  await f.p.service('paused.test', 'resume');
});

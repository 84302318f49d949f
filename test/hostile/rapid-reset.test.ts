// Requests that are cancelled as soon as they are sent.
//
// CVE-2023-44487 (varnishcache/varnish-cache#3996, pgjones/hypercorn#146): a reset frees the stream for the next request at
// once, so that the limit on concurrent streams limits nothing, while every request costs work at the backend.
import { expect, it } from 'vitest';
import { encodeFrame, FrameType } from '../support/h2-frames.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { overTransports } from '../support/transports.ts';
import { until } from '../support/wait.ts';
import { connect, flood, get, post, rst, streamId, tripped } from './support/flood.ts';
import { h2Ways } from './support/provoke.ts';

const f = useProxy({ workers: 1 });

overTransports(
  'a flood of requests and resets',
  (transport) => {
    it.each([
      ['of whole requests', (i: number) => Buffer.concat([get(streamId(i)), rst(streamId(i))])],
      ['of halves of requests', (i: number) => Buffer.concat([post(streamId(i)), rst(streamId(i))])],
      ['with NO_ERROR', (i: number) => Buffer.concat([get(streamId(i)), rst(streamId(i), 0)])],
      ['with an unknown code', (i: number) => Buffer.concat([get(streamId(i)), rst(streamId(i), 0xdead)])],
      [
        'with a piece of the body between them',
        (i: number) =>
          Buffer.concat([
            post(streamId(i)),
            encodeFrame(FrameType.Data, 0, streamId(i), Buffer.from('x')),
            rst(streamId(i)),
          ]),
      ],
      [
        'ten of each at a time',
        (i: number) => {
          const ids = Array.from({ length: 10 }, (_each, k) => streamId(10 * i + k));
          return Buffer.concat([...ids.map((id) => get(id)), ...ids.map((id) => rst(id))]);
        },
      ],
    ])('%s ends the connection, and hardly any reaches the backend', async (_name, frames) => {
      f.app1.script = () => {};
      const { connection, sent } = await flood(f, transport, frames);
      expect(connection.closed, `after ${sent}`).toBe(true);
      expect(sent).toBeLessThan(20_000);
      expect(f.app1.exchanges.length).toBeLessThan(200);
      await until('the backend sockets to close', () => f.app1.open.length === 0);
    });

    it('that waits for the backend each time is cut off after the burst', async () => {
      f.app1.script = () => {};
      const { connection, sent } = await tripped(f, transport, get, rst, 1000);
      expect(connection.closed, `after ${sent}`).toBe(true);
      expect(f.app1.exchanges.length).toBeLessThan(250);
      await until('the backend sockets to close', () => f.app1.open.length === 0);
    });

    it('of a hundred, as a page that is left sends it, is not punished', async () => {
      f.app1.script = () => {};
      const connection = await connect(f, transport);
      for (let i = 0; i < 100; i++) connection.write(get(streamId(i)));
      await until('the requests at the backend', () => f.app1.exchanges.length === 100);
      for (let i = 0; i < 100; i++) connection.write(rst(streamId(i)));
      await until('the backend sockets to close', () => f.app1.open.length === 0);
      f.app1.script = (exchange) => exchange.ok('next page');
      connection.write(get(streamId(100)));
      await f.app1.waitForExchange(101);
      expect(connection.closed).toBe(false);
      expect(connection.goaway).toBe(null);
    });

    it('does not keep another connection from being served', async () => {
      const other = f.requester(transport);
      const flooding = flood(f, transport, (i) => Buffer.concat([get(streamId(i)), rst(streamId(i))]));
      for (let i = 0; i < 20; i++) expect((await other.request({ host: 'alive.test' })).status).toBe(200);
      await flooding;
    });
  },
  h2Ways,
);

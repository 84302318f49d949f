// Lengths and chunk sizes with something beside the digits (RFC 9110 §8.6, RFC 9112 §6.3, §7.1).
//
// apache/trafficserver#11036, #10580, tinyproxy/tinyproxy#609, openwrt/uhttpd#3: garbage behind the digits was ignored and
// sent on, so that two hops disagreed on where the message ends.
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { fieldValue } from '../support/raw-client.ts';
import { overTransports } from '../support/transports.ts';
import { answersUntilEnd, askH2, bytesOf, h1Ways, h2Ways, refusedEverywhere } from './support/provoke.ts';

const f = useProxy({ workers: 1 });

const hidden = 'GET /smuggled HTTP/1.1\r\nHost: app1.test\r\n\r\n';

const lengths = [
  'Content-Length: +5\r\n',
  'Content-Length: -5\r\n',
  'Content-Length: -0\r\n',
  'Content-Length: 0x5\r\n',
  'Content-Length: 5 6\r\n',
  'Content-Length: 5x\r\n',
  'Content-Length: x5\r\n',
  'Content-Length: 5.0\r\n',
  'Content-Length: 5e0\r\n',
  'Content-Length: 5;\r\n',
  'Content-Length: "5"\r\n',
  'Content-Length: \r\n',
  'Content-Length:\r\n',
  'Content-Length: 5, 6\r\n',
  'Content-Length: 5,\r\n',
  'Content-Length: ,5\r\n',
  'Content-Length: 5\r\nContent-Length: 6\r\n',
  'Content-Length: 5\r\ncontent-length: 6\r\n',
  'Content-Length: 0\r\nContent-Length: 5\r\n',
  'Content-Length: 5\r\nX: y\r\nContent-Length: \r\n',
  `Content-Length: ${'9'.repeat(30)}\r\n`,
  'Content-Length: 9007199254740992\r\n',
  'Content-Length: 18446744073709551616\r\n',
  'Content-Length: 18446744073709551621\r\n',
  'Content-Length: \x005\r\n',
  'Content-Length: 5\x00\r\n',
  'Content-Length: 5\x0b\r\n',
  'Content-Length: \xb2\r\n',
  'Content-Length: \xd9\xa5\r\n',
  'Content-Length : 5\r\n',
  'Content-Length\t: 5\r\n',
  ' Content-Length: 5\r\n',
  'Content-Length: 5\r\n 6\r\n',
  'Content-Length:\r\n 5\r\n',
  'X: y\nContent-Length: 5\r\n',
  'X: y\rContent-Length: 5\r\n',
  'Content-Length: abc\r\nTransfer-Encoding: chunked\r\n',
] as const;

const sizeLines = [
  '1zz',
  '0x1',
  '0_0',
  ' 1',
  '1 ',
  '1\t',
  '-1',
  '+1',
  '',
  'g',
  '11111111111111111',
  'fffffffffffffffff',
  '20000000000000',
  '00000000000000001',
  '1;\n',
  '1;a\rb',
  '1;a\x00',
  '1;a=\x0b',
  '1;=b',
  '1 ; a=b',
  '1;a b',
  '1;a="b',
  '1;a="b\r\nc"',
  '1\n',
  '1\r',
  `1;${'a'.repeat(2000)}`,
  '\xb9',
] as const;

overTransports(
  'a length that is not plain digits, once, is refused',
  (transport) => {
    it.each(lengths)('%j', async (lines) => {
      await refusedEverywhere(f, transport, { lines, body: `hello${hidden}` });
    });

    it('equal repeats are one length or none, never two', async () => {
      for (const lines of ['Content-Length: 5\r\nContent-Length: 5\r\n', 'Content-Length: 5, 5\r\n']) {
        const client = await f.raw(transport);
        client.write(bytesOf({ lines, body: 'hello' }));
        const answer = await client.readAnswer({ method: 'POST' });
        expect([200, 400]).toContain(answer.status);
        for (const exchange of f.app1.exchanges) expect(exchange.values('content-length')).toEqual(['5']);
      }
    });

    it('leading zeros change nothing', async () => {
      const client = await f.raw(transport);
      client.write(bytesOf({ lines: 'Content-Length: 0005\r\n', body: 'hello' }));
      expect((await client.readAnswer({ method: 'POST' })).status).toBe(200);
      expect(f.app1.last.values('content-length')).toEqual(['5']);
    });
  },
  h1Ways,
);

overTransports(
  'a chunk size that is not hexadecimal digits ends the request',
  (transport) => {
    // The backend may have seen the head and what came before: then it never sees the end of that body.
    it.each(sizeLines)('%j', async (line) => {
      const client = await f.raw(transport);
      client.write(
        bytesOf({ lines: 'Transfer-Encoding: chunked\r\n', body: `3\r\nabc\r\n${line}\r\nx\r\n0\r\n\r\n${hidden}` }),
      );
      const answers = await answersUntilEnd(client);
      expect(answers.map((each) => each.status)).toEqual([400]);
      expect(fieldValue(answers[0]!, 'connection')).toBe('close');
      for (const exchange of f.app1.exchanges) {
        expect(exchange.target).toBe('/');
        expect(exchange.bodyComplete).toBe(false);
        expect(['', 'abc']).toContain(exchange.body.toString());
      }
      expect(f.app1.text).not.toContain('smuggled');
    });

    it.each([
      '3\r\nabcX\r\n0\r\n\r\n',
      '3\r\nabc\n0\r\n\r\n',
      '3\r\nabc\r0\r\n\r\n',
      '3\r\nab\r\n0\r\n\r\n',
      '3\r\nabc0\r\n\r\n',
    ])('a chunk that is not as long as it says: %j', async (body) => {
      const client = await f.raw(transport);
      client.write(bytesOf({ lines: 'Transfer-Encoding: chunked\r\n', body: body + hidden }));
      expect((await answersUntilEnd(client)).map((each) => each.status)).toEqual([400]);
      for (const exchange of f.app1.exchanges) expect(exchange.bodyComplete).toBe(false);
      expect(f.app1.text).not.toContain('smuggled');
    });

    it.each([
      '3;a\r\nabc\r\n0\r\n\r\n',
      '3;a=b;c="d;e"\r\nabc\r\n0;f\r\n\r\n',
      '0003\r\nabc\r\n00\r\n\r\n',
      '3\r\nabc\r\n0\r\nX: y\r\n\r\n',
    ])('what is legal is forwarded in our own framing: %j', async (body) => {
      const client = await f.raw(transport);
      client.write(bytesOf({ lines: 'Transfer-Encoding: chunked\r\n', body }));
      expect((await client.readAnswer({ method: 'POST' })).status).toBe(200);
      const { head } = f.app1.last;
      expect(f.app1.text.slice(head.length)).toMatch(/^3\r\nabc\r\n0\r\n(?:X: y\r\n)?\r\n$/);
    });

    it('extensions without end are not read for ever', async () => {
      const client = await f.raw(transport);
      const chunks = `1;${'a'.repeat(1000)}\r\nx\r\n`.repeat(40);
      client.write(bytesOf({ lines: 'Transfer-Encoding: chunked\r\n', body: `${chunks}0\r\n\r\n${hidden}` }));
      expect((await answersUntilEnd(client)).map((each) => each.status)).toEqual([400]);
      expect(f.app1.text).not.toContain('aaa');
    });
  },
  h1Ways,
);

overTransports(
  'a length over HTTP/2',
  (transport) => {
    it.each(['+5', '0x5', '5x', '5 6', '-5', '5.0', '', '9007199254740992', '9'.repeat(30), '5\x00', '\xb2'])(
      'of %j is refused',
      async (value) => {
        const outcome = await askH2(f, transport, [['content-length', value]], { body: 'hello' });
        // A value that is no value may be dropped (RFC 9113 §8.2.1); then the frames say how long it is.
        expect(value.includes('\x00') ? [200, 400, 'reset', 'goaway'] : [400, 'reset', 'goaway']).toContain(outcome);
        for (const exchange of f.app1.exchanges) expect(exchange.values('content-length')).toEqual([]);
      },
    );
  },
  h2Ways,
);

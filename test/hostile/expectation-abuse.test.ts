// Expect: 100-continue as a way to make two parties disagree about whether a body follows (RFC 9110 §10.1.1).
//
// seanmonstar/warp#383, rekby/lets-proxy#58: the proxy said 100 itself. James Kettle's "HTTP/1.1 must die" (2025): spellings
// that one hop takes for an expectation and the next does not, with the body read as a request.
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { fieldValue } from '../support/raw-client.ts';
import { overTransports } from '../support/transports.ts';
import { sleep, until } from '../support/wait.ts';
import { answersUntilEnd, askH2, bytesOf, h1Ways, h2Ways } from './support/provoke.ts';

const f = useProxy({ workers: 1 });

const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: app1.test\r\n\r\n';
const sized = `Content-Length: ${smuggled.length}\r\n`;

overTransports(
  'an expectation',
  (transport) => {
    it.each([
      'Expect: y 100-continue\r\n',
      'Expect: 100-continue, y\r\n',
      'Expect: 100-continue;q=1\r\n',
      'Expect: "100-continue"\r\n',
      'Expect: 100-continues\r\n',
      'Expect: 100\r\n',
      'Expect: x\r\n',
      'Expect: 100-continue\r\nExpect: x\r\n',
      'Expect: 100-continue\x0b\r\n',
      'Expect:\r\n 100-continue\r\n',
      'Expect : 100-continue\r\n',
    ])('of another spelling is refused, or passed on as the one it is: %j', async (lines) => {
      const client = await f.raw(transport);
      client.write(bytesOf({ lines: lines + sized, body: smuggled }));
      await sleep(30);
      client.write('GET /next HTTP/1.1\r\nHost: app1.test\r\nConnection: close\r\n\r\n');
      const answers = await answersUntilEnd(client);
      expect([200, 400, 417]).toContain(answers[0]!.status);
      for (const { target } of f.app1.exchanges) expect(['/', '/next']).toContain(target);
      for (const exchange of f.app1.exchanges) {
        for (const value of exchange.values('expect')) expect(value.toLowerCase()).toBe('100-continue');
      }
    });

    it('whose body comes at once is one request', async () => {
      const spellings = ['Expect: 100-continue\r\n', 'expect: 100-CONTINUE\r\n', 'Expect: \t100-continue \r\n'];
      await Promise.all(
        spellings.map(async (lines) => {
          const client = await f.raw(transport);
          client.write(bytesOf({ lines: `${lines}${sized}Connection: close\r\n`, body: smuggled }));
          expect((await answersUntilEnd(client)).map((each) => each.status)).toEqual([200]);
        }),
      );
      expect(f.app1.exchanges.map((each) => each.target)).toEqual(['/', '/', '/']);
      for (const exchange of f.app1.exchanges) expect(exchange.body.toString()).toBe(smuggled);
    });

    it.each([
      ['413', 'HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n'],
      ['200', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'],
      ['401', 'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n'],
    ])("answered %s without the body ends the connection, and the body is nobody's request", async (_name, answer) => {
      f.app1.script = (exchange) => exchange.reply(answer);
      const client = await f.raw(transport);
      client.write(bytesOf({ lines: `Expect: 100-continue\r\n${sized}` }));
      const first = await client.readAnswer({ method: 'POST' });
      expect(fieldValue(first, 'connection')).toBe('close');
      client.write(smuggled + smuggled);
      expect(await answersUntilEnd(client)).toEqual([]);
      expect(f.app1.text).not.toContain('smuggled');
      // Nor is the backend socket used for anybody else: its backend may still wait for the body.
      expect((await f.requester('h1').request({ path: '/other' })).status).toBe(Number(answer.slice(9, 12)));
      expect(f.app1.exchanges.map((each) => each.target)).toEqual(['/', '/other']);
      expect(f.app1.exchanges[0]!.connection).not.toBe(f.app1.exchanges[1]!.connection);
    });

    it('on HTTP/1.0, or without a body, waits for nothing', async () => {
      for (const message of [
        { version: '1.0', lines: `Expect: 100-continue\r\nConnection: close\r\n${sized}`, body: smuggled },
        { lines: 'Expect: 100-continue\r\nContent-Length: 0\r\nConnection: close\r\n' },
        { method: 'GET', lines: 'Expect: 100-continue\r\nConnection: close\r\n' },
      ]) {
        const client = await f.raw(transport);
        client.write(bytesOf(message));
        expect((await answersUntilEnd(client)).map((each) => each.status)).toEqual([200]);
      }
      expect(f.app1.exchanges.every((each) => each.target === '/')).toBe(true);
    });
  },
  h1Ways,
);

// The backend may take a second to decide; who does not wait for it must not be made to.
overTransports('content behind an expectation that nobody has answered', (transport) => {
  it.each([
    ['content', 'abc'],
    ['an empty end', ''],
  ])('is sent on as it comes, and nobody is told to continue: %s', async (_name, content) => {
    f.app1.script = (exchange) => void exchange.whole().then(() => exchange.ok(`got ${exchange.body}`));
    const live = await f
      .requester(transport)
      .open({ method: 'POST', lines: [['expect', '100-continue']], endStream: false });
    await until('the head at the backend', () => f.app1.exchanges.length === 1);
    if (content !== '') await live.send(content);
    live.end();
    const answer = await live.answer();
    expect(answer.body.toString()).toBe(`got ${content}`);
    expect(answer.interim).toEqual([]);
  });
});

overTransports(
  'an expectation over HTTP/2',
  (transport) => {
    it.each(['100-continue', 'y 100-continue', 'x', '100-continue, x'])('%j frames nothing', async (value) => {
      const outcome = await askH2(f, transport, [['expect', value]], { body: smuggled });
      expect([200, 417]).toContain(outcome);
      expect(f.app1.exchanges.map((each) => each.target)).toEqual(outcome === 200 ? ['/'] : []);
    });
  },
  h2Ways,
);

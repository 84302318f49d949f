// Large answers side by side: the memory that a backend's bytes are read into is used again while they are on their way.
import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { requestHead } from '../support/raw-client.ts';
import { chunked, overTransports } from '../support/transports.ts';
import { sleep } from '../support/wait.ts';

const f = useProxy({ app1: 'compression = true' });

const size = 6 * 1024 * 1024;

/** Bytes that tell their place, and whose they are. */
function marked(owner: number): Buffer {
  const bytes = Buffer.alloc(size);
  for (let i = 0; i < size; i += 4) bytes.writeUInt32LE(((owner << 24) | (i >> 2)) >>> 0, i);
  return bytes;
}

const bodies = [marked(1), marked(2), marked(3)];
const bodyOf = (target: string): Buffer => bodies[Number(target.slice(1))]!;

overTransports('large answers', (transport) => {
  it.each([
    ['of a known length', ''],
    ['of an unknown length', 'Transfer-Encoding: chunked\r\n'],
    ['that are compressed', 'Content-Type: text/html\r\n'],
  ])('%s keep every byte in its place, beside each other', async (_what, fields) => {
    f.app1.script = (exchange) => {
      const body = bodyOf(exchange.target);
      if (fields.startsWith('Transfer')) exchange.reply(`HTTP/1.1 200 OK\r\n${fields}\r\n`).send(chunked(body));
      else exchange.ok(body, fields);
    };
    const lines = fields.startsWith('Content-Type') ? ([['Accept-Encoding', 'gzip']] as const) : [];
    const answers = await Promise.all(
      bodies.map((_body, i) => f.requester(transport).request({ path: `/${i}`, lines, timeoutMs: 20_000 })),
    );
    answers.forEach(({ body, complete }, i) => {
      expect(complete).toBe(true);
      const whole = lines.length > 0 ? gunzipSync(body) : body;
      expect(whole.equals(bodies[i]!)).toBe(true);
    });
  });
});

it('keep every byte in its place when their clients stop reading in turns', async () => {
  f.app1.script = (exchange) => exchange.ok(bodyOf(exchange.target));
  const clients = await Promise.all(bodies.map(() => f.requester('h1').h1()));
  clients.forEach((client, i) => {
    client.write(requestHead('GET', `/${i}`, [['Host', 'app1.test']]));
    if (i > 0) client.socket.pause();
  });
  const answers = [];
  for (const client of clients) {
    client.socket.resume();
    answers.push(await client.readAnswer());
    await sleep(20);
  }
  answers.forEach(({ body }, i) => {
    expect(body.equals(bodies[i]!)).toBe(true);
  });
});

// Sends what no well-behaved client sends, over every way in, and says what came of it.
// Invariant: everything the proxy wrote is read to the end of the connection, so a second answer cannot hide behind the
// first; a refusal counts only when the backend saw not one byte.
import { expect } from 'vitest';
import { H2Connection, type H2Stream } from '../../support/h2-frames.ts';
import type { ProxyFixture } from '../../support/proxy-fixture.ts';
import { type Answer, fieldValue, type RawClient } from '../../support/raw-client.ts';
import type { Line } from '../../support/recorder.ts';
import type { Transport } from '../../support/transports.ts';
import { until } from '../../support/wait.ts';
import { sampleKey } from '../../support/websocket-frames.ts';

export const h1Ways: readonly Transport[] = ['h1', 'h1+tls'];
export const h2Ways: readonly Transport[] = ['h2', 'h2c'];

/** The bytes of an HTTP/1.1 message, by the parts that attacks vary. */
export interface Message {
  /** Default `POST`. */
  readonly method?: string;
  /** Default `/`. */
  readonly target?: string;
  /** Default `1.1`. */
  readonly version?: string;
  /** Whole lines, each with its own line end. */
  readonly lines: string;
  readonly body?: string;
}

export function bytesOf({ method = 'POST', target = '/', version = '1.1', lines, body = '' }: Message): string {
  return `${method} ${target} HTTP/${version}\r\nHost: app1.test\r\n${lines}\r\n${body}`;
}

export const goodRequest = 'GET /good HTTP/1.1\r\nHost: app1.test\r\n\r\n';
const upgradeLines = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${sampleKey}\r\n`;

/** Every answer on a connection until it ends. */
export async function answersUntilEnd(client: RawClient, timeoutMs = 5000): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (;;) {
    if (client.received.length === 0) {
      if (client.ended) return answers;
      await until('an answer or the end', () => client.received.length > 0 || client.ended, { timeoutMs, everyMs: 2 });
      continue;
    }
    answers.push(await client.readAnswer({ timeoutMs }));
  }
}

/** Where a malformed message may stand: alone, in pieces, behind a good one, and in a handshake for a tunnel. */
const places: readonly { readonly name: string; readonly good: number; send(client: RawClient, m: Message): void }[] = [
  { name: 'alone', good: 0, send: (client, message) => client.write(bytesOf(message)) },
  {
    name: 'in pieces',
    good: 0,
    send: (client, message) => {
      for (const byte of Buffer.from(bytesOf(message), 'latin1')) client.write(Buffer.of(byte));
    },
  },
  { name: 'behind a good request', good: 1, send: (client, message) => client.write(goodRequest + bytesOf(message)) },
  {
    name: 'in a WebSocket handshake',
    good: 0,
    send: (client, message) =>
      client.write(bytesOf({ ...message, method: message.method ?? 'GET', lines: upgradeLines + message.lines })),
  },
];

/**
 * The message is answered 400 (or another status of `statuses`), the connection ends, and the backend never hears of it,
 * wherever it stands.
 */
export async function refusedEverywhere(
  f: ProxyFixture,
  transport: Transport,
  message: Message,
  statuses: readonly number[] = [400],
): Promise<void> {
  await Promise.all(
    places.map(async ({ name, good, send }) => {
      const client = await f.raw(transport);
      send(client, message);
      const answers = await answersUntilEnd(client);
      const what = `${name}: ${JSON.stringify(message.lines)}`;
      expect(answers.length, `answers, ${what}`).toBe(good + 1);
      expect(statuses, what).toContain(answers.at(-1)!.status);
      expect(fieldValue(answers.at(-1)!, 'connection'), what).toBe('close');
      client.destroy();
    }),
  );
  const targets = f.app1.exchanges.map((exchange) => exchange.target);
  expect(targets, 'what the backend was asked for').toEqual(['/good']);
  expect(f.app1.exchanges[0]!.head.length, 'what the backend received').toBe(f.app1.text.length);
}

/** What became of an HTTP/2 request: its status, or how it was broken off. */
export async function h2Outcome(stream: H2Stream): Promise<number | 'reset' | 'goaway'> {
  const { connection } = stream;
  while (stream.lines === null && !stream.over) await connection.change();
  if (stream.lines !== null) return stream.status;
  return connection.goaway !== null || connection.closed ? 'goaway' : 'reset';
}

/** An HTTP/2 request of exactly these lines after the pseudo-header fields, with this body. */
export async function askH2(
  f: ProxyFixture,
  transport: Transport,
  lines: readonly Line[],
  options: { method?: string; path?: string; authority?: string; body?: string | null; whole?: readonly Line[] } = {},
): Promise<number | 'reset' | 'goaway'> {
  const { method = 'POST', path = '/', authority = 'app1.test', body = null } = options;
  const connection = await H2Connection.connect({
    port: transport === 'h2' ? f.securePort : f.webPort,
    ...(transport === 'h2' ? { tls: { servername: 'app1.test', ca: f.ca.pem } } : {}),
  });
  const head = options.whole ?? H2Connection.request(method, authority, path, lines);
  const stream = connection.open(head, { endStream: body === null });
  if (body !== null) void stream.send(body, true);
  const outcome = await h2Outcome(stream);
  connection.destroy();
  return outcome;
}

/** An ordinary client, on a connection of its own, is served. */
export async function othersAreServed(f: ProxyFixture): Promise<void> {
  const client = await f.plain();
  const answer = await client.ask('GET / HTTP/1.1\r\nHost: alive.test\r\nConnection: close\r\n\r\n');
  client.destroy();
  expect(answer.status, 'an ordinary client').toBe(200);
}

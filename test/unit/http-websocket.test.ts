import { afterEach, expect, test, vi } from 'vitest';
import type { RoutingPart } from '../../src/model/snapshot.ts';
import { H2Connection } from '../support/h2-frames.ts';
import { closeRawClients, RawClient } from '../support/raw-client.ts';
import { Recorder } from '../support/recorder.ts';
import { host, route, routing, service } from '../support/routing.ts';
import { sleep, until } from '../support/wait.ts';
import { acceptFor, acceptHandshake, decodeWsFrames, encodeWsFrame } from '../support/websocket-frames.ts';
import { Edge } from './http-kit.ts';

let edge: Edge;
let app: Recorder;

afterEach(async () => {
  vi.restoreAllMocks();
  closeRawClients();
  await edge?.close();
  await app?.close();
});

const part = (number: number, drainMs = 30_000): RoutingPart =>
  routing({
    hosts: [host('app.test', [route('app.test', 'app')])],
    services: [service('app', number, [app.address], { drainMs, streamDrainMs: drainMs })],
  });

async function start(drainMs = 30_000): Promise<void> {
  app = await Recorder.start({ name: 'app' });
  edge = await Edge.start({ routing: part(1, drainMs) });
}

const key = 'dGhlIHNhbXBsZSBub25jZQ==';
const handshake = (connection = 'Upgrade', upgrade = 'websocket'): string =>
  `GET /ws HTTP/1.1\r\nHost: app.test\r\nConnection: ${connection}\r\nUpgrade: ${upgrade}\r\nSec-WebSocket-Key: ${key}\r\nSec-WebSocket-Version: 13\r\n\r\n`;

test('frames sent with the handshake on either side arrive once and in order', async () => {
  await start();
  app.script = (exchange) =>
    void exchange.send(Buffer.concat([Buffer.from(acceptHandshake(exchange), 'latin1'), encodeWsFrame(1, 'hi')]));
  const client = await RawClient.connect({ port: edge.port });
  const mine = encodeWsFrame(1, 'early', { mask: true });
  client.write(Buffer.concat([Buffer.from(handshake('keep-alive, Upgrade', 'WebSocket')), mine]));
  await client.waitForText('hi');
  expect(client.text).toContain(`Sec-WebSocket-Accept: ${acceptFor(key)}`);
  const { connection } = await app.waitForExchange();
  await until('the early frame', () => connection.raw.equals(mine));
  expect(app.last.values('connection')).toEqual(['Upgrade']);
  expect(app.last.values('upgrade')).toEqual(['websocket']);
  expect(app.last.values('x-forwarded-for')).toEqual(['127.0.0.1']);
});

test('a refusal reaches the client as it is', async () => {
  await start();
  app.script = (exchange) =>
    exchange.reply('HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 4\r\n\r\nnope');
  const client = await RawClient.connect({ port: edge.port });
  const answer = await client.ask(handshake());
  expect([answer.status, answer.body.toString()]).toEqual([401, 'nope']);
});

test('a half-close passes on and what comes back is still delivered; a reset is passed on as one', async () => {
  await start();
  app.finOnFin = false;
  app.script = (exchange) => void exchange.send(acceptHandshake(exchange));
  const client = await RawClient.connect({ port: edge.port });
  client.write(handshake());
  await client.waitForText('101');
  const { connection } = await app.waitForExchange();
  client.fin();
  await until('the FIN at the backend', () => connection.finAt !== null);
  connection.send(encodeWsFrame(1, 'last words'));
  await client.waitForText('last words');
  connection.fin();
  await client.waitForEnd();
  const [line] = await edge.log(1);
  expect(line).toMatchObject({ status: 101, reason: 'upgraded' });

  const second = await RawClient.connect({ port: edge.port });
  second.write(handshake());
  await second.waitForText('101');
  (await app.waitForExchange(2)).connection.reset();
  await until('the reset at the client', () => second.closedAt !== null);
  expect(second.error?.code).toBe('ECONNRESET');
  const third = await RawClient.connect({ port: edge.port });
  third.write(handshake());
  await third.waitForText('101');
  third.reset();
  await until('the reset at the backend', () => app.exchanges[2]!.connection.resetAt !== null);
});

const connect: [string, string][] = [
  [':method', 'CONNECT'],
  [':protocol', 'websocket'],
  [':scheme', 'http'],
  [':path', '/ws'],
  [':authority', 'app.test'],
  ['sec-websocket-version', '13'],
];

test('an extended CONNECT becomes a handshake with a key of its own, and frames pass both ways', async () => {
  await start();
  app.script = (exchange) => void exchange.send(acceptHandshake(exchange));
  const connection = await H2Connection.connect({ port: edge.port });
  const stream = connection.open(connect, { endStream: false });
  await stream.head();
  expect(stream.status).toBe(200);
  expect(stream.lines!.some(([name]) => name === 'sec-websocket-accept')).toBe(false);
  expect(app.last.method).toBe('GET');
  expect(app.last.values('sec-websocket-key')[0]).toMatch(/^[A-Za-z0-9+/]{22}==$/);
  const frame = encodeWsFrame(1, 'up', { mask: true });
  await stream.send(frame);
  const backend = app.last.connection;
  await until('the frame', () => backend.raw.equals(frame));
  backend.send(encodeWsFrame(1, 'down'));
  await until('the answer', () => stream.body.toString('latin1').includes('down'));
  backend.fin();
  await until('END_STREAM', () => stream.ended);
  connection.destroy();
});

test('a wrong proof is 502, a refusal passes, another protocol is 501', async () => {
  await start();
  app.script = (exchange) =>
    void exchange.send(
      'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: wrong\r\n\r\n',
    );
  const connection = await H2Connection.connect({ port: edge.port });
  expect((await connection.open(connect, { endStream: false }).answer()).status).toBe(502);
  app.script = (exchange) => exchange.reply('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno');
  const refused = await connection.open(connect, { endStream: false }).answer();
  expect([refused.status, refused.body.toString()]).toEqual([403, 'no']);
  const other = connect.map(([name, value]): [string, string] => [name, name === ':protocol' ? 'foo' : value]);
  expect((await connection.open(other, { endStream: false }).answer()).status).toBe(501);
  // Over with the answer, although the client never ended its side.
  const log = await edge.log(3);
  expect(log.map((line) => [line.status, line.aborted])).toEqual([
    [502, undefined],
    [403, undefined],
    [501, undefined],
  ]);
  connection.destroy();
});

test('a drain sends 1012 between two frames, never inside one, and the client may answer', async () => {
  // The moment within the spread.
  vi.spyOn(Math, 'random').mockReturnValue(0);
  await start(50);
  app.script = (exchange) => void exchange.send(acceptHandshake(exchange));
  const client = await RawClient.connect({ port: edge.port });
  client.write(handshake());
  await client.waitForText('\r\n\r\n');
  const { connection } = await app.waitForExchange();
  const frame = encodeWsFrame(2, Buffer.alloc(1000, 0x61));
  connection.send(frame.subarray(0, 500));
  await until('half a frame', () => client.text.includes('aaaa'));
  edge.publish(part(2, 50));
  await sleep(300);
  // The drain is due by now, and the frame is not whole yet.
  connection.send(Buffer.concat([frame.subarray(500), encodeWsFrame(1, 'too late')]));
  await until('the end', () => client.finAt !== null);
  const bytes = client.received.subarray(client.received.indexOf('\r\n\r\n') + 4);
  const { frames, rest } = decodeWsFrames(bytes);
  expect(frames.map((each) => [each.opcode, each.payload.length, each.code])).toEqual([
    [2, 1000, null],
    [8, expect.any(Number), 1012],
  ]);
  expect(rest.length).toBe(0);
  const reply = encodeWsFrame(8, Buffer.of(0x03, 0xf4), { mask: true });
  client.write(reply);
  client.fin();
  await until('the close frame at the backend', () => connection.raw.equals(reply));
  await until('the drain', () => edge.drained.length === 1);
  expect((await edge.log(1))[0]).toMatchObject({ reason: 'drained' });
});

test('a frame that does not end is cut off a second after the close was due', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0);
  await start(50);
  app.script = (exchange) => void exchange.send(acceptHandshake(exchange));
  const client = await RawClient.connect({ port: edge.port });
  client.write(handshake());
  await client.waitForText('\r\n\r\n');
  const { connection } = await app.waitForExchange();
  connection.send(encodeWsFrame(2, Buffer.alloc(1000, 0x61)).subarray(0, 500));
  await until('half a frame', () => client.text.includes('aaaa'));
  edge.publish(part(2, 50));
  await until('the end at the client', () => client.ended, { timeoutMs: 3000 });
  await until('the end at the backend', () => !connection.open);
  const sent = client.received.subarray(client.received.indexOf('\r\n\r\n') + 4);
  expect(decodeWsFrames(sent).frames).toEqual([]);
});

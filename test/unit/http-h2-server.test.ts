import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { Deadlines } from '../../src/base/deadlines.ts';
import type { Fault } from '../../src/base/fault.ts';
import { type CutOff, type H2Connection as Served, serveHttp2 } from '../../src/http/h2-server.ts';
import { Fields } from '../../src/message/fields.ts';
import type { ClientStream, ConnectionFacts } from '../../src/message/stream.ts';
import { closeH2Connections, ErrorCode, FrameType, H2Connection, preface } from '../support/h2-frames.ts';
import { HandClock } from '../support/hand-clock.ts';
import { closeRawClients, RawClient } from '../support/raw-client.ts';
import { limits } from '../support/routing.ts';
import { sleep, until } from '../support/wait.ts';

let server: Server;

afterEach(() => {
  closeH2Connections();
  closeRawClients();
  server.close();
});

/** A connection of the server under test, with requests recorded and time moved by hand. */
class Host {
  readonly clock = new HandClock();
  readonly deadlines = new Deadlines(this.clock);
  readonly requests: ClientStream[] = [];
  readonly refused: Fault[] = [];
  readonly cutOffs: CutOff[] = [];
  idleCloses = 0;
  served: Served | null = null;
  port = 0;

  limitsOf(): typeof limits {
    return limits;
  }

  handle(stream: ClientStream): void {
    this.requests.push(stream);
  }

  refuse(_stream: ClientStream, fault: Fault): void {
    this.refused.push(fault);
  }

  cutOff(why: CutOff): void {
    this.cutOffs.push(why);
  }

  idleClosed(): void {
    this.idleCloses++;
  }

  answer(index: number): void {
    const head = { status: 200, reason: '', fields: new Fields(), bodyLength: 2, declaredLength: -1 };
    const stream = this.requests[index]!;
    stream.sendHead(head, false, false);
    stream.sendData(Buffer.from('ok'));
    stream.sendEnd(null);
  }
}

async function start(): Promise<Host> {
  const host = new Host();
  server = createServer({ noDelay: true }, (socket: Socket) => {
    const facts = Object.freeze<ConnectionFacts>({
      entrypoint: 'web',
      peerAddress: '127.0.0.1',
      peerPort: 1,
      localAddress: '127.0.0.1',
      localPort: 1,
      trustedPeer: false,
      tls: null,
    });
    host.served = serveHttp2(socket, facts, host);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  host.port = (server.address() as { port: number }).port;
  return host;
}

const get = H2Connection.request('GET', 'a.test', '/', [], 'http');

test('a client without SETTINGS is dropped after five seconds, however it keeps the line busy', async () => {
  const host = await start();
  const client = await RawClient.connect({ port: host.port });
  client.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  await until('the SETTINGS of the server', () => client.receivedSize > 0);
  host.clock.advance(4900);
  // Half of a frame head.
  client.write('\0\0');
  await sleep(50);
  expect(client.ended).toBe(false);
  host.clock.advance(300);
  await until('the end', () => client.ended);
});

test('half a header block is given up after the header timeout, an idle connection only after keep-alive', async () => {
  const host = await start();
  const idle = await H2Connection.connect({ port: host.port });
  const answer = idle.open(get).answer();
  await until('the request', () => host.requests.length === 1);
  host.answer(0);
  await answer;
  const served = host.served!;
  idle.windowUpdate(0, 1000);
  await sleep(50);
  host.clock.advance(30_000);
  await sleep(50);
  expect([idle.closed, idle.goaway]).toEqual([false, null]);
  // HEADERS without END_HEADERS.
  idle.frame(FrameType.Headers, 0, 3, Buffer.of(0x82));
  await sleep(50);
  host.clock.advance(10_200);
  await until('the GOAWAY', () => idle.goaway?.code === ErrorCode.EnhanceYourCalm);
  await until('the end', () => idle.closed);
  expect(served.idle).toBe(true);

  const quiet = await H2Connection.connect({ port: host.port });
  await until('SETTINGS', () => quiet.settingsSeen);
  await sleep(50);
  host.clock.advance(61_000);
  await until('a GOAWAY without blame', () => quiet.goaway?.code === ErrorCode.NoError);
  await until('the end', () => quiet.closed);
  expect(host.idleCloses).toBe(1);
});

test('a stream that is reset in the turn of its arrival never becomes a request', async () => {
  const host = await start();
  const client = await H2Connection.connect({ port: host.port });
  await until('SETTINGS', () => client.settingsSeen);
  client.socket.cork();
  for (let i = 0; i < 20; i++) client.open(get).reset();
  client.open(get);
  client.socket.uncork();
  await until('the one that stays', () => host.requests.length > 0);
  await sleep(50);
  expect(host.requests.length).toBe(1);
});

test('a flood of resets ends the connection', async () => {
  const host = await start();
  const client = await H2Connection.connect({ port: host.port });
  await until('SETTINGS', () => client.settingsSeen);
  for (let i = 0; i < 400 && !client.closed; i++) {
    client.open(get).reset();
    if (i % 10 === 0) await sleep(1);
  }
  await until('the end', () => client.closed);
  expect(host.requests.length).toBeLessThan(400);
});

test('a drain says at once which streams it takes, finishes them, and ends', async () => {
  const host = await start();
  const client = await H2Connection.connect({ port: host.port });
  const first = client.open(get);
  await until('the first request', () => host.requests.length === 1);
  host.served!.drain();
  await until('the announcement', () => client.goaway !== null);
  const late = client.open(get);
  const goaways = client.frames.filter((frame) => frame.type === FrameType.Goaway);
  // Streams above it were not touched, so that their client may repeat them elsewhere (RFC 9113 §6.8).
  expect(goaways.map((frame) => frame.payload.readUInt32BE(0))).toEqual([first.id]);
  expect(late.id).toBeGreaterThan(first.id);
  host.answer(0);
  expect((await first.answer()).complete).toBe(true);
  await until('the end', () => client.closed);
  expect(host.requests.length).toBe(1);
});

test('what a client is cut off for is said', async () => {
  const host = await start();
  const silent = await H2Connection.connect({ port: host.port, greet: false });
  silent.write(preface);
  await until('the connection', () => host.served !== null);
  host.clock.advance(5200);
  await until('the end of the silent one', () => silent.closed);
  const malformed = await H2Connection.connect({ port: host.port });
  malformed.frame(FrameType.Data, 0, 0, Buffer.from('data outside a stream'));
  await until('the end of the malformed one', () => malformed.closed);
  const calling = await H2Connection.connect({ port: host.port });
  for (let i = 0; i < 2000 && !calling.closed; i++) {
    calling.frame(FrameType.Ping, 0, 0, Buffer.alloc(8));
    if (i % 20 === 0) await sleep(1);
  }
  await until('the end of the one that calls', () => calling.closed);
  const breaking = await H2Connection.connect({ port: host.port });
  for (let i = 0; i < 400 && !breaking.closed; i++) {
    const stream = breaking.open([...get.slice(1), [':method', 'POST'] as const], { endStream: false });
    // Trailers that are none: the server must reset the stream.
    breaking.headers(stream.id, [['connection', 'x']], { endStream: true });
    await sleep(1);
  }
  await until('the end of the one that breaks', () => breaking.closed);
  expect(host.cutOffs).toEqual(['silent', 'protocol', 'control-frames', 'resets']);
});

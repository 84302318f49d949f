// A small backend for the demo: says which one answered, on a page that watches itself being switched.
// Invariant: loopback only; every answer carries `x-demo-backend`.
import { createHash } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { createServer } from '../../base/node-http.ts';
import { page } from './page.ts';

export interface DemoBackend {
  readonly name: string;
  readonly port: number;
  close(): void;
}

/** Rejects with the listen error (EADDRINUSE) when the port is taken. */
export function startDemoBackend(name: string, port: number): Promise<DemoBackend> {
  const server = createServer((request, response) => answer(name, request, response));
  server.on('upgrade', (request, socket) => echo(request, socket));
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve({ name, port: portOf(server), close: () => close(server) }));
  });
}

function answer(name: string, request: IncomingMessage, response: ServerResponse): void {
  request.resume();
  response.setHeader('x-demo-backend', name);
  switch (new URL(request.url ?? '/', 'http://demo').pathname) {
    case '/':
      send(response, 200, 'text/html; charset=utf-8', page(name));
      return;
    case '/whoami':
      response.setHeader('cache-control', 'no-store');
      send(response, 200, 'application/json', `${JSON.stringify({ backend: name })}\n`);
      return;
    case '/healthz':
      send(response, 200, 'text/plain', 'ok\n');
      return;
    case '/headers':
      send(response, 200, 'application/json', `${JSON.stringify(request.headers, null, 2)}\n`);
      return;
    case '/events':
      stream(name, response);
      return;
    default:
      send(response, 404, 'text/plain', `${name} has no such page; try / /whoami /headers /events /ws\n`);
  }
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  response.writeHead(status, { 'content-type': type });
  response.end(body);
}

/** One server-sent event a second until the client leaves. */
function stream(name: string, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  let count = 0;
  const tick = (): void => void response.write(`data: ${name} ${++count}\n\n`);
  tick();
  const timer = setInterval(tick, 1000);
  response.on('close', () => clearInterval(timer));
}

/** A WebSocket that sends every frame back, and answers close and ping (RFC 6455 §5). */
function echo(request: IncomingMessage, socket: Duplex): void {
  const key = request.headers['sec-websocket-key'];
  if (key === undefined) {
    socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n');
    return;
  }
  const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
  );
  let pending: Buffer = Buffer.alloc(0);
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk]);
    for (let frame = readFrame(pending); frame !== null; frame = readFrame(pending)) {
      pending = pending.subarray(frame.size);
      const opcode = frame.first & 0x0f;
      // Fragments are echoed as fragments; a ping becomes its pong.
      socket.write(writeFrame(opcode === 0x9 ? 0x8a : frame.first, frame.payload));
      const closing = opcode === 0x8;
      if (closing) socket.end();
    }
  });
}

function readFrame(data: Buffer): { first: number; payload: Buffer; size: number } | null {
  if (data.length < 2) return null;
  let length = data[1]! & 0x7f;
  let at = 2;
  if (length === 126) {
    if (data.length < 4) return null;
    length = data.readUInt16BE(2);
    at = 4;
  } else if (length === 127) {
    if (data.length < 10) return null;
    length = Number(data.readBigUInt64BE(2));
    at = 10;
  }
  const size = at + 4 + length;
  if (data.length < size) return null;
  const mask = data.subarray(at, at + 4);
  const payload = Buffer.from(data.subarray(at + 4, size));
  for (let i = 0; i < payload.length; i++) payload[i]! ^= mask[i & 3]!;
  return { first: data[0]!, payload, size };
}

function writeFrame(first: number, payload: Buffer): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = first;
  if (length < 126) head[1] = length;
  else if (length < 65_536) {
    head[1] = 126;
    head.writeUInt16BE(length, 2);
  } else {
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  return Buffer.concat([head, payload]);
}

function portOf(server: Server): number {
  const address = server.address();
  return address !== null && typeof address === 'object' ? address.port : 0;
}

function close(server: Server): void {
  server.close();
  server.closeAllConnections();
}

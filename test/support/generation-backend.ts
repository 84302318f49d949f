// A backend that knows which generation it is.
// Invariant: every answer, and the first frame of every WebSocket, is its number and nothing else.
import { createServer, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { acceptFor, decodeWsFrames, encodeWsFrame, Opcode } from './websocket-frames.ts';

/** A backend that answers every request, and the first frame of every WebSocket, with its number. */
export class GenerationBackend {
  readonly number: number;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  requests = 0;

  private constructor(number: number) {
    this.number = number;
    this.#server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
      this.requests++;
      const answer = (): void => {
        response.end(String(number));
      };
      request.resume();
      request.on('end', () => {
        if (request.url?.startsWith('/slow') === true) setTimeout(answer, 150);
        else answer();
      });
    });
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    this.#server.on('upgrade', (request, socket) => {
      this.requests++;
      socket.on('error', () => {});
      const key = request.headers['sec-websocket-key'] ?? '';
      socket.write(
        'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
          `Sec-WebSocket-Accept: ${acceptFor(key)}\r\n\r\n`,
      );
      let pending: Buffer = Buffer.alloc(0);
      socket.on('data', (chunk: Buffer) => {
        const { frames, rest } = decodeWsFrames(Buffer.concat([pending, chunk]));
        pending = rest;
        for (const frame of frames) {
          if (frame.opcode === Opcode.Close) {
            socket.end(encodeWsFrame(Opcode.Close, frame.payload));
          } else {
            socket.write(encodeWsFrame(Opcode.Text, String(number)));
          }
        }
      });
      socket.on('end', () => socket.end());
    });
  }

  static async start(number: number, port = 0): Promise<GenerationBackend> {
    const backend = new GenerationBackend(number);
    await new Promise<void>((resolve) => backend.#server.listen(port, '127.0.0.1', resolve));
    return backend;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get connections(): number {
    return this.#sockets.size;
  }

  /** Stops as a container does: listener and sockets gone at once. */
  stop(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

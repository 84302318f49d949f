// Datagrams that are sent and waited for, one at a time.
// Invariant: only a datagram that begins like the last one sent is its answer; the number in front tells them apart.
import { createSocket, type Socket } from 'node:dgram';
import { isIPv6 } from 'node:net';
import { errorWord, type Lane, type LaneHost } from './lane.ts';

/** Bytes of each datagram that are ours: without them a late answer could pass for the next one. */
export const datagramMark = 8;

export class UdpLane implements Lane {
  dueAt = 0;
  readonly #host: LaneHost;
  readonly #message: Buffer;
  #socket: Socket | null = null;
  #connected = false;
  #sent = 0;

  constructor(host: LaneHost) {
    this.#host = host;
    this.#message = Buffer.from(host.plan.body);
    this.#message.writeUInt32BE((Math.random() * 2 ** 32) >>> 0, 0);
  }

  begin(): void {
    this.#message.writeUInt32BE(++this.#sent >>> 0, 4);
    if (this.#connected) this.#send();
    else this.#open();
  }

  abandon(): void {
    // The next datagram has another number.
  }

  close(): void {
    this.#connected = false;
    this.#socket?.close();
    this.#socket = null;
  }

  #open(): void {
    const { host, port } = this.#host.plan;
    const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
    this.#socket = socket;
    socket.on('message', (datagram) => {
      this.#host.received(datagram.length);
      if (datagram.compare(this.#message, 0, datagramMark, 0, datagramMark) === 0) this.#host.answered(this, 0);
    });
    socket.on('error', (error) => this.#host.failed(this, errorWord(error)));
    socket.connect(port, host, () => {
      if (this.#socket !== socket) return;
      this.#connected = true;
      this.#host.connected();
      this.#send();
    });
  }

  #send(): void {
    this.#socket!.send(this.#message, (error) => {
      if (error !== null) this.#host.failed(this, errorWord(error));
    });
  }
}

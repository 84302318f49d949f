// A hundred thousand datagrams, at half of what this machine can relay while the test runs.
import { createSocket, type Socket } from 'node:dgram';
import { afterEach, expect, test } from 'vitest';
import { Turnpike } from '../support/turnpike.ts';
import { closeUdp, freeUdpPort, UdpBackend } from '../support/udp.ts';
import { sleep } from '../support/wait.ts';

const sockets: Socket[] = [];
let turnpike: Turnpike | null = null;
afterEach(async () => {
  closeUdp();
  for (const socket of sockets.splice(0)) socket.close();
  await turnpike?.kill();
  turnpike?.forget();
});

const flows = 8;
const total = 100_000;
/** Datagrams on their way: what a busy machine does not get to at once must not overflow the smallest socket buffer. */
const window = 160;

/** Sends numbered datagrams over several flows, never more than `window` unheard of, and writes down what comes back. */
class Client {
  readonly orders: number[][] = Array.from({ length: flows }, () => []);
  received = 0;
  sent = 0;
  readonly #sockets: Socket[] = [];

  constructor(port: number) {
    for (let i = 0; i < flows; i++) {
      const socket = createSocket({ type: 'udp4', recvBufferSize: 4 * 1024 * 1024 });
      socket.connectSync(port, '127.0.0.1');
      const order = this.orders[i]!;
      socket.on('message', (message: Buffer) => {
        order.push(message.readUInt32LE());
        this.received++;
      });
      sockets.push(socket);
      this.#sockets.push(socket);
    }
  }

  /** As many as are due and may be on their way. */
  send(due: number): void {
    while (this.sent < due && this.sent - this.received < window) {
      const message = Buffer.alloc(100);
      message.writeUInt32LE(this.sent);
      this.#sockets[this.sent % flows]!.send(message);
      this.sent++;
    }
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('100 000 datagrams at half of the highest rate arrive, none lost, in order within each flow', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  turnpike = await Turnpike.start({
    config: `workers = 1
[entrypoints.games]
address = "127.0.0.1:${port}"
protocol = "udp"
[network_services.game]
udp = "${backend.address}"
[[routers.udp]]
entrypoint = "games"
service = "game"
`,
  });
  const fastest = new Client(port);
  const begun = performance.now();
  while (performance.now() - begun < 1500) {
    fastest.send(Number.POSITIVE_INFINITY);
    await turn();
  }
  const perMs = fastest.received / (performance.now() - begun);
  expect(perMs).toBeGreaterThan(0);

  const client = new Client(port);
  const from = performance.now();
  let stalledSince = from;
  for (let heard = 0; client.received < total; ) {
    client.send(Math.min(total, (performance.now() - from) * (perMs / 2)));
    await (client.sent < total ? turn() : sleep(1));
    if (client.received > heard) {
      heard = client.received;
      stalledSince = performance.now();
    } else if (performance.now() - stalledSince > 3000) {
      break;
    }
  }
  expect({ sent: client.sent, received: client.received }).toEqual({ sent: total, received: total });
  for (const [flow, order] of client.orders.entries()) {
    expect(order).toEqual(Array.from({ length: total / flows }, (_, i) => flow + i * flows));
  }
  expect((await turnpike.traffic()).entrypoints[0]).toMatchObject({ accepted: 2 * flows });
}, 120_000);

// What a Node user would write instead: a relay on node:dgram with one connected socket a client.
// Invariant: no limits, no idle time, no counters, no health: nothing that costs.
import { createSocket, type Socket } from 'node:dgram';
import { createServer } from 'node:net';

const [listen, backend] = process.argv.slice(2).map(Number) as [number, number];
const clients = new Map<string, Socket>();
const listener = createSocket({ type: 'udp4', recvBufferSize: 4 * 1024 * 1024 });
listener.on('message', (message, { address, port }) => {
  const key = `${address}:${port}`;
  let socket = clients.get(key);
  if (socket === undefined) {
    socket = createSocket({ type: 'udp4', recvBufferSize: 4 * 1024 * 1024 });
    socket.connectSync(backend, '127.0.0.1');
    socket.on('message', (reply) => listener.send(reply, port, address));
    clients.set(key, socket);
  }
  socket.send(message);
});
listener.bind(listen, '127.0.0.1', () => createServer((each) => each.destroy()).listen(listen, '127.0.0.1'));

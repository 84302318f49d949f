// How much processor time does a message over a WebSocket cost that is sent, echoed and received?
// Invariant: 64 WebSockets, one message of 64 bytes in flight on each; Turnpike tracks the frames, as it always does.
import { haproxy, httpProxy3, nginxFrom, turnpike } from '../contestants.ts';
import { turnpikeBench } from '../load.ts';
import { ports } from '../ports.ts';
import { startNode } from '../process.ts';
import { underLoad } from '../question.ts';

/** Messages relayed: there and back again. */
const perEcho = 2;

export const question = underLoad({
  name: 'websocket',
  asks: '64 WebSockets, 64 bytes echoed; each message relayed',
  unit: 'message',
  contestants: [
    turnpike,
    haproxy,
    nginxFrom('nginx', 'proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;'),
    httpProxy3,
  ],
  backend: () => startNode('echo', 'websocket-echo.ts', ports.backend),
  check: async (contestant) => {
    const { requests } = await echoes(contestant.port, 1, 1);
    if (requests === 0) throw new Error(`port ${contestant.port} echoes nothing`);
  },
  load: ({ port }, seconds) => echoes(port, 64, seconds),
});

async function echoes(port: number, connections: number, seconds: number) {
  const load = await turnpikeBench(`ws://127.0.0.1:${port}/`, { connections, seconds }, '--size', '64B');
  return { ...load, requests: load.requests * perEcho };
}

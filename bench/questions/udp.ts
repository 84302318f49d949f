// How much processor time does a relayed datagram cost?
// Invariant: 64 clients, one datagram of 100 bytes in flight for each, none lost.
import type { Question } from '../question.ts';
import { naiveUdp, nginxUdp, startUdpEcho, turnpikeUdp } from '../udp-contestants.ts';
import { expectEcho, udpLoad } from '../udp-load.ts';

export const question: Question = {
  name: 'udp',
  asks: 'UDP, 64 clients, 100 bytes; a request is one datagram relayed',
  contestants: [turnpikeUdp, naiveUdp, nginxUdp],
  bodyBytes: 0,
  backend: startUdpEcho,
  check: ({ port }) => expectEcho(port),
  load: ({ port }, seconds) => udpLoad(port, 64, seconds),
};

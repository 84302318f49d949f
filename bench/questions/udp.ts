// How much processor time does a relayed datagram cost?
// Invariant: 64 clients, one datagram of 100 bytes in flight for each, none lost.
import { underLoad } from '../question.ts';
import { naiveUdp, nginxUdp, startUdpEcho, turnpikeUdp } from '../stream-contestants.ts';
import { expectEcho, udpLoad } from '../udp-load.ts';

export const question = underLoad({
  name: 'udp',
  asks: 'UDP, 64 clients, 100 bytes; a datagram relayed',
  unit: 'datagram',
  contestants: [turnpikeUdp, naiveUdp, nginxUdp],
  backend: startUdpEcho,
  check: ({ port }) => expectEcho(port),
  load: ({ port }, seconds) => udpLoad(port, 64, seconds),
});

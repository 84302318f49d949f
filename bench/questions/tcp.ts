// How much processor time does a relayed mebibyte cost?
// Invariant: 16 tunnels that stay, each with one answer of a mebibyte after the other.
import { expectMegabyte } from '../check.ts';
import { wrk } from '../load.ts';
import { underLoad } from '../question.ts';
import { haproxyTcp, nginxTcp, turnpikeTcp } from '../stream-contestants.ts';

export const question = underLoad({
  name: 'tcp',
  asks: 'TCP, 16 tunnels, 1 MiB relayed',
  unit: 'MiB',
  contestants: [turnpikeTcp, haproxyTcp, nginxTcp],
  bodyBytes: 1 << 20,
  check: ({ port }) => expectMegabyte(port),
  load: ({ port }, seconds) => wrk(`http://127.0.0.1:${port}/megabyte`, { connections: 16, seconds }),
});

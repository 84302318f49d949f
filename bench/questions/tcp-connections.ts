// How much processor time does a short tunnel cost?
// Invariant: every request is a connection of its own, on both sides of the relay.
import { expectSmall } from '../check.ts';
import { wrk } from '../load.ts';
import { underLoad } from '../question.ts';
import { haproxyTcp, nginxTcp, turnpikeTcp } from '../stream-contestants.ts';

export const question = underLoad({
  name: 'tcp-connections',
  asks: 'TCP, 32 clients; a tunnel, opened, used once and closed',
  unit: 'tunnel',
  contestants: [turnpikeTcp, haproxyTcp, nginxTcp],
  check: ({ port }) => expectSmall(port, false),
  load: ({ port }, seconds) => wrk(`http://127.0.0.1:${port}/`, { connections: 32, seconds, close: true }),
});

// How much processor time does a short tunnel cost?
// Invariant: every request is a connection of its own, on both sides of the relay.
import { expectSmall } from '../check.ts';
import { wrk } from '../load.ts';
import type { Question } from '../question.ts';
import { haproxyTcp, nginxTcp, turnpikeTcp } from '../tcp-contestants.ts';

export const question: Question = {
  name: 'tcp-connections',
  asks: 'TCP, 32 clients; a request is one tunnel, opened and closed',
  contestants: [turnpikeTcp, haproxyTcp, nginxTcp],
  bodyBytes: 0,
  check: ({ port }) => expectSmall(port, false),
  load: ({ port }, seconds) => wrk(`http://127.0.0.1:${port}/`, { connections: 32, seconds, close: true }),
};

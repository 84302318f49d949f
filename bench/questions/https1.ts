// How much processor time does a small response cost over HTTP/1.1 and TLS, handshakes long over?
// Invariant: 64 connections, both sides kept alive.
import { expectSmall } from '../check.ts';
import { caddy, haproxy, nginx, turnpike } from '../contestants.ts';
import { wrk } from '../load.ts';
import { underLoad } from '../question.ts';

export const question = underLoad({
  name: 'https1',
  asks: 'small responses, HTTP/1.1 over TLS, 64 connections',
  contestants: [turnpike, haproxy, nginx, caddy],
  check: ({ tlsPort }) => expectSmall(tlsPort!, true),
  load: ({ tlsPort }, seconds) => wrk(`https://127.0.0.1:${tlsPort}/`, { connections: 64, seconds }),
});

// How much processor time does a small HTTP/1.1 response cost on keep-alive connections?
// Invariant: 64 connections, both sides kept alive.
import { expectSmall } from '../check.ts';
import { caddy, haproxy, httpProxy3, nginx, turnpike } from '../contestants.ts';
import { wrk } from '../load.ts';
import { underLoad } from '../question.ts';

export const question = underLoad({
  name: 'http1',
  asks: 'small responses, HTTP/1.1 keep-alive, 64 connections',
  contestants: [turnpike, haproxy, nginx, caddy, httpProxy3],
  check: ({ port }) => expectSmall(port, false),
  load: ({ port }, seconds) => wrk(`http://127.0.0.1:${port}/`, { connections: 64, seconds }),
});

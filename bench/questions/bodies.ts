// How much processor time does a downloaded mebibyte cost?
// Invariant: 16 connections, bodies framed by Content-Length.
import { expectMegabyte } from '../check.ts';
import { caddy, haproxy, httpProxy3, nginx, turnpike } from '../contestants.ts';
import { wrk } from '../load.ts';
import { underLoad } from '../question.ts';

export const question = underLoad({
  name: 'bodies',
  asks: '1 MiB responses, HTTP/1.1 keep-alive, 16 connections',
  unit: 'MiB',
  contestants: [turnpike, haproxy, nginx, caddy, httpProxy3],
  bodyBytes: 1 << 20,
  check: ({ port }) => expectMegabyte(port),
  load: ({ port }, seconds) => wrk(`http://127.0.0.1:${port}/megabyte`, { connections: 16, seconds }),
});

// How much processor time does a small response cost over HTTP/2 and TLS?
// Invariant: 16 connections with 10 streams each.
import { expectSmallH2 } from '../check.ts';
import { caddy, haproxy, nginx, turnpike } from '../contestants.ts';
import { h2load } from '../load.ts';
import { underLoad } from '../question.ts';

export const question = underLoad({
  name: 'h2',
  asks: 'small responses, HTTP/2 over TLS, 16 connections × 10 streams',
  contestants: [turnpike, haproxy, nginx, caddy],
  check: ({ tlsPort }) => expectSmallH2(tlsPort!),
  load: ({ tlsPort }, seconds) => h2load(`https://127.0.0.1:${tlsPort}/`, 10, { connections: 16, seconds }),
});

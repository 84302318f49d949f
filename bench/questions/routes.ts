// Does a request cost more when there are many routes?
// Invariant: the requests are the same, and so is the route that they take.
import { expectSmall } from '../check.ts';
import { manyRoutes, turnpike, turnpikeWith } from '../contestants.ts';
import { wrk } from '../load.ts';
import { underLoad } from '../question.ts';

export const question = underLoad({
  name: 'routes',
  asks: 'small responses, HTTP/1.1 keep-alive, 64 connections: 2 hosts, and 10 000',
  contestants: [turnpike, turnpikeWith('turnpike 10 000 routes', '', manyRoutes(10_000))],
  check: ({ port }) => expectSmall(port, false),
  load: ({ port }, seconds) => wrk(`http://127.0.0.1:${port}/`, { connections: 64, seconds }),
});

// The keys of health checks: what all of them have, what those of HTTP have besides, and what failures say by themselves.
// Invariant: one definition of each key, whatever is checked.
import { choice, defaulted, type Keys, optional, table } from './form.ts';
import { count, duration, hostField, probePath } from './values.ts';

const day = 86_400_000;

/** Of every check. */
export const checkKeys = {
  interval: defaulted(duration({ least: 100, most: day }), 'Time between two checks.', '"5s"', 5000),
  timeout: defaulted(
    duration({ least: 10, most: 600_000 }),
    'A check that is not over by then has failed.',
    '"2s"',
    2000,
  ),
  healthy_after: defaulted(count(1, 100), 'Good results in a row that bring a backend back.', '2', 2),
  unhealthy_after: defaulted(count(1, 100), 'Bad results in a row that take a backend out.', '3', 3),
} as const satisfies Keys;

export const routeHealth = table('a health check', {
  type: defaulted(
    choice('a kind of check', ['http', 'tcp']),
    'http wants a 2xx or 3xx answer to GET; tcp wants the connection accepted.',
    '"http"',
    'http' as const,
  ),
  path: optional(probePath, 'What the http check asks for; "/" when left out.', '"/healthz"'),
  host: optional(hostField, "Host of the http check. Left out: the route's host.", '"app.example.com"'),
  ...checkKeys,
});

export const passiveHealth = table('passive health', {
  failures: defaulted(
    count(0, 1000),
    'Failed requests in a row that take a backend out for a while; 0: never.',
    '5',
    5,
  ),
  eject: defaulted(duration({ least: 100, most: day }), 'How long it stays out.', '"10s"', 10_000),
});

// The keys about what a client gets: compression, limits of its rate, redirects, fixed answers.
// Invariant: nothing in here is about backends.
import {
  choice,
  defaulted,
  either,
  type Form,
  flag,
  integerChoice,
  list,
  mapped,
  named,
  optional,
  quote,
  Refusal,
  required,
  table,
  text,
  type Value,
} from './form.ts';
import { judgeField } from './header-keys.ts';
import { count, duration, fieldValue, filePath, redirectTarget, size } from './values.ts';

const day = 86_400_000;

const encodings = ['zstd', 'br', 'gzip'] as const;
const mediaType: Form<string> = text('a media type like "text/html" or "text/*"', (value) =>
  /^[a-z0-9][a-z0-9!#$&^_.+-]*\/(\*|[a-z0-9][a-z0-9!#$&^_.+-]*)$/i.test(value)
    ? value.toLowerCase()
    : new Refusal(`${quote(value)} is not a media type`),
);
const compressible = [
  'text/*',
  'application/javascript',
  'application/json',
  'application/ld+json',
  'application/manifest+json',
  'application/rss+xml',
  'application/atom+xml',
  'application/wasm',
  'application/xhtml+xml',
  'application/xml',
  'application/vnd.ms-fontobject',
  'font/otf',
  'font/ttf',
  'image/svg+xml',
];

const compressionTable = table('compression', {
  encodings: defaulted(
    list('a list of "zstd", "br" and "gzip"', choice('an encoding', encodings), { least: 1, identity: (each) => each }),
    'Encodings to offer, the best first.',
    '["zstd", "br", "gzip"]',
    [...encodings],
  ),
  min_size: defaulted(size({ least: 0, most: 1024 ** 3 }), 'Shorter answers are left alone.', '"1KiB"', 1024),
  types: defaulted(
    list('a list of media types', mediaType, { least: 1, identity: (each) => each }),
    'Media types to compress.',
    JSON.stringify(compressible).replaceAll(',', ', '),
    compressible,
    '["text/*", "application/json"]',
  ),
});

/** `false` is written to switch off what the host has on. */
export const compression = either<Value<typeof compressionTable> | false>('true, false or a table', {
  boolean: mapped(flag, (on) => on && { encodings: [...encodings], min_size: 1024, types: compressible }),
  table: compressionTable,
});

export const rateLimit = table('a rate limit', {
  requests: required(count(1, 1_000_000), 'Requests a client address may make …', '100'),
  per: defaulted(duration({ least: 1000, most: day }), '… in this time.', '"1s"', 1000),
  burst: optional(count(1, 1_000_000), 'Requests it may make at once. Left out: as many as requests.', '200'),
});

const redirectTable = table('a redirect', {
  to: required(
    redirectTarget,
    'Where to: a URL or a path. {host} stands for the host of the request, {uri} for its path and query.',
    '"https://www.example.com{uri}"',
  ),
  status: defaulted(
    integerChoice('a redirect status', [301, 302, 303, 307, 308]),
    '308 and 307 keep the method, 301 and 308 are permanent.',
    '308',
    308,
  ),
});

export const redirect: Form<Value<typeof redirectTable>> = either('a target, or a table with to and status', {
  string: mapped(redirectTarget, (to) => ({ to, status: 308 })),
  table: redirectTable,
});

export const respond = table('a fixed answer', {
  status: defaulted(count(200, 599), 'Status of the answer.', '200', 200),
  headers: optional(
    named('a table of header names and values', fieldValue, judgeField),
    'Headers of the answer. Content-Type is text/plain unless set.',
    '{ "Content-Type" = "application/json" }',
  ),
  body: optional(
    text('text', (value) => value),
    'Body of the answer.',
    '"ok"',
  ),
  body_file: optional(
    filePath,
    'File with the body, at most 1 MiB, read when the configuration is.',
    '"pages/closed.html"',
  ),
});

// Our HTTP/1.1 codec against llhttp, Node's own parser, over generated messages. What has to hold:
// - a message that we accept, llhttp accepts with the same head, the same body and the same end;
// - a message that we refuse and llhttp accepts belongs to a class below, which says why we refuse it;
// - how the bytes are cut into reads changes nothing.
// A failure prints the seed; TURNPIKE_TEST_SEED=<seed> repeats the run.
import { expect, test } from 'vitest';
import { type Message, type Reading, readWithOurs } from './http1-support/codec.ts';
import { llhttpMethods, readWithLlhttp } from './http1-support/llhttp.ts';
import { generate } from './http1-support/messages.ts';
import { Random } from './http1-support/random.ts';

const runs = 100_000;
const everyBoundaryRuns = 1000;

interface Divergence {
  /** Our words of refusal. */
  readonly refusal: string;
  readonly why: string;
  /** A message of this class. */
  readonly example: string;
  /** Method of the request when the example is a response. */
  readonly answerTo?: string;
}

const host = 'Host: a.test\r\n';
const chunkedPost = `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n`;

/** What llhttp accepts and we refuse. */
const refusedByUs: readonly Divergence[] = [
  {
    refusal: 'bad method',
    why: 'RFC 9112 §2.2 tolerates one empty line (CRLF) before a request; llhttp skips any number of CR and LF',
    example: `\n\nGET / HTTP/1.1\r\n${host}\r\n`,
  },
  {
    refusal: 'bad request target',
    why: 'a fragment is not part of a request target, and a line without a version is not HTTP/1.x (RFC 9112 §3)',
    example: `GET /a#b HTTP/1.1\r\n${host}\r\n`,
  },
  {
    refusal: 'bad line end',
    why: 'a bare LF ends nothing for us; llhttp takes it after a request line without a version (HTTP/0.9)',
    example: 'GET /\n\r\n',
  },
  {
    refusal: 'bad version',
    why: 'HTTP/1.x is the name (RFC 9112 §2.3); llhttp also takes ICE/x.y and HTTP/2.0 in a status line',
    example: 'ICE/1.0 200 OK\r\nContent-Length: 0\r\n\r\n',
    answerTo: 'GET',
  },
  {
    refusal: 'neither HTTP/1.1 nor HTTP/1.0',
    why: 'nobody can know what other versions would mean; 505',
    example: `GET / HTTP/2.0\r\n${host}\r\n`,
  },
  {
    refusal: 'CONNECT',
    why: 'a reverse proxy opens no tunnels; 405',
    example: `CONNECT a.test:443 HTTP/1.1\r\n${host}\r\n`,
  },
  {
    refusal: 'unsupported request target',
    why: 'only http and https are ours to serve, and only CONNECT has an authority for a target (RFC 9112 §3.2)',
    example: `GET ftp://a.test/ HTTP/1.1\r\n${host}\r\n`,
  },
  {
    refusal: 'userinfo in the request target',
    why: 'RFC 9110 §4.2.4: treated as an error, since it serves to hide the authority',
    example: `GET http://user@a.test/ HTTP/1.1\r\n${host}\r\n`,
  },
  {
    refusal: 'bad authority in the request target',
    why: 'no host name holds such a delimiter (RFC 3986 §3.2.2 allows a few that RFC 1123 does not)',
    example: `GET http://a,b/ HTTP/1.1\r\n${host}\r\n`,
  },
  {
    refusal: 'no authority in the request target',
    why: 'RFC 9110 §4.2.1: an empty host is invalid',
    example: `GET http:///x HTTP/1.1\r\n${host}\r\n`,
  },
  {
    refusal: 'asterisk-form is for OPTIONS',
    why: 'RFC 9112 §3.2.4',
    example: `GET * HTTP/1.1\r\n${host}\r\n`,
  },
  { refusal: 'no Host', why: 'RFC 9112 §3.2: 400', example: 'GET / HTTP/1.1\r\n\r\n' },
  { refusal: 'Host twice', why: 'RFC 9112 §3.2: 400', example: `GET / HTTP/1.1\r\n${host}Host: b.test\r\n\r\n` },
  {
    refusal: 'unsupported Transfer-Encoding',
    why: 'only `chunked` alone is taken; llhttp judges by the last coding of a request and ignores odd ones in responses',
    example: `POST / HTTP/1.1\r\n${host}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
  },
  {
    refusal: 'Transfer-Encoding twice',
    why: 'one line, since two parsers may look at different ones',
    example: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n',
    answerTo: 'GET',
  },
  {
    refusal: 'Transfer-Encoding on HTTP/1.0',
    why: 'RFC 9112 §6.1: faulty framing',
    example: `POST / HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  },
  {
    refusal: 'bad Content-Length',
    why: 'more than 20 digits, or beyond 2^53 - 1, is no length anybody means',
    example: `POST / HTTP/1.1\r\n${host}Content-Length: ${'0'.repeat(24)}5\r\n\r\nhello`,
  },
  {
    refusal: 'bad chunk size',
    why: 'more than 16 digits, or beyond 2^53 - 1',
    example: `${chunkedPost}00000000000000005\r\nhello\r\n0\r\n\r\n`,
  },
  {
    refusal: 'bad chunk extension',
    why: 'RFC 9112 §7.1.1: a value after `=`',
    example: `${chunkedPost}5;a=\r\nhello\r\n0\r\n\r\n`,
  },
  {
    refusal: 'framing field in the trailers',
    why: 'RFC 9110 §6.5.1; llhttp takes some of them in responses',
    example: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n',
    answerTo: 'GET',
  },
  {
    refusal: 'bad status',
    why: 'RFC 9110 §15: three digits from 100 on',
    example: 'HTTP/1.1 000 Zero\r\nContent-Length: 0\r\n\r\n',
    answerTo: 'GET',
  },
  {
    refusal: 'bad status line',
    why: 'control bytes in a reason phrase (RFC 9112 §4)',
    example: 'HTTP/1.1 200 a\x01b\r\nContent-Length: 0\r\n\r\n',
    answerTo: 'GET',
  },
];

test.each(refusedByUs)('llhttp accepts and we refuse: $refusal', ({ refusal, example, answerTo }) => {
  const bytes = Buffer.from(example, 'latin1');
  const ours = readWithOurs([bytes], answerTo ?? null);
  const theirs = readWithLlhttp(bytes, answerTo ?? null);
  expect(ours.refusal).toBe(refusal);
  expect(ours.messages).toHaveLength(0);
  expect(theirs.messages[0]?.complete).toBe(true);
});

test(`${runs} generated messages: we accept only what llhttp accepts, and read it alike`, { timeout: 90_000 }, () => {
  const random = Random.fromEnvironment();
  const classes = new Set(refusedByUs.map((each) => each.refusal));
  let accepted = 0;
  let refused = 0;
  for (let run = 0; run < runs; run++) {
    const { bytes, method } = generate(random);
    const ours = readWithOurs([bytes], method);
    const theirs = readWithLlhttp(bytes, method);
    const problem = compare(ours, theirs, method, classes) ?? splits(random, bytes, method, ours, run);
    if (problem !== null) {
      throw new Error(
        `seed ${random.seed}, run ${run}: ${problem}\n${method ?? 'request'} ${JSON.stringify(bytes.toString('latin1'))}` +
          `\nours ${JSON.stringify(ours)}\nllhttp ${JSON.stringify(theirs)}`,
      );
    }
    accepted += ours.messages.length;
    if (ours.refusal !== '') refused++;
  }
  // The generator is worth something only while it hits both sides well.
  expect(accepted).toBeGreaterThan(runs / 4);
  expect(refused).toBeGreaterThan(runs / 4);
});

/** What is wrong with our reading, or null. */
function compare(ours: Reading, theirs: Reading, method: string | null, classes: ReadonlySet<string>): string | null {
  for (let i = 0; i < ours.messages.length; i++) {
    const our = ours.messages[i]!;
    const their = theirs.messages[i];
    if (their === undefined || !their.complete) {
      // After an answer without a length to HEAD, or an interim one on HTTP/1.0, llhttp believes that the connection ends.
      const closedEarly = theirs.refusal === 'HPE_CLOSED_CONNECTION' && isLengthless(ours.messages[i - 1], method);
      return closedEarly || isOurOwn(our, theirs) ? null : `message ${i} is refused by llhttp`;
    }
    const difference = differenceOf(our, their, method);
    if (difference !== null) return `message ${i}: ${difference} differs`;
  }
  const next = theirs.messages[ours.messages.length];
  if (ours.refusal !== '' && next?.complete && !classes.has(ours.refusal)) {
    return `refused with a reason that is not on the list: ${ours.refusal}`;
  }
  return null;
}

/** What we accept and llhttp does not, or not as HTTP. */
function isOurOwn(our: Message, theirs: Reading): boolean {
  // Methods are opaque tokens to a proxy (RFC 9110 §9.1); llhttp knows a list of them.
  if (theirs.refusal === 'HPE_INVALID_METHOD' && !llhttpMethods.has(our.start.split(' ')[0]!)) return true;
  // llhttp ends HTTP with any method and any protocol; an upgrade that is not a WebSocket handshake is ignored by us.
  return theirs.upgrade;
}

function differenceOf(our: Message, their: Message, method: string | null): string | null {
  if (our.start !== their.start) return 'start line';
  if (our.reason !== their.reason) return 'reason';
  if (method === null && our.target !== originForm(our, their.target)) return 'target';
  if (our.fields.join('\n') !== their.fields.join('\n')) return 'fields';
  if (our.body !== their.body) return 'body';
  if (!isSubsequence(our.trailers, their.trailers)) return 'trailers';
  // Ours may be the more careful one. llhttp says "not persistent" of interim and HEAD answers without a length.
  if (our.persistent && !their.persistent && !isLengthless(our, method)) return 'persistence';
  return null;
}

/** A response that has no body whatever its head says. */
function isLengthless(our: Message | undefined, method: string | null): boolean {
  return our !== undefined && method !== null && (method === 'HEAD' || our.start.startsWith('1'));
}

/** An independent reduction of absolute-form. */
function originForm(our: Message, target: string): string {
  const match = /^https?:\/\/[^/?]+(.*)$/i.exec(target);
  if (match === null) return target;
  const rest = match[1]!;
  if (rest === '') return our.start.startsWith('OPTIONS ') ? '*' : '/';
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** Pairs of `part` in order within `whole`: trailers under the deny-list are dropped. */
function isSubsequence(part: readonly string[], whole: readonly string[]): boolean {
  let at = 0;
  for (let i = 0; i < part.length; i += 2) {
    while (at < whole.length && (whole[at] !== part[i] || whole[at + 1] !== part[i + 1])) at += 2;
    if (at >= whole.length) return false;
    at += 2;
  }
  return true;
}

/** One random split for each message; every boundary, and every byte on its own, for some. */
function splits(random: Random, bytes: Buffer, method: string | null, whole: Reading, run: number): string | null {
  const expected = JSON.stringify([whole.messages, whole.refusal !== '']);
  const check = (pieces: Buffer[], how: string): string | null => {
    const split = readWithOurs(pieces, method);
    return JSON.stringify([split.messages, split.refusal !== '']) === expected ? null : `${how} changes the reading`;
  };
  if (bytes.length === 0) return null;
  const cut = 1 + random.below(bytes.length);
  const second = cut + random.below(bytes.length - cut + 1);
  const problem = check(
    [bytes.subarray(0, cut), bytes.subarray(cut, second), bytes.subarray(second)],
    `a split at ${cut} and ${second}`,
  );
  if (problem !== null || run >= everyBoundaryRuns) return problem;
  for (let at = 1; at < bytes.length; at++) {
    const each = check([bytes.subarray(0, at), bytes.subarray(at)], `a split at ${at}`);
    if (each !== null) return each;
  }
  return check(
    Array.from(bytes, (_, i) => bytes.subarray(i, i + 1)),
    'a read for each byte',
  );
}

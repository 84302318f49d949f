// Properties of the codec over generated messages; fast-check prints seed and path of a failure.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Fault } from '../../src/base/fault.ts';
import { BodyDecoder } from '../../src/http1/body-decoder.ts';
import { parseRequestHead } from '../../src/http1/request-head.ts';
import { parseResponseHead } from '../../src/http1/response-head.ts';
import { chunkStart, lastChunk, requestHeadText, responseHeadText } from '../../src/http1/serialise.ts';
import { allowedTrailers } from '../../src/http1/trailers.ts';
import { fieldIdOf } from '../../src/message/field-id.ts';
import { Fields } from '../../src/message/fields.ts';
import { unknownLength } from '../../src/message/head.ts';
import { limits, readWithOurs } from './http1-support/codec.ts';

const tokenCharacters = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
const token = fc.string({ unit: fc.constantFrom(...tokenCharacters), minLength: 1, maxLength: 24 });
const targetCharacters = Array.from({ length: 94 }, (_, i) => String.fromCharCode(0x21 + i)).filter((c) => c !== '#');
const target = fc.string({ unit: fc.constantFrom(...targetCharacters), maxLength: 60 }).map((rest) => `/${rest}`);
const latin1 = fc.integer({ min: 0, max: 255 }).map((c) => String.fromCharCode(c));
const valueUnit = latin1.filter((c) => c === '\t' || (c >= ' ' && c !== '\x7f'));
const value = fc.string({ unit: valueUnit, maxLength: 40 }).map((text) => text.replace(/^[ \t]+|[ \t]+$/g, ''));
const framingNames = [
  'connection',
  'content-length',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
];
const ordinaryName = token.filter((name) => ![...framingNames, 'host', 'expect'].includes(name.toLowerCase()));
const field = fc.tuple(ordinaryName, value);
const body = fc.uint8Array({ maxLength: 400 }).map((bytes) => Buffer.from(bytes));
/** Anything a careless caller might put into a field, control characters and all of Unicode included. */
const wild = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.string({ unit: latin1, maxLength: 20 }),
  fc.constantFrom('a\r\nX-Injected: 1', '\r\n\r\nGET /smuggled HTTP/1.1\r\n', 'a\u010ab', '\u010d\u010a', '\0', ''),
);

/** Cuts at these places, modulo the length. */
function split(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...places].map((start, i) => bytes.subarray(start, places[i] ?? bytes.length));
}
const cuts = fc.array(fc.nat(), { maxLength: 6 });

it('a request head is read back as it was written', () => {
  const property = fc.property(
    token.filter((method) => method !== 'CONNECT'),
    target,
    fc.array(field, { maxLength: 12 }),
    fc.constantFrom(unknownLength, 0, 1, 4294967301, Number.MAX_SAFE_INTEGER),
    fc.boolean(),
    (method, path, pairs, bodyLength, acceptsTrailers) => {
      const fields = Fields.of(['Host', 'a.test'], ...pairs);
      const text = requestHeadText({
        method,
        target: path,
        version: 11,
        authority: 'a.test',
        otherAuthority: null,
        fields,
        bodyLength,
        upgrade: '',
        expectContinue: false,
        acceptsTrailers,
      });
      const head = parseRequestHead(text, 0, text.length - 2, limits);
      if (head instanceof Fault) throw head;
      expect(head).toMatchObject({ method, target: path, bodyLength, acceptsTrailers, persistent: true, upgrade: '' });
      const kept = [...head.fields.entries()].filter(([name]) => !framingNames.includes(name.toLowerCase()));
      expect(kept).toEqual([['Host', 'a.test'], ...pairs]);
    },
  );
  fc.assert(property, { numRuns: 1000 });
});

it('a response head is read back as it was written', () => {
  const framing = fc.constantFrom('none', 'length', 'chunked', 'close' as const);
  const property = fc.property(
    fc.integer({ min: 200, max: 999 }).filter((status) => status !== 204 && status !== 304),
    value,
    fc.array(field, { maxLength: 12 }),
    framing,
    fc.constantFrom('' as const, 'close' as const),
    (status, reason, pairs, kind, connection) => {
      const source = { status, reason, fields: Fields.of(...pairs), bodyLength: 7, declaredLength: -1 };
      const text = responseHeadText(source, kind, kind === 'none' ? 0 : 7, connection);
      const head = parseResponseHead(text, 0, text.length - 2, 'GET', limits);
      if (head instanceof Fault) throw head;
      expect(head).toMatchObject({ status, reason, framing: kind });
      expect(head.persistent).toBe(connection === '' && kind !== 'close');
      const kept = [...head.fields.entries()].filter(([name]) => !framingNames.includes(name.toLowerCase()));
      expect(kept).toEqual(pairs);
    },
  );
  fc.assert(property, { numRuns: 1000 });
});

it('nothing that is put into a head makes a line of its own, or decides about the framing', () => {
  const pairs = fc.array(fc.tuple(fc.oneof(wild, fc.constantFrom(...framingNames)), wild), { maxLength: 6 });
  const property = fc.property(pairs, wild, wild, wild, (fields, method, path, reason) => {
    const source = Fields.of(...fields);
    const lines = source.length;
    const texts = [
      requestHeadText({
        method,
        target: path,
        version: 11,
        authority: reason,
        otherAuthority: null,
        fields: source,
        bodyLength: 5,
        upgrade: '',
        expectContinue: false,
        acceptsTrailers: false,
      }),
      responseHeadText(
        { status: 200, reason, fields: source, bodyLength: 5, declaredLength: -1 },
        'length',
        5,
        'close',
      ),
      lastChunk(source),
    ];
    for (const text of texts) {
      // What the socket writes: one byte a character.
      const wire = Buffer.from(text, 'latin1').toString('latin1');
      expect(wire.endsWith('\r\n\r\n')).toBe(true);
      const written = wire.slice(0, -4).split('\r\n');
      // The start line, Host, Content-Length and Connection are ours.
      expect(written.length).toBeLessThanOrEqual(lines + 4);
      for (const line of written) expect(line).not.toMatch(/[\r\n\0]/);
      expect(written.filter((line) => /^transfer-encoding:/i.test(line))).toEqual([]);
      expect(written.filter((line) => /^content-length:/i.test(line)).length).toBeLessThanOrEqual(1);
    }
  });
  fc.assert(property, { numRuns: 2000 });
});

it('a body comes out as it went in, wherever the bytes are cut, and what follows it stays', () => {
  const extension = fc.constantFrom('', ';a', ';a=b', ';a="b;\\"c"', ';a=1;b=2');
  const property = fc.property(
    fc.array(fc.tuple(body, extension, fc.boolean()), { maxLength: 5 }),
    fc.array(field, { maxLength: 3 }),
    body,
    cuts,
    (chunks, trailers, rest, places) => {
      const pieces: Buffer[] = [];
      let whole = Buffer.alloc(0);
      for (const [data, text, upper] of chunks) {
        if (data.length === 0) continue;
        const size = data.length.toString(16);
        pieces.push(
          Buffer.from(`${upper ? size.toUpperCase() : size}${text}\r\n`, 'latin1'),
          data,
          Buffer.from('\r\n'),
        );
        whole = Buffer.concat([whole, data]);
      }
      pieces.push(Buffer.from(lastChunk(trailers.length === 0 ? null : Fields.of(...trailers)), 'latin1'), rest);
      const bytes = Buffer.concat(pieces);
      const decoder = new BodyDecoder();
      decoder.startChunked(limits);
      const read = readBody(decoder, split(bytes, places));
      expect(read.body.equals(whole)).toBe(true);
      expect(read.consumed).toBe(bytes.length - rest.length);
      const expected = allowedTrailers(Fields.of(...trailers));
      expect([...(decoder.trailers?.entries() ?? [])]).toEqual([...(expected?.entries() ?? [])]);

      decoder.startLength(whole.length);
      const sized = readBody(decoder, split(Buffer.concat([whole, rest]), places));
      expect(sized.body.equals(whole)).toBe(true);
      expect(sized.consumed).toBe(whole.length);
    },
  );
  fc.assert(property, { numRuns: 1000 });
});

function readBody(decoder: BodyDecoder, pieces: readonly Buffer[]): { body: Buffer; consumed: number } {
  const parts: Buffer[] = [];
  let consumed = 0;
  for (const piece of pieces) {
    let at = 0;
    while (!decoder.ended && at < piece.length) {
      const event = decoder.next(piece, at);
      expect(event).not.toBe('broken');
      if (event === 'data') parts.push(decoder.data);
      at = decoder.offset;
    }
    consumed += at;
  }
  expect(decoder.ended).toBe(true);
  return { body: Buffer.concat(parts), consumed };
}

it('no bytes whatever become more messages than blank lines, or are read differently in pieces', () => {
  const fragment = fc.oneof(
    fc.constantFrom(
      'GET / HTTP/1.1\r\n',
      'POST / HTTP/1.1\r\n',
      'Host: a\r\n',
      'Content-Length: 3\r\n',
      'Transfer-Encoding: chunked\r\n',
      'Transfer-Encoding: chunked\t\r\n',
      'HTTP/1.1 200 OK\r\n',
      '\r\n',
      '\n',
      '\r',
      '3\r\nabc\r\n',
      '0\r\n',
      'abc',
    ),
    fc.string({ unit: latin1, maxLength: 8 }),
  );
  const property = fc.property(
    fc.array(fragment, { maxLength: 14 }),
    fc.constantFrom(null, 'GET', 'HEAD'),
    cuts,
    (fragments, method, places) => {
      const text = fragments.join('');
      const bytes = Buffer.from(text, 'latin1');
      const whole = readWithOurs([bytes], method);
      expect(whole.messages.length).toBeLessThanOrEqual(text.split('\r\n\r\n').length - 1);
      const cut = readWithOurs(split(bytes, places), method);
      expect(cut.messages).toEqual(whole.messages);
      expect(cut.refusal === '').toBe(whole.refusal === '');
    },
  );
  fc.assert(property, { numRuns: 3000 });
});

it('a trailer that frames, routes, authenticates or describes the content does not pass, however it is spelled', () => {
  const names = [
    'Content-Type',
    'content_encoding',
    'Host',
    'AUTHORIZATION',
    'Set-Cookie',
    'Cookie',
    'Transfer-Encoding',
    'Content-Length',
    'X-Forwarded-For',
    'X_Forwarded_Proto',
    'Range',
    'Location',
    'Trailer',
    'WWW-Authenticate',
    ':status',
  ];
  expect(allowedTrailers(Fields.of(...names.map((name) => [name, 'x'] as [string, string])))).toBe(null);
  const passed = allowedTrailers(Fields.of(['grpc-status', '0'], ['Content-Type', 'x'], ['Server-Timing', 'y']));
  expect([...passed!.entries()]).toEqual([
    ['grpc-status', '0'],
    ['Server-Timing', 'y'],
  ]);
});

it('a chunk is announced in hexadecimal', () => {
  expect([1, 255, 65_536].map(chunkStart)).toEqual(['1\r\n', 'ff\r\n', '10000\r\n']);
});

it('every field that we frame by has an id of its own', () => {
  for (const name of framingNames) expect(fieldIdOf(name.toUpperCase())).toBeGreaterThan(0);
});

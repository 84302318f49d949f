import { expect, test } from 'vitest';
import { negotiate } from '../../src/http/compression.ts';
import { Fields } from '../../src/message/fields.ts';
import type { RequestHead, ResponseHead } from '../../src/message/head.ts';
import type { Compression } from '../../src/model/snapshot.ts';

const compression: Compression = {
  encodings: ['zstd', 'br', 'gzip'],
  minSize: 100,
  types: ['text/*', 'application/json'],
};

function request(acceptEncoding: string, method = 'GET'): RequestHead {
  return {
    method,
    target: '/',
    version: 11,
    authority: 'a.test',
    otherAuthority: null,
    fields: Fields.of(['Accept-Encoding', acceptEncoding]),
    bodyLength: 0,
    upgrade: '',
    expectContinue: false,
    acceptsTrailers: false,
  };
}

function response(lines: [string, string][], over: Partial<ResponseHead> = {}): ResponseHead {
  return { status: 200, reason: 'OK', fields: Fields.of(...lines), bodyLength: 1000, declaredLength: -1, ...over };
}

const html: [string, string] = ['Content-Type', 'text/html; charset=utf-8'];

test('the coding is the first of ours among those that the client weighs highest', () => {
  const chosen = (accept: string): string | null => negotiate(compression, request(accept), response([html]));
  expect(chosen('gzip, deflate, br, zstd')).toBe('zstd');
  expect(chosen('gzip, br')).toBe('br');
  expect(chosen('gzip;q=1.0, br;q=0.5')).toBe('gzip');
  expect(chosen('GZIP')).toBe('gzip');
  expect(chosen('*')).toBe('zstd');
  expect(chosen('*;q=0.5, zstd;q=0')).toBe('br');
  expect(chosen('br;q=0, gzip;q=0')).toBeNull();
  expect(chosen('identity, gzip;q=0.5')).toBeNull();
  expect(chosen('')).toBeNull();
});

test('what must not be touched is not, and Vary tells when it could have been', () => {
  const refused = (lines: [string, string][], over: Partial<ResponseHead> = {}, method = 'GET'): string | null => {
    const head = response(lines, over);
    expect(negotiate(compression, request('gzip', method), head)).toBeNull();
    expect(head.fields.getNamed('content-encoding')).toBe(
      lines.find(([name]) => name === 'Content-Encoding')?.[1] ?? null,
    );
    return head.fields.getNamed('vary');
  };
  expect(refused([['Content-Type', 'image/png']])).toBeNull();
  expect(refused([html, ['Content-Encoding', 'br']])).toBeNull();
  expect(refused([html, ['Cache-Control', 'max-age=1, No-Transform']])).toBeNull();
  expect(refused([html], { status: 206 })).toBeNull();
  expect(refused([html], { bodyLength: 99 })).toBeNull();
  expect(refused([['Content-Type', 'text/event-stream']], { bodyLength: -1 })).toBeNull();
  expect(refused([html, ['X-Accel-Buffering', 'no']])).toBeNull();
  expect(refused([html], { bodyLength: 0, declaredLength: 1000 }, 'HEAD')).toBe('Accept-Encoding');
  const plain = response([html]);
  expect(negotiate(compression, request('identity'), plain)).toBeNull();
  expect(plain.fields.getNamed('vary')).toBe('Accept-Encoding');
});

test('validators, lengths and ranges of the other bytes do not stay', () => {
  const head = response([html, ['ETag', '"x"'], ['Accept-Ranges', 'bytes'], ['Vary', 'Origin'], ['Content-MD5', 'x']]);
  expect(negotiate(compression, request('gzip'), head)).toBe('gzip');
  expect([...head.fields.entries()]).toEqual([
    html,
    ['ETag', 'W/"x"'],
    ['Vary', 'Origin'],
    ['Vary', 'Accept-Encoding'],
    ['Content-Encoding', 'gzip'],
  ]);
  expect(head.bodyLength).toBe(-1);
});

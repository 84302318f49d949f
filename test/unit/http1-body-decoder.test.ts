import { describe, expect, it } from 'vitest';
import { BodyDecoder } from '../../src/http1/body-decoder.ts';

const limits = { headerSize: 4096, headerCount: 20 };

/** Feeds text until the body ends or breaks; the events are joined. */
function decode(text: string, start = (decoder: BodyDecoder) => decoder.startChunked(limits)) {
  const decoder = new BodyDecoder();
  start(decoder);
  const chunk = Buffer.from(text, 'latin1');
  let body = '';
  for (let at = 0; ; at = decoder.offset) {
    const event = decoder.next(chunk, at);
    if (event === 'data') body += decoder.data.toString('latin1');
    else return { event, body, rest: text.slice(decoder.offset), problem: decoder.problem, trailers: decoder.trailers };
  }
}

describe('a chunked body', () => {
  it.each([
    ['0\r\n\r\n', ''],
    ['5\r\nhello\r\n0\r\n\r\n', 'hello'],
    ['5\r\nhello\r\n000\r\n\r\n', 'hello'],
    ['A\r\n0123456789\r\n0\r\n\r\n', '0123456789'],
    ['0000000000000005\r\nhello\r\n0\r\n\r\n', 'hello'],
    ['5;a\r\nhello\r\n0;b=c;d="e;\\"f"\r\n\r\n', 'hello'],
    ['5\r\n\r\n0\r\n\r\n0\r\n\r\n', '\r\n0\r\n'],
  ])('%j', (text, body) => {
    expect(decode(`${text}NEXT`)).toMatchObject({ event: 'end', body, rest: 'NEXT' });
  });

  it.each([
    'g\r\n',
    '\r\n',
    ' 5\r\nhello\r\n',
    '5 \r\nhello\r\n',
    '5\t\r\nhello\r\n',
    '5 ;a\r\nhello\r\n',
    '5;\r\nhello\r\n',
    '5;a=\r\nhello\r\n',
    '5;a b\r\nhello\r\n',
    '5;a="b\r\nhello\r\n',
    '5;a\x01\r\nhello\r\n',
    '+5\r\nhello\r\n',
    '-5\r\nhello\r\n',
    '0x5\r\nhello\r\n',
    '1zz\r\nhello\r\n',
    '0_0\r\n',
    '5.0\r\nhello\r\n',
    '5\nhello\r\n',
    '5;a\nhello\r\n',
    '5\r\r\nhello\r\n',
    '5\r\nhello\n0\r\n\r\n',
    '5\r\nhello0\r\n\r\n',
    '5\r\nhelloo\r\n0\r\n\r\n',
    '20000000000000\r\nx',
    'fffffffffffffffff\r\nx',
    '00000000000000005\r\nhello\r\n',
  ])('%j is broken', (text) => {
    expect(decode(text).event).toBe('broken');
    // Also when the bytes come one by one: nothing of what is broken is waited for.
    const decoder = new BodyDecoder();
    decoder.startChunked(limits);
    const events = Array.from(Buffer.from(text, 'latin1'), (byte) => decoder.next(Buffer.of(byte), 0));
    expect(events.at(-1)).toBe('broken');
  });

  it('may have extensions, but not endless ones', () => {
    expect(decode(`5;${'a'.repeat(900)}\r\nhello\r\n0\r\n\r\n`).event).toBe('end');
    expect(decode(`5;${'a'.repeat(1100)}\r\nhello\r\n0\r\n\r\n`).problem).toBe('chunk-size line over the limit');
    expect(decode(`5;${'a'.repeat(1100)}`).problem).toBe('chunk-size line over the limit');
    expect(decode(`1;${'a'.repeat(500)}\r\nx\r\n`.repeat(100)).problem).toBe('chunk extensions over the limit');
    expect(decode(`${`200;${'a'.repeat(400)}\r\n${'x'.repeat(512)}\r\n`.repeat(200)}0\r\n\r\n`).event).toBe('end');
  });

  it.each([
    'X : y\r\n\r\n',
    'X\r\n\r\n',
    ' X: y\r\n\r\n',
    'X: y\n\r\n',
    'X: a\0b\r\n\r\n',
    'Content-Length: 5\r\n\r\n',
    'transfer-encoding: chunked\r\n\r\n',
    `X: ${'y'.repeat(5000)}\r\n\r\n`,
    'X: y\r\n'.repeat(30) + '\r\n',
    `${'X: y\r\n'.repeat(2000)}`,
  ])('may not have trailers like %j', (trailers) => {
    expect(decode(`0\r\n${trailers}`).event).toBe('broken');
  });
});

describe('any body', () => {
  it('ends exactly after its length', () => {
    expect(decode('helloNEXT', (decoder) => decoder.startLength(5))).toMatchObject({
      event: 'end',
      body: 'hello',
      rest: 'NEXT',
    });
    expect(decode('NEXT', (decoder) => decoder.startLength(0))).toMatchObject({ event: 'end', body: '', rest: 'NEXT' });
    expect(decode('hel', (decoder) => decoder.startLength(5))).toMatchObject({ event: 'more', body: 'hel' });
  });

  it('counts beyond 4 GiB', () => {
    const decoder = new BodyDecoder();
    decoder.startLength(4294967301);
    const chunk = Buffer.alloc(1024 * 1024);
    for (let i = 0; i < 4096; i++) decoder.next(chunk, 0);
    expect(decoder.remaining).toBe(5);
    decoder.next(Buffer.from('helloNEXT'), 0);
    expect(decoder.data.toString()).toBe('hello');
    expect(decoder.ended).toBe(true);
  });

  it('until close takes everything', () => {
    expect(decode('0\r\n\r\n', (decoder) => decoder.startUntilClose())).toMatchObject({
      event: 'more',
      body: '0\r\n\r\n',
    });
  });

  it('hands a read on without a copy, and lets go of it at the end', () => {
    const decoder = new BodyDecoder();
    decoder.startLength(5);
    const chunk = Buffer.from('hello');
    decoder.next(chunk, 0);
    expect(decoder.data).toBe(chunk);
    expect(decoder.next(Buffer.alloc(0), 0)).toBe('end');
    expect(decoder.data).toHaveLength(0);
  });
});

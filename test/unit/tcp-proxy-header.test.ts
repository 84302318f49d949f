// PROXY protocol headers: what is read from load balancers, what is refused, what backends are told.
import { describe, expect, it, test } from 'vitest';
import { looksProxied, type ProxiedEnds, ProxyHeaderReader, proxyHeader } from '../../src/tcp/proxy-header.ts';

interface Read {
  readonly ends: ProxiedEnds | null;
  readonly rest: string;
}

/** What comes of these bytes, in one piece and byte by byte; a text: why they were refused; null: more are needed. */
function read(input: string | Buffer): Read | string | null {
  const bytes = typeof input === 'string' ? Buffer.from(input, 'latin1') : input;
  const whole = new ProxyHeaderReader().push(bytes);
  const reader = new ProxyHeaderReader();
  let dripped = null;
  let at = 0;
  while (dripped === null && at < bytes.length) dripped = reader.push(bytes.subarray(at, ++at));
  if (whole === null || whole.kind === 'refused') {
    expect(dripped).toEqual(whole);
    return whole === null ? null : whole.detail;
  }
  expect(dripped).toEqual({ kind: 'header', ends: whole.ends, rest: Buffer.alloc(0) });
  expect(bytes.subarray(at)).toEqual(whole.rest);
  return { ends: whole.ends, rest: whole.rest.toString('latin1') };
}

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex');
const signature = '0d0a0d0a000d0a515549540a';
const four = {
  sourceAddress: '9.9.9.9',
  sourcePort: 8080,
  destinationAddress: '127.0.0.1',
  destinationPort: 80,
};

describe('version 1', () => {
  test.each<readonly [string, ProxiedEnds | null]>([
    ['PROXY TCP4 9.9.9.9 127.0.0.1 8080 80\r\n', four],
    [
      'PROXY TCP6 2001:db8:0::1 ::1 1 65535\r\n',
      { sourceAddress: '2001:db8::1', sourcePort: 1, destinationAddress: '::1', destinationPort: 65535 },
    ],
    ['PROXY TCP6 ::ffff:9.9.9.9 ::ffff:127.0.0.1 8080 80\r\n', four],
    ['PROXY UNKNOWN\r\n', null],
    ['PROXY UNKNOWN ffff:f...f:ffff whatever 65535 65535\r\n', null],
  ])('%j', (line, ends) => {
    expect(read(`${line}GET / HTTP/1.1\r\n`)).toEqual({ ends, rest: 'GET / HTTP/1.1\r\n' });
  });

  test.each([
    'PROXY TCP4 9.9.9.9 127.0.0.1 8080\r\n',
    'PROXY TCP4  9.9.9.9 127.0.0.1 8080 80\r\n',
    'PROXY TCP4 9.9.9.9 127.0.0.1 8080 80 \r\n',
    'PROXY TCP4 9.9.9.9 127.0.0.1 08080 80\r\n',
    'PROXY TCP4 9.9.9.9 127.0.0.1 8080 65536\r\n',
    'PROXY TCP4 9.9.9.9 127.0.0.1 -1 80\r\n',
    'PROXY TCP4 ::1 ::1 1 2\r\n',
    'PROXY TCP6 9.9.9.9 127.0.0.1 1 2\r\n',
    'PROXY TCP4 9.9.9.999 127.0.0.1 1 2\r\n',
    'PROXY TCP5 9.9.9.9 127.0.0.1 1 2\r\n',
    'PROXY UDP4 9.9.9.9 127.0.0.1 1 2\r\n',
    'PROXY UNKNOWNS\r\n',
    'PROXY \r\n',
    'PROXY TCP4 9.9.9.9 127.0.0.1 8080 80\n\r\n',
  ])('%j is refused', (line) => {
    expect(read(`${line}GET / HTTP/1.1\r\n`)).toMatch(
      /^a (malformed version 1 header|version 1 header with a malformed port)$/,
    );
  });

  it('a line of 107 bytes is the longest', () => {
    const line = (length: number): string => `PROXY UNKNOWN ${'x'.repeat(length - 16)}\r\n`;
    expect(line(107)).toHaveLength(107);
    expect(read(line(107))).toEqual({ ends: null, rest: '' });
    expect(read(line(108))).toBe('a version 1 header longer than 107 bytes');
  });
});

describe('version 2', () => {
  test.each<readonly [what: string, header: string, ends: ProxiedEnds | null]>([
    // pires/go-proxyproto#12, sozu-proxy/sozu#1334, haproxy/haproxy#511
    ['LOCAL, whose addresses mean nothing', '20 11 000c 09090909 7f000001 1f90 0050', null],
    ['LOCAL without addresses', '20 00 0000', null],
    ['TCP over IPv4', '21 11 000c 09090909 7f000001 1f90 0050', four],
    ['TCP over IPv4 with TLVs', '21 11 0013 09090909 7f000001 1f90 0050 04 0004 deadbeef', four],
    [
      'TCP over IPv6',
      '21 21 0024 20010db8000000000000000000000001 00000000000000000000000000000001 0001 ffff',
      { sourceAddress: '2001:db8::1', sourcePort: 1, destinationAddress: '::1', destinationPort: 65535 },
    ],
    ['IPv4 in IPv6', '21 21 0024 00000000000000000000ffff09090909 00000000000000000000ffff7f000001 1f90 0050', four],
    ['an unspecified family', '21 00 0004 00000000', null],
    ['datagrams, on a stream', '21 12 000c 09090909 7f000001 1f90 0050', null],
    ['a unix socket', `21 31 00d8 ${'00'.repeat(216)}`, null],
  ])('%s', (_, header, ends) => {
    const bytes = Buffer.concat([hex(signature + header), Buffer.from('GET / HTTP/1.1\r\n')]);
    expect(read(bytes)).toEqual({ ends, rest: 'GET / HTTP/1.1\r\n' });
  });

  test.each([
    ['version 1 in a version 2 header', '11 11 000c', 'version and command 0x11'],
    ['an unknown command', '22 11 000c', 'version and command 0x22'],
    ['an unknown family', '21 41 000c', 'address family 0x41'],
    ['an unknown transport', '21 13 000c', 'address family 0x13'],
    ['too little for its addresses', `21 11 000b ${'00'.repeat(11)}`, 'a version 2 header shorter than its addresses'],
    ['IPv4 addresses under IPv6', `21 21 000c ${'00'.repeat(12)}`, 'a version 2 header shorter than its addresses'],
    ['a length that no header has', '21 11 ffff', 'a version 2 header of 65535 bytes'],
  ])('%s is refused', (_, header, why) => {
    expect(read(hex(signature + header))).toBe(why);
  });

  it('is waited for until its length is there', () => {
    expect(read(hex(`${signature} 21 11 000c 09090909 7f000001 1f90 00`))).toBeNull();
  });
});

test.each(['GET / HTTP/1.1\r\n', '\x16\x03\x01', 'PROXx', '\r\n\r\n\0\r\nQUIT\r', 'P\0', 'x'])(
  '%j is no header',
  (text) => {
    expect(read(text)).toBe('no PROXY header');
    expect(looksProxied(Buffer.from(text, 'latin1'))).toBe(false);
  },
);

describe('for backends', () => {
  test.each<readonly [1 | 2, ProxiedEnds]>([
    [1, four],
    [2, four],
    [1, { ...four, sourceAddress: '2001:db8::1', destinationAddress: '::1' }],
    [2, { ...four, sourceAddress: '2001:db8::1', destinationAddress: '::1' }],
    [1, { ...four, sourceAddress: '2001:db8::1' }],
    [2, { ...four, destinationAddress: '2001:db8::1' }],
  ])('version %i of %j reads as it was meant', (version, ends) => {
    expect(read(proxyHeader(version, ends))).toEqual({ ends, rest: '' });
  });

  it('is spelled as the specification has it', () => {
    expect(proxyHeader(1, four).toString('latin1')).toBe('PROXY TCP4 9.9.9.9 127.0.0.1 8080 80\r\n');
    expect(proxyHeader(2, four)).toEqual(hex(`${signature} 21 11 000c 09090909 7f000001 1f90 0050`));
  });
});

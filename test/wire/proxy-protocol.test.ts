// PROXY protocol in front of HTTP and TLS: only listed peers may, and must, send it.
import { describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';

const balancer = '127.0.0.3';
const stranger = '127.0.0.2';

const f = useProxy({ entrypoint: `proxy_protocol_from = ["${balancer}/32"]` });

const get = 'GET /who HTTP/1.1\r\nHost: app1.test\r\nConnection: close\r\n\r\n';
const hex = (text: string): string => Buffer.from(text.replaceAll(' ', ''), 'hex').toString('latin1');
const signature = '0d0a0d0a000d0a515549540a';

const connect = (localAddress: string): Promise<RawClient> => RawClient.connect({ port: f.webPort, localAddress });

/** Refusals for want of a header, in the log. */
const refusals = (): number => f.p.log.filter((line) => line['event'] === 'proxy-header-refused').length;

/** Closed without an answer. */
async function closed(client: RawClient): Promise<void> {
  await client.waitForEnd();
  expect(client.text).toBe('');
}

describe('a listed peer', () => {
  // pires/go-proxyproto#12, sozu-proxy/sozu#1334, haproxy/haproxy#511
  it.each([
    [
      'v2 LOCAL with an address block: its own address counts',
      hex(`${signature} 20 11 000c 09090909 7f000001 1f90 0050`),
      balancer,
    ],
    ['v2 PROXY', hex(`${signature} 21 11 000c 09090909 7f000001 1f90 0050`), '9.9.9.9'],
    ['v2 PROXY with TLVs', hex(`${signature} 21 11 0013 09090909 7f000001 1f90 0050 04 0004 deadbeef`), '9.9.9.9'],
    [
      'v2 PROXY with a TLV that says it is longer than the header',
      hex(`${signature} 21 11 0013 09090909 7f000001 1f90 0050 04 ffff deadbeef`),
      '9.9.9.9',
    ],
    [
      'v2 PROXY with all the TLVs that are allowed',
      hex(`${signature} 21 11 1000 09090909 7f000001 1f90 0050 04 0ff1 ${'41'.repeat(0xff1)}`),
      '9.9.9.9',
    ],
    ['v2 of UNIX sockets: its own address counts', hex(`${signature} 21 31 00d8 ${'2f'.repeat(216)}`), balancer],
    ['v2 of no family: its own address counts', hex(`${signature} 21 00 0000`), balancer],
    ['v1 TCP4', 'PROXY TCP4 9.9.9.9 127.0.0.1 8080 80\r\n', '9.9.9.9'],
    ['v1 TCP6', 'PROXY TCP6 2001:db8::9 ::1 8080 80\r\n', '2001:db8::9'],
    ['v1 UNKNOWN: its own address counts', 'PROXY UNKNOWN\r\n', balancer],
  ])('%s', async (_, header, address) => {
    const client = await connect(balancer);
    const answer = await client.ask(header + get);
    expect(answer.status).toBe(200);
    expect(f.app1.last.values('x-forwarded-for')).toEqual([address]);
    expect(f.app1.last.values('x-real-ip')).toEqual([address]);
    expect(f.app1.last.target).toBe('/who');
  });

  it('one byte per segment', async () => {
    for (const header of [
      'PROXY TCP4 9.9.9.9 127.0.0.1 8080 80\r\n',
      hex(`${signature} 21 11 000c 09090909 7f000001 1f90 0050`),
    ]) {
      const client = await connect(balancer);
      await client.drip(header, 1);
      expect((await client.ask(get)).status).toBe(200);
      expect(f.app1.last.values('x-forwarded-for')).toEqual(['9.9.9.9']);
    }
  });

  it('in front of TLS', async () => {
    const client = await RawClient.connect({
      port: f.securePort,
      localAddress: balancer,
      preface: 'PROXY TCP4 9.9.9.9 127.0.0.1 8080 443\r\n',
      tls: { servername: 'app1.test', ca: f.ca.pem },
    });
    expect((await client.ask(get)).status).toBe(200);
    expect(f.app1.last.values('x-forwarded-for')).toEqual(['9.9.9.9']);
    expect(f.app1.last.values('x-forwarded-proto')).toEqual(['https']);
  });

  // armon/go-proxyproto#9, esl/MongooseIM#4795, kanidm/kanidm#3542
  it.each([
    ['a request without a header', get],
    ['a ClientHello without a header', hex('1603010005 0100000100')],
    ['a line of 108 bytes', `PROXY UNKNOWN ${'x'.repeat(92)}\r\n${get}`],
    ['a malformed line', `PROXY TCP4 9.9.9.9 127.0.0.1 8080\r\n${get}`],
    ['a length that no header has', hex(`${signature} 21 11 ffff`)],
    [
      'more TLVs than are allowed',
      hex(`${signature} 21 11 1001 09090909 7f000001 1f90 0050 04 0ff2 ${'41'.repeat(0xff2)}`),
    ],
    ['addresses shorter than their family', hex(`${signature} 21 21 000c 09090909 7f000001 1f90 0050`) + get],
    ['a family that there is not', hex(`${signature} 21 41 000c 09090909 7f000001 1f90 0050`) + get],
    ['a command that there is not', hex(`${signature} 22 11 000c 09090909 7f000001 1f90 0050`) + get],
    ['a port beyond 65535', `PROXY TCP4 9.9.9.9 127.0.0.1 65536 80\r\n${get}`],
    ['a port that may be octal', `PROXY TCP4 9.9.9.9 127.0.0.1 080 80\r\n${get}`],
    ['an address of the other family', `PROXY TCP4 2001:db8::9 ::1 8080 80\r\n${get}`],
    ['two headers', `PROXY TCP4 9.9.9.9 127.0.0.1 8080 80\nPROXY TCP4 8.8.8.8 127.0.0.1 8080 80\r\n${get}`],
    ['another version', hex(`${signature} 31 11 000c 09090909 7f000001 1f90 0050`) + get],
  ])('%s is closed without an answer, and told once', async (_, bytes) => {
    const before = refusals();
    const client = await connect(balancer);
    client.write(bytes);
    await closed(client);
    expect(f.app1.exchanges).toEqual([]);
    expect(refusals()).toBe(before + 1);
  });
});

describe('anybody else', () => {
  it('is served without a header', async () => {
    const client = await connect(stranger);
    expect((await client.ask(get)).status).toBe(200);
    expect(f.app1.last.values('x-forwarded-for')).toEqual([stranger]);
  });

  it.each([
    ['version 1', 'PROXY TCP4 9.9.9.9 127.0.0.1 8080 80\r\n'],
    ['version 2', hex(`${signature} 21 11 000c 09090909 7f000001 1f90 0050`)],
  ])('cannot choose an address by a header of %s: it is no HTTP', async (_, header) => {
    const client = await connect(stranger);
    expect((await client.ask(header + get)).status).toBe(400);
    expect(f.app1.exchanges).toEqual([]);
  });
});

it('the port of the header is the port that was asked', async () => {
  const client = await connect(balancer);
  const request = 'GET / HTTP/1.1\r\nHost: app1.test:8099\r\n\r\n';
  expect((await client.ask(`PROXY TCP4 9.9.9.9 127.0.0.1 8080 8099\r\n${request}`)).status).toBe(200);
  expect(f.app1.last.values('x-forwarded-port')).toEqual(['8099']);
});

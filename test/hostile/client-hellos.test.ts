// What comes before TLS: hellos that are cut, too long, doubled, of another protocol, and handshakes that go nowhere.
//
// The parser that peeks at a ClientHello sees bytes before any cryptography has had a say: it must be right for everything,
// and cost nothing. CVE-2011-1473 is the renegotiation that makes a server sign again and again; yyyar/gobetween and
// dlundquist/sniproxy had readers that waited for ever, or read past the end.
import { spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { connect as connectTcp } from 'node:net';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import { residentSize } from '../support/turnpike.ts';
import { sleep, until, within } from '../support/wait.ts';
import { othersAreServed } from './support/provoke.ts';

const f = useProxy({ workers: 1, limits: 'tls_handshake_timeout = "1s"' });

let genuine: Buffer;

/** The ClientHello that node:tls sends, taken off the wire. */
beforeAll(async () => {
  const { createServer } = await import('node:net');
  const { connect } = await import('node:tls');
  genuine = await new Promise<Buffer>((resolve) => {
    const server = createServer((socket) => {
      socket.once('data', (bytes: Buffer) => {
        socket.destroy();
        server.close();
        resolve(bytes);
      });
    });
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      connect({ port, servername: 'app1.test', ALPNProtocols: ['h2', 'http/1.1'] }).on('error', () => {});
    });
  });
});

const record = (payload: Buffer, type = 22, version = 0x0301): Buffer => {
  const head = Buffer.alloc(5);
  head[0] = type;
  head.writeUInt16BE(version, 1);
  head.writeUInt16BE(payload.length, 3);
  return Buffer.concat([head, payload]);
};

/** Everything the proxy says to these bytes until it ends the connection. */
async function said(bytes: Buffer | readonly Buffer[], timeoutMs = 5000): Promise<Buffer> {
  const client = await RawClient.connect({ port: f.securePort });
  for (const part of Array.isArray(bytes) ? (bytes as readonly Buffer[]) : [bytes as Buffer]) client.write(part);
  await client.waitForEnd(timeoutMs);
  client.destroy();
  return client.received;
}

function change(at: number, value: number): Buffer {
  const changed = Buffer.from(genuine);
  changed[at] = value;
  return changed;
}

describe('a ClientHello', () => {
  it.each([
    ['that is none: an alert', () => record(Buffer.of(2, 40), 21)],
    ['that is none: application data', () => record(Buffer.from('hello'), 23)],
    ['that is none: another handshake message', () => record(Buffer.of(2, 0, 0, 0))],
    ['of SSL 2', () => Buffer.from([0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10])],
    ['in an empty record', () => record(Buffer.alloc(0))],
    ['in a record that is too long', () => Buffer.concat([Buffer.of(22, 3, 1, 0x40, 0x01), Buffer.alloc(0x4001)])],
    ['of 16 MiB', () => record(Buffer.of(1, 0xff, 0xff, 0xff))],
    ['longer than it says', () => record(Buffer.concat([genuine.subarray(5), Buffer.from('more')]))],
    ['twice in one record', () => record(Buffer.concat([genuine.subarray(5), genuine.subarray(5)]))],
    ['with a session id of 255', () => change(43, 255)],
    ['with another record inside', () => Buffer.concat([record(genuine.subarray(5, 50)), record(Buffer.of(1, 0), 21)])],
    [
      'without cipher suites',
      () => record(Buffer.concat([Buffer.of(1, 0, 0, 38, 3, 3), Buffer.alloc(33), Buffer.of(0, 0, 1, 0)])),
    ],
    ['that ends in its random', () => record(Buffer.concat([Buffer.of(1, 0, 0, 20, 3, 3), Buffer.alloc(18)]))],
    [
      'of 15 000 records',
      () => Buffer.concat(Array.from({ length: 30_000 }, (_each, i) => record(Buffer.of(i === 0 ? 1 : 0)))),
    ],
  ])('%s gets an alert, at once', async (_name, bytes) => {
    const answer = await said(bytes());
    // Record type alert, fatal.
    expect([...answer.subarray(0, 1), ...answer.subarray(5, 6)]).toEqual([21, 2]);
  });

  it.each([
    'GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n',
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
    'POST /smuggled HTTP/1.1\r\n\r\n',
  ])('that is HTTP instead gets a sentence, and no request is read: %j', async (text) => {
    expect((await said(Buffer.from(text))).toString('latin1')).toMatch(/^HTTP\/1\.1 400 [\s\S]*TLS/);
    expect(f.app1.exchanges).toEqual([]);
  });

  it.each(['\0', '\x04\x01\0\x50', '\x05\x01\0', 'SSH-2.0-x\r\n', '\r\n\r\n', 'PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n'])(
    'that is something else gets an alert or a sentence, and never a backend: %j',
    async (text) => {
      await said(Buffer.from(text, 'latin1'));
      expect(f.app1.exchanges).toEqual([]);
    },
  );

  it('cut at any byte is waited for, within the limit', async () => {
    const cuts = Array.from({ length: 40 }, (_each, i) => Math.floor((i * (genuine.length - 1)) / 40));
    const answers = await Promise.all(cuts.map((at) => said(genuine.subarray(0, at))));
    expect(answers.every((answer) => answer.length === 0)).toBe(true);
  });

  it('changed at random never ends the process, nor reaches a backend', { timeout: 60_000 }, async () => {
    const [pid] = await f.p.workerPids();
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(genuine.length - 1), fc.nat(255)), { minLength: 1, maxLength: 4 }),
        fc.array(fc.nat(genuine.length), { maxLength: 3 }),
        async (changes, splits) => {
          const bytes = Buffer.from(genuine);
          for (const [at, value] of changes) bytes[at] = value;
          const socket = connectTcp({ port: f.securePort });
          socket.on('error', () => {});
          let at = 0;
          for (const split of [...splits].sort((a, b) => a - b)) {
            socket.write(bytes.subarray(at, split));
            at = split;
            await sleep(0);
          }
          socket.end(bytes.subarray(at));
          socket.resume();
          await within(3000, 'the end', new Promise((resolve) => socket.once('close', resolve)));
        },
      ),
      { numRuns: 150, seed: 8446 },
    );
    expect(await f.p.workerPids()).toEqual([pid]);
    expect(f.app1.exchanges).toEqual([]);
  });
});

describe('a handshake', () => {
  it('that stops behind a whole ClientHello is cut off', async () => {
    const answers = await Promise.all(Array.from({ length: 30 }, () => said(genuine)));
    // The server's part of it was sent, and nothing came.
    expect(answers.every((answer) => answer[0] === 22)).toBe(true);
  });

  it('that is followed by garbage ends', async () => {
    const [answer] = await Promise.all([said([genuine, Buffer.alloc(2000, 0x41)])]);
    expect(answer[0]).toBe(22);
  });

  it('is not renegotiated', async () => {
    const client = spawn('openssl', [
      ...[
        's_client',
        '-connect',
        `127.0.0.1:${f.securePort}`,
        '-servername',
        'app1.test',
        '-tls1_2',
        '-legacy_renegotiation',
      ],
    ]);
    let output = '';
    for (const stream of [client.stdout, client.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const closed = new Promise<void>((resolve) => client.once('close', () => resolve()));
    await until('the handshake', () => output.includes('Verify return code'));
    // `R` at the start of a line asks for it.
    for (let i = 0; i < 10; i++) {
      client.stdin.write('R\n');
      await sleep(20);
    }
    await until('the refusal', () => /renegotiat|alert|error|closed/i.test(output.split('RENEGOTIATING')[1] ?? ''), {
      seen: () => output.slice(-300),
    });
    client.kill();
    await closed;
    expect(output).not.toMatch(/RENEGOTIATING[\s\S]*depth=0[\s\S]*RENEGOTIATING[\s\S]*depth=0/);
  });

  // The renegotiation of TLS 1.3: each asks for new keys and for an answer with new ones.
  it('may be followed by any number of KeyUpdates, which hold up nobody else', async () => {
    const client = spawn('openssl', [
      ...['s_client', '-connect', `127.0.0.1:${f.securePort}`, '-servername', 'app1.test', '-tls1_3'],
    ]);
    let output = '';
    for (const stream of [client.stdout, client.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const closed = new Promise<void>((resolve) => client.once('close', () => resolve()));
    client.stdin.on('error', () => {});
    await until('the handshake', () => output.includes('Verify return code'));
    const [pid = 0] = await f.p.workerPids();
    const before = residentSize(pid);
    // `K` at the start of a line; one line a read.
    for (let i = 0; i < 500; i++) {
      client.stdin.write('K\n');
      await sleep(1);
    }
    expect(output).toContain('KEYUPDATE');
    await othersAreServed(f);
    expect(residentSize(pid) - before).toBeLessThan(32 * 1024 * 1024);
    client.kill();
    await closed;
  });

  it('by the hundred, cut off anywhere, leaves nothing behind', async () => {
    const sockets: Socket[] = [];
    for (let i = 0; i < 200; i++) {
      const socket = connectTcp({ port: f.securePort });
      socket.on('error', () => {});
      socket.resume();
      socket.write(genuine.subarray(0, (i * 37) % (genuine.length + 1)));
      sockets.push(socket);
      if (i % 20 === 0) await sleep(0);
    }
    for (const [i, socket] of sockets.entries()) {
      if (i % 2 === 0) socket.destroy();
      else socket.resetAndDestroy();
    }
    await until('the connections to be gone', async () =>
      /^turnpike_entrypoint_connections\{entrypoint="websecure"\} 0$/m.test(await f.p.metrics()),
    );
  });
});

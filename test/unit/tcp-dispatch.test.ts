// smart_tcp and tls_mux over real sockets: who gets a connection, that every byte of it gets there, and what is counted.
import { once } from 'node:events';
import { connect as connectH2 } from 'node:http2';
import { connect as connectTls, createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import type { CertificatesPart, Entrypoint, Host, RoutingPart, Service, TlsRouter } from '../../src/model/snapshot.ts';
import { entrypoint, host, networkService, noRouters, route, routing } from '../support/routing.ts';
import { sleep, until } from '../support/wait.ts';
import { DataPlane, type End, type PlaneOptions, type TestBackend } from './tcp-kit.ts';
import { ca, certificateOf, mint } from './tls-kit.ts';
import { HandClock } from './upstream-kit.ts';

let plane: DataPlane;
let port: number;

afterEach(() => plane.close());

function start(options: PlaneOptions = {}): void {
  plane = new DataPlane(options);
  port = plane.lend();
}

const site = mint('app.test');
const certificates: CertificatesPart = { certificates: [site], defaultId: null, internalCa: false, pending: [] };

/** Answers with the facts that it was asked under. */
function app(pattern: string): Host {
  const action = { kind: 'respond', status: 200, headers: [], body: `app ${pattern}` } as const;
  return host(pattern, [route(pattern, '', { action })], { entrypoints: ['edge'] });
}

interface Declared {
  readonly protocol?: Entrypoint['protocol'];
  readonly over?: Partial<Entrypoint>;
  readonly services?: readonly Service[];
  readonly passing?: readonly Pick<TlsRouter, 'service' | 'names'>[];
  readonly hosts?: readonly Host[];
}

function part({
  protocol = 'smart_tcp',
  over = {},
  services = [],
  passing = [],
  hosts = [app('app.test')],
}: Declared): RoutingPart {
  return routing({
    entrypoints: [entrypoint('edge', { port, protocol, ...over })],
    hosts,
    services,
    routers: { ...noRouters, tls: passing.map((each) => ({ ...each, entrypoint: 'edge', origin: 'test' })) },
  });
}

const publish = (declared: Declared): void => plane.publish(part(declared), { certificates });

const raw = (backend: TestBackend, trustedCidrs: readonly string[] | null = null): Declared => ({
  over: { rawFallback: { service: 'raw', trustedCidrs } },
  services: [networkService('raw', 1, [backend.address])],
});

const refused = (reason: string): number => plane.metric('entrypoint_refused_total', { entrypoint: 'edge', reason });
const spoken = (protocol: string): number =>
  plane.metric('entrypoint_protocols_total', { entrypoint: 'edge', protocol });

async function secure(servername: string, options: object = {}): Promise<TLSSocket> {
  const socket = connectTls({
    port,
    host: '127.0.0.1',
    servername,
    ca: ca.cert,
    ALPNProtocols: ['http/1.1'],
    ...options,
  });
  const end = plane.end(socket);
  await until('a handshake', () => socket.getFinished() !== undefined || end.closed !== null);
  return socket;
}

/** A TLS server behind a raw backend: what it speaks passes us unopened. */
async function tlsBackend(name: string): Promise<TestBackend & { readonly names: string[] }> {
  const pair = ca.leaf({ names: [name] });
  const names: string[] = [];
  const inner = createTlsServer({ key: pair.key, cert: pair.cert }, (socket) => {
    names.push(socket.servername || '');
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => socket.write(`${name} heard ${chunk}`));
  });
  const backend = await plane.backend((end) => {
    end.socket.removeAllListeners('data');
    inner.emit('connection', end.socket);
  });
  return { ...backend, names };
}

const get = 'GET / HTTP/1.1\r\nHost: app.test\r\n\r\n';

describe('one port for all', () => {
  it('takes HTTP/1.1, HTTP/2 with prior knowledge, TLS that ends here, TLS that passes and raw bytes', async () => {
    start();
    const rawBackend = await plane.backend((end) => end.send('raw!'));
    const db = await tlsBackend('db.test');
    const { over, services } = raw(rawBackend);
    publish({
      over: over!,
      services: [...services!, networkService('db', 1, [db.address])],
      passing: [{ service: 'db', names: ['db.test'] }],
    });

    const plain = (await plane.client(port)).send(get);
    // `auto` with a certificate at hand: plaintext is sent to https.
    await until('an answer', () => plain.text.includes('308'));

    const session = connectH2(`http://127.0.0.1:${port}`);
    const stream = session.request({ ':path': '/', ':authority': 'app.test' });
    const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
    expect(headers[':status']).toBe(308);
    session.destroy();

    const ended = await secure('app.test');
    ended.write(get);
    const [answer] = (await once(ended, 'data')) as [Buffer];
    expect(answer.toString()).toContain('app app.test');

    const passed = await secure('db.test');
    expect(passed.getPeerCertificate().subject.CN ?? 'db.test').toContain('db.test');
    passed.write('select');
    const [reply] = (await once(passed, 'data')) as [Buffer];
    expect(reply.toString()).toBe('db.test heard select');
    expect(db.names).toEqual(['db.test']);

    const other = (await plane.client(port)).send('SSH-2.0-test\r\n');
    await other.has('raw!');
    expect(rawBackend.ends[0]!.text).toBe('SSH-2.0-test\r\n');

    expect(['http1', 'h2c', 'tls', 'passthrough', 'raw'].map(spoken)).toEqual([1, 1, 1, 1, 1]);
    expect(plane.metric('entrypoint_accepted_total')).toBe(5);
    expect(plane.metric('entrypoint_errors_total')).toBe(0);
  });

  it('tells a client that sends byte by byte the same, and every byte arrives', async () => {
    start();
    const backend = await plane.backend((end) => end.send('ok'));
    publish(raw(backend));
    const drip = async (text: string): Promise<End> => {
      const client = await plane.client(port);
      for (const byte of Buffer.from(text, 'latin1')) {
        client.socket.write(Buffer.of(byte));
        await sleep(1);
      }
      return client;
    };
    const plain = await drip(get);
    await until('an answer', () => plain.text.includes('308'));
    const other = await drip('SSH-2.0-drip\r\nmore\0bytes');
    await other.has('ok');
    await backend.ends[0]!.has('SSH-2.0-drip\r\nmore\0bytes');
  });

  it('passes on an end that follows the first bytes', async () => {
    start();
    const backend = await plane.backend();
    publish(raw(backend));
    const client = (await plane.client(port)).send('hello').fin();
    await until('the backend', () => backend.ends.length === 1);
    await backend.ends[0]!.hasFin();
    expect(backend.ends[0]!.text).toBe('hello');
    backend.ends[0]!.send('bye').fin();
    await client.has('bye');
    await client.hasFin();
  });

  it('has nobody for raw bytes unless there is a fallback', async () => {
    start();
    publish({});
    const client = (await plane.client(port)).send('SSH-2.0-x\r\n');
    await client.isShut();
    expect(refused('no-fallback')).toBe(1);
    expect(plane.metric('entrypoint_accepted_total')).toBe(0);
  });

  it('lets only some reach the fallback, whatever they say they are', async () => {
    start();
    const backend = await plane.backend((end) => end.send('in'));
    publish(raw(backend, ['127.0.0.0/30']));
    const spoof = 'X-Forwarded-For: 127.0.0.1\r\n';
    const out = (await plane.client(port, '127.0.0.9')).send(spoof);
    await out.isShut();
    expect(refused('raw-source')).toBe(1);
    expect(backend.ends).toHaveLength(0);
    await (await plane.client(port, '127.0.0.2')).send(spoof).has('in');
    const web = (await plane.client(port, '127.0.0.9')).send(get);
    await until('an answer', () => web.text.includes('308'));
  });

  it('judges the client of a load balancer by its PROXY header, and by nothing behind it', async () => {
    start();
    const backend = await plane.backend((end) => end.send('in'));
    const db = await tlsBackend('db.test');
    const { over, services } = raw(backend, ['192.0.2.0/24']);
    publish({
      over: { ...over, proxyProtocolFrom: ['127.0.0.3/32'] },
      services: [...services!, networkService('db', 1, [db.address])],
      passing: [{ service: 'db', names: ['db.test'] }],
    });
    const header = (source: string): string => `PROXY TCP4 ${source} 192.0.2.1 1234 22\r\n`;
    const through = async (text: string): Promise<End> => (await plane.client(port, '127.0.0.3')).send(text);
    await (await through(`${header('192.0.2.7')}SSH-2.0-x\r\n`)).has('in');
    expect(backend.ends[0]!.text).toBe('SSH-2.0-x\r\n');
    await (await through(`${header('198.51.100.7')}SSH-2.0-x\r\n`)).isShut();
    expect(refused('raw-source')).toBe(1);
    await (await through(header('192.0.2.7') + header('192.0.2.7'))).isShut();
    expect(refused('proxy')).toBe(1);
    await (await through('SSH-2.0-x\r\n')).isShut();
    expect(refused('proxy-expected')).toBe(1);
    expect(backend.ends).toHaveLength(1);
    const web = await through(header('198.51.100.7') + get);
    await until('an answer', () => web.text.includes('308'));
    const balancer = (await through(header('198.51.100.7'))).socket;
    const passed = connectTls({ socket: balancer, servername: 'db.test', ca: ca.cert });
    passed.write('select');
    const [reply] = (await once(passed, 'data')) as [Buffer];
    expect(reply.toString()).toBe('db.test heard select');
    passed.destroy();
  });

  it.each([
    ['a PROXY header of version 1', 'PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\nSSH-2.0-x\r\n', 'proxy'],
    ['a PROXY header of version 2', '\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0cxxxxxxxxxxxxSSH-2.0-x\r\n', 'proxy'],
    ['a target that never ends', `BREW /${'x'.repeat(9000)}`, 'malformed'],
    ['a ClientHello with a record of no bytes', '\x16\x03\x01\0\0', 'malformed'],
    ['a ClientHello that is another message', '\x16\x03\x01\0\x05\x02\0\0\x01\0', 'malformed'],
    ['a ClientHello longer than 64 KiB', '\x16\x03\x01\x01\0\x01\x01\0\x01', 'hello-too-large'],
  ])('refuses %s, and no backend hears of it', async (_, text, reason) => {
    start();
    const backend = await plane.backend();
    publish(raw(backend));
    const client = (await plane.client(port)).send(text);
    await client.hasFin();
    client.fin();
    await client.isClosed();
    expect(refused(reason)).toBe(1);
    expect(backend.ends).toHaveLength(0);
  });

  it('answers broken HTTP with 400, and no backend hears of it', async () => {
    start();
    const backend = await plane.backend();
    publish(raw(backend));
    for (const text of ['GET /\r\n\r\n', 'GET  / HTTP/1.1\r\n\r\n', 'POST / HTTP/1.1\nHost: x\n\n']) {
      const client = (await plane.client(port)).send(text);
      await until('a refusal', () => client.text.startsWith('HTTP/1.1 400'));
    }
    expect(backend.ends).toHaveLength(0);
  });

  it.each([
    ['says nothing', ''],
    ['says too little', 'GE'],
    ['drips a ClientHello', '\x16\x03\x01\x02\0\x01'],
    ['drips a PROXY header', 'PROX'],
  ])('closes a client that %s within 5 seconds', async (_, text) => {
    const clock = new HandClock();
    start({ clock });
    publish({});
    const client = (await plane.client(port)).send(text);
    await until('the connection', () => plane.metric('entrypoint_connections') === 1);
    await sleep(30);
    clock.advance(4800);
    await sleep(30);
    expect(client.finished).toBe(false);
    clock.advance(400);
    await client.isShut();
    expect(refused('sniff-timeout')).toBe(1);
    expect(plane.metric('entrypoint_connections')).toBe(0);
  });

  it('counts who leaves before it is clear what they want', async () => {
    start();
    publish({});
    (await plane.client(port)).fin();
    (await plane.client(port)).send('GE').reset();
    await until('both', () => refused('gone') === 2);
  });

  it('looks at trusted_cidrs before a byte is read', async () => {
    start();
    publish({ over: { trustedCidrs: ['127.0.0.1/32'] } });
    const client = plane.dial(port, '127.0.0.2').send(get);
    await client.isShut();
    expect(client.text).toBe('');
    expect(refused('source')).toBe(1);
  });

  it('holds no more connections than it may, and takes the next one when one is gone', async () => {
    start();
    const backend = await plane.backend((end) => end.send('in'));
    const { over, services } = raw(backend);
    publish({ over: { ...over, maxConnections: 2 }, services: services! });
    const first = (await plane.client(port)).send('a\r\n');
    await first.has('in');
    await (await plane.client(port)).send('b\r\n').has('in');
    await plane.dial(port).isShut();
    expect(refused('limit')).toBe(1);
    first.reset();
    await until('room', () => plane.metric('entrypoint_connections') === 1);
    await (await plane.client(port)).send('c\r\n').has('in');
  });
});

describe('names that pass unopened', () => {
  it('exact before wildcard, one label, in any spelling; the others end here', async () => {
    start();
    const exact = await tlsBackend('db.test');
    const wild = await tlsBackend('any.test');
    publish({
      protocol: 'tls_mux',
      services: [networkService('exact', 1, [exact.address]), networkService('wild', 1, [wild.address])],
      passing: [
        { service: 'exact', names: ['db.test'] },
        { service: 'wild', names: ['*.test'] },
      ],
      hosts: [],
    });
    const loose = { rejectUnauthorized: false };
    for (const name of ['db.test', 'DB.Test', 'db.test.']) await secure(name, loose);
    await until('three', () => exact.names.length === 3);
    await secure('other.test', loose);
    await until('one', () => wild.names.length === 1);
    const deeper = await secure('a.other.test', loose);
    expect(deeper.destroyed).toBe(true);
    expect([exact.names.length, wild.names.length]).toEqual([3, 1]);
  });

  it('with a ClientHello over many records and packets', async () => {
    start();
    const db = await tlsBackend('db.test');
    publish({
      protocol: 'tls_mux',
      services: [networkService('db', 1, [db.address])],
      passing: [{ service: 'db', names: ['db.test'] }],
    });
    // A ClientHello as node:tls makes it, cut into records of 7 bytes, sent byte by byte.
    const recorded = await plane.backend();
    connectTls({ port: recorded.port, servername: 'db.test' }).on('error', () => {});
    await until('a ClientHello', () => (recorded.ends[0]?.size ?? 0) > 100);
    const hello = recorded.ends[0]!.bytes.subarray(5);
    recorded.ends[0]!.reset();
    const records: Buffer[] = [];
    for (let at = 0; at < hello.length; at += 7) {
      const piece = hello.subarray(at, at + 7);
      records.push(Buffer.of(22, 3, 1, 0, piece.length), piece);
    }
    const client = await plane.client(port);
    const wire = Buffer.concat(records);
    for (let at = 0; at < wire.length; at += 11) {
      client.socket.write(wire.subarray(at, at + 11));
      if (at % 110 === 0) await sleep(1);
    }
    await until('the handshake to reach the backend', () => db.ends.length === 1);
    // A ServerHello, or an alert about odd records: either way the backend's own TLS spoke.
    await client.hasSize(7);
    expect(spoken('passthrough')).toBe(1);
  });

  it('pass clients too old for us, whose TLS is not ours to judge', async () => {
    start();
    const backend = await plane.backend();
    publish({
      protocol: 'tls_mux',
      services: [networkService('db', 1, [backend.address])],
      passing: [{ service: 'db', names: ['db.test'] }],
    });
    const name = Buffer.from('db.test');
    const sni = Buffer.concat([Buffer.of(0, 0, 0, name.length + 5, 0, name.length + 3, 0, 0, name.length), name]);
    const body = Buffer.concat([
      Buffer.of(3, 1),
      Buffer.alloc(32, 7),
      Buffer.of(0, 0, 2, 0, 0x2f, 1, 0),
      Buffer.of(0, sni.length),
      sni,
    ]);
    const message = Buffer.concat([Buffer.of(1, 0, 0, body.length), body]);
    const hello = Buffer.concat([Buffer.of(22, 3, 1, 0, message.length), message]);
    (await plane.client(port)).send(hello);
    await until('the backend', () => backend.ends.length === 1);
    await backend.ends[0]!.hasSize(hello.length);
    expect(backend.ends[0]!.bytes).toEqual(hello);
  });

  it('a client that names nobody is served here, by the default certificate', async () => {
    start();
    const db = await tlsBackend('db.test');
    const declared = part({
      protocol: 'tls_mux',
      services: [networkService('db', 1, [db.address])],
      passing: [{ service: 'db', names: ['db.test', '*.test'] }],
    });
    plane.publish(declared, { certificates: { ...certificates, defaultId: site.id } });
    const client = await secure('', { servername: undefined, checkServerIdentity: () => undefined });
    client.write(get);
    const [answer] = (await once(client, 'data')) as [Buffer];
    expect(answer.toString()).toContain('app app.test');
    expect(db.ends).toHaveLength(0);
  });

  it('a tls_mux takes no plaintext', async () => {
    start();
    publish({ protocol: 'tls_mux' });
    const client = (await plane.client(port)).send(get);
    await until('a refusal', () => client.text.startsWith('HTTP/1.1 400'));
    expect(refused('tls')).toBe(1);
  });

  it('a backend that refuses closes the client and counts an error', async () => {
    start();
    publish({
      protocol: 'tls_mux',
      services: [networkService('db', 1, ['127.0.0.1:1'])],
      passing: [{ service: 'db', names: ['db.test'] }],
    });
    const client = await secure('db.test');
    expect(client.destroyed).toBe(true);
    await until('the count', () => plane.metric('entrypoint_errors_total') === 1);
    expect((await plane.log(1))[0]).toMatchObject({ service: 'db', server_name: 'db.test', reason: 'upstream-failed' });
  });
});

describe('a reload', () => {
  it('that narrows who may reach the fallback closes the others at once, and nobody else', async () => {
    start();
    const backend = await plane.backend((end) => end.send('in'));
    publish(raw(backend));
    const stays = (await plane.client(port, '127.0.0.2')).send('a\r\n');
    const goes = (await plane.client(port, '127.0.0.9')).send('b\r\n');
    await stays.has('in');
    await goes.has('in');
    const web = await plane.client(port, '127.0.0.9');
    web.send(get);
    await until('an answer', () => web.text.includes('308'));
    publish(raw(backend, ['127.0.0.2/32']));
    expect(await goes.isClosed()).toBe('ECONNRESET');
    expect(stays.closed).toBeNull();
    stays.send('x');
    await until('x', () => backend.ends.some((end) => end.text.endsWith('x')));
    web.send(get);
    await until('another answer', () => web.text.split('308').length === 3);
    expect((await plane.log(3)).some((line) => line['reason'] === 'not-admitted')).toBe(true);
    publish({ services: raw(backend).services! });
    expect(await stays.isClosed()).toBe('ECONNRESET');
  });

  it('that narrows trusted_cidrs closes tunnels of peers that may not be here any more', async () => {
    start();
    const backend = await plane.backend((end) => end.send('in'));
    publish(raw(backend));
    const stays = (await plane.client(port, '127.0.0.2')).send('a\r\n');
    const goes = (await plane.client(port, '127.0.0.9')).send('b\r\n');
    await stays.has('in');
    await goes.has('in');
    const { over, services } = raw(backend);
    publish({ over: { ...over, trustedCidrs: ['127.0.0.0/30'] }, services: services! });
    expect(await goes.isClosed()).toBe('ECONNRESET');
    stays.send('x');
    await until('x', () => backend.ends.some((end) => end.text.endsWith('x')));
  });

  it('that sends a name elsewhere leaves its tunnels their time, and new ones go the new way', async () => {
    const clock = new HandClock();
    start({ clock });
    const before = await tlsBackend('before.test');
    const after = await tlsBackend('after.test');
    const both = [
      networkService('before', 1, [before.address], { streamDrainMs: 60_000 }),
      networkService('after', 1, [after.address]),
    ];
    const loose = { rejectUnauthorized: false };
    publish({ protocol: 'tls_mux', services: both, passing: [{ service: 'before', names: ['db.test'] }] });
    const old = await secure('db.test', loose);
    publish({ protocol: 'tls_mux', services: both, passing: [{ service: 'after', names: ['db.test'] }] });
    const fresh = await secure('db.test', loose);
    for (const [socket, who] of [
      [old, 'before'],
      [fresh, 'after'],
    ] as const) {
      socket.write('?');
      const [text] = (await once(socket, 'data')) as [Buffer];
      expect(text.toString()).toBe(`${who}.test heard ?`);
    }
    clock.advance(59_000);
    expect(old.destroyed).toBe(false);
    clock.advance(1100);
    await until('the old one to end', () => old.destroyed);
    expect(fresh.destroyed).toBe(false);
    const ends = await plane.log(1);
    expect(ends[0]).toMatchObject({ service: 'before', reason: 'drained' });
  });
});

describe('TLS that ends here for a tunnel', () => {
  const terminated = (backend: TestBackend, names: readonly string[] = []): RoutingPart =>
    routing({
      entrypoints: [entrypoint('edge', { port, protocol: 'tcp' })],
      services: [networkService('db', 1, [backend.address])],
      routers: { ...noRouters, tcp: [{ entrypoint: 'edge', service: 'db', terminate: { names }, origin: 'test' }] },
    });

  it('the backend gets what was inside, and answers after the client has ended', async () => {
    start();
    const backend = await plane.backend();
    plane.publish(terminated(backend), { certificates });
    const client = await secure('app.test', { ALPNProtocols: ['postgresql'] });
    const end = plane.end(client);
    client.allowHalfOpen = true;
    client.write('query');
    await until('the backend', () => backend.ends.length === 1);
    const server = backend.ends[0]!;
    await server.has('query');
    expect(client.alpnProtocol).toBe(false);
    client.end();
    await server.hasFin();
    server.send('rows').fin();
    await end.has('rows');
    await end.hasFin();
    expect((await plane.log(1))[0]).toMatchObject({
      tls: 'TLSv1.3',
      server_name: 'app.test',
      reason: 'ended',
      bytes_in: 5,
    });
    expect(spoken('tls')).toBe(1);
  });

  it('a reset of the backend ends it', async () => {
    start();
    const backend = await plane.backend();
    plane.publish(terminated(backend), { certificates });
    const client = await secure('app.test');
    await until('the backend', () => backend.ends.length === 1);
    backend.ends[0]!.reset();
    await until('the end', () => client.destroyed);
  });

  it('only the names of its router may be asked for', async () => {
    start();
    const backend = await plane.backend();
    const other = mint('other.test');
    const part = terminated(backend, ['app.test']);
    plane.publish(part, { certificates: { ...certificates, certificates: [site, other] } });
    const client = plane.end(connectTls({ port, host: '127.0.0.1', servername: 'other.test', ca: ca.cert }));
    expect(await client.isClosed()).toBe('ERR_SSL_TLSV1_UNRECOGNIZED_NAME');
    expect(backend.ends).toHaveLength(0);
    expect(refused('tls')).toBe(1);
    await secure('app.test');
    await until('the backend', () => backend.ends.length === 1);
  });

  it('the internal CA signs for the names of the router, and a client without a name gets the first of them', async () => {
    const wanted: string[] = [];
    start({
      leafFor: async (name) => {
        wanted.push(name);
        return certificateOf(ca.leaf({ names: [name] }));
      },
    });
    const backend = await plane.backend();
    const internal = { certificates: [], defaultId: null, internalCa: true, pending: [] };
    plane.publish(terminated(backend, ['*.db.test', 'db.test']), { certificates: internal });
    await secure('one.db.test');
    await secure('', { servername: undefined, checkServerIdentity: () => undefined });
    await until('both', () => backend.ends.length === 2);
    expect(wanted).toEqual(['*.db.test', 'db.test']);
  });
});

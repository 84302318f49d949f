// What the data plane makes of challenges: who gets the answer, who goes on to the app, and that nobody else notices.
import { once } from 'node:events';
import { connect as connectH2 } from 'node:http2';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { challengesPart } from '../../src/certificates/acme/presenters.ts';
import { proofFor } from '../../src/certificates/acme/proof.ts';
import { namesOf } from '../../src/certificates/x509.ts';
import type { ChallengesPart, RoutingPart, TcpRouter, TlsRouter } from '../../src/model/snapshot.ts';
import { closeRawClients, RawClient } from '../support/raw-client.ts';
import { Recorder } from '../support/recorder.ts';
import {
  entrypoint,
  host,
  networkService,
  noCertificates,
  noRouters,
  route,
  routing,
  service,
} from '../support/routing.ts';
import { within } from '../support/wait.ts';
import { DataPlane } from '../unit/tcp-kit.ts';
import { ca, mint, readAll } from '../unit/tls-kit.ts';

const token = 'evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr-oA';
const answer = `${token}.9jg46WB3rR_AHD-EBXdN7cBkH1WOu0tA3M9fm21mqTI`;
const path = `/.well-known/acme-challenge/${token}`;

let plane: DataPlane;
let app: Recorder;
let tunnel: Recorder;
let published: RoutingPart;
const ports = { web: 0, secure: 0, mux: 0, smart: 0, tcp: 0 };
const site = mint('app.test', 'plain.test', 'far.test', 'db.test');

beforeAll(async () => {
  plane = new DataPlane();
  for (const name of Object.keys(ports) as (keyof typeof ports)[]) ports[name] = plane.lend();
  app = await Recorder.start({ name: 'app' });
  tunnel = await Recorder.start({ name: 'tunnel', parse: false });
  const tcp: TcpRouter = {
    entrypoint: 'tcp',
    service: 'raw',
    terminate: { names: ['db.test'] },
    origin: 'test',
  };
  const tls: TlsRouter = { entrypoint: 'mux', service: 'raw', names: ['foreign.test'], origin: 'test' };
  const everywhere = ['web', 'secure', 'mux', 'smart'];
  published = routing({
    entrypoints: [
      entrypoint('web', { port: ports.web }),
      entrypoint('secure', { port: ports.secure, protocol: 'https' }),
      entrypoint('mux', { port: ports.mux, protocol: 'tls_mux' }),
      entrypoint('smart', { port: ports.smart, protocol: 'smart_tcp' }),
      entrypoint('tcp', { port: ports.tcp, protocol: 'tcp' }),
    ],
    hosts: [
      host('app.test', [route('app.test', 'app')], { entrypoints: everywhere, tls: 'always' }),
      host('plain.test', [route('plain.test', 'app')], { entrypoints: everywhere, tls: 'never' }),
      host('far.test', [route('far.test', 'app')], { entrypoints: ['secure'] }),
    ],
    services: [service('app', 1, [app.address]), networkService('raw', 1, [tunnel.address])],
    routers: { ...noRouters, tcp: [tcp], tls: [tls] },
  });
});

beforeEach(() => {
  app.reset();
  tunnel.reset();
});

afterAll(async () => {
  closeRawClients();
  await plane.close();
  await app.close();
  await tunnel.close();
});

function publish(challenges: ChallengesPart): void {
  const certificates = { ...noCertificates, certificates: [site] };
  plane.publish(published, { certificates, challenges });
}

describe('http-01', () => {
  const shown = ['app.test', 'plain.test', 'far.test', 'nowhere.test', '192.0.2.1', '[2001:db8::1]'];
  beforeAll(() => publish({ http: shown.map((host) => ({ host, token, answer })), alpn: [] }));

  async function ask(port: number, line: string, hostHeader: string, tls?: string) {
    const secure = tls === undefined ? {} : { tls: { servername: tls, ca: ca.cert } };
    const client = await RawClient.connect({ port, ...secure });
    const [method = ''] = line.split(' ');
    const reply = await client.ask(`${line} HTTP/1.1\r\nHost: ${hostHeader}\r\n\r\n`, { method });
    client.destroy();
    return reply;
  }

  it.each([
    ['although the host is TLS only', 'app.test'],
    ['whatever the spelling of the host', 'APP.test.'],
    ['with the port', 'app.test:80'],
    ['on an entrypoint that does not serve the host', 'far.test'],
    ['for a host that has no route', 'nowhere.test'],
    ['for an address', '192.0.2.1'],
    ['for an IPv6 address', '[2001:DB8:0::1]'],
  ])('is answered %s', async (_what, hostHeader) => {
    const { status, body, lines } = await ask(ports.web, `GET ${path}`, hostHeader);
    expect([status, body.toString(), app.exchanges.length]).toEqual([200, answer, 0]);
    expect(Object.fromEntries(lines)).toMatchObject({ 'Cache-Control': 'no-store' });
  });

  it('is answered without its body to HEAD', async () => {
    const { status, body, lines } = await ask(ports.web, `HEAD ${path}`, 'app.test');
    expect([status, body.length]).toEqual([200, 0]);
    expect(Object.fromEntries(lines)).toMatchObject({ 'Content-Length': String(answer.length) });
  });

  it('is answered on the port for everything, and over TLS where a redirect led there', async () => {
    expect((await ask(ports.smart, `GET ${path}`, 'app.test')).body.toString()).toBe(answer);
    for (const port of [ports.secure, ports.mux, ports.smart]) {
      expect((await ask(port, `GET ${path}`, 'app.test', 'app.test')).body.toString()).toBe(answer);
    }
  });

  it('is answered over HTTP/2', async () => {
    const session = connectH2(`https://app.test:${ports.secure}`, {
      ca: ca.cert,
      lookup: (_name, _options, done) => done(null, [{ address: '127.0.0.1', family: 4 }]),
    });
    const stream = session.request({ ':path': path });
    const [fields] = (await once(stream, 'response')) as [{ ':status': number }];
    const [body] = (await once(stream, 'data')) as [Buffer];
    session.destroy();
    expect([fields[':status'], body.toString(), app.exchanges.length]).toEqual([200, answer, 0]);
  });

  it.each([
    ['another token', `GET ${path}x`],
    ['no token', 'GET /.well-known/acme-challenge/'],
    ['a longer path', `GET ${path}/`],
    ['a query', `GET ${path}?x`],
    ['an escaped spelling', `GET ${path.replace('/e', '/%65')}`],
    ['a doubled slash', `GET /${path}`],
    ['a way around', `GET /x/..${path}`],
    ['upper case', `GET ${path.replace('acme', 'ACME')}`],
    ['another method', `POST ${path}`],
    ['another well-known path', 'GET /.well-known/caldav'],
  ])('goes on as usual for %s: to the app, or where the TLS policy sends it', async (_what, line) => {
    const plain = await ask(ports.web, line, 'plain.test');
    expect([plain.status, plain.body.toString(), app.last.target]).toEqual([200, 'app', line.split(' ')[1]]);
    const always = await ask(ports.web, line, 'app.test');
    expect(always.status).toBe(308);
  });

  it('is not answered for a host that it is not published for', async () => {
    const reply = await ask(ports.web, `GET ${path}`, 'other.test');
    expect(reply.status).toBe(404);
    expect((await ask(ports.web, `GET ${path}`, 'x.app.test')).status).toBe(404);
  });

  it('is counted under its own reason, and not any more when it is withdrawn', async () => {
    const before = plane.metric('http_reasons_total', { reason: 'acme-challenge' });
    await ask(ports.web, `GET ${path}`, 'plain.test');
    publish({ http: [], alpn: [] });
    await ask(ports.web, `GET ${path}`, 'plain.test');
    expect(app.exchanges).toHaveLength(1);
    expect(plane.metric('http_reasons_total', { reason: 'acme-challenge' }) - before).toBe(1);
  });
});

describe('tls-alpn-01', () => {
  const named = ['app.test', 'db.test', 'nowhere.test'];
  beforeAll(() =>
    publish(
      challengesPart([
        ...named.map((name) => proofFor('tls-alpn-01', name, token, answer, Date.now())),
        proofFor('tls-alpn-01', '192.0.2.1', token, answer, Date.now()),
        proofFor('tls-alpn-01', '[2001:db8::1]', token, answer, Date.now()),
      ]),
    ),
  );

  /** A handshake; what the client saw, or the error that it got. */
  function shake(
    port: number,
    servername: string,
    protocols: readonly string[],
    more = {},
  ): Promise<TLSSocket | string> {
    return new Promise((resolve) => {
      const socket = connectTls({
        port,
        host: '127.0.0.1',
        servername,
        ALPNProtocols: [...protocols],
        rejectUnauthorized: false,
        ...more,
      });
      socket.once('secureConnect', () => resolve(socket));
      socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    });
  }

  const acme = ['acme-tls/1'];

  it.each(['secure', 'mux', 'smart', 'tcp'] as const)(
    'is shown on an entrypoint of the kind %s, and that is all',
    async (name) => {
      const before = plane.metric('tls_handshakes_total', { entrypoint: name, result: 'proved' });
      for (const maxVersion of ['TLSv1.2', 'TLSv1.3']) {
        const socket = (await shake(ports[name], name === 'tcp' ? 'db.test' : 'app.test', acme, {
          maxVersion,
        })) as TLSSocket;
        const certificate = socket.getPeerX509Certificate()!;
        expect(socket.alpnProtocol).toBe('acme-tls/1');
        expect(certificate.issuer).toBe(certificate.subject);
        // RFC 8737 §3: the identifier, critical, and the digest in it.
        expect(certificate.raw.includes(Buffer.from('06082b0601050507011f0101ff04220420', 'hex'))).toBe(true);
        socket.write('GET / HTTP/1.1\r\nHost: app.test\r\n\r\n');
        // Long before the time for a handshake is over.
        expect((await within(5000, 'the end', readAll(socket))).toString()).toBe('');
      }
      expect(plane.metric('tls_handshakes_total', { entrypoint: name, result: 'proved' }) - before).toBe(2);
      expect([app.connections.length, tunnel.connections.length]).toEqual([0, 0]);
    },
  );

  it.each([
    ['nowhere.test', ['nowhere.test']],
    ['APP.test', ['app.test']],
    ['1.2.0.192.in-addr.arpa', ['192.0.2.1']],
    ['1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa', ['[2001:db8::1]']],
  ])('is shown for the SNI %s', async (servername, names) => {
    const socket = (await shake(ports.secure, servername, acme)) as TLSSocket;
    expect(namesOf(socket.getPeerX509Certificate()!)).toEqual(names);
    socket.destroy();
  });

  it('is not shown to clients that offer something else besides it, nor to those without it', async () => {
    for (const protocols of [['h2', 'acme-tls/1'], ['acme-tls/1', 'http/1.1'], ['http/1.1'], []]) {
      const socket = (await shake(ports.secure, 'app.test', protocols)) as TLSSocket;
      expect(socket.getPeerX509Certificate()!.subject).toBe('CN=app.test');
      expect(socket.alpnProtocol).not.toBe('acme-tls/1');
      socket.destroy();
    }
  });

  it.each([
    ['https', 'secure', 'plain.test'],
    ['https, a name of nobody', 'secure', 'stranger.test'],
    ['a tunnel whose TLS is ended here', 'tcp', 'other.test'],
  ] as const)('that nobody waits for is refused: %s', async (_what, name, servername) => {
    expect(await shake(ports[name], servername, acme)).toBe('ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL');
    expect(tunnel.connections).toHaveLength(0);
  });

  it('passes unopened to whom its name is passed on to', async () => {
    const pending = shake(ports.mux, 'foreign.test', acme);
    await expect.poll(() => tunnel.connections.length).toBe(1);
    await expect.poll(() => tunnel.connections[0]!.raw.includes('foreign.test')).toBe(true);
    expect(tunnel.connections[0]!.raw.includes('acme-tls/1')).toBe(true);
    tunnel.connections[0]!.reset();
    await pending;
  });

  it('is gone when it is withdrawn', async () => {
    publish({ http: [], alpn: [] });
    expect(await shake(ports.secure, 'app.test', acme)).toBe('ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL');
  });
});

describe('names that nobody configured', () => {
  beforeAll(() => publish({ http: [{ host: 'app.test', token, answer }], alpn: [] }));

  it('leave nothing behind, by SNI or by Host, however many there are', async () => {
    const series = (): number => plane.metrics.collect().reduce((sum, { values }) => sum + values.length, 0);
    const client = await RawClient.connect({ port: ports.web });
    await client.ask(`GET ${path} HTTP/1.1\r\nHost: warm-up.test\r\n\r\n`);
    const before = series();
    for (let i = 0; i < 300; i++) {
      const { status } = await client.ask(`GET ${path} HTTP/1.1\r\nHost: n${i}.evil.test\r\n\r\n`);
      expect(status).toBe(404);
    }
    client.destroy();
    for (let i = 0; i < 50; i++) {
      const socket = connectTls({ port: ports.secure, servername: `n${i}.evil.test`, ALPNProtocols: ['acme-tls/1'] });
      const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException];
      expect(error.code).toBe('ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL');
    }
    expect(series()).toBeLessThanOrEqual(before + 1);
  });
});

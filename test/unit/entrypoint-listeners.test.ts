import { once } from 'node:events';
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { afterEach, describe, expect, it } from 'vitest';
import { ConnectionCaps, shareOf } from '../../src/entrypoint/connection-caps.ts';
import { type App, Edge, limits, onPort } from './entrypoint-kit.ts';
import { ca, mint, secured } from './tls-kit.ts';

const open: Edge[] = [];
afterEach(async () => {
  for (const edge of open.splice(0)) await edge.close();
});

function newEdge(app?: App, workers?: number): Edge {
  const edge = new Edge(app, workers);
  open.push(edge);
  return edge;
}

/** Answers that are given when the test says so. */
function gate() {
  const waiting: (() => void)[] = [];
  const app: App = (target) =>
    target.startsWith('/wait') ? new Promise((resolve) => waiting.push(() => resolve(target))) : target;
  return {
    app,
    waiting,
    release: () => {
      for (const answer of waiting.splice(0)) answer();
    },
  };
}

function refusedOf(edge: Edge, reason: string, entrypoint = 'web'): number {
  return edge.metrics.counter('entrypoint_refused_total', '', ['entrypoint', 'reason']).cell(entrypoint, reason).value;
}

async function refusesConnections(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  const outcome = await Promise.race([
    once(socket, 'connect').then(() => 'connected'),
    new Promise<string>((resolve) =>
      socket.once('error', (error) => resolve(String((error as { code?: string }).code))),
    ),
  ]).catch((error) => String(error.code));
  socket.destroy();
  return outcome === 'ECONNREFUSED';
}

describe('listeners', () => {
  it('accept nothing before the commit that names them', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.entrypoints.prepare(edge.compile({ entrypoints: [onPort(port)] }));
    await delay(50);
    expect(await refusesConnections(port)).toBe(true);
    edge.publish({ entrypoints: [onPort(port)] });
    const client = await edge.client(port);
    client.get('/');
    await client.until(/200 OK/);
  });

  it('are refused in prepare when no socket was lent', () => {
    const edge = newEdge();
    const lent = edge.lend();
    const missing = edge.compile({ entrypoints: [onPort(lent), onPort(1, { name: 'other' })] });
    expect(() => edge.entrypoints.prepare(missing)).toThrow(/no socket was lent for 127\.0\.0\.1:1/);
  });

  it('that were lent and not needed are given back', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.entrypoints.withdraw([`127.0.0.1:${port}`]);
    expect(() => edge.entrypoints.prepare(edge.compile({ entrypoints: [onPort(port)] }))).toThrow(/no socket was lent/);
  });

  it('stay, with their connections, over 100 reloads that change names, limits and neighbours', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port)] });
    const client = await edge.client(port);
    for (let i = 0; i < 100; i++) {
      const neighbour = edge.lend();
      edge.publish({
        entrypoints: [
          onPort(port, { name: `web-${i}`, maxConnections: 10 + i, trustedCidrs: i % 2 === 0 ? [] : ['127.0.0.0/8'] }),
          onPort(neighbour, { name: 'neighbour' }),
        ],
      });
      client.text = '';
      client.get(`/${i}`);
      await client.until(new RegExp(`/${i}$`));
    }
    expect(client.ended).toBe(false);
    expect(edge.entrypoints.stats().map(({ name }) => name)).toEqual(['web-99', 'neighbour']);
  });

  it('take the new limits for requests on old connections', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port)] });
    const client = await edge.client(port);
    client.get(`/${'x'.repeat(500)}`);
    await client.until(/200 OK/);
    edge.publish({ entrypoints: [onPort(port, { limits: { ...limits, targetSize: 100 } })] });
    client.text = '';
    client.get(`/${'x'.repeat(500)}`);
    expect(await client.untilEnd()).toMatch(/^HTTP\/1\.1 414 /);
  });

  it('that are removed accept nothing more and finish what is in work', async () => {
    const { app, release, waiting } = gate();
    const edge = newEdge(app);
    const [kept, removed] = [edge.lend(), edge.lend()];
    edge.publish({ entrypoints: [onPort(kept), onPort(removed, { name: 'old' })] });
    const busy = await edge.client(removed);
    busy.get('/wait');
    await expect.poll(() => waiting.length).toBe(1);
    edge.publish({ entrypoints: [onPort(kept)] });
    expect(await refusesConnections(removed)).toBe(true);
    release();
    const answer = await busy.untilEnd();
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK/);
    expect(answer).toMatch(/^Connection: close\r$/im);
    const client = await edge.client(kept);
    client.get('/');
    await client.until(/200 OK/);
    busy.socket.destroy();
    await expect.poll(() => edge.entrypoints.connections).toBe(1);
    const accepted = edge.metrics.counter('entrypoint_accepted_total', '', ['entrypoint']);
    expect(accepted.collect().values.map(({ labels }) => labels)).toEqual([{ entrypoint: 'web' }]);
  });
});

describe('source policy', () => {
  it('turns strangers away before a byte is read, and counts them', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port, { trustedCidrs: ['127.0.0.2/32'] })] });
    const stranger = await edge.client(port);
    stranger.get('/');
    expect(await stranger.untilEnd()).toBe('');
    const friend = await edge.client(port, '127.0.0.2');
    friend.get('/');
    await friend.until(/200 OK/);
    expect(refusedOf(edge, 'source')).toBe(1);
    expect(edge.entrypoints.stats()).toMatchObject([{ connections: 1, accepted: 1, refused: 1 }]);
  });

  it('that is narrowed closes the peers that no longer belong, at once, and nobody else', async () => {
    const { app, release, waiting } = gate();
    const edge = newEdge(app);
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port)] });
    const clients = await Promise.all(['127.0.0.1', '127.0.0.2', '127.0.0.2'].map((each) => edge.client(port, each)));
    const [idle, stays, busy] = clients as [(typeof clients)[0], (typeof clients)[0], (typeof clients)[0]];
    const gone = await edge.client(port, '127.0.0.3');
    gone.get('/wait');
    busy.get('/wait');
    stays.get('/');
    await expect.poll(() => waiting.length).toBe(2);
    edge.publish({ entrypoints: [onPort(port, { trustedCidrs: ['127.0.0.2/32'] })] });
    await Promise.all([idle.untilEnd(), gone.untilEnd()]);
    release();
    await busy.until(/\/wait$/);
    stays.text = '';
    stays.get('/again');
    await stays.until(/\/again$/);
    expect(gone.text).toBe('');
  });
});

describe('connection limits', () => {
  it('close the one over the limit and count it; a freed slot is usable again', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port, { maxConnections: 2 })] });
    const clients = [await edge.client(port), await edge.client(port)];
    for (const client of clients) {
      client.get('/');
      await client.until(/200 OK/);
    }
    const third = await edge.client(port);
    expect(await third.untilEnd()).toBe('');
    expect(refusedOf(edge, 'limit')).toBe(1);
    clients[0]!.socket.destroy();
    await expect.poll(() => edge.entrypoints.connections).toBe(1);
    const fourth = await edge.client(port);
    fourth.get('/');
    await fourth.until(/200 OK/);
  });

  it('hold for each peer, silent connections and TLS handshakes included', async () => {
    const edge = newEdge();
    const port = edge.lend();
    const secure = onPort(port, { protocol: 'https', limits: { ...limits, connectionsPerPeer: 3 } });
    edge.publish({ entrypoints: [secure] });
    for (let i = 0; i < 3; i++) await edge.client(port);
    await expect.poll(() => edge.entrypoints.connections).toBe(3);
    expect(await (await edge.client(port)).untilEnd()).toBe('');
    expect(refusedOf(edge, 'peer-limit')).toBe(1);
    const other = await edge.client(port, '127.0.0.2');
    await expect.poll(() => edge.entrypoints.connections).toBe(4);
    expect(other.ended).toBe(false);
  });

  it('are shared out over the workers, rounded up', async () => {
    expect([shareOf(10_000, 3), shareOf(1, 4), shareOf(8, 4)]).toEqual([3334, 1, 2]);
    const edge = newEdge(undefined, 4);
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port, { maxConnections: 4 })] });
    await edge.client(port);
    await expect.poll(() => edge.entrypoints.connections).toBe(1);
    expect(await (await edge.client(port)).untilEnd()).toBe('');
  });

  it('forget peers that are gone', () => {
    const caps = new ConnectionCaps(10, 1);
    expect(caps.take('a')).toBeNull();
    expect(caps.take('a')).toBe('peer-limit');
    caps.release('a');
    caps.release('a');
    expect(caps.total).toBe(0);
    expect(caps.take('a')).toBeNull();
    caps.limit(1, 5);
    expect(caps.take('b')).toBe('limit');
  });
});

describe('counters', () => {
  it('tell connections and bytes, TLS ones by what went over the wire', async () => {
    const edge = newEdge();
    const [plain, secure] = [edge.lend(), edge.lend()];
    edge.publish({
      entrypoints: [onPort(plain), onPort(secure, { name: 'secure', protocol: 'https' })],
      hosts: [secured('a.test')],
      parts: { certificates: { certificates: [mint('a.test')], defaultId: null, internalCa: false, pending: [] } },
    });
    const client = await edge.client(plain);
    client.get('/12345');
    await client.until(/12345$/);
    const { bytesWritten } = client.socket;
    client.socket.destroy();
    const tls = connectTls({ port: secure, host: '127.0.0.1', servername: 'a.test', ca: ca.cert });
    await once(tls, 'secureConnect');
    tls.write('GET / HTTP/1.1\r\nHost: a.test\r\n\r\n');
    await once(tls, 'data');
    tls.destroy();
    await expect.poll(() => edge.entrypoints.connections).toBe(0);
    const [web, websecure] = edge.entrypoints.stats();
    expect(web).toMatchObject({ connections: 0, accepted: 1, refused: 0, received: bytesWritten });
    expect(web!.sent).toBe(client.text.length);
    expect(websecure!.received).toBeGreaterThan(500);
    expect(websecure!.sent).toBeGreaterThan(500);
  });
});

describe('a drain', () => {
  it('answers what is in work as the last thing, waits for it, and accepts nothing more', async () => {
    const { app, release, waiting } = gate();
    const edge = newEdge(app);
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port)] });
    const busy = await edge.client(port);
    busy.get('/wait');
    await expect.poll(() => waiting.length).toBe(1);
    let drained = false;
    const drain = edge.entrypoints.drain().then(() => {
      drained = true;
    });
    expect(await refusesConnections(port)).toBe(true);
    expect(drained).toBe(false);
    release();
    expect(await busy.untilEnd()).toMatch(/Connection: close/i);
    busy.socket.destroy();
    await drain;
  });

  it('answers a request that was on its way: on an idle connection, a fresh one, one in its TLS handshake', async () => {
    const edge = newEdge();
    const [port, secure] = [edge.lend(), edge.lend()];
    edge.publish({
      entrypoints: [onPort(port), onPort(secure, { name: 'secure', protocol: 'https' })],
      hosts: [secured('a.test')],
      parts: { certificates: { certificates: [mint('a.test')], defaultId: null, internalCa: false, pending: [] } },
    });
    const idle = await edge.client(port);
    idle.get('/first');
    await idle.until(/\/first$/);
    const fresh = await edge.client(port);
    const shaking = await edge.client(secure);
    await expect.poll(() => edge.entrypoints.connections).toBe(3);
    const drain = edge.entrypoints.drain();
    idle.get('/second');
    fresh.get('/third');
    const tls = connectTls({ socket: shaking.socket, servername: 'a.test', ca: ca.cert });
    await once(tls, 'secureConnect');
    tls.write('GET /fourth HTTP/1.1\r\nHost: a.test\r\n\r\n');
    const [answer] = (await once(tls, 'data')) as [Buffer];
    expect(answer.toString()).toMatch(/Connection: close[\s\S]*\/fourth$/i);
    expect(await idle.untilEnd()).toMatch(/Connection: close[\s\S]*\/second$/i);
    expect(await fresh.untilEnd()).toMatch(/Connection: close[\s\S]*\/third$/i);
    for (const socket of [idle.socket, fresh.socket, tls]) socket.destroy();
    await drain;
  });

  it('closes idle connections after their grace', async () => {
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port)] });
    const idle = await edge.client(port);
    idle.get('/');
    await idle.until(/200 OK/);
    const fresh = await edge.client(port);
    await expect.poll(() => edge.entrypoints.connections).toBe(2);
    const drain = edge.entrypoints.drain();
    await Promise.all([idle.untilEnd(), fresh.untilEnd()]);
    idle.socket.end();
    fresh.socket.end();
    await drain;
  });

  it('tells HTTP/2 clients by GOAWAY and finishes their streams', async () => {
    const { app, release, waiting } = gate();
    const edge = newEdge(app);
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port)] });
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    session.on('error', () => {});
    const stream = session.request({ ':path': '/wait' });
    let text = '';
    stream.on('data', (chunk: Buffer) => {
      text += chunk.toString();
    });
    await expect.poll(() => waiting.length).toBe(1);
    const goaway = once(session, 'goaway');
    const ended = once(stream, 'end');
    const drain = edge.entrypoints.drain();
    await goaway;
    release();
    await ended;
    expect(text).toBe('/wait');
    await drain;
    session.destroy();
  });

  it('of nothing is over at once', async () => {
    await newEdge().entrypoints.drain();
    const edge = newEdge();
    const port = edge.lend();
    edge.publish({ entrypoints: [onPort(port)] });
    await edge.entrypoints.drain();
    expect(await refusesConnections(port)).toBe(true);
  });
});

// The customers of a soak, one function a kind: each does one thing, well-behaved or not, and leaves nothing open.
// Invariant: what a customer that behaves well does not get is thrown; what a bad one suffers is its own business.
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { Agent, type IncomingMessage, type RequestOptions, request as startHttp } from 'node:http';
import { type ClientHttp2Session, connect as connectH2 } from 'node:http2';
import { request as startHttps, Agent as TlsAgent } from 'node:https';
import { connect as connectTcp, type Socket } from 'node:net';
import { WebSocket } from 'ws';

export interface Ports {
  readonly web: number;
  readonly secure: number;
  readonly tcp: number;
  readonly udp: number;
  readonly ca: string;
}

export type Dice = () => number;

export interface Customer {
  readonly kind: string;
  /** Loops of this kind at a time. */
  readonly loops: number;
  visit(dice: Dice): Promise<void>;
  /** Closes what it kept between visits. */
  leave(): void;
}

const nothing = (): void => {};
const host = 'app.test';
const patienceMs = 20_000;

function late(what: string): Promise<never> {
  return new Promise((_resolve, reject) => {
    setTimeout(() => reject(new Error(`${what}: nothing in ${patienceMs} ms`)), patienceMs).unref();
  });
}

const inTime = <T>(what: string, promise: Promise<T>): Promise<T> => Promise.race([promise, late(what)]);

const size = (dice: Dice, most: number): number => Math.floor(dice() ** 3 * most);

type Start = (options: RequestOptions, answered: (response: IncomingMessage) => void) => ReturnType<typeof startHttp>;

/** One request with an agent; `leaves`: breaks off in the middle of the answer. */
function ask(start: Start, options: RequestOptions, leaves: boolean, body: Buffer | null = null): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const outgoing = start(
      { host: '127.0.0.1', ...options, headers: { Host: host, ...options.headers } },
      (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => {
          parts.push(part);
          if (leaves) outgoing.destroy();
        });
        response.on('end', () => {
          if (response.statusCode === 200) resolve(Buffer.concat(parts));
          else reject(new Error(`status ${response.statusCode} for ${options.path}`));
        });
        response.on('error', leaves ? () => resolve(Buffer.alloc(0)) : reject);
      },
    );
    outgoing.on('error', leaves ? () => resolve(Buffer.alloc(0)) : reject);
    outgoing.end(body);
  });
}

export function customers({ web, secure, tcp, udp, ca }: Ports): readonly Customer[] {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const tlsAgent = new TlsAgent({ keepAlive: true, maxSockets: 4, ca, servername: host });
  const overHttp = (path: string, leaves: boolean, own: Agent | false = agent) =>
    ask(startHttp, { port: web, path, agent: own }, leaves);
  const overTls = (path: string, leaves: boolean) =>
    ask(startHttps as Start, { port: secure, path, agent: tlsAgent } as RequestOptions, leaves);

  async function pages(get: (path: string, leaves: boolean) => Promise<Buffer>, dice: Dice): Promise<void> {
    const wanted = size(dice, 300_000);
    const fate = dice();
    if (fate < 0.1) await get(`/?size=${wanted + 200_000}`, true);
    else if (fate < 0.2) await get('/slow', false);
    else if (fate < 0.25) await get('/die?size=1000', false).catch(nothing);
    else {
      const body = await get(`/?size=${wanted}`, false);
      if (body.length !== wanted) throw new Error(`${body.length} of ${wanted} bytes`);
    }
  }

  let session: ClientHttp2Session | null = null;
  const h2Session = (): ClientHttp2Session => {
    if (session === null || session.closed || session.destroyed) {
      session = connectH2(`https://127.0.0.1:${secure}`, { ca, servername: host });
      session.on('error', nothing);
    }
    return session;
  };
  function overH2(on: ClientHttp2Session, path: string, leaves: boolean): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      const stream = on.request({ ':path': path, ':authority': host });
      const parts: Buffer[] = [];
      stream.on('response', (head) => {
        if (head[':status'] !== 200) reject(new Error(`status ${head[':status']} for ${path}`));
      });
      stream.on('data', (part: Buffer) => {
        parts.push(part);
        if (leaves) stream.close(8);
      });
      stream.on('error', leaves ? nothing : reject);
      stream.on('close', () => {
        if (leaves || stream.rstCode === 0) resolve(Buffer.concat(parts));
        else reject(new Error(`reset with ${stream.rstCode}`));
      });
      stream.end();
    });
  }

  const open = async (port: number): Promise<Socket> => {
    const socket = connectTcp({ port, host: '127.0.0.1' });
    await once(socket, 'connect');
    socket.on('error', nothing);
    return socket;
  };

  const kinds: readonly Customer[] = [
    {
      kind: 'h1',
      loops: 3,
      visit: (dice) => pages((path, leaves) => overHttp(path, leaves), dice),
      leave: () => agent.destroy(),
    },
    {
      kind: 'h1, alone',
      loops: 1,
      visit: (dice) => pages((path, leaves) => overHttp(path, leaves, false), dice),
      leave: nothing,
    },
    { kind: 'h1+tls', loops: 2, visit: (dice) => pages(overTls, dice), leave: () => tlsAgent.destroy() },
    {
      kind: 'h2',
      loops: 3,
      async visit(dice) {
        const on = h2Session();
        await pages((path, leaves) => overH2(on, path, leaves), dice).catch((error: unknown) => {
          // Another loop took the connection away meanwhile.
          if (!on.destroyed) throw error;
        });
        if (dice() < 0.01) on.destroy();
      },
      leave: () => session?.destroy(),
    },
    {
      kind: 'websocket',
      loops: 2,
      async visit(dice) {
        const client = new WebSocket(`ws://127.0.0.1:${web}/`, { headers: { Host: host } });
        client.on('error', nothing);
        await once(client, 'open');
        for (let i = 0; i < 3; i++) {
          client.send(Buffer.alloc(size(dice, 20_000) + 1, i));
          await once(client, 'message');
        }
        const closed = once(client, 'close');
        if (dice() < 0.3) client.terminate();
        else client.close();
        await closed;
      },
      leave: nothing,
    },
    {
      kind: 'events',
      loops: 2,
      visit: async (dice) => {
        const leaves = dice() < 0.5;
        const body = await overHttp('/events?size=8', leaves, false);
        if (!leaves && !body.toString().endsWith('data: 7\n\n')) throw new Error('events are missing');
      },
      leave: nothing,
    },
    {
      kind: 'tunnel',
      loops: 2,
      async visit(dice) {
        const socket = await open(tcp);
        const wanted = size(dice, 200_000) + 1;
        if (dice() < 0.3) {
          socket.write('not to the end');
          await once(socket, 'data');
          socket.resetAndDestroy();
          return;
        }
        let seen = 0;
        socket.on('data', (part: Buffer) => {
          seen += part.length;
        });
        socket.end(Buffer.alloc(wanted));
        await once(socket, 'close');
        if (seen !== wanted) throw new Error(`${seen} of ${wanted} bytes came back`);
      },
      leave: nothing,
    },
    {
      kind: 'flow',
      loops: 1,
      async visit() {
        const socket = createSocket('udp4');
        socket.on('error', nothing);
        const reply = once(socket, 'message');
        const send = (): void => socket.send('hello', udp, '127.0.0.1');
        send();
        // Datagrams may be lost: the kernel of a busy machine does.
        const again = setInterval(send, 1000);
        await reply;
        clearInterval(again);
        socket.close();
      },
      leave: nothing,
    },
    {
      kind: 'upload',
      loops: 2,
      async visit(dice) {
        const wanted = size(dice, 500_000);
        if (dice() < 0.2) {
          const socket = await open(web);
          socket.write(`POST /upload HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${wanted + 9}\r\n\r\n`);
          socket.write(Buffer.alloc(wanted), () => socket.resetAndDestroy());
          await once(socket, 'close');
          return;
        }
        const options = { port: web, path: '/upload', method: 'POST', agent };
        const seen = await ask(startHttp, options, false, Buffer.alloc(wanted));
        if (Number(seen) !== wanted) throw new Error(`${seen} of ${wanted} bytes arrived`);
      },
      leave: nothing,
    },
    {
      kind: 'vandal',
      loops: 1,
      async visit(dice) {
        const socket = await open(dice() < 0.5 ? web : secure);
        const closed = once(socket, 'close');
        const ways = [
          () => socket.end('GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'),
          () => socket.end(Buffer.of(0x16, 3, 1, 2, 0, 1)),
          () =>
            socket.write(`GET /?size=3000000 HTTP/1.1\r\nHost: ${host}\r\n\r\n`, () =>
              setTimeout(() => socket.resetAndDestroy(), 5),
            ),
          () => socket.end('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense'),
          () => socket.destroy(),
          () => socket.write('GET / HT', () => socket.resetAndDestroy()),
        ];
        ways[Math.floor(dice() * ways.length)]!();
        socket.resume();
        await closed;
      },
      leave: nothing,
    },
  ];
  return kinds.map((each) => ({ ...each, visit: (dice) => inTime(each.kind, each.visit(dice)) }));
}

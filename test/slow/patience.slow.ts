// What moves is never cut, however long it takes: an upload of 310 seconds, events over ten minutes with long gaps.
//
// node:http ends a request after 300 s (`requestTimeout`), nginx a silent answer after 60 s, load balancers after as much:
// traefik/traefik#10805, basecamp/kamal-proxy#46. There is no limit on the whole time of a request or an answer here.
import { createServer, type Server } from 'node:http';
import { connect as connectH2 } from 'node:http2';
import { type AddressInfo, connect } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { TestCa } from '../support/certificates.ts';
import { freePorts } from '../support/ports.ts';
import { Turnpike } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

const uploadSeconds = 310;
/** Seconds of silence before each event; ten minutes in all. */
const gaps = [0, 55, 65, 130, 170, 180];

let p: Turnpike;
let backend: Server;
let port = 0;
let tlsPort = 0;
const ca = new TestCa('Turnpike slow tests');

beforeAll(async () => {
  backend = createServer({ requestTimeout: 0 }, (incoming, answer) => {
    if (incoming.url === '/events') {
      answer.writeHead(200, { 'Content-Type': 'text/event-stream' });
      const run = async (): Promise<void> => {
        for (const gap of gaps) {
          await sleep(gap * 1000);
          answer.write(`data: after ${gap}\n\n`);
        }
        answer.end();
      };
      void run();
      return;
    }
    let size = 0;
    incoming.on('data', (piece: Buffer) => {
      size += piece.length;
    });
    incoming.on('end', () => answer.end(String(size)));
  });
  await new Promise<void>((resolve) => backend.listen(0, '127.0.0.1', resolve));
  const pair = ca.leaf(['app.test']);
  [port, tlsPort] = (await freePorts(2)) as [number, number];
  p = await Turnpike.start({
    config: `
[entrypoints.web]
address = "127.0.0.1:${port}"
protocol = "http"
[entrypoints.websecure]
address = "127.0.0.1:${tlsPort}"
protocol = "https"
[tls]
redirect = false
[[tls.certificate]]
cert_file = "${pair.certFile}"
key_file = "${pair.keyFile}"
[log]
access = true
format = "json"
[external_routes."app.test"]
to = ["127.0.0.1:${(backend.address() as AddressInfo).port}"]
`,
  });
});

afterAll(async () => {
  await p.stop();
  backend.closeAllConnections();
  backend.close();
});

/** Writes a head, then what `body` writes, and resolves with all that came back by the end. */
function overH1(head: string, body: (write: (text: string) => void) => Promise<void>): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port });
    let text = '';
    socket.setEncoding('latin1');
    socket.on('data', (part: string) => {
      text += part;
    });
    socket.on('error', reject);
    socket.on('end', () => resolve(text));
    socket.write(head);
    body((part) => socket.write(part)).catch(reject);
  });
}

function overH2(headers: Record<string, string>, body: (write: (text: string) => void) => Promise<void>) {
  return new Promise<string>((resolve, reject) => {
    const session = connectH2(`https://127.0.0.1:${tlsPort}`, { servername: 'app.test', ca: ca.pem });
    session.on('error', reject);
    const stream = session.request({ ':authority': 'app.test', ...headers }, { endStream: false });
    let text = '';
    stream.setEncoding('latin1');
    stream.on('data', (part: string) => {
      text += part;
    });
    stream.on('error', reject);
    stream.on('close', () => {
      session.close();
      resolve(text);
    });
    body((part) => stream.write(part)).then(() => stream.end(), reject);
  });
}

const slowly = async (write: (text: string) => void): Promise<void> => {
  for (let i = 0; i < uploadSeconds; i++) {
    write('x');
    await sleep(1000);
  }
};
/** One byte in 50 s: below the idle limit of a body, and no more. */
const haltingly = async (write: (text: string) => void): Promise<void> => {
  for (let i = 0; i < 7; i++) {
    write('x');
    await sleep(50_000);
  }
};
const nothing = async (): Promise<void> => {};
const events = gaps.map((gap) => `data: after ${gap}\n\n`);

it('uploads of five minutes and more, and events over ten, come through whole', async () => {
  const upload = (size: number): string =>
    `POST /upload HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\nContent-Length: ${size}\r\n\r\n`;
  const ask = 'GET /events HTTP/1.1\r\nHost: app.test\r\nConnection: close\r\n\r\n';
  const [steady, halting, h2Steady, h1Events, h2Events] = await Promise.all([
    overH1(upload(uploadSeconds), slowly),
    overH1(upload(7), haltingly),
    overH2({ ':method': 'POST', ':path': '/upload' }, slowly),
    overH1(ask, nothing),
    overH2({ ':path': '/events' }, nothing),
  ]);
  expect(steady).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n\r\n310$/);
  expect(halting).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n\r\n7$/);
  expect(h2Steady).toBe('310');
  for (const event of events) expect(h1Events).toContain(event);
  expect(h1Events.endsWith('\r\n0\r\n\r\n')).toBe(true);
  expect(h2Events).toBe(events.join(''));
  const all = await until('the lines of the log', () => (p.accessLog.length >= 5 ? p.accessLog : null));
  expect(all.map((line) => line['reason'])).toEqual(['served', 'served', 'served', 'served', 'served']);
});

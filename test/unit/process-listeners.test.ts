import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { inheritedSockets, Listeners } from '../../src/process/listeners.ts';
import { freePorts } from '../support/ports.ts';
import { entrypoint } from '../support/routing.ts';

const made: Listeners[] = [];
afterEach(() => {
  for (const listeners of made.splice(0)) listeners.closeAll();
});

function listeners(): Listeners {
  const all = new Listeners(silentLog);
  made.push(all);
  return all;
}

const at = (name: string, host: string, port: number) => entrypoint(name, { host, port });

/** A handle that is held may be listened on, again and again, by whoever it is lent to. */
async function canListen(host: string, port: number): Promise<boolean> {
  const server = createServer();
  server.listen(port, host);
  const [event] = await Promise.race([
    once(server, 'listening').then(() => ['listening']),
    once(server, 'error').then(() => ['error']),
  ]);
  server.close();
  return event === 'listening';
}

test('every address is bound once, whatever the entrypoints are called', async () => {
  const [one, two] = (await freePorts(2)) as [number, number];
  const all = listeners();
  const opened = all.open([at('a', '127.0.0.1', one), at('b', '127.0.0.1', two)]);
  expect(opened.map(({ key }) => key)).toEqual([`tcp 127.0.0.1:${one}`, `tcp 127.0.0.1:${two}`]);
  expect(all.open([at('renamed', '127.0.0.1', one)])).toEqual([]);
  expect(all.unusedBy([at('renamed', '127.0.0.1', one)])).toEqual([`tcp 127.0.0.1:${two}`]);
  all.close([`tcp 127.0.0.1:${two}`]);
  expect(all.held()).toHaveLength(1);
});

test('the wildcard takes both families', async () => {
  const [port] = (await freePorts(1)) as [number];
  const all = listeners();
  all.open([at('web', '', port)]);
  const server = createServer((socket) => socket.end('x'));
  server.listen({ _handle: all.held()[0]!.handle });
  await once(server, 'listening');
  expect((server.address() as AddressInfo).address).toBe('::');
  const { connect } = await import('node:net');
  for (const host of ['127.0.0.1', '::1']) {
    const client = connect(port, host);
    await once(client, 'data');
    client.destroy();
  }
  server.close();
});

test('a port in use is a fault that names the entrypoint and says how to find who has it; nothing stays bound', async () => {
  const [free] = (await freePorts(1)) as [number];
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const all = listeners();
  const open = () => all.open([at('good', '127.0.0.1', free), at('web', '127.0.0.1', port)]);
  expect(open).toThrow(expect.objectContaining({ code: 'bind-failed' }));
  expect(open).toThrow(/entrypoint web \(test entrypoints\.web\) cannot listen on 127\.0\.0\.1:\d+: .*ss -ltnp/);
  expect(all.held()).toEqual([]);
  expect(await canListen('127.0.0.1', free)).toBe(true);
  other.close();
});

test.each([
  ['', '127.0.0.1'],
  ['127.0.0.1', ''],
])(
  'a port of our own that is to go from %j to %j is told apart from a stranger, with the way out',
  async (from, to) => {
    const [port] = (await freePorts(1)) as [number];
    const all = listeners();
    all.open([at('web', from, port)]);
    const worker = createServer().listen({ _handle: all.held()[0]!.handle });
    await once(worker, 'listening');
    const ours = from === '' ? '*' : from;
    expect(() => all.open([at('web', to, port)])).toThrow(
      `this program listens on ${ours}:${port}, and no reload can do both; leave the entrypoint out and reload`,
    );
    expect(all.held()).toHaveLength(1);
    worker.close();
    all.close(all.unusedBy([]));
    expect(all.open([at('web', to, port)])).toHaveLength(1);
  },
);

test('an address of another machine is a clear fault', () => {
  expect(() => listeners().open([at('web', '192.0.2.1', 8080)])).toThrow('no such address');
});

test('sockets of the service manager are for the process they are meant for, and are not handed down', () => {
  const foreign = { LISTEN_PID: '1', LISTEN_FDS: '2', LISTEN_FDNAMES: 'a:b', PATH: '/bin' };
  expect(inheritedSockets(foreign, 4242)).toEqual([]);
  expect(foreign).toEqual({ PATH: '/bin' });
  expect(inheritedSockets({}, 4242)).toEqual([]);
});

test('an inherited socket is used where its address matches', async () => {
  const [port] = (await freePorts(1)) as [number];
  const giver = listeners();
  giver.open([at('given', '127.0.0.1', port)]);
  const inherited = { address: () => ({ address: '127.0.0.1', port }), on() {}, destroy() {} } as unknown as Socket;
  const all = new Listeners(silentLog, [inherited]);
  made.push(all);
  // Bound twice it would fail: the address is taken by what was inherited.
  const [held] = all.open([at('web', '127.0.0.1', port)]);
  expect((held as unknown as { socket: Socket }).socket).toBe(inherited);
});

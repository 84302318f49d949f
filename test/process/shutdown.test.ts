// SIGTERM: everything in work gets its time, everything else goes at once, and it ends when it says.
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { LastingWebSocket } from '../support/generations.ts';
import { H2Connection } from '../support/h2-frames.ts';
import { freePort } from '../support/ports.ts';
import { askOnce, h2To, ProcessKit } from '../support/process-kit.ts';
import { RawClient } from '../support/raw-client.ts';
import { type Exchange, Recorder } from '../support/recorder.ts';
import { Turnpike } from '../support/turnpike.ts';
import { closeUdp, freeUdpPort, UdpBackend, UdpClient } from '../support/udp.ts';
import { sleep, until, within } from '../support/wait.ts';

const kit = new ProcessKit('Shutdown tests');

/** /later answers after a second, /never does not end, everything else is answered at once. */
function script(exchange: Exchange): void {
  if (exchange.target === '/later') {
    setTimeout(() => exchange.ok('later'), 1000);
  } else if (exchange.target === '/never') {
    exchange.send('HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n');
    const timer = setInterval(() => exchange.send('some bytes '), 100);
    exchange.connection.socket.once('close', () => clearInterval(timer));
  } else if (exchange.target === '/events') {
    exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n');
  } else {
    void exchange.whole().then(() => exchange.ok('ok'));
  }
}

describe('SIGTERM', () => {
  // caddyserver/caddy#5471, #4762, cameri/nostream#772: a long WebSocket blocked the end for ever, or was cut off.
  it('ends everything in its way within the limit, with code 0', { timeout: 40_000 }, async () => {
    const app = await Recorder.start();
    app.script = script;
    const drainMs = 4000;
    const { p, target } = await kit.scene({
      limits: 'drain = "4s"\nstream_drain = "4s"',
      more: `[external_routes."still.test"]\nto = ["${app.address}"]\n`,
    });
    const open = async (path: string): Promise<RawClient> => {
      const client = await RawClient.connect({ port: target.plainPort });
      client.write(`GET ${path} HTTP/1.1\r\nHost: still.test\r\n\r\n`);
      return client;
    };
    const idle = await RawClient.connect({ port: target.plainPort });
    await idle.ask('GET / HTTP/1.1\r\nHost: still.test\r\n\r\n');
    const fresh = await RawClient.connect({ port: target.plainPort });
    const idleH2 = await h2To(target, 'still.test');
    const later = await open('/later');
    const never = await open('/never');
    await never.waitForText('some bytes');
    const events = await open('/events');
    await events.waitForText(': hello');
    const socket = await LastingWebSocket.open(target.plainPort, 'app.test');
    expect(await socket.ask()).toBe(1);
    const upload = await RawClient.connect({ port: target.plainPort });
    upload.write('POST /up HTTP/1.1\r\nHost: still.test\r\nContent-Length: 10\r\n\r\nhello');
    await until('the upload to begin', () => app.exchanges.some((each) => each.bodySize === 5));
    const h2 = await h2To(target, 'still.test');
    const streams = ['/later', '/later', '/never'].map((path) =>
      h2.open(H2Connection.request('GET', 'still.test', path)),
    );
    await until('the streams to be in work', () => app.exchanges.length >= 8);
    await until('the second endless answer', () => streams[2]!.size > 0);

    const started = performance.now();
    p.child.kill('SIGTERM');
    const since = (): number => performance.now() - started;

    // At once: nobody new, and who has nothing to do goes.
    await until(
      'new connections to be refused',
      () =>
        RawClient.connect({ port: target.plainPort }).then(
          (client) =>
            client
              .ask('GET / HTTP/1.1\r\nHost: still.test\r\n\r\n')
              .then(() => false)
              .catch(() => true),
          () => true,
        ),
      { timeoutMs: 1000 },
    );
    await idle.waitForEnd(1000);
    await idleH2.waitForEnd(1000);
    expect(idleH2.goaway?.code).toBe(0);
    await until('GOAWAY', () => h2.goaway !== null, { timeoutMs: 1000 });
    await until('the fresh connection to end', () => fresh.ended, { timeoutMs: 3000 });

    // In their time: requests that end before the limit.
    const answer = await later.readAnswer();
    expect(answer.body.toString()).toBe('later');
    expect(answer.lines.find(([name]) => /^connection$/i.test(name))?.[1]).toMatch(/close/i);
    await later.waitForEnd(500);
    for (const stream of streams.slice(0, 2)) {
      const streamed = await stream.answer();
      expect(streamed.body.toString()).toBe('later');
      expect(streamed.complete).toBe(true);
    }
    upload.write('world');
    expect((await upload.readAnswer({ method: 'POST' })).body.toString()).toBe('ok');
    expect(since()).toBeLessThan(drainMs);

    // What lasts goes on until the limit.
    await sleep(Math.max(0, 2500 - since()));
    expect(await socket.ask()).toBe(1);
    expect(never.ended || events.ended || streams[2]!.over).toBe(false);

    // At the limit: WebSockets by a close frame, the rest cut.
    await within(drainMs + 3000, 'the end of the process', p.exited);
    expect(since()).toBeGreaterThan(drainMs - 500);
    expect(since()).toBeLessThan(drainMs + 1500);
    expect(p.exitCode).toBe(0);
    expect(socket.closeCode).toBe(1001);
    expect((await never.readAnswer()).complete).toBe(false);
    expect(events.ended).toBe(true);
    expect(streams[2]!.over).toBe(true);
    expect(p.bugs).toEqual([]);
    await app.close();
  });

  it('lets tunnels and flows that talk go on until the limit, and takes no new ones', async () => {
    const echo = createServer((socket) => socket.on('error', () => {}).pipe(socket)).listen(0, '127.0.0.1');
    await once(echo, 'listening');
    const voice = await UdpBackend.start();
    const [tcpPort, udpPort] = [await freePort(), await freeUdpPort()];
    const config = `
[entrypoints.db]
address = "127.0.0.1:${tcpPort}"
protocol = "tcp"
[entrypoints.games]
address = "127.0.0.1:${udpPort}"
protocol = "udp"
[network_services]
db = { tcp = "127.0.0.1:${(echo.address() as AddressInfo).port}" }
game = { udp = "${voice.address}" }
[[routers.tcp]]
entrypoint = "db"
service = "db"
[[routers.udp]]
entrypoint = "games"
service = "game"
[limits]
drain = "5s"
`;
    const p = kit.track(await Turnpike.start({ config }));
    const tunnel = await RawClient.connect({ port: tcpPort });
    tunnel.write('before');
    await tunnel.waitForText('before');
    const [quiet, talking] = [UdpClient.to(udpPort), UdpClient.to(udpPort)];
    await quiet.ask('before');
    await talking.ask('before');
    const talk = setInterval(() => talking.send('talk'), 100);
    const lines = (protocol: string) => p.log.filter((line) => line['protocol'] === protocol);
    try {
      const started = performance.now();
      p.child.kill('SIGTERM');
      const since = (): number => performance.now() - started;
      await until('new connections to be refused', () =>
        RawClient.connect({ port: tcpPort }).then(
          (client) => {
            client.destroy();
            return false;
          },
          () => true,
        ),
      );
      const late = UdpClient.to(udpPort);
      late.send('late');
      await until('the flow that says nothing to end', () => lines('udp').length === 1);
      expect(lines('udp')[0]).toMatchObject({ client_port: quiet.port, reason: 'drained' });

      await sleep(Math.max(0, 2000 - since()));
      const heard = talking.got.length;
      await talking.answers(heard + 2);
      tunnel.write('still');
      await tunnel.waitForText('beforestill');
      expect(late.got).toEqual([]);
      expect(since()).toBeLessThan(5000);

      await within(8000, 'the end of the process', p.exited);
      expect(since()).toBeGreaterThan(4500);
      expect(since()).toBeLessThan(7000);
      expect(p.exitCode).toBe(0);
      await tunnel.waitForEnd();
      expect(tunnel.error?.code, 'a tunnel that is cut must not look like one that ended').toBe('ECONNRESET');
      expect(lines('tcp').at(-1)).toMatchObject({ reason: 'drained', service: 'db', bytes_in: 11 });
      expect(lines('udp').map((line) => [line['client_port'], line['reason']])).toEqual([
        [quiet.port, 'drained'],
        [talking.port, 'drained'],
      ]);
      expect(voice.texts).not.toContain('late');
      expect(p.bugs).toEqual([]);
    } finally {
      clearInterval(talk);
      closeUdp();
      echo.close();
    }
  });

  it('twice ends at once', async () => {
    const app = await Recorder.start();
    app.script = script;
    const { p, target } = await kit.scene({
      more: `[external_routes."still.test"]\nto = ["${app.address}"]\n`,
    });
    const never = await RawClient.connect({ port: target.plainPort });
    never.write('GET /never HTTP/1.1\r\nHost: still.test\r\n\r\n');
    await never.waitForText('some bytes');
    const pids = await p.workerPids();
    p.child.kill('SIGTERM');
    await sleep(500);
    expect(p.exitedAt).toBeNull();
    const started = performance.now();
    p.child.kill('SIGTERM');
    await within(1500, 'the end of the process', p.exited);
    expect(performance.now() - started).toBeLessThan(1500);
    await until('the workers to be gone', () => pids.every((pid) => !isAlive(pid)));
    await app.close();
  });

  it('with nothing in work ends within half a second', async () => {
    const { p, target } = await kit.scene();
    expect(await askOnce(target.plainPort)).toBe('1');
    const started = performance.now();
    await p.stop();
    expect(performance.now() - started).toBeLessThan(1500);
  });
});

describe('the end of the supervisor', () => {
  it('by SIGKILL ends its workers', async () => {
    const { p } = await kit.scene();
    const pids = await p.workerPids();
    await p.kill();
    await until('the workers to be gone', () => pids.every((pid) => !isAlive(pid)), { timeoutMs: 3000 });
  });
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

// UDP through the whole product: real workers, real sockets, reloads, switches and deaths.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { paths } from '../../src/control/api.ts';
import { freePort } from '../support/ports.ts';
import { Turnpike, turnpikeCommand } from '../support/turnpike.ts';
import { closeUdp, freeUdpPort, isUdpPortFree, UdpBackend, UdpClient, udpOwner } from '../support/udp.ts';
import { sleep, until } from '../support/wait.ts';

const running: Turnpike[] = [];
afterEach(async () => {
  closeUdp();
  for (const turnpike of running.splice(0)) {
    await turnpike.kill();
    turnpike.forget();
  }
});

interface Scene {
  readonly port: number;
  readonly backends: readonly string[];
  readonly workers?: number;
  readonly entrypoint?: string;
  readonly service?: string;
  readonly more?: string;
}

function configOf({ port, backends, workers = 2, entrypoint = '', service = '', more = '' }: Scene): string {
  return `
workers = ${workers}
[entrypoints.games]
address = "127.0.0.1:${port}"
protocol = "udp"
${entrypoint}
[network_services.game]
udp = ${JSON.stringify(backends)}
${service}
[[routers.udp]]
entrypoint = "games"
service = "game"
${more}`;
}

async function start(scene: Scene): Promise<Turnpike> {
  const turnpike = await Turnpike.start({ config: configOf(scene) });
  running.push(turnpike);
  return turnpike;
}

async function end(turnpike: Turnpike): Promise<void> {
  running.splice(running.indexOf(turnpike), 1);
  await turnpike.stop();
}

const flowLines = (turnpike: Turnpike) => turnpike.log.filter((line) => line['protocol'] === 'udp');

/** One series of the exposition. */
async function metric(turnpike: Turnpike, series: string): Promise<number> {
  const text = await turnpike.metrics();
  const line = text.split('\n').find((each) => each.startsWith(`${series} `));
  return line === undefined ? Number.NaN : Number(line.slice(series.length + 1));
}

test('clients are told apart, datagrams keep their borders and order, and everything is counted and logged', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const turnpike = await start({ port, backends: [backend.address] });
  // Connected sockets: they hear only what leaves from the address and port that they asked.
  const [one, two] = [UdpClient.to(port), UdpClient.to(port)];
  for (let i = 0; i < 50; i++) {
    one.send(`one ${i}`);
    two.send(`two ${i}`);
  }
  await Promise.all([one.answers(50), two.answers(50)]);
  expect(one.texts).toEqual(Array.from({ length: 50 }, (_, i) => `one ${i}`));
  expect(two.texts).toEqual(Array.from({ length: 50 }, (_, i) => `two ${i}`));
  expect(await one.ask('')).toBe('');
  const large = Buffer.alloc(65_507, 'large ');
  expect(await one.ask(large)).toBe(large.toString());

  const bytes = 65_507 + one.texts.slice(0, 50).join('').length + two.texts.join('').length;
  const traffic = await turnpike.traffic();
  expect(traffic.entrypoints[0]).toMatchObject({ name: 'games', protocol: 'udp', connections: 2, accepted: 2 });
  expect(traffic.services[0]).toMatchObject({ service: 'game', active: 2 });
  expect(traffic.datagrams).toEqual([
    {
      entrypoint: 'games',
      flows: 2,
      begun: 2,
      evicted: 0,
      datagramsIn: 102,
      datagramsOut: 102,
      bytesIn: bytes,
      bytesOut: bytes,
      dropped: {},
      refused: 0,
      errors: 0,
    },
  ]);
  const told = turnpikeCommand(['traffic', 'status', '--config', turnpike.configFile]);
  expect(told.stdout).toMatch(new RegExp(`^games +2 +0 +102 +102 +${bytes} +${bytes} +0 +0 +0$`, 'm'));
  expect(await metric(turnpike, 'turnpike_udp_datagrams_total{entrypoint="games",direction="in"}')).toBe(102);
  expect(await metric(turnpike, 'turnpike_udp_datagrams_total{entrypoint="games",direction="out"}')).toBe(102);
  expect(await metric(turnpike, 'turnpike_entrypoint_bytes_total{entrypoint="games",direction="received"}')).toBe(
    bytes,
  );
  expect(await metric(turnpike, 'turnpike_entrypoint_bytes_total{entrypoint="games",direction="sent"}')).toBe(bytes);

  await end(turnpike);
  expect(flowLines(turnpike).find((line) => line['client_port'] === one.port)).toMatchObject({
    client: '127.0.0.1',
    entrypoint: 'games',
    service: 'game',
    backend: backend.address,
    reason: 'drained',
    datagrams_in: 52,
    datagrams_out: 52,
  });
});

test('TCP and UDP share one port number', async () => {
  const backend = await UdpBackend.start();
  const web = createServer((_request, response) => response.end('over TCP'));
  web.listen(0, '127.0.0.1');
  await once(web, 'listening');
  let port = await freePort();
  while (!(await isUdpPortFree(port))) port = await freePort();
  const turnpike = await start({
    port,
    backends: [backend.address],
    more: `[entrypoints.web]
address = "127.0.0.1:${port}"
protocol = "http"
[external_routes."127.0.0.1"]
to = "127.0.0.1:${(web.address() as AddressInfo).port}"
`,
  });
  expect(await UdpClient.to(port).ask('over UDP')).toBe('over UDP');
  expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('over TCP');
  web.close();
  await end(turnpike);
});

test('a silent flow ends after its idle time, and the client begins another one without noticing', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const turnpike = await start({ port, backends: [backend.address], service: 'udp_idle_timeout = "400ms"' });
  const client = UdpClient.to(port);
  await client.ask('one');
  await until('the end of the flow', () => flowLines(turnpike).length === 1);
  await client.ask('two');
  expect(backend.flows).toBe(2);
  expect(flowLines(turnpike)[0]).toMatchObject({ reason: 'idle', bytes_in: 3, bytes_out: 3 });
});

test('a client too many takes the place of the one that was idle for the longest time', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const turnpike = await start({ port, backends: [backend.address], entrypoint: 'udp_sessions = 2' });
  const [one, two, three] = [UdpClient.to(port), UdpClient.to(port), UdpClient.to(port)];
  await one.ask('one');
  await two.ask('two');
  await one.ask('one again');
  await three.ask('three');
  await one.ask('one still');
  await until('the line', () => flowLines(turnpike).length === 1);
  expect(flowLines(turnpike)[0]).toMatchObject({ reason: 'evicted', client_port: two.port });
  expect((await turnpike.traffic()).entrypoints[0]).toMatchObject({ connections: 2, accepted: 3 });
});

// yyyar/gobetween#73, traefik/traefik#8455
test('a client that sends all the time goes along with a switch, and a refusing backend is found again', async () => {
  const [one, two] = [await UdpBackend.named('one'), await UdpBackend.named('two')];
  const port = await freeUdpPort();
  const turnpike = await start({ port, backends: [one.address], service: 'stream_drain = "1s"' });
  const pids = await turnpike.workerPids();
  const steady = UdpClient.to(port);
  let sent = 0;
  const sending = setInterval(() => steady.send(String(++sent)), 20);
  try {
    await steady.answers(5);
    let ackedAt = 0;
    const switched = turnpike.switchService('game', [two.address], { acknowledged: () => (ackedAt = sent) });
    await until('the acknowledgement', () => ackedAt > 0);
    // A new client belongs to the new generation from here on, the old flow only until its drain is over.
    expect(await UdpClient.to(port).ask('new')).toBe('two');
    const { report } = await switched;
    expect(report.forcedCloses).toBe(1);
    const lastOnOne = Number(one.texts.at(-1));
    await until('the steady client at the new backend', () => steady.texts.at(-1) === 'two');
    // One after the other, without a hole and without going back.
    const firstOnTwo = Number(two.texts.find((text) => text !== 'new'));
    expect(firstOnTwo).toBe(lastOnOne + 1);
    one.stop();
    const answered = steady.got.length;
    await steady.answers(answered + 5);
    expect(one.texts.length).toBe(lastOnOne);

    two.stop();
    const refusals = () => metric(turnpike, 'turnpike_udp_refused_total{entrypoint="games"}');
    await until('refusals to be counted', async () => (await refusals()) >= 5);
    const back = await UdpBackend.named('two again', two.port);
    await until('traffic to resume', () => steady.texts.at(-1) === 'two again');
    expect(back.got.length).toBeGreaterThan(0);
    expect(steady.refused).toBe(0);
    expect(await turnpike.workerPids()).toEqual(pids);
  } finally {
    clearInterval(sending);
  }
});

test('a switch to a backend that is not there says so in its report', async () => {
  const one = await UdpBackend.named('one');
  const port = await freeUdpPort();
  const turnpike = await start({ port, backends: [one.address], service: 'stream_drain = "500ms"' });
  const steady = UdpClient.to(port);
  await steady.ask('hello');
  const newcomers = setInterval(() => UdpClient.to(port).send('hello'), 50);
  try {
    const { report } = await turnpike.switchService('game', [`127.0.0.1:${await freeUdpPort()}`]);
    expect(report.errors).toBeGreaterThan(0);
    expect(report.clean).toBe(false);
  } finally {
    clearInterval(newcomers);
  }
});

test('over twenty switches under constant new clients every datagram is answered, and never by an older generation', async () => {
  const backends = await Promise.all(Array.from({ length: 21 }, (_, i) => UdpBackend.named(String(i))));
  const port = await freeUdpPort();
  const turnpike = await start({ port, backends: [backends[0]!.address], service: 'stream_drain = "50ms"' });
  /** What any client knows: what was acknowledged, or seen in an answer. */
  let known = 0;
  let asked = 0;
  const wrong: string[] = [];
  const opened: UdpClient[] = [];
  let busy = true;
  const client = async (): Promise<void> => {
    while (busy) {
      const before = known;
      const each = UdpClient.to(port);
      // Open to the end: another client on a port that is free again would be the same flow to any relay.
      opened.push(each);
      const answer = Number(await each.ask('who?').catch(() => Number.NaN));
      asked++;
      if (!(answer >= before)) wrong.push(`${answer} after ${before}`);
      else known = Math.max(known, answer);
      await sleep(1);
    }
  };
  const clients = [client(), client(), client()];
  for (let i = 1; i <= 20; i++) {
    await turnpike.switchService('game', [backends[i]!.address], {
      acknowledged: () => {
        known = Math.max(known, i);
      },
    });
  }
  busy = false;
  await Promise.all(clients);
  for (const each of opened) each.close();
  expect(wrong).toEqual([]);
  expect(known).toBe(20);
  expect(asked).toBeGreaterThan(20);
});

test('a paused service keeps datagrams, and a resumed one gets them in order', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const turnpike = await start({ port, backends: [backend.address] });
  const old = UdpClient.to(port);
  await old.ask('before');
  await turnpike.service('game', 'pause');
  const client = UdpClient.to(port);
  for (let i = 0; i < 66; i++) client.send(String(i));
  expect(await old.ask('claimed work goes on')).toBe('claimed work goes on');
  const dropped = () => metric(turnpike, 'turnpike_udp_dropped_total{entrypoint="games",reason="hold-full"}');
  await until('the last two to be dropped', async () => (await dropped()) === 2);
  expect(client.got.length).toBe(0);
  await turnpike.service('game', 'resume');
  await client.answers(64);
  expect(client.texts).toEqual(Array.from({ length: 64 }, (_, i) => String(i)));
});

test('narrowed trusted_cidrs end the flows of those who do not belong, at once and without a word to them', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const scene: Scene = { port, backends: [backend.address] };
  const turnpike = await start(scene);
  const [inside, outside] = [UdpClient.to(port), UdpClient.to(port, { from: '127.0.0.2' })];
  await inside.ask('hello');
  await outside.ask('hello');
  const result = await turnpike.reload(configOf({ ...scene, entrypoint: 'trusted_cidrs = ["127.0.0.1/32"]' }));
  expect(result.outcome).toBe('applied');
  expect((await turnpike.traffic()).entrypoints[0]!.connections).toBe(1);
  outside.send('let me in');
  await until('the refusal', async () => (await turnpike.traffic()).datagrams[0]!.dropped['source'] === 1);
  await inside.ask('still here');
  expect(outside.got.length).toBe(1);
  expect(outside.refused).toBe(0);
  expect(backend.flows).toBe(2);
  await until('the line', () => flowLines(turnpike).some((line) => line['reason'] === 'not-admitted'));
});

test('a port that is taken refuses the reload everywhere, and the same reload succeeds when it is free', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const scene: Scene = { port, backends: [backend.address] };
  const turnpike = await start(scene);
  const stranger = await UdpBackend.start(undefined, await freeUdpPort());
  const client = UdpClient.to(port);
  await client.ask('before');
  const more = `[entrypoints.voice]
address = "127.0.0.1:${stranger.port}"
protocol = "udp"
[[routers.udp]]
entrypoint = "voice"
service = "game"
`;
  const wanted = configOf({ ...scene, more, entrypoint: 'udp_sessions = 1' });
  const refused = await turnpike.reload(wanted);
  expect(refused).toMatchObject({ outcome: 'refused', fault: { code: 'bind-failed' } });
  expect(refused.fault?.message).toContain('entrypoints.voice');
  expect(await client.ask('after')).toBe('after');
  await UdpClient.to(port).ask('two flows are still allowed');
  await client.ask('the first one was not evicted');
  expect(backend.flows).toBe(2);
  stranger.stop();
  await until('the stranger to be gone', () => udpOwner(stranger.port, [process.pid]) === null);
  expect(await turnpike.reload(wanted)).toMatchObject({ outcome: 'applied' });
  expect(await UdpClient.to(stranger.port).ask('voice')).toBe('voice');
});

test('reloads that change nothing about an entrypoint leave its flows alone', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const scene: Scene = { port, backends: [backend.address] };
  const turnpike = await start(scene);
  const client = UdpClient.to(port);
  await client.ask('before');
  for (let i = 0; i < 10; i++) {
    const result = await turnpike.reload(configOf({ ...scene, more: `[limits]\nheader_count = ${100 + i}\n` }));
    expect(result.outcome).toBe('applied');
    await client.ask(`after ${i}`);
  }
  expect(backend.flows).toBe(1);
});

test('a removed entrypoint answers its last flows, and its port is free soon', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const scene: Scene = { port, backends: [backend.address] };
  const turnpike = await start(scene);
  const client = UdpClient.to(port);
  await client.ask('before');
  const other = await freeUdpPort();
  expect(await turnpike.reload(configOf({ ...scene, port: other }))).toMatchObject({ outcome: 'applied' });
  await UdpClient.to(other).ask('at the new address');
  await until('the old port to be free', async () => udpOwner(port, await turnpike.workerPids()) === null);
});

test('when the owner is killed another worker binds the port, and its flows begin again', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const turnpike = await start({ port, backends: [backend.address] });
  const client = UdpClient.to(port);
  await client.ask('before');
  const pids = await turnpike.workerPids();
  const owner = udpOwner(port, pids)!;
  process.kill(owner, 'SIGKILL');
  expect(await client.askUntilAnswered('after')).toBe('after');
  const next = udpOwner(port, await turnpike.workerPids());
  // One that is there already: nobody waits for a process to start.
  expect(pids.filter((pid) => pid !== owner)).toEqual([next]);
  expect(backend.flows).toBe(2);
  // The worker that comes in place of the dead one takes nothing away again.
  await turnpike.ready();
  await client.ask('still');
  expect(udpOwner(port, await turnpike.workerPids())).toBe(next);
  expect(backend.flows).toBe(2);
});

test('the death of a worker that does not own the port goes unnoticed', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const turnpike = await start({ port, backends: [backend.address] });
  const client = UdpClient.to(port);
  await client.ask('before');
  const pids = await turnpike.workerPids();
  const owner = udpOwner(port, pids);
  process.kill(pids.find((pid) => pid !== owner)!, 'SIGKILL');
  for (let i = 0; i < 20; i++) {
    await client.ask(`after ${i}`);
    await sleep(10);
  }
  expect(backend.flows).toBe(1);
});

test('with one worker its successor binds the port', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const turnpike = await start({ port, backends: [backend.address], workers: 1 });
  const client = UdpClient.to(port);
  await client.ask('before');
  process.kill((await turnpike.workerPids())[0]!, 'SIGKILL');
  expect(await client.askUntilAnswered('after', 10_000)).toBe('after');
});

test('workers that are replaced hand the port over', async () => {
  const backend = await UdpBackend.start();
  const port = await freeUdpPort();
  const turnpike = await start({ port, backends: [backend.address] });
  const client = UdpClient.to(port);
  await client.ask('before');
  const before = await turnpike.workerPids();
  expect(await turnpike.control.post(paths.replaceWorkers)).toEqual({ replaced: 2 });
  expect(await client.askUntilAnswered('after')).toBe('after');
  const owner = udpOwner(port, await turnpike.workerPids());
  expect(before).not.toContain(owner);
});

test('a DNS server answers dig on one number over UDP and TCP, also when it takes both for one answer', async () => {
  const dnsPort = await freeUdpPort();
  let port = await freePort();
  while (!(await isUdpPortFree(port))) port = await freePort();
  const server = spawn(
    'dnsmasq',
    [
      '--keep-in-foreground',
      '--conf-file=/dev/null',
      '--no-resolv',
      '--no-hosts',
      '--user=',
      '--group=',
      '--pid-file=',
      '--bind-interfaces',
      '--listen-address=127.0.0.1',
      `--port=${dnsPort}`,
      '--address=/app.test/192.0.2.7',
      `--txt-record=long.test,${'x'.repeat(250)},${'y'.repeat(250)},${'z'.repeat(250)}`,
    ],
    { stdio: 'ignore' },
  );
  try {
    const turnpike = await start({
      port,
      backends: [`127.0.0.1:${dnsPort}`],
      service: `tcp = "127.0.0.1:${dnsPort}"`,
      more: `[entrypoints.games-tcp]
address = "127.0.0.1:${port}"
protocol = "tcp"
[[routers.tcp]]
entrypoint = "games-tcp"
service = "game"
`,
    });
    const dig = (...args: string[]): string =>
      spawnSync('dig', ['@127.0.0.1', '-p', String(port), '+short', '+tries=1', '+time=3', ...args], {
        encoding: 'utf8',
      }).stdout.trim();
    await until('the DNS server', () => dig('app.test') === '192.0.2.7');
    for (let i = 0; i < 10; i++) expect(dig(`host-${i}.app.test`)).toBe('192.0.2.7');
    expect(dig('+bufsize=4096', '+ignore', 'long.test', 'TXT')).toContain('z'.repeat(250));
    expect(dig('+tcp', 'app.test')).toBe('192.0.2.7');
    // Too long for 512 bytes: the answer over UDP says so, and dig asks again over TCP.
    expect(dig('+bufsize=512', 'long.test', 'TXT')).toContain('z'.repeat(250));
    await end(turnpike);
    expect(flowLines(turnpike).length).toBeGreaterThanOrEqual(13);
    expect(turnpike.log.filter((line) => line['protocol'] === 'tcp' && line['reason'] === 'ended').length).toBe(2);
  } finally {
    server.kill('SIGKILL');
  }
});

// A limit that strikes and tells nobody: the operator sees slow or missing answers, and looks for the fault elsewhere.
//
// The kind of caddyserver/caddy#1964 and haproxy's "conn limit reached without a log": which of thirty limits it was can only
// be guessed. Here each of them strikes once, for real, and the number that moves must be its own; a limit without a row
// fails the last test.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { limitKeys } from '../../src/config/limit-keys.ts';
import { encodeFrame, FrameType } from '../support/h2-frames.ts';
import { freePorts } from '../support/ports.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import { Recorder } from '../support/recorder.ts';
import { closeUdp, freeUdpPort, UdpBackend, UdpClient } from '../support/udp.ts';
import { until } from '../support/wait.ts';
import { acceptHandshake, echoScript } from '../support/websocket-frames.ts';

let silent: Recorder;
let parrot: UdpBackend;
let [narrow, bytes, stuck, quiet] = [0, 0, 0, 0];
let datagrams = 0;

const f = useProxy({
  workers: 1,
  names: ['held.test', 'full.test'],
  limits: `
header_timeout = "500ms"
tls_handshake_timeout = "500ms"
keep_alive_timeout = "700ms"
header_size = "4KiB"
header_count = 20
target_size = "1KiB"
tcp_connections = 2
h2_streams = 4
body_size = "1KiB"
body_idle_timeout = "500ms"
stream_idle_timeout = "700ms"
backend_connect_timeout = "500ms"
backend_head_timeout = "500ms"
backend_keep_alive_timeout = "500ms"
max_hold = "500ms"
hold_requests = 2
hold_size = "6KiB"
stream_drain = "300ms"
udp_sessions = 2
`,
  more: async ({ app1 }) => {
    [narrow, bytes, stuck, quiet] = (await freePorts(4)) as [number, number, number, number];
    datagrams = await freeUdpPort();
    // Accepts, and that is all; asked in TLS.
    silent = await Recorder.start({ name: 'silent', parse: false });
    parrot = await UdpBackend.start();
    return `
[external_routes."silent.test"]
to = ["${silent.address}"]
protocol = "https"
[external_routes."narrow.test"]
to = ["${app1.address}"]
backend_connections = 1
backend_head_timeout = "5s"
[external_routes."rated.test"]
to = ["${app1.address}"]
rate_limit = { requests = 1, per = "60s" }
[external_routes."patient.test"]
to = ["${app1.address}"]
backend_head_timeout = "10s"
stream_idle_timeout = "10s"
[entrypoints.narrow]
address = "127.0.0.1:${narrow}"
protocol = "http"
max_connections = 3
connections_per_peer = 2
[entrypoints.bytes]
address = "127.0.0.1:${bytes}"
protocol = "tcp"
[entrypoints.quiet]
address = "127.0.0.1:${quiet}"
protocol = "tcp"
[entrypoints.stuck]
address = "127.0.0.1:${stuck}"
protocol = "tcp"
[entrypoints.datagrams]
address = "127.0.0.1:${datagrams}"
protocol = "udp"
[network_services.bytes]
tcp = "${silent.address}"
[network_services.quiet]
tcp = "${silent.address}"
tcp_idle_timeout = "500ms"
[network_services.stuck]
tcp = "${silent.address}"
tls = { verify = false }
dial_timeout = "500ms"
[network_services.parrot]
udp = "127.0.0.1:${parrot.port}"
udp_idle_timeout = "700ms"
[[routers.tcp]]
entrypoint = "bytes"
service = "bytes"
[[routers.tcp]]
entrypoint = "quiet"
service = "quiet"
[[routers.tcp]]
entrypoint = "stuck"
service = "stuck"
[[routers.udp]]
entrypoint = "datagrams"
service = "parrot"
`;
  },
});

afterAll(closeUdp);
afterAll(() => silent.close());

const get = (host: string, lines = ''): string => `GET / HTTP/1.1\r\nHost: ${host}\r\n${lines}\r\n`;

async function send(text: string, port = f.webPort, localAddress = '127.0.0.1'): Promise<RawClient> {
  const client = await RawClient.connect({ port, localAddress });
  client.write(text);
  return client;
}

/** Holds the answers of app1 back until the test is over. */
const never = (): void => {
  f.app1.script = (exchange) => void exchange.complete();
};

const fault = (code: string): string => `http_faults_total{fault="${code}"}`;
const reason = (code: string): string => `http_reasons_total{reason="${code}"}`;
const refused = (entrypoint: string, why: string): string =>
  `entrypoint_refused_total{entrypoint="${entrypoint}",reason="${why}"}`;

/** The limit, what must move, and how it is hit. */
const strikes: readonly (readonly [limit: string, series: string, hit: () => Promise<unknown>])[] = [
  ['header_timeout', fault('request-timeout'), () => send('GET / HTTP/1.1\r\nHost: app1')],
  [
    'tls_handshake_timeout',
    'tls_handshakes_total{entrypoint="websecure",result="timeout"}',
    () => RawClient.connect({ port: f.securePort }).then((client) => client.write(Buffer.of(0x16, 3, 1, 1, 0, 1))),
  ],
  ['keep_alive_timeout', 'http_keep_alive_closed_total', async () => (await send(get('alive.test'))).readAnswer()],
  [
    'keep_alive_timeout over HTTP/2',
    'http_keep_alive_closed_total',
    () => f.requester('h2').request({ host: 'alive.test' }),
  ],
  ['header_size', fault('head-too-large'), () => send(get('app1.test', `X: ${'a'.repeat(6000)}\r\n`))],
  ['header_count', fault('head-too-large'), () => send(get('app1.test', 'X: a\r\n'.repeat(30)))],
  [
    'header_count over HTTP/2',
    fault('head-too-large'),
    () => f.requester('h2').request({ lines: Array.from({ length: 30 }, (): [string, string] => ['x', 'a']) }),
  ],
  ['target_size', fault('target-too-long'), () => send(`GET /${'a'.repeat(2000)} HTTP/1.1\r\nHost: app1.test\r\n\r\n`)],
  [
    'connections',
    refused('narrow', 'limit'),
    () => Promise.all([2, 3, 4, 5].map((i) => send('G', narrow, `127.0.0.${i}`))),
  ],
  ['connections_per_peer', refused('narrow', 'peer-limit'), () => Promise.all([1, 2, 3].map(() => send('G', narrow)))],
  ['tcp_connections', refused('bytes', 'limit'), () => Promise.all([1, 2, 3].map(() => send('x', bytes)))],
  [
    'h2_streams',
    'http2_cut_off_total{reason="protocol"}',
    async () => {
      never();
      const connection = await f.requester('h2').h2();
      for (let i = 0; i < 300; i++) connection.open(h2Get);
    },
  ],
  [
    'body_size',
    fault('body-too-large'),
    () => send('POST / HTTP/1.1\r\nHost: app1.test\r\nContent-Length: 2000\r\n\r\n'),
  ],
  [
    'body_idle_timeout of an upload',
    fault('request-timeout'),
    () => send('POST / HTTP/1.1\r\nHost: app1.test\r\nContent-Length: 20\r\n\r\nabc'),
  ],
  [
    'body_idle_timeout of an answer',
    fault('upstream-idle'),
    () => {
      f.app1.script = (exchange) => void exchange.send('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc').complete();
      return send(get('app1.test'));
    },
  ],
  [
    'stream_idle_timeout of events',
    fault('upstream-idle'),
    () => {
      f.app1.script = (exchange) =>
        void exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: x\n\n').complete();
      return send(get('app1.test'));
    },
  ],
  [
    'stream_idle_timeout of a WebSocket',
    reason('idle'),
    () => {
      f.app1.script = (exchange) => void exchange.reply(acceptHandshake(exchange));
      return f.requester('h1').webSocket();
    },
  ],
  [
    'stream_idle_timeout of a WebSocket over HTTP/2',
    reason('idle'),
    () => {
      f.app1.script = (exchange) => void exchange.reply(acceptHandshake(exchange));
      return f.requester('h2').webSocket();
    },
  ],
  [
    'backend_connections',
    fault('over-capacity'),
    () => {
      never();
      return Promise.all([send(get('narrow.test')), send(get('narrow.test'))]);
    },
  ],
  ['backend_connect_timeout', fault('upstream-connect-timeout'), () => send(get('silent.test'))],
  [
    'backend_head_timeout',
    fault('upstream-head-timeout'),
    () => {
      never();
      return send(get('app1.test'));
    },
  ],
  [
    'backend_keep_alive_timeout',
    'backend_idle_closed_total{service="app1.test"}',
    async () => (await send(get('app1.test'))).readAnswer(),
  ],
  [
    'drain',
    fault('drained'),
    async () => {
      never();
      const client = await send(get('patient.test'));
      await until('the request', () => f.app1.exchanges.length === 1);
      await f.p.switchService('patient.test', [f.app2.address], { drainMs: 100 });
      await client.readAnswer();
    },
  ],
  [
    'stream_drain',
    reason('drained'),
    async () => {
      f.app2.script = echoScript;
      const { tunnel } = await f.requester('h1').webSocket({ host: 'patient.test' });
      await f.p.switchService('patient.test', [f.app1.address]);
      tunnel.reset();
    },
  ],
  ['max_hold', fault('hold-timeout'), () => held(1)],
  ['hold_requests', fault('hold-full'), () => held(3)],
  ['hold_size', fault('hold-full'), () => held(2, `X: ${'a'.repeat(3000)}\r\n`)],
  ['dial_timeout', 'tcp_failures_total{service="stuck"}', () => send('x', stuck)],
  ['tcp_idle_timeout', 'tcp_tunnels_ended_total{service="quiet",reason="idle"}', () => send('x', quiet)],
  [
    'udp_idle_timeout',
    'udp_flows_ended_total{entrypoint="datagrams",reason="idle"}',
    async () => UdpClient.to(datagrams).ask('x'),
  ],
  [
    'udp_sessions',
    'udp_flows_ended_total{entrypoint="datagrams",reason="evicted"}',
    async () => {
      for (const text of ['a', 'b', 'c']) await UdpClient.to(datagrams).ask(text);
    },
  ],
  [
    'rate_limit',
    fault('rate-limited'),
    async () => {
      await (await send(get('rated.test'))).readAnswer();
      await send(get('rated.test'));
    },
  ],
  [
    'half a header block of HTTP/2',
    'http2_cut_off_total{reason="stalled"}',
    async () => {
      const connection = await f.requester('h2').h2();
      connection.write(encodeFrame(FrameType.Headers, 0, 1, Buffer.of(0x82)));
    },
  ],
];

const h2Get: readonly (readonly [string, string])[] = [
  [':method', 'GET'],
  [':scheme', 'https'],
  [':authority', 'app1.test'],
  [':path', '/'],
];

/** Requests that wait for a service that is paused. */
async function held(count: number, lines = ''): Promise<void> {
  await f.p.service('patient.test', 'pause');
  const clients = await Promise.all(Array.from({ length: count }, () => send(get('patient.test', lines))));
  for (const client of clients) expect((await client.readAnswer()).status).toBe(503);
  await f.p.service('patient.test', 'resume');
}

async function countOf(series: string): Promise<number> {
  const line = (await f.p.metrics()).split('\n').find((each) => each.startsWith(`turnpike_${series} `));
  return Number(line?.slice(line.lastIndexOf(' ') + 1) ?? 0);
}

it.each(strikes)('%s strikes, and %s moves', async (_limit, series, hit) => {
  const before = await countOf(series);
  await hit();
  await until(`${series} to move`, async () => (await countOf(series)) > before, { timeoutMs: 8000, everyMs: 50 });
});

/** Limits that strike in another file, which reads their numbers. */
const elsewhere: Readonly<Record<string, string>> = { overload_delay: 'overload.test.ts' };

it('every limit there is has its row', () => {
  const here = new Set(strikes.map(([limit]) => limit.split(' ')[0]));
  for (const [limit, file] of Object.entries(elsewhere)) {
    const text = readFileSync(join(import.meta.dirname, file), 'utf8');
    if (text.includes(limit) && text.includes('turnpike_overload_')) here.add(limit);
  }
  expect(Object.keys(limitKeys).filter((limit) => !here.has(limit))).toEqual([]);
});

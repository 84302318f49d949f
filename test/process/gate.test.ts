// The gate over real processes: two workers, one login, and what survives.
// Invariant: what a login, a logout or an override promises holds on the very next request at every worker.
import { createSocket } from 'node:dgram';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { RpcAnswer } from '../../src/control/api.ts';
import { paths } from '../../src/control/api.ts';
import type { CreatedToken, GateStatus, SessionStatus } from '../../src/process/gate-operations.ts';
import { run } from '../support/command.ts';
import { freePorts } from '../support/ports.ts';
import { ProcessKit } from '../support/process-kit.ts';
import { type Answer, fieldValue, RawClient } from '../support/raw-client.ts';
import { type Line, Recorder, valuesOf } from '../support/recorder.ts';
import { Requester } from '../support/transports.ts';
import { Turnpike, turnpikeCommand } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';
import { echoScript, encodeWsFrame } from '../support/websocket-frames.ts';

const kit = new ProcessKit('Turnpike gate tests');
const password = 'correct horse battery';

interface House {
  readonly p: Turnpike;
  readonly app: Recorder;
  readonly port: number;
  readonly config: string;
}

async function house(more = '', entrypoint = ''): Promise<House> {
  const app = await Recorder.start({ name: 'app' });
  const [port, dashboard] = (await freePorts(2)) as [number, number];
  const config = `
workers = 2
[entrypoints.web]
address = "127.0.0.1:${port}"
protocol = "http"
${entrypoint}
[tls.internal_ca]
enabled = false
[log]
access = false
format = "json"
[gate]
port = ${dashboard}
[external_routes."app.test"]
to = ["${app.address}"]
gate = "gated"
[external_routes."other.test"]
to = ["${app.address}"]
gate = "open"
gate_rationale = "has a login of its own"
${more}
`;
  const p = kit.track(await Turnpike.start({ config }));
  return { p, app, port, config };
}

const call = <T>(p: Turnpike, method: string, params: object): Promise<T> => p.control.call<T>(method, params);
const addUser = (p: Turnpike, name = 'anna', role = 'owner', apps: string[] = []): Promise<unknown> =>
  call(p, 'gate.users.add', { name, role, apps, password });

/** On a connection of its own: any worker may have it. */
async function ask(
  port: number,
  path = '/',
  lines: readonly Line[] = [],
  name = 'app.test',
  method = 'GET',
  body = '',
): Promise<Answer> {
  const client = await RawClient.connect({ port });
  const head = [`${method} ${path} HTTP/1.1`, `Host: ${name}`, ...lines.map(([field, value]) => `${field}: ${value}`)];
  if (body !== '')
    head.push(`Content-Length: ${Buffer.byteLength(body)}`, 'Content-Type: application/x-www-form-urlencoded');
  const answer = await client.ask(`${head.join('\r\n')}\r\n\r\n${body}`, { method });
  client.destroy();
  return answer;
}

/** The statuses of several connections: both workers are among them. */
async function statuses(port: number, lines: readonly Line[] = [], name = 'app.test'): Promise<number[]> {
  const seen = new Set<number>();
  for (let i = 0; i < 12; i++) seen.add((await ask(port, '/', lines, name)).status);
  return [...seen];
}

/** By the form, as a browser does. Returns the cookie's field line. */
async function logIn(port: number, user = 'anna', name = 'app.test'): Promise<Line> {
  const page = await ask(port, '/.turnpike/login?rd=/x', [], name);
  const mark = fieldValue(page, 'set-cookie')!.split(';', 1)[0]!;
  const token = /name="token" value="([^"]+)"/.exec(page.body.toString())![1]!;
  const form = new URLSearchParams({ token, rd: '/x', user, password }).toString();
  const answer = await ask(
    port,
    '/.turnpike/login',
    [
      ['Cookie', mark],
      ['Origin', `http://${name}:${port}`],
    ],
    `${name}:${port}`,
    'POST',
    form,
  );
  expect([answer.status, fieldValue(answer, 'location')], answer.body.toString()).toEqual([303, '/x']);
  return ['Cookie', fieldValue(answer, 'set-cookie')!.split(';', 1)[0]!];
}

describe('with two workers', () => {
  it('a login counts on the next request at each, and its end ends streams at each within a second', async () => {
    const { p, app, port } = await house();
    await addUser(p);
    expect(await statuses(port)).toEqual([401]);
    const cookie = await logIn(port);
    expect(await statuses(port, [cookie])).toEqual([200]);

    app.script = (exchange) => {
      if (exchange.target === '/ws') echoScript(exchange);
      else exchange.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n');
    };
    const target = { plainPort: port, tlsPort: port, ca: '' };
    const clients = Array.from({ length: 8 }, (_, i) => new Requester(i % 2 === 0 ? 'h1' : 'h2c', target));
    const sockets = await Promise.all(
      clients.map(
        async (client) => (await client.webSocket({ host: 'app.test', path: '/ws', lines: [cookie] })).tunnel,
      ),
    );
    const streams = await Promise.all(
      clients.map((client) => client.open({ host: 'app.test', path: '/events', lines: [cookie] })),
    );
    for (const stream of streams) await stream.seen('data: 1');
    for (const socket of sockets) {
      socket.send(encodeWsFrame(1, 'hello', { mask: true }));
      await socket.waitForFrames(1);
    }
    const [session] = await call<SessionStatus[]>(p, 'gate.sessions.list', {});
    const began = performance.now();
    await call(p, 'gate.sessions.revoke', { id: session!.id });
    for (const socket of sockets) await socket.waitForEnd(2000);
    for (const stream of streams) expect((await stream.answer(2000)).complete).toBe(false);
    // Within a second, and what a busy machine adds to sixteen clients in one process.
    expect(performance.now() - began).toBeLessThan(2000);
    for (const socket of sockets) expect(socket.frames.at(-1)?.payload.readUInt16BE(0)).toBe(1008);
    expect(await statuses(port, [cookie])).toEqual([401]);
    for (const client of clients) client.close();
    await app.close();
  });

  it('logging out by the form ends it everywhere, and survives a restart; other sessions do too', async () => {
    const { p, app, port, config } = await house();
    await addUser(p);
    const first = await logIn(port);
    const second = await logIn(port);
    const page = await ask(port, '/.turnpike/logout', [first]);
    const mark = fieldValue(page, 'set-cookie')!.split(';', 1)[0]!;
    const token = /name="token" value="([^"]+)"/.exec(page.body.toString())![1]!;
    const form = new URLSearchParams({ token, which: 'here' }).toString();
    const lines: Line[] = [
      ['Cookie', `${first[1]}; ${mark}`],
      ['Origin', `http://app.test:${port}`],
    ];
    const out = await ask(port, '/.turnpike/logout', lines, `app.test:${port}`, 'POST', form);
    expect([out.status, out.lines.filter(([name]) => name.toLowerCase() === 'set-cookie').length]).toEqual([303, 1]);
    expect(await statuses(port, [first])).toEqual([401]);
    expect(await statuses(port, [second])).toEqual([200]);
    // The power fails.
    p.child.kill('SIGKILL');
    await p.exited;
    const again = kit.track(await Turnpike.start({ config, directory: p.directory }));
    expect(await statuses(port, [first])).toEqual([401]);
    expect(await statuses(port, [second])).toEqual([200]);
    // A worker that dies comes back knowing who may pass.
    const [pid] = await again.workerPids();
    process.kill(pid!, 'SIGKILL');
    await again.ready();
    expect(await statuses(port, [second])).toEqual([200]);
    expect(await statuses(port)).toEqual([401]);
    await app.close();
  });

  it('overrides win both ways on the next request, by RPC, by command and by file, and survive a restart', async () => {
    const { p, app, port, config } = await house();
    expect([await statuses(port), await statuses(port, [], 'other.test')]).toEqual([[401], [200]]);
    await call(p, 'security.set-app-gate', { id: 'app.test', enabled: false });
    await call(p, 'security.set-app-gate', { id: 'other.test', enabled: true });
    expect([await statuses(port), await statuses(port, [], 'other.test')]).toEqual([[200], [401]]);
    const set = await run(['gate', 'set', 'other.test', '--clear'], p.directory);
    expect([set.code, set.out]).toEqual([0, 'other.test: a login is not asked for.\n']);
    expect(await statuses(port, [], 'other.test')).toEqual([200]);
    const file = join(p.directory, '.turnpike', 'app-configs', 'app.test.json');
    writeFileSync(file, '{"gateEnabled": fal');
    await until('the broken file to ask for a login', async () => (await ask(port)).status === 401);
    expect(await statuses(port)).toEqual([401]);
    const { apps } = await call<GateStatus>(p, 'gate.status', {});
    expect(apps.find(({ app: name }) => name === 'app.test')).toMatchObject({
      login: true,
      problem: 'not a JSON object',
    });
    expect(apps.find(({ app: name }) => name === 'other.test')).toMatchObject({
      policy: 'open',
      rationale: 'has a login of its own',
      login: false,
    });
    writeFileSync(file, '{"gateEnabled": false, "theme": "dark"}');
    await until('the mended file to count', async () => (await ask(port)).status === 200);
    await p.stop();
    mkdirSync(join(p.directory, '.turnpike', 'app-configs'), { recursive: true });
    writeFileSync(join(p.directory, '.turnpike', 'app-configs', 'app.test.json'), '{"gateEnabled": false}');
    const again = kit.track(await Turnpike.start({ config, directory: p.directory }));
    expect(await statuses(port)).toEqual([200]);
    // A reload does not bring back what was set before.
    await call(again, 'security.set-app-gate', { id: 'app.test', enabled: null });
    await again.reload(`${config}\n# changed\n`);
    expect(await statuses(port)).toEqual([401]);
    await app.close();
  });

  it('tokens open their app until they are revoked, and tell when they were used', async () => {
    const { p, app, port } = await house();
    const params = { app: 'app.test', name: 'ci', expiresAt: null, paths: [], methods: ['GET'], cidrs: [] };
    const { token, id } = await call<CreatedToken>(p, 'gate.tokens.create', params);
    const bearer: Line = ['Authorization', `Bearer ${token}`];
    expect(await statuses(port, [bearer])).toEqual([200]);
    expect(app.text).not.toContain(token);
    expect(JSON.stringify(await call(p, 'gate.tokens.list', {}))).not.toContain(token);
    await call(p, 'gate.tokens.revoke', { token: id });
    expect(await statuses(port, [bearer])).toEqual([401]);
    expect(p.output).not.toContain(token);
    await app.close();
  });

  it('the first user is made by the link that is printed at the start, and by nothing else', async () => {
    const { p, app, port } = await house();
    const link = /(http:\/\/\S+\/\.turnpike\/setup\?code=\S+)/.exec(p.output)![1]!;
    const { pathname, search, host } = new URL(link);
    expect(host).toBe(`app.test:${port}`);
    const page = await ask(port, pathname + search, [], host);
    const mark = fieldValue(page, 'set-cookie')!.split(';', 1)[0]!;
    const token = /name="token" value="([^"]+)"/.exec(page.body.toString())![1]!;
    const secret = /name="secret" value="([^"]+)"/.exec(page.body.toString())![1]!;
    const send = (user: string): Promise<Answer> =>
      ask(
        port,
        '/.turnpike/setup',
        [
          ['Cookie', mark],
          ['Origin', `http://${host}`],
        ],
        host,
        'POST',
        new URLSearchParams({ token, secret, user, password }).toString(),
      );
    const made = await send('anna');
    expect(made.status).toBe(303);
    expect(await statuses(port, [['Cookie', fieldValue(made, 'set-cookie')!.split(';', 1)[0]!]])).toEqual([200]);
    expect((await send('mallory')).status).toBe(403);
    expect(p.log.some((line) => JSON.stringify(line).includes(secret))).toBe(false);
    await app.close();
  });
});

describe('one login for several names', () => {
  it('leads from the app to the gate’s host and back, to the browser that began it, once', async () => {
    const app = await Recorder.start({ name: 'app' });
    const [secure] = (await freePorts(1)) as [number];
    const config = `
workers = 2
[entrypoints.websecure]
address = "127.0.0.1:${secure}"
protocol = "https"
[[tls.certificate]]
cert_file = "${kit.pair.certFile}"
key_file = "${kit.pair.keyFile}"
[tls.internal_ca]
enabled = false
[log]
access = false
format = "json"
[gate]
host = "still.test"
[external_routes."app.test"]
to = ["${app.address}"]
gate = "gated"
[external_routes."more.test"]
to = ["${app.address}"]
gate = "gated"
`;
    const p = kit.track(await Turnpike.start({ config }));
    await addUser(p);
    const target = { plainPort: secure, tlsPort: secure, ca: kit.ca.pem };
    const jar = new Map<string, Map<string, string>>();
    const browse = async (
      url: string,
      form: Record<string, string> | null = null,
    ): Promise<{ answer: Answer; next: string }> => {
      const { hostname, host, pathname, search, origin } = new URL(url);
      const cookies = jar.get(hostname) ?? new Map<string, string>();
      jar.set(hostname, cookies);
      const lines: Line[] = [
        ['Accept', 'text/html'],
        ['Cookie', [...cookies].map((pair) => pair.join('=')).join('; ')],
      ];
      if (form !== null) lines.push(['Origin', origin], ['Content-Type', 'application/x-www-form-urlencoded']);
      const requester = new Requester('h1+tls', target);
      await requester.h1(hostname);
      const answer = await requester.request({
        method: form === null ? 'GET' : 'POST',
        host,
        path: pathname + search,
        lines,
        ...(form === null ? {} : { body: new URLSearchParams(form).toString() }),
      });
      requester.close();
      for (const line of valuesOf(answer.lines, 'set-cookie')) {
        expect(line).toMatch(/^__Host-turnpike_(session|visit)=.*; Path=\/; .*HttpOnly; SameSite=Lax; Secure$/);
        const [name, value] = line.split(';', 1)[0]!.split('=') as [string, string];
        cookies.set(name, value);
      }
      return { answer, next: new URL(fieldValue(answer, 'location') ?? url, url).href };
    };
    const start = `https://app.test:${secure}/x?a=1`;
    const login = (await browse(start)).next;
    expect(login).toContain(`https://still.test:${secure}/.turnpike/login?rd=`);
    const page = (await browse(login)).answer.body.toString();
    const hidden = Object.fromEntries(
      [...page.matchAll(/name="(token|rd|v)" value="([^"]*)"/g)].map((match) => [
        match[1]!,
        match[2]!.replaceAll('&#38;', '&'),
      ]),
    );
    const callback = (
      await browse(`https://still.test:${secure}/.turnpike/login`, { ...hidden, user: 'anna', password })
    ).next;
    expect(callback).toMatch(new RegExp(`^https://app\\.test:${secure}/\\.turnpike/callback\\?code=`));
    const back = await browse(callback);
    expect([back.answer.status, back.next]).toEqual([303, start]);
    expect((await browse(start)).answer.status).toBe(200);
    // Used, whoever tries.
    expect((await browse(callback)).answer.status).toBe(403);
    // The next name needs no password: there and back.
    const second = (await browse(`https://more.test:${secure}/`)).next;
    const ticket = (await browse(second)).next;
    expect(ticket).toContain(`https://more.test:${secure}/.turnpike/callback?code=`);
    const thief = new Map(jar);
    jar.set('more.test', new Map());
    expect((await browse(ticket)).answer.status, 'another browser').toBe(403);
    jar.set('more.test', thief.get('more.test')!);
    await browse((await browse(second)).next);
    expect((await browse(`https://more.test:${secure}/`)).answer.status).toBe(200);
    // One logout ends all of it.
    const out = (await browse(`https://more.test:${secure}/.turnpike/logout`)).answer.body.toString();
    const token = /name="token" value="([^"]+)"/.exec(out)![1]!;
    await browse(`https://more.test:${secure}/.turnpike/logout`, { token, which: 'here' });
    expect((await browse(start)).answer.status).toBe(303);
    expect((await browse(`https://still.test:${secure}/`)).next).toContain('/.turnpike/login');
    expect(p.bugs).toEqual([]);
    await app.close();
  });
});

describe('one address that guesses', () => {
  it('waits, whatever it says of itself, while another address and sessions go on', async () => {
    const { p, app, port } = await house();
    await addUser(p);
    const cookie = await logIn(port);
    const from = async (localAddress: string, pass: string, forwarded: string): Promise<Answer> => {
      const requester = new Requester('h1', { plainPort: port, tlsPort: port, ca: '' }, { localAddress });
      const page = await requester.request({ host: 'app.test', path: '/.turnpike/login' });
      const mark = fieldValue(page, 'set-cookie')!.split(';', 1)[0]!;
      const token = /name="token" value="([^"]+)"/.exec(page.body.toString())![1]!;
      const body = new URLSearchParams({ token, user: 'anna', password: pass }).toString();
      const answer = await requester.request({
        method: 'POST',
        host: 'app.test',
        path: '/.turnpike/login',
        lines: [
          ['Cookie', mark],
          ['Content-Type', 'application/x-www-form-urlencoded'],
          ['X-Forwarded-For', forwarded],
        ],
        body,
      });
      requester.close();
      return answer;
    };
    const seen: number[] = [];
    for (let i = 0; i < 8; i++) seen.push((await from('127.0.0.9', 'wrong', `203.0.113.${i}`)).status);
    expect(seen).toEqual([403, 403, 403, 403, 403, 429, 429, 429]);
    const right = await from('127.0.0.9', password, '203.0.113.99');
    expect([right.status, Number(fieldValue(right, 'retry-after')) > 0]).toEqual([429, true]);
    expect((await from('127.0.0.10', password, '203.0.113.1')).status).toBe(303);
    expect(await statuses(port, [cookie])).toEqual([200]);
    // Tokens are paid from the same budget: wrong ones only make who sends them wait.
    for (let i = 0; i < 8; i++) await ask(port, '/', [['Authorization', `Bearer tp_${String(i).repeat(43)}`]]);
    await until('the wait to reach the workers', async () => {
      const answer = await ask(port, '/', [['Authorization', `Bearer tp_${'x'.repeat(43)}`]]);
      return answer.status === 429;
    });
    expect(await statuses(port, [cookie])).toEqual([200]);
    const metrics = await p.metrics();
    expect(/^turnpike_gate_throttle_entries (\d+)$/m.exec(metrics)?.[1]).toMatch(/^[1-9]$/);
    expect(metrics).toMatch(/^turnpike_gate_entries\{kind="sessions"\} 2$/m);
    await app.close();
  });
});

describe('ports that open by a login', () => {
  it('TCP and UDP let in who is logged in, and a logout closes what is open', async () => {
    const echo = await Recorder.start({ name: 'tcp', parse: false });
    echo.onRaw = (connection, chunk) => void connection.send(chunk);
    const udp = createSocket('udp4');
    udp.on('message', (message, from) => udp.send(message, from.port, from.address));
    await new Promise<void>((resolve) => udp.bind(0, '127.0.0.1', resolve));
    const [tcpPort, udpPort] = (await freePorts(2)) as [number, number];
    const { p, app, port } = await house(`
[entrypoints.ssh]
address = "127.0.0.1:${tcpPort}"
protocol = "tcp"
requires_session = "app.test"
[entrypoints.game]
address = "127.0.0.1:${udpPort}"
protocol = "udp"
requires_session = "app.test"
[network_services.ssh]
tcp = ["${echo.address}"]
[network_services.game]
udp = ["127.0.0.1:${udp.address().port}"]
[[routers.tcp]]
entrypoint = "ssh"
service = "ssh"
[[routers.udp]]
entrypoint = "game"
service = "game"
`);
    await addUser(p);
    const knock = async (): Promise<RawClient> => {
      const client = await RawClient.connect({ port: tcpPort });
      client.write('hello');
      return client;
    };
    const player = createSocket('udp4');
    let heard = 0;
    player.on('message', () => heard++);
    const stranger = await knock();
    await stranger.waitForEnd();
    player.send('hello', udpPort, '127.0.0.1');
    await logIn(port);
    const guest = await knock();
    await guest.waitForText('hello');
    await until('the datagram', () => {
      player.send('again', udpPort, '127.0.0.1');
      return heard > 0;
    });
    const began = performance.now();
    await call(p, 'gate.sessions.revoke', { user: 'anna' });
    await guest.waitForEnd();
    expect(performance.now() - began).toBeLessThan(2000);
    await (await knock()).waitForEnd();
    const before = heard;
    player.send('gone', udpPort, '127.0.0.1');
    // What a live flow would have answered has come by the time that a closed TCP port is seen again.
    await (await knock()).waitForEnd();
    expect(heard).toBe(before);
    player.close();
    udp.close();
    await echo.close();
    await app.close();
  });
});

describe('the command line', () => {
  it('adds, lists, narrows and removes users; passwords come from standard input alone', async () => {
    const h = await house();
    const { p } = h;
    const pipe = (input: string, ...args: string[]) =>
      turnpikeCommand(['gate', 'users', ...args, '--config', p.configFile], { input });
    const users = (...args: string[]) => run(['gate', 'users', ...args], p.directory);
    expect(pipe(`${password}\n`, 'add', 'anna', '--role', 'owner')).toMatchObject({
      code: 0,
      stdout: 'anna may log in and owns every app.\n',
    });
    expect(pipe('short\n', 'add', 'ben')).toMatchObject({ code: 1 });
    expect(pipe('', 'add', 'ben')).toMatchObject({ code: 2 });
    expect(pipe(`${password}\n`, 'add', 'ben', '--apps', 'app.test')).toMatchObject({ code: 0 });
    const list = await users('list', '--json');
    expect(JSON.parse(list.out)).toMatchObject([
      { name: 'anna', role: 'owner' },
      { name: 'ben', apps: ['app.test'], totp: false },
    ]);
    expect(list.out).not.toMatch(/argon2|salt|hash/);
    const ben = await logIn(h.port, 'ben');
    expect(await statuses(h.port, [ben])).toEqual([200]);
    expect(await users('rights', 'ben', '--role', 'user', '--apps', 'other')).toMatchObject({ code: 0 });
    expect(await statuses(h.port, [ben])).toEqual([403]);
    expect(await users('remove', 'anna')).toMatchObject({ code: 1, err: expect.stringContaining('last owner') });
    expect(await users('remove', 'ben')).toMatchObject({ code: 0 });
    expect(await statuses(h.port, [ben])).toEqual([401]);
    const totp = await users('totp', 'anna');
    expect(totp.out).toMatch(/otpauth:\/\/totp\/Turnpike:anna\?secret=[A-Z2-7]{32}&/);
    expect(p.output).not.toContain(password);
    await h.app.close();
  });

  it('refuses what it does not know, and JSON-RPC says how', async () => {
    const { p, app } = await house();
    const raw = (body: object): Promise<RpcAnswer> => p.control.post<RpcAnswer>(paths.rpc, body);
    expect(await raw({ method: 'gate.status' })).toMatchObject({ error: { code: -32600 } });
    expect(await raw({ jsonrpc: '2.0', id: 'a', method: 'toString' })).toMatchObject({
      id: 'a',
      error: { code: -32601 },
    });
    expect(
      await raw({ jsonrpc: '2.0', id: 1, method: 'security.set-app-gate', params: { id: 'app.test' } }),
    ).toMatchObject({ error: { code: -32602 } });
    expect(
      await raw({ jsonrpc: '2.0', id: 1, method: 'security.set-app-gate', params: { id: 'nobody', enabled: true } }),
    ).toMatchObject({
      error: { code: -32000, data: { fault: 'gate-refused' } },
    });
    expect(await raw({ jsonrpc: '2.0', id: 1, method: 'security.set-app-gate', params: [] })).toMatchObject({
      error: { code: -32602 },
    });
    await app.close();
  });
});

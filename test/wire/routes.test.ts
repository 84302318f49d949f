// Routes of a host: paths, prefixes, fixed answers, redirects, header rules, balancing, sticky, health, hold and stop.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { fieldValue } from '../support/raw-client.ts';
import { Recorder, valuesOf } from '../support/recorder.ts';
import { isH2, isTls, overTransports } from '../support/transports.ts';
import { sleep, until } from '../support/wait.ts';
import {
  echoScript,
  encodeWsFrame,
  extendedConnect,
  H1Tunnel,
  H2Tunnel,
  handshake,
  Opcode,
} from '../support/websocket-frames.ts';

const names = ['paths.test', 'rules.test', 'pair.test', 'robin.test', 'sticky.test', 'held.test', 'checked.test'];
let checked: Recorder;
let steady: Recorder;

const f = useProxy({
  names,
  workers: 1,
  limits: 'max_hold = "1500ms"',
  more: async ({ app1, app2 }) => {
    checked = await Recorder.start({ name: 'checked' });
    steady = await Recorder.start({ name: 'steady' });
    return `
[external_routes."paths.test"]
to = ["${app1.address}"]
[[external_routes."paths.test".routes]]
path = "/api"
to = ["${app2.address}"]
strip_prefix = true
[[external_routes."paths.test".routes]]
path = "/api/deep"
to = ["${app1.address}"]
[[external_routes."paths.test".routes]]
path = "/fixed"
respond = { status = 418, body = "teapot", headers = { "X-Fixed" = "yes" } }
[[external_routes."paths.test".routes]]
path = "/old"
redirect = { to = "https://new.test{uri}", status = 307 }
[external_routes."rules.test"]
to = ["${app1.address}"]
host_header = "inner.test"
request_headers = { set = { "X-Set" = "ours" }, add = { "X-Add" = ["one", "two"] }, remove = ["X-Gone"] }
response_headers = { set = { "X-Set" = "ours" }, remove = ["Server"] }
hsts = "365d"
[external_routes."pair.test"]
to = ["${app1.address}", "${app2.address}"]
[external_routes."robin.test"]
to = ["${app1.address}", "${app2.address}"]
balance = "round_robin"
[external_routes."sticky.test"]
to = ["${app1.address}", "${app2.address}"]
balance = "round_robin"
sticky = true
[external_routes."held.test"]
to = ["${app1.address}"]
[external_routes."checked.test"]
to = ["${steady.address}", "${checked.address}"]
balance = "round_robin"
health = { type = "http", path = "/healthz", interval = "100ms", timeout = "300ms", healthy_after = 2, unhealthy_after = 2 }
`;
  },
});

afterAll(async () => {
  await checked.close();
  await steady.close();
});

overTransports('paths', (transport) => {
  const ask = (path: string) => f.requester(transport).request({ host: 'paths.test', path });

  it.each([
    ['/', 'app1', '/'],
    ['/apix', 'app1', '/apix'],
    ['/API', 'app1', '/API'],
    ['/api', 'app2', '/'],
    ['/api/', 'app2', '/'],
    ['/api/x?q=1', 'app2', '/x?q=1'],
    ['/api?q=1', 'app2', '/?q=1'],
    ['/api/deep/x', 'app1', '/api/deep/x'],
    ['/api/deeper', 'app2', '/deeper'],
    ['/%61pi/x', 'app1', '/%61pi/x'],
  ])('%s goes to %s as %s', async (path, expected, target) => {
    const answer = await ask(path);
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe(expected);
    expect((expected === 'app1' ? f.app1 : f.app2).last.target).toBe(target);
  });

  it('keep dots, doubled slashes and escapes byte for byte', async () => {
    const path = '/a/../b/./c//d;x=1%2Fy%zz?q=%20+&r=a/b#';
    await ask(path.slice(0, -1));
    expect(f.app1.last.target).toBe(path.slice(0, -1));
  });

  it('may have a fixed answer', async () => {
    const answer = await ask('/fixed');
    expect(answer.status).toBe(418);
    expect(answer.body.toString()).toBe('teapot');
    expect(fieldValue(answer, 'x-fixed')).toBe('yes');
  });

  it('may redirect', async () => {
    const answer = await ask('/old/x?y=1');
    expect(answer.status).toBe(307);
    expect(fieldValue(answer, 'location')).toBe('https://new.test/old/x?y=1');
  });
});

overTransports('header rules', (transport) => {
  it('apply to the request', async () => {
    await f.requester(transport).request({
      host: 'rules.test',
      lines: [
        ['X-Set', 'theirs'],
        ['X-Gone', '1'],
        ['X-Add', 'zero'],
      ],
    });
    const { last } = f.app1;
    expect(last.values('host')).toEqual(['inner.test']);
    expect(last.values('x-set')).toEqual(['ours']);
    expect(last.values('x-add')).toEqual(['zero', 'one', 'two']);
    expect(last.values('x-gone')).toEqual([]);
    expect(last.values('x-forwarded-host')).toEqual(['rules.test']);
  });

  it('apply to the answer, and HSTS goes over TLS only', async () => {
    f.app1.script = (exchange) => exchange.ok('ok', 'Server: app/1\r\nX-Set: theirs\r\n');
    const answer = await f.requester(transport).request({ host: 'rules.test' });
    expect(valuesOf(answer.lines, 'x-set')).toEqual(['ours']);
    expect(valuesOf(answer.lines, 'server')).toEqual([]);
    expect(valuesOf(answer.lines, 'strict-transport-security')).toEqual(isTls(transport) ? ['max-age=31536000'] : []);
  });
});

overTransports('several backends', (transport) => {
  it('take turns', async () => {
    const requester = f.requester(transport);
    const bodies: string[] = [];
    for (let i = 0; i < 6; i++) bodies.push((await requester.request({ host: 'robin.test' })).body.toString());
    expect(bodies.filter((body) => body === 'app1').length).toBe(3);
    for (let i = 1; i < 6; i++) expect(bodies[i]).not.toBe(bodies[i - 1]);
  });

  it('least requests go to the one with less to do', async () => {
    f.app1.script = () => {};
    const busy = await Promise.all(
      Array.from({ length: 3 }, async () => {
        const live = await f.requester(transport).open({ host: 'pair.test', endStream: true });
        await sleep(30);
        return live;
      }),
    );
    const stuck = f.app1.exchanges.length;
    expect(stuck).toBeGreaterThan(0);
    for (let i = 0; i < 6; i++) {
      expect((await f.requester(transport).request({ host: 'pair.test' })).body.toString()).toBe('app2');
    }
    for (const live of busy) live.abort();
  });

  it('a sticky cookie keeps a client with its backend; a forged one does not choose', async () => {
    const first = await f.requester(transport).request({ host: 'sticky.test' });
    const cookie = valuesOf(first.lines, 'set-cookie').find((line) => !line.startsWith('app'))!;
    expect(cookie).toMatch(/HttpOnly/i);
    const pair = cookie.split(';')[0]!;
    expect(pair).not.toContain(f.app1.address);
    for (let i = 0; i < 6; i++) {
      const answer = await f.requester(transport).request({ host: 'sticky.test', lines: [['Cookie', `a=1; ${pair}`]] });
      expect(answer.body.toString()).toBe(first.body.toString());
    }
    const [name = '', value = ''] = pair.split('=');
    const forged = `${name}=${value.slice(0, -2)}${value.endsWith('AA') ? 'BB' : 'AA'}`;
    const bodies = new Set<string>();
    for (let i = 0; i < 6; i++) {
      const answer = await f.requester(transport).request({ host: 'sticky.test', lines: [['Cookie', forged]] });
      bodies.add(answer.body.toString());
    }
    expect(bodies.size).toBe(2);
  });
});

describe('health', () => {
  let healthy = true;
  beforeAll(() => {
    healthy = true;
  });

  it('an active check takes a backend out and brings it back', async () => {
    checked.script = (exchange) => {
      if (exchange.target === '/healthz') {
        exchange.reply(`HTTP/1.1 ${healthy ? 200 : 500} X\r\nContent-Length: 0\r\n\r\n`);
      } else exchange.ok('checked');
    };
    const seen = async (): Promise<Set<string>> => {
      const bodies = new Set<string>();
      for (let i = 0; i < 6; i++) {
        bodies.add((await f.requester('h1').request({ host: 'checked.test' })).body.toString());
      }
      return bodies;
    };
    await until('both backends', async () => (await seen()).size === 2);
    expect(checked.exchanges.find((each) => each.target === '/healthz')!.value('host')).toBe('checked.test');
    healthy = false;
    await until('one backend', async () => (await seen()).size === 1);
    expect(await seen()).toEqual(new Set(['steady']));
    healthy = true;
    await until('both backends again', async () => (await seen()).size === 2);
  });
});

overTransports('a service', (transport) => {
  const ask = () => f.requester(transport).request({ host: 'held.test' });

  it('that is paused holds its requests, and lets them go on when resumed', async () => {
    await f.p.service('held.test', 'pause');
    const waiting = Promise.all([ask(), ask(), ask()]);
    await sleep(300);
    expect(f.app1.exchanges.length).toBe(0);
    await f.p.service('held.test', 'resume');
    expect((await waiting).map((answer) => answer.status)).toEqual([200, 200, 200]);
  });

  it('that stays paused answers 503 after max_hold', async () => {
    await f.p.service('held.test', 'pause');
    const started = performance.now();
    const answer = await ask();
    expect(answer.status).toBe(503);
    expect(Number(fieldValue(answer, 'retry-after'))).toBeGreaterThan(0);
    expect(performance.now() - started).toBeGreaterThan(1400);
    await f.p.service('held.test', 'resume');
    expect((await ask()).status).toBe(200);
  });

  it('that is stopped answers 503 at once, and comes back when started', async () => {
    await f.p.service('held.test', 'stop');
    const started = performance.now();
    const answer = await ask();
    expect(answer.status).toBe(503);
    expect(fieldValue(answer, 'retry-after')).not.toBeNull();
    expect(performance.now() - started).toBeLessThan(500);
    expect(f.app1.exchanges.length).toBe(0);
    await f.p.service('held.test', 'start');
    expect((await ask()).status).toBe(200);
  });

  it('that is paused holds a WebSocket handshake and its first frames', async () => {
    // http-party/node-http-proxy#473 with a decision in between: early bytes must survive the wait.
    f.app1.script = echoScript;
    await f.p.service('held.test', 'pause');
    const requester = f.requester(transport);
    const hello = encodeWsFrame(Opcode.Text, 'hi', { mask: true });
    if (isH2(transport)) {
      const connection = await requester.h2('held.test');
      const stream = connection.open(extendedConnect('held.test'), { endStream: false });
      await stream.send(hello);
      await sleep(200);
      expect(f.app1.exchanges.length).toBe(0);
      await f.p.service('held.test', 'resume');
      await stream.head();
      expect(stream.status).toBe(200);
      await new H2Tunnel(stream).waitForFrames(1);
    } else {
      const client = await f.raw(transport, 'held.test');
      client.write(Buffer.concat([Buffer.from(handshake('held.test'), 'latin1'), hello]));
      await sleep(200);
      expect(f.app1.exchanges.length).toBe(0);
      await f.p.service('held.test', 'resume');
      expect((await client.readAnswer()).status).toBe(101);
      await new H1Tunnel(client).waitForFrames(1);
    }
    expect(f.app1.last.connection.raw.equals(hello)).toBe(true);
  });

  it('that is paused drops a waiting client that leaves', async () => {
    await f.p.service('held.test', 'pause');
    const live = await f.requester(transport).open({ host: 'held.test', endStream: true });
    await sleep(100);
    live.abort();
    await sleep(100);
    await f.p.service('held.test', 'resume');
    await sleep(200);
    expect(f.app1.exchanges.length).toBe(0);
  });
});

overTransports('answers of our own', (transport) => {
  it.each([
    ['text/html,application/xhtml+xml', /^text\/html/, '<'],
    ['application/json', /^application\/json/, '{'],
    ['*/*', /^text\/plain/, ''],
  ])('for Accept: %s', async (accept, type, start) => {
    const requester = f.requester(transport);
    // The connection is made for a name that we have; the request is for one that we have not.
    if (isH2(transport)) await requester.h2('app1.test');
    else await requester.h1('app1.test');
    const answer = await requester.request({ host: 'nobody.test', lines: [['Accept', accept]] });
    expect(answer.status).toBe(404);
    expect(fieldValue(answer, 'content-type')).toMatch(type);
    expect(answer.body.toString().startsWith(start)).toBe(true);
    expect(answer.body.toString()).not.toMatch(/127\.0\.0\.1|at .*\.ts/);
  });
});

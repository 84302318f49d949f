// What becomes of header fields on their way: hop-by-hop, forwarded-for, control bytes, redirects, cookies.
import { describe, expect, it } from 'vitest';
import { H2Connection } from '../support/h2-frames.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { fieldValue, RawClient } from '../support/raw-client.ts';
import { type Line, valuesOf } from '../support/recorder.ts';
import { isH2, isTls, overTransports } from '../support/transports.ts';

// 127.0.0.1 is an ordinary client, 127.0.0.2 is a proxy whose forwarded headers are believed.
const f = useProxy({ top: 'trusted_proxies = ["127.0.0.2/32"]' });

overTransports('fields that belong to one hop', (transport) => {
  // dadrus/heimdall#653, google/capsem#119: a client lists a proxy-set header in Connection and has it stripped.
  const hostile: Line[] = isH2(transport)
    ? [
        ['x-forwarded-for', '9.9.9.9'],
        ['te', 'trailers'],
      ]
    : [
        ['Connection', 'close, X-Forwarded-For, X-Forwarded-Proto, X-Real-IP, X-Secret, Host'],
        ['X-Forwarded-For', '9.9.9.9'],
        ['X-Secret', 's'],
        ['Keep-Alive', 'x'],
        ['Proxy-Connection', 'x'],
        ['TE', 'trailers, deflate'],
        ['Upgrade', 'foo'],
      ];

  it('are taken out of the request before ours are added', async () => {
    const answer = await f.requester(transport).request({ lines: hostile });
    expect(answer.status).toBe(200);
    const { last } = f.app1;
    expect(last.values('x-forwarded-for')).toEqual(['127.0.0.1']);
    expect(last.values('x-forwarded-proto')).toEqual([isTls(transport) ? 'https' : 'http']);
    expect(last.values('x-real-ip')).toEqual(['127.0.0.1']);
    expect(last.values('host')).toEqual(['app1.test']);
    for (const name of ['x-secret', 'keep-alive', 'proxy-connection', 'upgrade']) expect(last.values(name)).toEqual([]);
    expect(['', 'trailers']).toContain(last.values('te').join());
    expect(last.head).not.toContain('9.9.9.9');
  });

  it('are taken out of the answer', async () => {
    f.app1.script = (exchange) =>
      exchange.reply(
        'HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Secret, X-Kept-Not\r\nX-Secret: s\r\nX-Kept-Not: n\r\n' +
          'Keep-Alive: timeout=5\r\nProxy-Connection: x\r\nUpgrade: foo\r\nX-Kept: y\r\nContent-Length: 2\r\n\r\nok',
      );
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe('ok');
    expect(fieldValue(answer, 'x-kept')).toBe('y');
    for (const name of ['x-secret', 'x-kept-not', 'keep-alive', 'proxy-connection', 'upgrade']) {
      expect(valuesOf(answer.lines, name), name).toEqual([]);
    }
    if (isH2(transport)) expect(valuesOf(answer.lines, 'connection')).toEqual([]);
  });
});

overTransports('forwarded headers of a client', (transport) => {
  // aether-lang-dev/aether#1837, basecamp/kamal-site#141: the app saw two X-Forwarded-For lines and trusted the client's.
  const claims: Line[] = [
    ['X-Forwarded-For', '10.0.0.1'],
    ['Forwarded', 'for=10.0.0.1;proto=https'],
    ['X-Forwarded-Proto', 'https'],
    ['X-Forwarded-Host', 'evil.test'],
    ['X-Forwarded-Port', '4444'],
    ['X-Real-IP', '10.0.0.1'],
  ];

  it('that is not trusted are replaced', async () => {
    await f.requester(transport).request({ lines: [...claims, ...claims] });
    const { last } = f.app1;
    expect(last.values('x-forwarded-for')).toEqual(['127.0.0.1']);
    expect(last.values('x-real-ip')).toEqual(['127.0.0.1']);
    expect(last.values('x-forwarded-proto')).toEqual([isTls(transport) ? 'https' : 'http']);
    expect(last.values('x-forwarded-host')).toEqual(['app1.test']);
    expect(last.values('x-forwarded-port')).toEqual([String(isTls(transport) ? f.securePort : f.webPort)]);
    expect(last.values('forwarded').length).toBeLessThanOrEqual(1);
    expect(last.head).not.toMatch(/10\.0\.0\.1|evil\.test|4444/);
  });

  it('spelled with underscores do not slip through beside ours', async () => {
    const spelled: Line[] = [
      ['X_Forwarded_For', '10.0.0.1'],
      ['x_forwarded-proto', 'https'],
      ['X-Real_IP', '10.0.0.1'],
    ];
    await f.requester(transport).request({ lines: spelled });
    expect(f.app1.last.head).not.toMatch(/10\.0\.0\.1|_forwarded|real_ip/i);
  });

  it('that is trusted are believed, and its chain grows by one line', async () => {
    const requester = f.requester(transport, { localAddress: '127.0.0.2' });
    await requester.request({
      lines: [
        ['X-Forwarded-For', '10.0.0.1'],
        ['X-Forwarded-For', '10.0.0.3'],
        ['X-Forwarded-Proto', 'https'],
        ['X-Forwarded-Host', 'front.test'],
      ],
    });
    const { last } = f.app1;
    expect(last.values('x-forwarded-for')).toEqual(['10.0.0.1, 10.0.0.3, 127.0.0.2']);
    expect(last.values('x-forwarded-proto')).toEqual(['https']);
    expect(last.values('x-forwarded-host')).toEqual(['front.test']);
  });

  it('the Forwarded field is sent when asked for: once, and ours', async () => {
    // switched on in host-and-authority; here it is off, and what clients send of it is gone all the same.
    await f.requester(transport).request({
      lines: [
        ['Forwarded', 'for=10.0.0.1'],
        ['Forwarded', 'for=10.0.0.2'],
      ],
    });
    expect(f.app1.last.values('forwarded')).toEqual([]);
  });

  it('a request id is made for strangers and kept for trusted peers', async () => {
    await f.requester(transport).request({ lines: [['X-Request-Id', 'mine']] });
    const made = f.app1.last.values('x-request-id');
    expect(made.length).toBe(1);
    expect(made[0]).not.toBe('mine');
    const requester = f.requester(transport, { localAddress: '127.0.0.2' });
    await requester.request({ lines: [['X-Request-Id', 'theirs']] });
    expect(f.app1.last.values('x-request-id')).toEqual(['theirs']);
  });
});

overTransports('answers with odd bytes', (transport) => {
  // http-party/node-http-proxy#964, #1395, fastify/fastify-http-proxy#472: a control byte in a response header throws in
  // setHeader and takes the whole process down.
  it('a file name in UTF-8 passes byte for byte', async () => {
    const value = Buffer.from('attachment; filename="café中.pdf"').toString('latin1');
    f.app1.script = (exchange) => exchange.ok('ok', `Content-Disposition: ${value}\r\n`);
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(200);
    expect(fieldValue(answer, 'content-disposition')).toBe(value);
  });

  it.each([
    ['a control byte in a value', 'X-A: a\x01b\r\n'],
    ['a NUL in a value', 'X-A: a\0b\r\n'],
    ['a bare CR in a value', 'X-A: a\rb\r\n'],
    ['a space in a name', 'X A: b\r\n'],
    ['a space before the colon', 'X-A : b\r\n'],
  ])('%s makes it 502, and others are not disturbed', async (_name, line) => {
    const workers = await f.p.workerPids();
    f.app1.script = (exchange) => exchange.ok('never', line);
    f.app2.script = (exchange) => void setTimeout(() => exchange.ok('calm'), 100);
    const calm = f.requester(transport).request({ host: 'app2.test' });
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(502);
    expect(answer.body.toString()).not.toContain('never');
    expect((await calm).body.toString()).toBe('calm');
    expect(await f.p.workerPids()).toEqual(workers);
  });

  it('a very long value passes or is a clean 502', async () => {
    f.app1.script = (exchange) => exchange.ok('ok', `X-A: ${'a'.repeat(20_000)}\r\n`);
    const answer = await f.requester(transport).request();
    expect([200, 502]).toContain(answer.status);
    if (answer.status === 200) expect(fieldValue(answer, 'x-a')?.length).toBe(20_000);
  });

  it('a reason phrase of high bytes keeps the status', async () => {
    f.app1.script = (exchange) => exchange.reply('HTTP/1.1 203 \x80\xff caf\xe9\r\nContent-Length: 2\r\n\r\nok');
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(203);
    if (!isH2(transport)) expect(answer.reason).toBe('\x80\xff caf\xe9');
  });
});

describe('a request with odd bytes', () => {
  it('a space in a field name is refused', async () => {
    for (const transport of ['h1', 'h1+tls'] as const) {
      const client = await f.raw(transport);
      const answer = await client.ask('GET / HTTP/1.1\r\nHost: app1.test\r\nUser Agent: x\r\n\r\n');
      expect(answer.status).toBe(400);
      expect(f.app1.exchanges.length).toBe(0);
    }
  });

  it('bytes beyond ASCII in a value reach the backend unchanged', async () => {
    const value = Buffer.from('né中').toString('latin1');
    for (const transport of ['h1', 'h1+tls', 'h2', 'h2c'] as const) {
      await f.requester(transport).request({ lines: [['X-Name', value]] });
      expect(f.app1.last.value('x-name'), transport).toBe(value);
    }
  });
});

overTransports('answers of the app', (transport) => {
  // basecamp/kamal-proxy#47: an app's 302 reached the browser as a 200 that still carried Location.
  it.each([
    [201, 'Created', 'made'],
    [302, 'Found', ''],
    [303, 'See Other', 'see'],
    [307, 'Temporary Redirect', 'again'],
    [308, 'Permanent Redirect', 'always'],
    [451, 'Unavailable For Legal Reasons', 'no'],
    [599, 'Odd', 'odd'],
  ])('a %i keeps its status, Location and every Set-Cookie line', async (status, reason, body) => {
    f.app1.script = (exchange) =>
      exchange.reply(
        `HTTP/1.1 ${status} ${reason}\r\nLocation: /next\r\nSet-Cookie: a=1\r\nX-Between: 1\r\nSet-Cookie: b=2; Path=/\r\n` +
          `Content-Length: ${body.length}\r\n\r\n${body}`,
      );
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(status);
    if (!isH2(transport)) expect(answer.reason).toBe(reason);
    expect(valuesOf(answer.lines, 'location')).toEqual(['/next']);
    expect(valuesOf(answer.lines, 'set-cookie')).toEqual(['a=1', 'b=2; Path=/']);
    expect(answer.body.toString()).toBe(body);
    expect(f.app1.exchanges.map((each) => each.target)).toEqual(['/']);
  });

  it('a 401 keeps two WWW-Authenticate lines in order', async () => {
    f.app1.script = (exchange) =>
      exchange.reply(
        'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm="a"\r\nWWW-Authenticate: Bearer\r\nContent-Length: 0\r\n\r\n',
      );
    const answer = await f.requester(transport).request();
    expect(answer.status).toBe(401);
    expect(valuesOf(answer.lines, 'www-authenticate')).toEqual(['Basic realm="a"', 'Bearer']);
  });

  it('field order and case reach an HTTP/1.1 client as sent', async () => {
    f.app1.script = (exchange) => exchange.ok('ok', 'X-ZeBra: 1\r\nx-apple: 2\r\nX-MANGO: 3\r\n');
    const answer = await f.requester(transport).request();
    const names = answer.lines.map(([name]) => name).filter((name) => /^x-(zebra|apple|mango)$/i.test(name));
    expect(names).toEqual(isH2(transport) ? ['x-zebra', 'x-apple', 'x-mango'] : ['X-ZeBra', 'x-apple', 'X-MANGO']);
  });
});

overTransports('field order and case of a request', (transport) => {
  it('reach the backend as sent', async () => {
    await f.requester(transport).request({
      lines: [
        ['X-ZeBra', '1'],
        ['x-apple', '2'],
        ['X-ZeBra', '3'],
      ],
    });
    const lines = f.app1.last.lines.filter(([name]) => /^x-(zebra|apple)$/i.test(name));
    const zebra = isH2(transport) ? 'x-zebra' : 'X-ZeBra';
    expect(lines).toEqual([
      [zebra, '1'],
      ['x-apple', '2'],
      [zebra, '3'],
    ]);
  });
});

describe('cookies', () => {
  // cloudflare/pingora#892, mitmproxy/mitmproxy#5337, jdx/pitchfork#845, varnishcache/varnish-cache#2291
  it.each(['h2', 'h2c'] as const)('crumbs of an HTTP/2 request become one Cookie line [%s]', async (transport) => {
    const connection = await f.requester(transport).h2();
    const crumbs: Line[] = [
      ['cookie', 'a=1'],
      ['x-between', '1'],
      ['cookie', 'sid=xyz'],
      ['cookie', 'b=2'],
    ];
    await connection.open(H2Connection.request('GET', 'app1.test', '/', crumbs)).answer();
    expect(f.app1.last.values('cookie')).toEqual(['a=1; sid=xyz; b=2']);
  });

  it.each(['h1', 'h1+tls'] as const)('two Cookie lines of an HTTP/1.1 request become one [%s]', async (transport) => {
    const client = await f.raw(transport);
    await client.ask('GET / HTTP/1.1\r\nHost: app1.test\r\nCookie: a=1; sid=xyz\r\nX-B: 1\r\ncookie: b=2\r\n\r\n');
    expect(f.app1.last.values('cookie')).toEqual(['a=1; sid=xyz; b=2']);
  });
});

describe('an HTTP/1.0 client', () => {
  it('gets its answer, Host or not, and the connection closes', async () => {
    const client = await RawClient.connect({ port: f.webPort });
    const answer = await client.ask('GET /old HTTP/1.0\r\nHost: app1.test\r\n\r\n');
    expect(answer.status).toBe(200);
    expect(valuesOf(answer.lines, 'transfer-encoding')).toEqual([]);
    await client.waitForEnd();
  });
});

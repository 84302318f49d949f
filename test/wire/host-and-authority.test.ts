// Which host a request is for: Host fields, absolute-form targets, dots, case, IPv6, wildcards.
import { afterAll, describe, expect, it } from 'vitest';
import { ErrorCode, H2Connection } from '../support/h2-frames.ts';
import { freePort } from '../support/ports.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import { Recorder } from '../support/recorder.ts';
import { isH2, overTransports, type Transport } from '../support/transports.ts';

let sixPort = 0;
let sixBackend: Recorder;

const f = useProxy({
  top: 'forwarded_header = true',
  names: ['*.wild.test', 'wild.test', 'a.b.wild.test', 'xwild.test', 'dotted.test', '::1'],
  more: async ({ app1 }) => {
    sixPort = await freePort();
    sixBackend = await Recorder.start({ name: 'six', host: '::1' });
    return `
[entrypoints.six]
address = "[::1]:${sixPort}"
protocol = "http"
[external_routes."[::1]"]
to = ["${app1.address}"]
[external_routes."dotted.test."]
to = ["${app1.address}"]
[external_routes."*.wild.test"]
respond = { status = 200, body = "A" }
[external_routes."api.wild.test"]
respond = { status = 200, body = "B" }
[external_routes."*"]
respond = { status = 200, body = "D" }
[external_routes."six.test"]
to = ["http://[::1]:${sixBackend.port}"]
`;
  },
});

afterAll(() => sixBackend.close());

const h1Transports: readonly Transport[] = ['h1', 'h1+tls'];
const h2Transports: readonly Transport[] = ['h2', 'h2c'];

overTransports(
  'a Host that is not one host is refused',
  (transport) => {
    // s3s-project/s3s#768: a router took the first of two values, another layer the last.
    it.each([
      ['two Host lines', 'Host: app1.test\r\nHost: app2.test\r\n'],
      ['two equal Host lines', 'Host: app1.test\r\nHost: app1.test\r\n'],
      ['a path in it', 'Host: app1.test/@evil\r\n'],
      ['a port beyond 65535', 'Host: app1.test:99999\r\n'],
      ['a port that is no number', 'Host: app1.test:80x\r\n'],
      ['a space', 'Host: a b\r\n'],
      ['userinfo', 'Host: user@app1.test\r\n'],
      ['a list', 'Host: app1.test, app2.test\r\n'],
      ['nothing', 'Host:\r\n'],
      ['no Host line', ''],
    ])('%s', async (_name, lines) => {
      const client = await f.raw(transport);
      const answer = await client.ask(`GET / HTTP/1.1\r\n${lines}\r\n`);
      expect(answer.status).toBe(400);
      expect(f.app1.exchanges.length + f.app2.exchanges.length).toBe(0);
    });
  },
  h1Transports,
);

overTransports(
  'an absolute-form target',
  (transport) => {
    // haproxy/haproxy#1378, Pylons/waitress#496, zoxy-io/zoxy#248: routed by Host although the target names another.
    it('that disagrees with Host is refused and reaches neither backend', async () => {
      const client = await f.raw(transport);
      const answer = await client.ask('GET http://app2.test/x?y HTTP/1.1\r\nHost: app1.test\r\n\r\n');
      expect(answer.status).toBe(400);
      expect(f.app1.exchanges.length + f.app2.exchanges.length).toBe(0);
    });

    it('that agrees is forwarded in origin-form', async () => {
      const client = await f.raw(transport);
      const answer = await client.ask('GET http://app1.test/x?y HTTP/1.1\r\nHost: app1.test\r\n\r\n');
      expect(answer.status).toBe(200);
      expect(f.app1.last.head.split('\r\n')[0]).toBe('GET /x?y HTTP/1.1');
      expect(f.app1.last.values('host')).toEqual(['app1.test']);
    });

    it('agrees whatever the case and the dot', async () => {
      const client = await f.raw(transport);
      const answer = await client.ask('GET http://APP1.test./x HTTP/1.1\r\nHost: app1.test\r\n\r\n');
      expect(answer.status).toBe(200);
      expect(f.app1.last.target).toBe('/x');
    });

    it('without a path is forwarded as "/"', async () => {
      const client = await f.raw(transport);
      const answer = await client.ask('GET http://app1.test HTTP/1.1\r\nHost: app1.test\r\n\r\n');
      expect(answer.status).toBe(200);
      expect(f.app1.last.target).toBe('/');
    });

    it('without a path but with a query keeps the query', async () => {
      const client = await f.raw(transport);
      await client.ask('GET http://app1.test?q=1 HTTP/1.1\r\nHost: app1.test\r\n\r\n');
      expect(f.app1.last.target).toBe('/?q=1');
    });

    it.each(['ftp://app1.test/', 'gopher://app1.test/x', 'app1.test/', '//', 'http:/app1.test/', 'http:///x'])(
      'spelled %s is refused',
      async (target) => {
        const client = await f.raw(transport);
        const answer = await client.ask(`GET ${target} HTTP/1.1\r\nHost: app1.test\r\n\r\n`);
        // "//" is a legal origin-form path; everything else names no http resource.
        expect(answer.status).toBe(target === '//' ? 200 : 400);
      },
    );

    it('OPTIONS * passes, and * with another method is refused', async () => {
      const client = await f.raw(transport);
      const answer = await client.ask('OPTIONS * HTTP/1.1\r\nHost: app1.test\r\n\r\n');
      expect(answer.status).toBe(200);
      expect(f.app1.last.head.split('\r\n')[0]).toBe('OPTIONS * HTTP/1.1');
      const other = await client.ask('GET * HTTP/1.1\r\nHost: app1.test\r\n\r\n');
      expect(other.status).toBe(400);
    });
  },
  h1Transports,
);

overTransports(
  'the authority of an HTTP/2 request',
  (transport) => {
    it.each([
      ['a path in it', 'app1.test/@evil'],
      ['a port beyond 65535', 'app1.test:99999'],
      ['a space', 'a b'],
      ['userinfo', 'user@app1.test'],
      ['two dots', 'app1.test..'],
    ])('with %s is refused', async (_name, authority) => {
      const connection = await f.requester(transport).h2();
      const stream = connection.open(H2Connection.request('GET', authority, '/'));
      const status = await stream.answer().then(
        (answer) => answer.status,
        () => `reset ${stream.resetCode}`,
      );
      expect([400, `reset ${ErrorCode.ProtocolError}`]).toContain(status);
      expect(f.app1.exchanges.length + f.app2.exchanges.length).toBe(0);
    });

    it('that disagrees with a host field is refused', async () => {
      const connection = await f.requester(transport).h2();
      const stream = connection.open(H2Connection.request('GET', 'app1.test', '/', [['host', 'app2.test']]));
      const status = await stream.answer().then(
        (answer) => answer.status,
        () => `reset ${stream.resetCode}`,
      );
      expect([400, `reset ${ErrorCode.ProtocolError}`]).toContain(status);
      expect(f.app1.exchanges.length + f.app2.exchanges.length).toBe(0);
    });

    it('may be repeated in an agreeing host field; the backend gets one Host', async () => {
      const connection = await f.requester(transport).h2();
      const stream = connection.open(H2Connection.request('GET', 'app1.test', '/x', [['host', 'app1.test']]));
      expect((await stream.answer()).status).toBe(200);
      expect(f.app1.last.values('host')).toEqual(['app1.test']);
    });

    it('may stand in a host field alone', async () => {
      const connection = await f.requester(transport).h2();
      const lines = H2Connection.request('GET', '', '/x', [['host', 'app1.test']]).filter(
        ([name]) => name !== ':authority',
      );
      expect((await connection.open(lines).answer()).status).toBe(200);
      expect(f.app1.last.values('host')).toEqual(['app1.test']);
    });

    it.each(['x', 'http://app1.test/x', '/a#b', '/a b', ''])('is not saved by a bad path: %s', async (path) => {
      const connection = await f.requester(transport).h2();
      const stream = connection.open(H2Connection.request('GET', 'app1.test', path));
      const status = await stream.answer().then(
        (answer) => answer.status,
        () => `reset ${stream.resetCode}`,
      );
      expect([400, `reset ${ErrorCode.ProtocolError}`]).toContain(status);
      expect(f.app1.exchanges.length).toBe(0);
    });
  },
  h2Transports,
);

overTransports('a name with a trailing dot or capitals', (transport) => {
  // istio/istio#58214, zalando/skipper#1863, Kong/kong#8269, curl/curl#716: `app1.test.` fell to the default app.
  it.each(['app1.test.', 'app1.test.:8080', 'APP1.TEST.', 'App1.Test', 'app1.test:1'])(
    '%s is app1.test',
    async (host) => {
      const requester = f.requester(transport);
      // TLS with SNI app1.test; the authority is the odd one.
      if (isH2(transport)) await requester.h2('app1.test');
      else await requester.h1('app1.test');
      const answer = await requester.request({ host, path: '/dot' });
      expect(answer.status).toBe(200);
      expect(f.app1.last.target).toBe('/dot');
      expect(f.app1.last.values('host')[0]).toMatch(/^app1\.test(:\d+)?$/);
    },
  );

  it('two dots are refused', async () => {
    const requester = f.requester(transport);
    if (isH2(transport)) await requester.h2('app1.test');
    else await requester.h1('app1.test');
    const status = await requester.request({ host: 'app1.test..' }).then(
      (answer) => answer.status,
      () => 400,
    );
    expect([400, 404]).toContain(status);
    expect(f.app1.exchanges.length).toBe(0);
  });

  it('a configured name with a dot is the name without it', async () => {
    const answer = await f.requester(transport).request({ host: 'dotted.test' });
    expect(answer.status).toBe(200);
    expect(f.app1.exchanges.length).toBe(1);
  });
});

overTransports('an IPv6 literal as host', (transport) => {
  // dlundquist/sniproxy#279, cert-manager/cert-manager#8424, vibe-d/vibe.d#1391: cut at the last colon.
  const ask = async (host: string): Promise<number> => {
    const requester = f.requester(transport);
    if (isH2(transport)) await requester.h2('');
    else await requester.h1('');
    return requester.request({ host, path: '/v6' }).then(
      (answer) => answer.status,
      () => 400,
    );
  };

  it.each(['[::1]', '[::1]:8080', '[0:0:0:0:0:0:0:1]', '[::0001]'])('%s is the configured [::1]', async (host) => {
    expect(await ask(host)).toBe(200);
    expect(f.app1.exchanges.length).toBe(1);
  });

  it.each(['::1', '[::1', '[::1]x', '[::1%eth0]', '[:::1]', '[]'])('%s is refused', async (host) => {
    expect(await ask(host)).toBe(400);
    expect(f.app1.exchanges.length).toBe(0);
  });
});

describe('IPv6 on both sides', () => {
  it('the backend address is dialled, and the client address is forwarded as it is written', async () => {
    const client = await RawClient.connect({ port: sixPort, host: '::1' });
    const answer = await client.ask('GET /six HTTP/1.1\r\nHost: six.test\r\n\r\n');
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe('six');
    const { last } = sixBackend;
    expect(last.values('x-forwarded-for')).toEqual(['::1']);
    expect(last.values('x-real-ip')).toEqual(['::1']);
    // RFC 7239 §6: an IPv6 address is quoted and in brackets.
    expect(last.values('forwarded').join()).toContain('for="[::1]"');
    expect(last.values('host')).toEqual(['six.test']);
    sixBackend.reset();
  });
});

overTransports('wildcards', (transport) => {
  // basecamp/kamal-proxy#30, #45: a wildcard routed nothing, or swallowed names it should not.
  it.each([
    ['x.wild.test', 'A'],
    ['X.Wild.Test', 'A'],
    ['api.wild.test', 'B'],
    ['a.b.wild.test', 'D'],
    ['wild.test', 'D'],
    ['xwild.test', 'D'],
  ])('%s goes to %s', async (host, expected) => {
    const answer = await f.requester(transport).request({ host });
    expect(answer.status).toBe(200);
    expect(answer.body.toString()).toBe(expected);
  });
});

overTransports('an empty first label', (transport) => {
  it('is refused or left to the catch-all, never to the wildcard', async () => {
    const requester = f.requester(transport);
    if (isH2(transport)) await requester.h2('app1.test');
    else await requester.h1('app1.test');
    const outcome = await requester.request({ host: '.wild.test' }).then(
      (answer) => (answer.status === 200 ? answer.body.toString() : answer.status),
      () => 400,
    );
    expect([400, 'D']).toContain(outcome);
  });
});

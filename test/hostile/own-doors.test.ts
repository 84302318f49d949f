// Requests that aim at Turnpike itself, or at what listens beside it, by way of Turnpike.
//
// CVE-2021-40438 of Apache's mod_proxy, googlecontainertools/kpt and many "open proxy" reports: a target or a Host chose where
// the proxy connects to, and the metrics, the control address or the cloud's metadata answered. Here only the configuration
// says where a request goes: what a client writes selects a route, and is never an address.
import { expect, it } from 'vitest';
import { freePort } from '../support/ports.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { overTransports } from '../support/transports.ts';
import { answersUntilEnd, askH2, h1Ways, h2Ways } from './support/provoke.ts';

let metricsPort = 0;

const f = useProxy({
  workers: 1,
  more: async () => {
    metricsPort = await freePort();
    return `[metrics]\naddress = "127.0.0.1:${metricsPort}"\n`;
  },
});

/** Names of the metrics' address; `<m>` is its port. */
const inside = [
  '127.0.0.1:<m>',
  'localhost:<m>',
  '[::1]:<m>',
  '[::ffff:127.0.0.1]:<m>',
  '0.0.0.0:<m>',
  '127.1:<m>',
  '2130706433:<m>',
  '0x7f.1:<m>',
  '169.254.169.254',
  'app1.test@127.0.0.1:<m>',
  'app1.test:<m>',
];
const named = (text: string): string => text.replaceAll('<m>', String(metricsPort));

overTransports(
  'our own doors are not reached',
  (transport) => {
    it.each(inside)('by Host or an absolute target: %s', async (place) => {
      const host = named(place);
      for (const head of [
        `GET /metrics HTTP/1.1\r\nHost: ${host}\r\n`,
        `GET http://${host}/metrics HTTP/1.1\r\nHost: ${host}\r\n`,
        `GET http://${host}/metrics HTTP/1.1\r\nHost: app1.test\r\n`,
        `GET /metrics HTTP/1.1\r\nHost: app1.test\r\nX-Forwarded-Host: ${host}\r\n`,
        `GET /metrics HTTP/1.1\r\nHost: app1.test\r\nX-Host: ${host}\r\nForwarded: host="${host}"\r\n`,
      ]) {
        const client = await f.raw(transport);
        client.write(`${head}Connection: close\r\n\r\n`);
        const [answer] = await answersUntilEnd(client);
        expect([200, 400, 404, 421], head).toContain(answer!.status);
        expect(answer!.body.toString(), head).not.toContain('turnpike_');
      }
      // What was served at all was served by the backend of the name that was asked for.
      for (const exchange of f.app1.exchanges) expect(exchange.target).toBe('/metrics');
    });

    it.each(inside)('by CONNECT: %s', async (place) => {
      const host = named(place);
      const client = await f.raw(transport);
      client.write(`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n`);
      const answers = await answersUntilEnd(client);
      expect(answers.map((each) => [400, 405].includes(each.status))).toEqual([true]);
      expect(f.app1.exchanges).toEqual([]);
    });
  },
  h1Ways,
);

overTransports(
  'our own doors are not reached over HTTP/2',
  (transport) => {
    it.each(inside)('by :authority or CONNECT: %s', async (place) => {
      const authority = named(place);
      const outcome = await askH2(f, transport, [], { method: 'GET', path: '/metrics', authority });
      if (place === 'app1.test:<m>') expect(outcome).toBe(200);
      else expect([400, 404, 421, 'reset', 'goaway']).toContain(outcome);
      const whole = [
        [':method', 'CONNECT'],
        [':authority', authority],
      ] as const;
      expect([400, 405, 'reset', 'goaway']).toContain(await askH2(f, transport, [], { whole }));
    });
  },
  h2Ways,
);

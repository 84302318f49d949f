// The look before a first order: real name server, real data plane, and what stands in its place on bad days.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { lookFirst } from '../../src/certificates/acme/look-first.ts';
import type { RenewalTarget } from '../../src/certificates/acme/settings.ts';
import { unhurried } from '../support/acme.ts';
import { AcmeEdge, WatchedPresenter } from '../support/acme-edge.ts';
import { Named } from '../support/named.ts';
import { freePort } from '../support/ports.ts';
import { noChallenges } from '../support/routing.ts';

const edge = new AcmeEdge();
let named: Named;
let stranger: Server;
let closedPort = 0;

beforeAll(async () => {
  const records = ['app A 127.0.0.1', 'six AAAA ::1', 'lan A 10.0.0.1', 'lan A 192.168.0.1', 'text TXT nothing'];
  named = await Named.start({ 'zone.test': records });
  stranger = createServer((request, response) => {
    response.end(request.headers.host === 'app.zone.test' ? 'a router' : 'x'.repeat(200_000));
  });
  await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
  closedPort = await freePort();
});

afterAll(async () => {
  await edge.close();
  await named?.stop();
  stranger.close();
});

const strangerPort = () => (stranger.address() as AddressInfo).port;
const ours = () => edge.webPort;
const nobody = () => closedPort;

async function look(
  name: string,
  httpPort: number,
  challenge: RenewalTarget['challenge'] = 'http-01',
  publicCa = true,
) {
  const presenter = new WatchedPresenter(edge.presenter);
  const target: RenewalTarget = {
    id: name,
    names: [name],
    coveredBy: null,
    directories: [],
    impossible: null,
    challenge,
    challengeWhy: '',
  };
  const doubt = await lookFirst({
    resolvers: [named.address],
    presenter,
    clock: systemClock,
    publicCa,
    httpPort,
  })(target, unhurried);
  expect(edge.challenges).toEqual(noChallenges);
  return { doubt, shown: presenter.shown.length };
}

it.each([
  ['we answer ourselves', 'app.zone.test', ours, 1],
  ['an address is its own name', '127.0.0.1', ours, 1],
  ['nobody answers here, who may well answer the CA', 'app.zone.test', nobody, 1],
] as const)('goes ahead where %s', async (_what, name, port, shown) => {
  expect(await look(name, port())).toEqual({ doubt: null, shown });
});

it.each([
  ['something else answers', 'app.zone.test', /answered by something else \(200\) at 127\.0\.0\.1/],
  ['something else answers at length', '127.0.0.1', /answered by something else \(a long page\)/],
] as const)('doubts, but not for ever, where %s', async (_what, name, detail) => {
  const { doubt } = await look(name, strangerPort());
  expect(doubt).toEqual({ certain: false, detail: expect.stringMatching(detail) });
});

it('takes a private address for reachable by a CA of the same network', async () => {
  expect((await look('lan.zone.test', ours(), 'tls-alpn-01', false)).doubt).toBeNull();
});

it('doubts, but not for ever, where no public CA gets to', async () => {
  const { doubt } = await look('lan.zone.test', ours());
  expect(doubt).toEqual({
    certain: false,
    detail: expect.stringMatching(
      /^lan\.zone\.test leads to (10\.0\.0\.1, 192\.168\.0\.1|192\.168\.0\.1, 10\.0\.0\.1), which/,
    ),
  });
});

it.each(['nothing.zone.test', 'text.zone.test'])(
  'is certain that %s cannot be proved: it has no address',
  async (name) => {
    const { doubt, shown } = await look(name, ours());
    expect([doubt, shown]).toEqual([{ certain: true, detail: `${name} has no address in the DNS` }, 0]);
  },
);

it('does not look at all where records prove it, and only at the address for tls-alpn-01', async () => {
  expect(await look('nothing.zone.test', ours(), 'dns-01')).toEqual({ doubt: null, shown: 0 });
  expect(await look('app.zone.test', strangerPort(), 'tls-alpn-01')).toEqual({ doubt: null, shown: 0 });
  expect((await look('nothing.zone.test', ours(), 'tls-alpn-01')).doubt?.certain).toBe(true);
});

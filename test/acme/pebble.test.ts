import { X509Certificate } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { acmeIssuer } from '../../src/certificates/acme/acme-issuer.ts';
import type { Issuer, IssuerOptions } from '../../src/certificates/acme/issuer.ts';
import { ChallengeBoard } from '../../src/certificates/acme/presenters.ts';
import { namesOf } from '../../src/certificates/x509.ts';
import { MemoryAccounts, unhurried, wish } from '../support/acme.ts';
import { DataPlane } from '../support/data-plane.ts';
import { fastClock, Pebble } from '../support/pebble.ts';
import { entrypoint, host, route, routing } from '../support/routing.ts';

const plane = new DataPlane();
const webPort = plane.lend();
const securePort = plane.lend();
let pebble: Pebble;
const issuers: Issuer[] = [];

beforeAll(async () => {
  plane.publish(
    routing({
      entrypoints: [
        entrypoint('web', { port: webPort }),
        entrypoint('secure', { port: securePort, protocol: 'smart_tcp' }),
      ],
      hosts: [host('app.test', [route('app', 'app')], { entrypoints: ['web', 'secure'], tls: 'always' })],
    }),
  );
  pebble = await Pebble.start({ httpPort: webPort, tlsPort: securePort, alternateRoots: 1 });
});

afterAll(async () => {
  for (const issuer of issuers) await issuer.close();
  await pebble?.stop();
  await plane.close();
});

function issuerFor(over: Partial<IssuerOptions> = {}): Issuer {
  const board = new ChallengeBoard({ publish: async (part) => plane.publishChallenges(part), dns: null });
  const issuer = acmeIssuer({
    directoryUrl: pebble.directoryUrl,
    contacts: ['ops@app.test'],
    caPem: pebble.caPem,
    externalAccount: null,
    accounts: new MemoryAccounts(),
    presenter: board,
    clock: fastClock(30),
    ...over,
  });
  issuers.push(issuer);
  return issuer;
}

describe('a certificate', () => {
  it('comes by http-01 through the plaintext entrypoint, although the host is TLS only', async () => {
    const issued = await issuerFor().issue(wish(['app.test']), unhurried);
    expect(namesOf(new X509Certificate(issued.chain))).toEqual(['app.test']);
  });
  it('comes by tls-alpn-01 through the port that everything shares', async () => {
    const issued = await issuerFor().issue(wish(['app.test'], { challengeFor: () => 'tls-alpn-01' }), unhurried);
    expect(namesOf(new X509Certificate(issued.chain))).toEqual(['app.test']);
  });
});

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { explain } from '../../src/control/explain/explain.ts';
import { certificateIndex } from '../../src/model/certificate-index.ts';
import { compileRoutingTable } from '../../src/model/routing-table.ts';
import type { CertificatesPart, RoutingPart } from '../../src/model/snapshot.ts';
import { chooseIdentity } from '../../src/tls/identity.ts';
import { closeRawClients, fieldValue, RawClient } from '../support/raw-client.ts';
import { Recorder } from '../support/recorder.ts';
import { entrypoint, host, noChallenges, noGate, noHealth, route, routing, service } from '../support/routing.ts';
import { Edge } from './http-kit.ts';

// What `explain` says must be what happens: every case is asked of both, and both use the words of model/reason.

let backend: Recorder;
let edge: Edge;

beforeAll(async () => {
  backend = await Recorder.start({ name: 'app' });
});
afterAll(() => backend.close());
afterEach(async () => {
  closeRawClients();
  await edge.close();
});

const certificates: CertificatesPart = {
  certificates: [
    {
      id: 'a',
      source: 'static',
      origin: 'test',
      names: ['auto.test', 'always.test', 'never.test', 'strict.test'],
      notBefore: 0,
      notAfter: 4e12,
      chain: '',
      key: '',
    },
  ],
  defaultId: null,
  internalCa: false,
  pending: [],
};

function everything(): RoutingPart {
  const entrypoints = ['web', 'secure'];
  const address = `127.0.0.1:${backend.port}`;
  const answer = (status: number) => ({ kind: 'respond', status, headers: [], body: 'x' }) as const;
  return routing({
    entrypoints: [entrypoint('web', { port: 8080 }), entrypoint('secure', { port: 8443, protocol: 'https' })],
    hosts: [
      host('auto.test', [route('auto', 'app')], { entrypoints }),
      host('always.test', [route('always', 'app')], { entrypoints, tls: 'always' }),
      host('alone.test', [route('alone', 'app')], { entrypoints, tls: 'always' }),
      host('never.test', [route('never', 'app')], { entrypoints, tls: 'never' }),
      host('plain.test', [route('plain', 'app')], { entrypoints: ['web'] }),
      host('hidden.test', [route('hidden', 'app')], { entrypoints: ['secure'] }),
      host('*.wild.test', [route('wild', 'app')], { entrypoints: ['web'] }),
      host(
        'paths.test',
        [
          route('ok', '', { path: '/ok', action: answer(204) }),
          route('moved', '', { path: '/moved', action: { kind: 'redirect', status: 301, to: 'https://x.test{uri}' } }),
          route('strip', 'app', {
            path: '/strip',
            action: { kind: 'forward', service: 'app', rewrite: { kind: 'strip' } },
          }),
        ],
        { entrypoints: ['web'] },
      ),
      host('stopped.test', [route('stopped', 'stopped')], { entrypoints: ['web'] }),
    ],
    services: [service('app', 1, [address]), service('stopped', 1, [address], { state: 'stopped' })],
  });
}

test.each([
  ['GET', 'auto.test', '/a?b'],
  ['GET', 'always.test', '/a?b'],
  ['GET', 'alone.test', '/'],
  ['GET', 'never.test', '/'],
  ['GET', 'plain.test', '/'],
  ['GET', 'hidden.test', '/'],
  ['GET', 'unknown.test', '/'],
  ['GET', 'a.wild.test', '/'],
  ['GET', 'a.b.wild.test', '/'],
  ['GET', 'paths.test', '/ok/x'],
  ['GET', 'paths.test', '/okay'],
  ['POST', 'paths.test', '/moved?x=1'],
  ['GET', 'paths.test', '/strip/x?y'],
  ['GET', 'stopped.test', '/'],
  ['BREW', 'plain.test', '/'],
])('%s http://%s%s: explained as it happens', async (method, name, path) => {
  const part = everything();
  edge = await Edge.start({ routing: part, certificates });
  const client = await RawClient.connect({ port: edge.port });
  const seen = backend.exchanges.length;
  const answer = await client.ask(`${method} ${path} HTTP/1.1\r\nHost: ${name}\r\nContent-Length: 0\r\n\r\n`);
  const [line] = await edge.log(1);
  const { outcome } = explain(
    {
      revision: 1,
      routing: part,
      certificates,
      challenges: noChallenges,
      health: noHealth,
      gate: noGate,
      overrides: [],
    },
    { url: `http://${name}${path}`, method, from: null, sni: null, entrypoint: 'web' },
  );
  expect(outcome.reason).toBe(line!.reason);
  if (outcome.status !== null) expect(outcome.status).toBe(answer.status);
  const forwarded = backend.exchanges.slice(seen);
  if (outcome.reason === 'served') {
    expect(outcome.text).toBe(`forwarded to 127.0.0.1:${backend.port} as ${method} ${forwarded[0]!.target}`);
  } else expect(forwarded).toEqual([]);
  const location = fieldValue(answer, 'Location');
  if (location !== null) expect(outcome.text).toBe(`sent to ${location}`);
});

test.each([
  ['auto.test', 'auto.test'],
  ['auto.test', 'always.test'],
  ['auto.test', 'never.test'],
  ['auto.test', 'hidden.test'],
  ['auto.test', 'plain.test'],
  ['auto.test', 'unknown.test'],
  ['auto.test', 'strict.test'],
  ['strict.test', 'strict.test'],
])('SNI %s, Host %s: explained as it happens', async (sni, name) => {
  const whole = everything();
  const strict = host('strict.test', [route('strict', 'app')], { entrypoints: ['secure'], minVersion: '1.3' });
  const part = { ...whole, hosts: [...whole.hosts, strict] };
  const table = compileRoutingTable(part, (text) => text);
  const identity = chooseIdentity(table, certificateIndex(certificates), 'secure', sni, '127.0.0.1');
  if (identity.kind !== 'serve' || identity.choice.kind !== 'certificate')
    throw new Error('no certificate for the test');
  const tls = {
    serverName: identity.serverName,
    certificateId: identity.choice.certificate.id,
    certificateNames: identity.choice.certificate.names,
    profileId: identity.profile.id,
    version: 'TLSv1.3',
    clientSubject: null,
  };
  edge = await Edge.start({ routing: part, certificates, entrypoint: 'secure', tls });
  const client = await RawClient.connect({ port: edge.port });
  const answer = await client.ask(`GET / HTTP/1.1\r\nHost: ${name}\r\n\r\n`);
  const [line] = await edge.log(1);
  const { outcome } = explain(
    {
      revision: 1,
      routing: part,
      certificates,
      challenges: noChallenges,
      health: noHealth,
      gate: noGate,
      overrides: [],
    },
    { url: `https://${name}:8443/`, method: 'GET', from: null, sni, entrypoint: 'secure' },
  );
  expect(outcome.reason).toBe(line!.reason);
  if (outcome.status !== null) expect(outcome.status).toBe(answer.status);
});

// What a CA does on bad days, and what Pebble cannot do at all, played by a shim in front of it.
import { X509Certificate } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { mintCa } from '../../certs/make-certs.ts';
import { renewalId } from '../../src/certificates/acme/chain.ts';
import type { IssuerTimings } from '../../src/certificates/acme/issuer.ts';
import { failureOf, MemoryAccounts, unhurried, wish } from '../support/acme.ts';
import { AcmeEdge, haste } from '../support/acme-edge.ts';
import { AcmeShim, changed, type Endpoint, type Fault, json, problem, type ShimRequest } from '../support/acme-shim.ts';
import { Pebble, patientTimings } from '../support/pebble.ts';
import { noChallenges } from '../support/routing.ts';

const edge = new AcmeEdge();
const accounts = new MemoryAccounts();
let pebble: Pebble;
let ca: AcmeShim;

beforeAll(async () => {
  // Every fault here is one of the shim's.
  pebble = await Pebble.start({ httpPort: edge.webPort, tlsPort: edge.securePort, nonceReject: 0 });
  ca = await AcmeShim.start(pebble);
});

beforeEach(() => ca.reset());

afterAll(async () => {
  await edge.close();
  await ca?.close();
  await pebble?.stop();
});

const issuer = (timings: Partial<IssuerTimings> = {}) =>
  edge.issuer(ca, { accounts, timings: { ...patientTimings, ...timings } });
const order = (over = {}, timings: Partial<IssuerTimings> = {}) =>
  issuer(timings).issue(wish(['app.test'], over), unhurried);
const failed = (over = {}, timings: Partial<IssuerTimings> = {}) => failureOf(order(over, timings));

/** Does something to requests of one kind. */
function on(endpoint: Endpoint, fault: Fault): void {
  ca.faults.push((request) => (request.endpoint === endpoint ? fault(request) : null));
}

/** Only to the first so many. */
const first =
  (count: number, fault: Fault): Fault =>
  (request) =>
    request.before < count ? fault(request) : null;

const gaps = (requests: readonly ShimRequest[]): number[] => requests.slice(1).map(({ at }, i) => at - requests[i]!.at);

describe('nonces', () => {
  const refusal = (nonce: string) => problem(400, 'badNonce', 'bad nonce', { 'replay-nonce': nonce });

  it('are taken from the refusal, and the same request is repeated under them', async () => {
    const refused = new Map<string, string>();
    ca.faults.push(async (request) => {
      // Of every pair with the same words, the first one.
      const words = `${request.path} ${JSON.stringify(request.payload)}`;
      if (request.method !== 'POST' || refused.has(words)) return null;
      // A good one, as a real CA gives.
      const reply = await ca.nonce();
      refused.set(words, reply);
      return refusal(reply);
    });
    await order();
    const posts = ca.requests.filter(({ method }) => method === 'POST');
    const nonces = posts.map(({ header }) => header['nonce']);
    expect(new Set(nonces).size).toBe(nonces.length);
    for (const nonce of refused.values()) expect(nonces).toContain(nonce);
    // Refused once, accepted once.
    expect([ca.count('new-order'), ca.count('finalize')]).toEqual([2, 2]);
  });

  it('that are never right end the attempt after a bounded number', async () => {
    await order();
    ca.reset();
    on('new-order', async () => refusal(await ca.nonce()));
    const failure = await failed();
    expect([failure.kind, failure.problemType]).toEqual(['server', 'badNonce']);
    expect(ca.count('new-order')).toBe(24);
  });

  it('are asked for when a refusal brings none', async () => {
    on(
      'new-order',
      first(1, () => problem(400, 'badNonce', 'bad nonce')),
    );
    await order();
    expect(ca.count('new-order')).toBe(2);
  });
});

describe('an order that takes its time', () => {
  it('is waited for until it is ready', async () => {
    on(
      'order',
      first(3, (request) => changed(request, { status: 'pending' })),
    );
    await order();
    expect(ca.count('finalize')).toBe(1);
  });

  it('is finalised again when the CA was not ready', async () => {
    on(
      'finalize',
      first(1, () => problem(403, 'orderNotReady', 'not yet')),
    );
    await order();
    expect([ca.count('finalize'), ca.count('new-order')]).toEqual([2, 1]);
  });

  it.each([
    ['seconds', () => ({ 'retry-after': '3' })],
    [
      'a date, by a clock that is an hour wrong',
      () => {
        const theirNow = Date.now() - 3_600_000;
        const later = new Date(theirNow + 4000).toUTCString();
        return { date: new Date(theirNow).toUTCString(), 'retry-after': later };
      },
    ],
  ])('is asked about no sooner than Retry-After says: %s', async (_what, headers) => {
    on('finalize', (request) => changed(request, { status: 'processing', certificate: undefined }, headers()));
    // The first look tells that the order is ready.
    on('order', (request) =>
      request.before >= 1 && request.before < 4 ? changed(request, { status: 'processing' }, headers()) : null,
    );
    await order();
    expect(ca.count('finalize')).toBe(1);
    // Timers may be a millisecond early.
    for (const gap of gaps(ca.of('order').slice(1))) expect(gap).toBeGreaterThan((3000 - 60) / haste);
  });

  it('for ever is given up, with when to look again', async () => {
    on('order', (request) => changed(request, { status: 'processing' }, { 'retry-after': '60' }));
    on('finalize', (request) => changed(request, { status: 'processing' }));
    const failure = await failed({}, { issuanceMs: 9000 });
    expect([failure.kind, failure.retryAfterMs]).toEqual(['timeout', 60_000]);
    expect(ca.count('finalize')).toBeLessThanOrEqual(1);
    expect(edge.challenges).toEqual(noChallenges);
  });

  it('is not finalised again by a CA that took it and says nothing more', async () => {
    on('finalize', (request) => changed(request, { status: 'ready' }));
    on('order', (request) => changed(request, { status: 'ready' }));
    expect((await failed({}, { issuanceMs: 6000 })).kind).toBe('timeout');
    expect(ca.count('finalize')).toBe(1);
  });

  it('and is invalid in the end tells why', async () => {
    const error = { type: 'urn:ietf:params:acme:error:caa', detail: 'CAA record for app.test prevents issuance' };
    on('finalize', (request) => changed(request, { status: 'invalid', error }));
    const failure = await failed();
    expect([failure.kind, failure.problemType, failure.detail]).toEqual(['validation', 'caa', error.detail]);
  });

  it('is not validated twice by names that are valid already', async () => {
    const reusing = await Pebble.start({ httpPort: edge.webPort, authzReuse: 100, nonceReject: 0 });
    const shim = await AcmeShim.start(reusing);
    try {
      const again = edge.issuer(shim);
      await again.issue(wish(['app.test']), unhurried);
      await again.issue(wish(['app.test', 'b.test']), unhurried);
      expect(shim.count('challenge')).toBe(2);
    } finally {
      await shim.close();
      await reusing.stop();
    }
  });
});

describe('limits', () => {
  const limit = (detail: string, retryAfter = '3600') =>
    problem(429, 'rateLimited', detail, { 'retry-after': retryAfter });

  it.each([
    ['of the account', limit('too many new orders recently'), 'account'],
    ['of a registered domain', limit('too many certificates already issued for "app.test"'), 'names'],
    ['of a balancer that speaks no ACME', { status: 429, headers: { 'retry-after': '3600' }, body: 'slow' }, 'account'],
  ])('%s are told with their time and for whom they hold, and nothing is repeated', async (_what, reply, scope) => {
    on('new-order', () => reply);
    const failure = await failed();
    expect([failure.kind, failure.retryAfterMs, failure.scope]).toEqual(['rate-limited', 3_600_000, scope]);
    expect(ca.count('new-order')).toBe(1);
  });

  it('that name identifiers are told by name', async () => {
    const identifier = { type: 'dns', value: 'app.test' };
    const type = 'urn:ietf:params:acme:error:rateLimited';
    const body = JSON.stringify({ type, detail: 'too many', subproblems: [{ type, detail: 'this one', identifier }] });
    on('new-order', () => ({ status: 429, headers: { 'content-type': 'application/problem+json' }, body }));
    const failure = await failed();
    expect(failure.perName).toEqual([{ name: 'app.test', problemType: 'rateLimited', detail: 'this one' }]);
    expect([failure.scope, failure.retryAfterMs]).toEqual(['names', null]);
  });

  it('in passing are sat out while there is time', async () => {
    on('authorization', (request) => (request.before === 1 ? limit('too many requests', '2') : null));
    await order();
    expect(ca.count('new-order')).toBe(1);
  });
});

describe('a CA out of order', () => {
  it('is told with its Retry-After', async () => {
    on('new-order', () => ({ status: 503, headers: { 'retry-after': '120' }, body: '<h1>busy</h1>' }));
    const failure = await failed();
    expect([failure.kind, failure.status, failure.retryAfterMs, failure.scope]).toEqual([
      'server',
      503,
      120_000,
      'account',
    ]);
  });

  const recovers: readonly Endpoint[] = ['challenge', 'finalize', 'certificate'];
  it.each(recovers)('recovers from a connection that is cut at: %s', async (endpoint) => {
    on(
      endpoint,
      first(1, () => 'cut'),
    );
    await order();
    expect(ca.count('new-order')).toBe(1);
  });

  it.each(recovers)('recovers from a connection that is cut after it was heard at: %s', async (endpoint) => {
    on(
      endpoint,
      first(1, async (request) => {
        await request.pass();
        return 'cut' as const;
      }),
    );
    await order();
    expect([ca.count('new-order'), ca.count(endpoint) <= 2]).toEqual([1, true]);
  });

  it('takes the refusal of a second "look now" for the word that the first one was heard', async () => {
    on('challenge', async (request) => {
      const reply = await request.pass();
      if (request.before === 0) return 'cut';
      // As a CA says it whose verdict came between our look and our asking again.
      const body = JSON.stringify({ type: 'urn:ietf:params:acme:error:malformed', detail: 'not pending any more' });
      return { status: 400, headers: { ...reply.headers, 'content-type': 'application/problem+json' }, body };
    });
    // The look before asking again must still see it pending.
    on('authorization', async (request) => {
      const reply = await request.pass();
      return request.before > 2
        ? reply
        : { ...reply, body: reply.body.replace('"status": "valid"', '"status": "pending"') };
    });
    await order();
    expect(ca.count('challenge')).toBe(2);
    expect(ca.count('new-order')).toBe(1);
  });

  it('recovers from errors between looks', async () => {
    on(
      'order',
      first(2, () => ({ status: 502, headers: {}, body: '' })),
    );
    on('authorization', (request) => (request.before === 1 || request.before === 2 ? 'cut' : null));
    await order();
    expect(ca.count('new-order')).toBe(1);
  });

  const early: readonly Endpoint[] = ['directory', 'new-nonce', 'new-order', 'authorization'];
  it.each(early)('is a network failure when it cuts the connection at: %s', async (endpoint) => {
    on(endpoint, () => 'cut');
    expect((await failed()).kind).toBe('network');
  });

  it.each(['directory', 'new-order'] as const)(
    'that never finishes its answer is left at the deadline: %s',
    async (endpoint) => {
      on(endpoint, () => 'drip');
      expect((await failed({}, { requestMs: 300 * haste })).kind).toBe('timeout');
    },
  );

  it.each([
    ['directory', '{}'],
    ['directory', '<html>'],
    ['directory', JSON.stringify({ newNonce: 'http://elsewhere.test/' })],
    ['new-order', '{}'],
    ['new-order', 'null'],
    ['authorization', '[]'],
    ['authorization', '{"identifier":{"type":"dns","value":"app.test"}}'],
    ['certificate', ''],
    ['certificate', '-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----'],
  ] as const)('that answers %s with %j is no CA to us', async (endpoint, body) => {
    on(endpoint, () => ({ status: 200, headers: { location: `${ca.origin}/my-order/x` }, body }));
    const failure = await failed();
    expect(failure.kind).toBe('server');
    expect(failure.cause).not.toBeInstanceOf(TypeError);
  });

  it.each(['directory', 'new-order', 'certificate'] as const)('that floods us is cut off: %s', async (endpoint) => {
    on(endpoint, () => ({ status: 200, headers: {}, body: 'x'.repeat(3_000_000) }));
    const failure = await failed();
    expect([failure.kind, failure.detail]).toEqual(['server', 'an answer of more than 1048576 bytes']);
  });

  it.each([301, 302, 307, 308])('is not followed to where it redirects with %i', async (status) => {
    on('directory', () => ({ status, headers: { location: `${ca.origin}/dir2` }, body: '' }));
    expect((await failed()).kind).toBe('server');
    expect(ca.count('other')).toBe(0);
  });

  it('without a trusted certificate is not spoken to', async () => {
    const stranger = edge.issuer({ directoryUrl: ca.directoryUrl, caPem: pebble.caPem });
    const failure = await failureOf(stranger.issue(wish(['app.test']), unhurried));
    expect(failure.kind).toBe('network');
    expect(ca.requests).toEqual([]);
  });
});

describe('what a CA may not put into our answers', () => {
  it.each(['../../etc/passwd', 'a/b', 'a b', '', 'a\r\nb'])('the token %j', async (token) => {
    on('authorization', async (request) => {
      const reply = await request.pass();
      const { challenges } = JSON.parse(reply.body) as { challenges: object[] };
      return changed(request, { challenges: challenges.map((each) => ({ ...each, token })) });
    });
    const failure = await failed();
    expect([failure.kind, failure.detail]).toEqual(['server', expect.stringMatching(/a token is not base64url/)]);
    expect(edge.challenges).toEqual(noChallenges);
  });

  it('a certificate for another key', async () => {
    const { chain } = await order();
    on('certificate', () => ({ status: 200, headers: {}, body: chain }));
    expect((await failed()).detail).toMatch(/another key/);
  });

  it.each([
    ['is not there', () => ({ status: 404, headers: {}, body: '' })],
    [
      'is for another key',
      () => ({ status: 200, headers: {}, body: mintCa('Preferred root').leaf({ names: ['app.test'] }).cert }),
    ],
  ])('a preferred chain that %s, in place of the usual one', async (_what, alternate) => {
    on('certificate', async (request) => {
      if (request.path.includes('/alternate/')) return alternate();
      const usual = await request.pass();
      return { ...usual, headers: { ...usual.headers, link: `<${ca.origin}/certZ/alternate/1>;rel="alternate"` } };
    });
    const issued = await order({ preferredChain: 'Preferred root' });
    expect(issued.issuer).toMatch(/^Pebble Intermediate/);
    expect(ca.count('certificate')).toBe(2);
  });

  it('a chain whose links do not fit', async () => {
    on('certificate', async (request) => {
      const reply = await request.pass();
      const blocks = reply.body.match(/-----BEGIN[\s\S]+?-----END CERTIFICATE-----/g)!;
      return { ...reply, body: [blocks[0], await pebble.root(0)].join('\n') };
    });
    expect((await failed()).detail).toMatch(/the chain is out of order/);
  });
});

describe('renewal information', () => {
  const day = 86_400_000;
  const window = { start: new Date(Date.now() + day).toISOString(), end: new Date(Date.now() + 2 * day).toISOString() };
  const offer = () => {
    ca.directory = { renewalInfo: `${ca.origin}/renewal-info` };
  };

  it('is asked for by key and serial number, and told with when to ask again', async () => {
    offer();
    const { chain } = await order();
    on('renewal-info', () =>
      json({ suggestedWindow: window, explanationURL: 'https://ca.test/why' }, { 'retry-after': '21600' }),
    );
    expect(await issuer().renewalInfo(chain, unhurried)).toEqual({
      start: Date.parse(window.start),
      end: Date.parse(window.end),
      explanationUrl: 'https://ca.test/why',
      retryAfterMs: 21_600_000,
    });
    expect(ca.of('renewal-info')[0]?.path).toBe(`/renewal-info/${renewalId(chain)}`);
    expect(ca.of('renewal-info')[0]?.method).toBe('GET');
  });

  it.each([
    ['an end before its start', { suggestedWindow: { start: window.end, end: window.start } }],
    ['no window', {}],
    ['times that are none', { suggestedWindow: { start: 'soon', end: 'later' } }],
  ])('with %s is none', async (_what, body) => {
    offer();
    const { chain } = await order();
    on('renewal-info', () => json(body));
    expect((await failureOf(issuer().renewalInfo(chain, unhurried))).kind).toBe('server');
  });

  it('makes an order name what it replaces', async () => {
    offer();
    const { chain } = await order();
    await order({ replaces: renewalId(chain) });
    expect(ca.of('new-order').at(-1)?.payload['replaces']).toBe(renewalId(chain));
  });

  it('is told apart when the certificate was replaced before', async () => {
    offer();
    on('new-order', () => problem(409, 'alreadyReplaced', 'has been replaced'));
    expect((await failed({ replaces: 'a.b' })).kind).toBe('already-replaced');
  });
});

describe('profiles', () => {
  const profiles = { classic: 'as ever', shortlived: 'six days' };

  it('are told, and passed on', async () => {
    ca.directory = { meta: { profiles } };
    const { profiles: offered } = await issuer().directoryMeta(unhurried);
    expect(Object.fromEntries(offered)).toEqual(profiles);
    await order({ profile: 'shortlived' });
    expect(ca.of('new-order').at(-1)?.payload['profile']).toBe('shortlived');
  });

  it.each([
    ['some', { meta: { profiles } }, 'the CA has no profile "tls-client"; on offer: classic, shortlived'],
    ['none', {}, 'the CA has no profile "tls-client"; on offer: none'],
  ])('that are not among those on offer (%s) are not asked for', async (_what, directory, detail) => {
    ca.directory = directory;
    const failure = await failed({ profile: 'tls-client' });
    expect([failure.kind, failure.problemType, failure.detail]).toEqual(['rejected', 'invalidProfile', detail]);
    expect(ca.count('new-order')).toBe(0);
  });
});

describe('publication', () => {
  it('comes before the CA is told to look', async () => {
    const shownAt: number[] = [];
    const presenter = {
      present: async (...args: Parameters<typeof edge.presenter.present>) => {
        await edge.presenter.present(...args);
        // A worker that takes its time to say so.
        await new Promise((resolve) => setTimeout(resolve, 50));
        shownAt.push(performance.now());
      },
      withdraw: edge.presenter.withdraw.bind(edge.presenter),
    };
    const issued = await edge.issuer(ca, { accounts, presenter }).issue(wish(['app.test']), unhurried);
    expect(new X509Certificate(issued.chain).subjectAltName).toBe('DNS:app.test');
    expect(ca.of('challenge')[0]!.at).toBeGreaterThan(shownAt[0]!);
  });

  it('that fails ends the order before the CA looks', async () => {
    const presenter = {
      present: async () => {
        throw new Error('a worker refused');
      },
      withdraw: async () => {},
    };
    const failure = await failureOf(edge.issuer(ca, { accounts, presenter }).issue(wish(['app.test']), unhurried));
    expect([failure.kind, failure.detail]).toEqual([
      'presentation',
      'the challenge could not be shown: a worker refused',
    ]);
    expect(ca.count('challenge')).toBe(0);
  });
});

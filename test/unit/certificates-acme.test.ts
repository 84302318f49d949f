// What the ACME client knows without a CA: keys, names, problems, chains, and which challenge a name gets. acme-client, which
// is no part of the product, reads what we write.
import { createHash, generateKeyPairSync, verify, X509Certificate } from 'node:crypto';
import acme from 'acme-client';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { mintCa } from '../../certs/make-certs.ts';
import { Account } from '../../src/certificates/acme/account.ts';
import { readWindow } from '../../src/certificates/acme/acme-issuer.ts';
import { readAuthorization, readOrder } from '../../src/certificates/acme/answers.ts';
import { judgeChain, leadsTo, renewalId } from '../../src/certificates/acme/chain.ts';
import { type ChallengeFacts, chooseChallenge } from '../../src/certificates/acme/choose-challenge.ts';
import { readDirectory, resourceUrl } from '../../src/certificates/acme/directory.ts';
import { AcmeFailure } from '../../src/certificates/acme/failure.ts';
import { AccountKey, bindExternally, type Jws } from '../../src/certificates/acme/jose.ts';
import { identifierOf, nameOf, serverNameOf } from '../../src/certificates/acme/names.ts';
import { alternates } from '../../src/certificates/acme/order.ts';
import { ChallengeBoard, type DnsPresenter } from '../../src/certificates/acme/presenters.ts';
import { parseProblem, printable, failureOf as readFailure, retryAfter } from '../../src/certificates/acme/problem.ts';
import { proofFor } from '../../src/certificates/acme/proof.ts';
import type { Ask, Session } from '../../src/certificates/acme/session.ts';
import { signingRequest } from '../../src/certificates/csr.ts';
import { issueCertificate, pem } from '../../src/certificates/x509.ts';
import type { ChallengesPart } from '../../src/model/snapshot.ts';
import { MemoryAccounts, unhurried } from '../support/acme.ts';

const pemOf = (pair: { privateKey: { export(options: object): string | Buffer } }) =>
  pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
const keys = {
  'P-256': pemOf(generateKeyPairSync('ec', { namedCurve: 'P-256' })),
  'P-384': pemOf(generateKeyPairSync('ec', { namedCurve: 'P-384' })),
  RSA: pemOf(generateKeyPairSync('rsa', { modulusLength: 2048 })),
};
const decoded = (text: string) => JSON.parse(Buffer.from(text, 'base64url').toString()) as Record<string, unknown>;

describe('an account key', () => {
  it.each([
    ['P-256', 'ES256', 'sha256'],
    ['P-384', 'ES384', 'sha384'],
    ['RSA', 'RS256', 'sha256'],
  ] as const)('on %s signs by %s, and its public half is what acme-client makes of it', (kind, alg, hash) => {
    const key = new AccountKey(keys[kind]);
    expect(key.jwk).toEqual(acme.crypto.getJwk(keys[kind]));
    const jws = key.sign({ kid: 'https://ca.test/1', nonce: 'n', url: 'https://ca.test/order' }, { a: 'ü' });
    expect(decoded(jws.protected)).toEqual({ alg, kid: 'https://ca.test/1', nonce: 'n', url: 'https://ca.test/order' });
    expect(decoded(jws.payload)).toEqual({ a: 'ü' });
    const publicKey = { key: key.jwk, format: 'jwk', dsaEncoding: 'ieee-p1363' } as const;
    const input = Buffer.from(`${jws.protected}.${jws.payload}`);
    expect(verify(hash, input, publicKey, Buffer.from(jws.signature, 'base64url'))).toBe(true);
  });

  it('signs an empty payload where nothing is sent', () => {
    expect(new AccountKey(keys['P-256']).sign({}, null).payload).toBe('');
  });

  it('has the thumbprint of RFC 7638 §3.1', () => {
    const { jwk, thumbprint } = new AccountKey(keys.RSA);
    const members = `{"e":"${jwk['e']}","kty":"RSA","n":"${jwk['n']}"}`;
    expect(thumbprint).toBe(createHash('sha256').update(members).digest('base64url'));
  });

  it.each(['ed25519', 'x448'] as const)('is none of the kind %s', (kind) => {
    const pair = kind === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('x448');
    expect(() => new AccountKey(pemOf(pair))).toThrow(/P-256 or P-384/);
  });

  it('is bound to another account by what that account holds', () => {
    const { jwk } = new AccountKey(keys['P-256']);
    const bound: Jws = bindExternally(jwk, 'kid-1', Buffer.alloc(32, 1).toString('base64url'), 'https://ca.test/new');
    expect(decoded(bound.protected)).toEqual({ alg: 'HS256', kid: 'kid-1', url: 'https://ca.test/new' });
    expect(decoded(bound.payload)).toEqual(jwk);
  });
});

describe('what acme-client reads of ours', () => {
  it('a signing request, with all its names and none as common name', () => {
    const csr = signingRequest(['app.test', '*.app.test', '192.0.2.1'], keys['P-256']);
    const text = pem(csr).replaceAll('CERTIFICATE', 'CERTIFICATE REQUEST');
    expect(acme.crypto.readCsrDomains(text)).toEqual({
      commonName: null,
      altNames: ['app.test', '*.app.test', '192.0.2.1'],
    });
  });

  it('the certificate of a tls-alpn-01 challenge', () => {
    const proof = proofFor('tls-alpn-01', 'app.test', 'token', 'token.thumb', Date.now());
    if (proof.kind !== 'tls-alpn-01') throw new Error('another kind');
    expect(acme.crypto.isAlpnCertificateAuthorizationValid(proof.chain, 'token.thumb')).toBe(true);
    expect(acme.crypto.isAlpnCertificateAuthorizationValid(proof.chain, 'token.other')).toBe(false);
  });
});

describe('an account', () => {
  const url = 'https://ca.test/account/1';
  const store = new MemoryAccounts();
  const holding = (keyPem: string) => ({ keyPem, url, nextKeyPem: null, contacts: [] });
  /** A CA that knows this one key, and what was asked of it. */
  let known = keys['P-256'];
  let asks: Ask[] = [];
  /** Happens while the next request is on its way. */
  let meanwhile: (() => Promise<void>) | null = null;
  const session = {
    directoryUrl: 'https://ca.test/directory',
    directory: async () => ({ newAccount: 'https://ca.test/new-account', meta: { externalAccountRequired: false } }),
    resource: (value: string) => value,
    post: async (ask: Ask) => {
      asks.push(ask);
      const change = meanwhile;
      meanwhile = null;
      await change?.();
      const isKnown = ask.key.thumbprint === new AccountKey(known).thumbprint;
      if (!isKnown && ask.account === null) throw new AcmeFailure('account-lost', 'no such account', { status: 400 });
      const refused = { status: 403, problemType: 'unauthorized' };
      if (!isKnown) throw new AcmeFailure('rejected', 'not by this key', refused);
      return { status: 200, text: '{"status":"valid"}', header: () => url };
    },
  } as unknown as Session;
  const ask = { url: 'https://ca.test/order', payload: null, what: 'order' };

  it.each([
    ['before a request', false],
    ['during a request', true],
  ])('whose key another process has replaced %s is used with the new one, and not made anew', async (_, during) => {
    known = keys['P-256'];
    await store.save(session.directoryUrl, holding(known));
    const account = new Account(session, { store, contacts: [], externalAccount: null });
    await account.ask(ask, unhurried);
    asks = [];
    const replace = async () => {
      known = keys['P-384'];
      await store.save(session.directoryUrl, holding(known));
    };
    if (during) meanwhile = replace;
    else await replace();
    await account.ask(ask, unhurried);
    expect(asks.at(-1)!.key.thumbprint).toBe(new AccountKey(known).thumbprint);
    if (!during) expect(asks).toHaveLength(1);
    expect(await store.load(session.directoryUrl)).toEqual(holding(known));
  });
});

describe('names', () => {
  it.each([
    ['app.test', { type: 'dns', value: 'app.test' }],
    ['*.app.test', { type: 'dns', value: '*.app.test' }],
    ['192.0.2.1', { type: 'ip', value: '192.0.2.1' }],
    ['[2001:db8::1]', { type: 'ip', value: '2001:db8::1' }],
  ])('%s goes to a CA and comes back', (name, identifier) => {
    expect(identifierOf(name)).toEqual(identifier);
    expect(nameOf(identifier, false)).toBe(name);
  });

  it.each([
    [{ type: 'dns', value: 'app.test' }, true, '*.app.test'],
    [{ type: 'dns', value: 'APP.test' }, undefined, 'app.test'],
    [{ type: 'ip', value: '2001:DB8:0:0::1' }, undefined, '[2001:db8::1]'],
    [{ type: 'mail', value: 'a@app.test' }, undefined, null],
    [{ type: 'dns', value: 7 }, undefined, null],
    [null, undefined, null],
  ])('%j (wildcard %j) is %s', (identifier, wildcard, name) => {
    expect(nameOf(identifier, wildcard)).toBe(name);
  });

  // RFC 8738 §6
  it.each([
    ['app.test', 'app.test'],
    ['192.0.2.1', '1.2.0.192.in-addr.arpa'],
    ['[2001:db8::1]', '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa'],
  ])('%s is asked for as %s in a handshake', (name, serverName) => {
    expect(serverNameOf(name)).toBe(serverName);
  });
});

describe('a challenge', () => {
  const web = { name: 'web', protocol: 'http', port: 80, publicPort: null, trustedCidrs: [] } as const;
  const secure = { name: 'websecure', protocol: 'https', port: 443, publicPort: null, trustedCidrs: [] } as const;
  const high = { name: 'high', protocol: 'http', port: 8080, publicPort: null, trustedCidrs: [] } as const;
  const inside = { trustedCidrs: ['10.0.0.0/8'] };
  const mapped = { ...high, name: 'mapped', publicPort: 80 };
  const edge = { name: 'edge', protocol: 'smart_tcp', port: 8443, publicPort: null, trustedCidrs: [] } as const;
  const mux = { name: 'mux', protocol: 'tls_mux', port: 443, publicPort: null, trustedCidrs: [] } as const;
  const raw = { name: 'raw', protocol: 'tcp', port: 80, publicPort: null, trustedCidrs: [] } as const;
  const rows: readonly [
    string,
    Parameters<typeof chooseChallenge>[1],
    Partial<ChallengeFacts>,
    string | null,
    RegExp,
  ][] = [
    ['app.test', 'auto', { entrypoints: [secure, web] }, 'http-01', /web takes HTTP on port 80/],
    ['app.test', 'auto', { entrypoints: [high, secure] }, 'tls-alpn-01', /websecure takes TLS on port 443/],
    ['app.test', 'auto', { entrypoints: [high, mux] }, 'tls-alpn-01', /mux takes TLS on port 443/],
    ['app.test', 'auto', { entrypoints: [mapped, secure] }, 'http-01', /mapped takes HTTP on port 80/],
    ['app.test', 'auto', { entrypoints: [high] }, 'http-01', /for granted that port 80 .* high on port 8080/],
    ['app.test', 'auto', { entrypoints: [edge] }, 'http-01', /for granted that port 80 .* edge on port 8443/],
    ['app.test', 'auto', { entrypoints: [{ ...mux, port: 8443 }] }, 'tls-alpn-01', /for granted that port 443/],
    ['app.test', 'auto', { entrypoints: [{ ...web, ...inside }, secure] }, 'tls-alpn-01', /websecure takes TLS/],
    [
      'app.test',
      'auto',
      { entrypoints: [{ ...web, ...inside }] },
      'http-01',
      /that trusted_cidrs of .* web admit the CA/,
    ],
    ['app.test', 'auto', { entrypoints: [{ ...high, ...inside }] }, 'http-01', /port 8080, and that trusted_cidrs/],
    ['app.test', 'auto', { entrypoints: [raw] }, null, /no entrypoint takes HTTP or ends TLS/],
    ['app.test', 'auto', { entrypoints: [web], dnsProvider: 'exec' }, 'dns-01', /exec is configured/],
    ['192.0.2.1', 'auto', { entrypoints: [web], dnsProvider: 'exec' }, 'http-01', /port 80/],
    ['192.0.2.1', 'dns-01', { dnsProvider: 'exec' }, null, /an address has no DNS zone/],
    ['*.app.test', 'auto', { entrypoints: [web] }, null, /wildcard .* no DNS provider/],
    ['*.app.test', 'http-01', { dnsProvider: 'exec' }, 'dns-01', /wildcard .* provider: exec/],
    ['app.test', 'tls-alpn-01', { entrypoints: [web], dnsProvider: 'exec' }, 'tls-alpn-01', /as configured/],
  ];
  it.each(rows)('of %s, wished %s, with %j: %s', (name, wanted, facts, kind, why) => {
    const choice = chooseChallenge(name, wanted, { entrypoints: [], dnsProvider: null, ...facts });
    expect([choice.kind, choice.why]).toEqual([kind, expect.stringMatching(why)]);
  });

  it('of a name below a delegated one has its record at the name, for the wildcard too', () => {
    const apex = proofFor('dns-01', 'app.test', 't', 't.x', 0);
    const wildcard = proofFor('dns-01', '*.app.test', 'u', 'u.x', 0);
    const value = createHash('sha256').update('t.x').digest('base64url');
    expect(apex).toEqual({ kind: 'dns-01', name: 'app.test', record: '_acme-challenge.app.test', value });
    expect(wildcard).toMatchObject({ name: 'app.test', record: '_acme-challenge.app.test' });
  });
});

describe('challenges of several orders', () => {
  it('are published together, and each leaves with its order', async () => {
    const published: ChallengesPart[] = [];
    const board = new ChallengeBoard({ publish: async (part) => void published.push(part), dns: () => null });
    const [one, two] = ['one', 'two'].map((token) => proofFor('http-01', 'app.test', token, `${token}.x`, 0));
    await board.present([one!], unhurried);
    await board.present([two!], unhurried);
    await board.withdraw([one!]);
    await board.withdraw([one!]);
    expect(published.map(({ http }) => http.map(({ token }) => token))).toEqual([['one'], ['one', 'two'], ['two']]);
  });

  it('leave also when they could not be published, and a failure to withdraw is nobody’s', async () => {
    const published: number[] = [];
    const publish = async ({ http }: ChallengesPart) => {
      published.push(http.length);
      throw new Error('no worker');
    };
    const board = new ChallengeBoard({ publish, dns: () => null });
    const proof = proofFor('http-01', 'app.test', 't', 't.x', 0);
    await expect(board.present([proof], unhurried)).rejects.toThrow('no worker');
    await board.withdraw([proof]);
    expect(published).toEqual([1, 0]);
  });

  it('are taken away by the provider that set them, whatever is configured by then', async () => {
    const calls: string[] = [];
    const provider = (label: string): DnsPresenter => ({
      present: async () => void calls.push(`${label} present`),
      withdraw: async () => void calls.push(`${label} withdraw`),
    });
    let configured = provider('old');
    const board = new ChallengeBoard({ publish: async () => {}, dns: () => configured });
    const proof = proofFor('dns-01', 'app.test', 't', 't.x', 0);
    await board.present([proof], unhurried);
    configured = provider('new');
    await board.withdraw([proof]);
    await board.withdraw([proof]);
    expect(calls).toEqual(['old present', 'old withdraw']);
  });

  it('need a provider for dns-01', async () => {
    const board = new ChallengeBoard({ publish: async () => {}, dns: () => null });
    const proof = proofFor('dns-01', 'app.test', 't', 't.x', 0);
    await expect(board.present([proof], unhurried)).rejects.toThrow(/needs a provider/);
  });
});

describe('what a CA answers', () => {
  const answer = (status: number, text: string, headers: Record<string, string> = {}) => ({
    status,
    text,
    header: (name: string) => headers[name] ?? null,
    headers: (name: string) => (headers[name] === undefined ? [] : [headers[name]]),
  });
  const json = { 'content-type': 'application/problem+json' };
  const urn = 'urn:ietf:params:acme:error:';

  it.each([
    ['seconds', { 'retry-after': '120' }, 120_000],
    ['a date', { 'retry-after': 'Thu, 01 Jan 1970 00:10:00 GMT' }, 600_000],
    [
      'a date by its own clock',
      { 'retry-after': 'Thu, 01 Jan 1970 02:00:05 GMT', date: 'Thu, 01 Jan 1970 02:00:00 GMT' },
      5000,
    ],
    [
      'a date in the past',
      { 'retry-after': 'Thu, 01 Jan 1970 00:00:00 GMT', date: 'Thu, 01 Jan 1970 02:00:00 GMT' },
      0,
    ],
    ['nonsense', { 'retry-after': 'soon' }, null],
    ['a negative number', { 'retry-after': '-5' }, null],
    ['nothing', {}, null],
  ])('names a time by %s', (_what, headers, expected) => {
    expect(retryAfter(answer(503, '', headers), 0)).toBe(expected);
  });

  it.each([
    [400, `${urn}malformed`, 'rejected', 'names'],
    [400, `${urn}rejectedIdentifier`, 'rejected', 'names'],
    [403, `${urn}unauthorized`, 'rejected', 'names'],
    [403, `${urn}caa`, 'validation', 'names'],
    [400, `${urn}dns`, 'validation', 'names'],
    [400, `${urn}accountDoesNotExist`, 'account-lost', 'names'],
    [401, `${urn}externalAccountRequired`, 'eab-required', 'names'],
    [409, `${urn}alreadyReplaced`, 'already-replaced', 'names'],
    [429, `${urn}rateLimited`, 'rate-limited', 'account'],
    [500, `${urn}serverInternal`, 'server', 'account'],
    [503, 'about:blank', 'server', 'account'],
    [400, 'about:blank', 'server', 'account'],
  ])('as %i %s is a failure of the kind %s for %s', (status, type, kind, scope) => {
    const failure = readFailure(answer(status, JSON.stringify({ type, detail: 'why' }), json), 'order', [], 0);
    expect([failure.kind, failure.scope, failure.detail]).toEqual([kind, scope, 'order: why']);
  });

  it('is quoted without key authorizations, control characters or more than one can read', () => {
    const authorization = `${'t'.repeat(43)}.${'k'.repeat(43)}`;
    expect(printable(`expected "${authorization}"\u001b[31m\r\nred`)).toBe('expected "…" [31m red');
    expect(printable('x'.repeat(5000))).toHaveLength(401);
    expect(printable('a host like _acme-challenge.some.long-name.example.org')).toMatch(/example\.org$/);
  });

  it.each(['', 'null', '[]', '7', '"text"', '<html>'])('as %j is no problem document', (text) => {
    expect(parseProblem(text)).toBeNull();
  });

  it('is read or refused, whatever it is, and nothing of ours breaks over it', () => {
    const resolve = (value: unknown): string => resourceUrl(value, 'https://ca.test/') ?? 'https://ca.test/none';
    const member = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.constantFrom('pending', 'valid', 'dns', '*.a', 'https://a/'),
    );
    const names =
      'status identifiers identifier authorizations finalize certificate error challenges type token url meta';
    const keys = [...names.split(' '), 'profiles', 'newNonce', 'newOrder', 'detail', 'subproblems', 'suggestedWindow'];
    const object = fc.dictionary(fc.constantFrom(...keys), fc.oneof(member, fc.array(member, { maxLength: 3 })));
    const text = fc.oneof(
      object.map((value) => JSON.stringify(value)),
      fc.json(),
      fc.string(),
    );
    fc.assert(
      fc.property(text, (body) => {
        const given = answer(200, body, json);
        for (const read of [
          () => readOrder(given, resolve),
          () => readAuthorization(given, resolve),
          () => readDirectory(body, 'https://ca.test/dir'),
        ]) {
          try {
            read();
          } catch (error) {
            expect(error).toBeInstanceOf(AcmeFailure);
          }
        }
        expect(readFailure(answer(400, body, json), 'order', ['a.test'], 0)).toBeInstanceOf(AcmeFailure);
        expect(readWindow(body)?.start ?? 0).not.toBeNaN();
      }),
      { numRuns: 2000 },
    );
  });

  it('names other chains in every spelling of Link', () => {
    const link = (value: string) => alternates({ headers: () => [value] });
    expect(link('<https://ca.test/1>;rel="alternate"')).toEqual(['https://ca.test/1']);
    expect(link('<https://ca.test/1>; rel=alternate, <https://ca.test/2>; title="a"; rel="up alternate"')).toEqual([
      'https://ca.test/1',
      'https://ca.test/2',
    ]);
    expect(link('<https://ca.test/up>;rel="up"')).toEqual([]);
    expect(link('<https://ca.test/dir>;rel="index",<https://ca.test/1>;rel="alternate"')).toEqual([
      'https://ca.test/1',
    ]);
  });

  it('leads nowhere but to https, and to plain HTTP only where we began with it', () => {
    expect(resourceUrl('https://other.test/x', 'https://ca.test/dir')).toBe('https://other.test/x');
    expect(resourceUrl('/x', 'https://ca.test/dir')).toBe('https://ca.test/x');
    for (const url of ['http://ca.test/x', 'file:///etc/passwd', 'ftp://ca.test/x', 7, null]) {
      expect(resourceUrl(url, 'https://ca.test/dir')).toBeNull();
    }
    expect(resourceUrl('http://127.0.0.1:80/x', 'http://127.0.0.1/dir')).toBe('http://127.0.0.1/x');
    expect(resourceUrl('http://10.0.0.1/x', 'http://127.0.0.1/dir')).toBeNull();
    expect(() => readDirectory('{"newNonce":"http://ca.test/x"}', 'https://ca.test/dir')).toThrow(/no usable newNonce/);
  });
});

describe('a chain', () => {
  const root = mintCa('Root of tests');
  const other = mintCa('Another root');
  const leaf = root.leaf({ names: ['app.test'] });

  it('is judged by its key, its names and its links', () => {
    const judged = judgeChain(`# a comment\n${leaf.cert}\n${root.cert}`, leaf.key, ['app.test']);
    expect(judged.pem.startsWith('-----BEGIN CERTIFICATE-----\n')).toBe(true);
    expect(judged.root).toBe('Root of tests');
    expect(() => judgeChain(leaf.cert, root.key, ['app.test'])).toThrow(/another key/);
    expect(() => judgeChain(leaf.cert, leaf.key, ['app.test', 'b.test'])).toThrow(/leaves out b\.test/);
    expect(() => judgeChain(`${leaf.cert}\n${other.cert}`, leaf.key, ['app.test'])).toThrow(/out of order/);
    expect(() => judgeChain('', leaf.key, [])).toThrow(/no certificate/);
  });

  it('is known by the root that it leads to', () => {
    expect([leadsTo(leaf.cert, 'Root of tests'), leadsTo(leaf.cert, 'Another root'), leadsTo('', 'x')]).toEqual([
      true,
      false,
      false,
    ]);
  });

  it('is called in renewal information by issuer key and serial number, as the example of RFC 9773 §4.1', () => {
    // The certificate of the RFC's appendix A.
    const example = `-----BEGIN CERTIFICATE-----
MIIBQzCB66ADAgECAgUAh2VDITAKBggqhkjOPQQDAjAVMRMwEQYDVQQDEwpFeGFt
cGxlIENBMCIYDzAwMDEwMTAxMDAwMDAwWhgPMDAwMTAxMDEwMDAwMDBaMBYxFDAS
BgNVBAMTC2V4YW1wbGUuY29tMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEeBZu
7cbpAYNXZLbbh8rNIzuOoqOOtmxA1v7cRm//AwyMwWxyHz4zfwmBhcSrf47NUAFf
qzLQ2PPQxdTXREYEnKMjMCEwHwYDVR0jBBgwFoAUaYhba4dGQEHhs3uEe6CuLN4B
yNQwCgYIKoZIzj0EAwIDRwAwRAIge09+S5TZAlw5tgtiVvuERV6cT4mfutXIlwTb
+FYN/8oCIClDsqBklhB9KAelFiYt9+6FDj3z4KGVelYM5MdsO3pK
-----END CERTIFICATE-----`;
    expect(renewalId(example)).toBe('aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE');
  });

  it('of a leaf that names no issuer key has no such name', () => {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const now = Date.now();
    const selfSigned = issueCertificate(
      {
        commonName: 'self',
        organization: null,
        publicKey,
        notBefore: now,
        notAfter: now + 1000,
        names: ['a.test'],
        use: 'server',
      },
      { certificate: null, key: privateKey },
    );
    // Ours always name one; what matters is that the text is the pair of both.
    expect(renewalId(selfSigned)).toMatch(/^[\w-]{27}\.[\w-]{27}$/);
    expect(new X509Certificate(selfSigned).serialNumber.length).toBe(40);
    expect(renewalId('')).toBeNull();
  });
});

// The ACME client against a real CA (Pebble, strict, half of all nonces refused) that looks at the real data plane.
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { renewalId } from '../../src/certificates/acme/chain.ts';
import { HttpClient } from '../../src/certificates/acme/http.ts';
import type { ChallengePresenter, PendingOrder } from '../../src/certificates/acme/issuer.ts';
import { AccountKey } from '../../src/certificates/acme/jose.ts';
import { Session } from '../../src/certificates/acme/session.ts';
import { namesOf, readChain } from '../../src/certificates/x509.ts';
import { failureOf, MemoryAccounts, newAccountKey, unhurried, wish } from '../support/acme.ts';
import { AcmeEdge, WatchedPresenter } from '../support/acme-edge.ts';
import { AcmeShim } from '../support/acme-shim.ts';
import { Pebble } from '../support/pebble.ts';
import { noChallenges } from '../support/routing.ts';

const edge = new AcmeEdge();
let pebble: Pebble;
/** Writes down what the CA is asked. */
let ca: AcmeShim;

beforeAll(async () => {
  pebble = await Pebble.start({ httpPort: edge.webPort, tlsPort: edge.securePort, alternateRoots: 1 });
  ca = await AcmeShim.start(pebble);
});

beforeEach(() => ca.reset());

afterAll(async () => {
  await edge.close();
  await ca?.close();
  await pebble?.stop();
});

const namesIn = (chain: string) => namesOf(new X509Certificate(chain)).toSorted();

describe('a certificate', () => {
  it.each([
    ['http-01', ['app.test']],
    ['tls-alpn-01', ['app.test']],
    ['http-01', ['app.test', 'b.test', 'c.test']],
    ['http-01', ['127.0.0.1', 'app.test']],
    ['tls-alpn-01', ['127.0.0.1']],
  ] as const)('comes by %s for %s, and nothing stays shown', async (kind, names) => {
    const presenter = new WatchedPresenter(edge.presenter);
    const issued = await edge.issuer(ca, { presenter }).issue(wish(names, { challengeFor: () => kind }), unhurried);
    expect(namesIn(issued.chain)).toEqual([...names].toSorted());
    expect(new X509Certificate(issued.chain).publicKey.asymmetricKeyDetails).toEqual({ namedCurve: 'prime256v1' });
    expect(issued.issuer).toMatch(/^Pebble Intermediate CA/);
    expect(issued.notAfter).toBe(new X509Certificate(issued.chain).validToDate.getTime());
    expect(presenter.shown.map((each) => each.kind)).toEqual(names.map(() => kind));
    expect(presenter.withdrawn).toEqual(presenter.shown);
    expect(edge.challenges).toEqual(noChallenges);
  });

  it('costs one order, although the CA refuses every other nonce, and no nonce is used twice', async () => {
    const issuer = edge.issuer(ca);
    await Promise.all([
      issuer.issue(wish(['app.test']), unhurried),
      issuer.issue(wish(['b.test'], { challengeFor: () => 'tls-alpn-01' }), unhurried),
    ]);
    const signed = ca.requests.filter(({ method }) => method === 'POST');
    const nonces = signed.map(({ header }) => header['nonce']);
    expect(new Set(nonces).size).toBe(nonces.length);
    expect(signed.every(({ header, path }) => String(header['url']).endsWith(path))).toBe(true);
    expect(signed.every(({ headers }) => headers['content-type'] === 'application/jose+json')).toBe(true);
    expect(signed.every(({ headers }) => /^turnpike\/\d/.test(headers['user-agent'] ?? ''))).toBe(true);
    // Accepted ones: the refused are repeated by the same words.
    const orders = new Set(ca.of('order').map(({ path }) => path));
    expect(orders.size).toBe(2);
  });

  it('has the key type that was wished for', async () => {
    const issued = await edge.issuer(ca).issue(wish(['app.test'], { keyType: 'rsa2048' }), unhurried);
    expect(new X509Certificate(issued.chain).publicKey.asymmetricKeyType).toBe('rsa');
    const other = await edge.issuer(ca).issue(wish(['app.test'], { keyType: 'p384' }), unhurried);
    expect(new X509Certificate(other.chain).publicKey.asymmetricKeyDetails).toEqual({ namedCurve: 'secp384r1' });
  });

  it('comes with the chain that leads to the wished root, and with the usual one if there is none', async () => {
    const roots = [new X509Certificate(await pebble.root(0)), new X509Certificate(await pebble.root(1))];
    const commonNames = roots.map(({ subject }) => subject.replace('CN=', ''));
    expect(new Set(commonNames).size).toBe(2);
    const issuer = edge.issuer(ca);
    const chainFor = async (preferredChain: string | null) => {
      const { chain } = await issuer.issue(wish(['app.test'], { preferredChain }), unhurried);
      return readChain(chain).at(-1)!;
    };
    expect((await chainFor(commonNames[1]!)).verify(roots[1]!.publicKey)).toBe(true);
    expect((await chainFor(commonNames[0]!)).verify(roots[0]!.publicKey)).toBe(true);
    expect((await chainFor('No such root')).verify(roots[0]!.publicKey)).toBe(true);
    expect((await chainFor(null)).verify(roots[0]!.publicKey)).toBe(true);
  });

  it('is not ordered by a challenge that the CA does not offer for the name', async () => {
    const wildcard = edge.issuer(ca).issue(wish(['*.app.test'], { challengeFor: () => 'http-01' }), unhurried);
    expect(await failureOf(wildcard)).toMatchObject({
      kind: 'rejected',
      detail: '*.app.test: the CA does not offer http-01; on offer: dns-01',
    });
  });

  it('that the CA does not find proved names each name with its reason, once all have been looked at', async () => {
    const shown = new WatchedPresenter(edge.presenter);
    const wrong: ChallengePresenter = {
      present: async (proofs) => {
        const answers = proofs.flatMap((each) => (each.kind === 'http-01' ? each : []));
        const answer = `${'w'.repeat(43)}.${'w'.repeat(43)}`;
        edge.publish({ http: answers.map(({ name, token }) => ({ host: name, token, answer })), alpn: [] });
      },
      withdraw: (proofs) => shown.withdraw(proofs),
    };
    const issuer = edge.issuer(ca, { presenter: wrong });
    const failure = await failureOf(issuer.issue(wish(['app.test', 'b.test']), unhurried));
    expect(failure.kind).toBe('validation');
    expect(failure.perName.map(({ name }) => name).toSorted()).toEqual(['app.test', 'b.test']);
    expect(failure.perName[0]?.problemType).toBe('unauthorized');
    expect(shown.withdrawn).toHaveLength(2);
    // A key authorization is told to nobody, although the CA quotes what it wanted and what it got.
    expect(failure.detail).toMatch(/"…"/);
    expect(failure.detail).not.toMatch(/\.[\w-]{43}/);
    edge.publish(noChallenges);
  });

  it('is given up when it is told to, and nothing stays shown', async () => {
    const stop = new AbortController();
    ca.faults = [
      ({ endpoint }) => {
        if (endpoint !== 'challenge') return null;
        stop.abort();
        return 'drip';
      },
    ];
    const failure = await failureOf(edge.issuer(ca).issue(wish(['app.test']), stop.signal));
    expect(failure.kind).toBe('aborted');
    expect(edge.challenges).toEqual(noChallenges);
  });
});

describe('an order that was interrupted', () => {
  it('is taken up where it was, with the key that it was told about', async () => {
    const accounts = new MemoryAccounts();
    const stop = new AbortController();
    let pending: PendingOrder | null = null;
    const onPending = async (order: PendingOrder): Promise<void> => {
      pending = order;
    };
    ca.faults = [
      async (asked) => {
        if (asked.endpoint !== 'finalize') return null;
        // The CA issues; the process that asked is gone.
        await asked.pass();
        stop.abort();
        return 'cut';
      },
    ];
    const first = edge.issuer(ca, { accounts }).issue(wish(['app.test'], { onPending }), stop.signal);
    expect((await failureOf(first)).kind).toBe('aborted');
    const placed = ca.of('new-order').length;
    ca.faults = [];
    const issued = await edge.issuer(ca, { accounts }).issue(wish(['app.test'], { resume: pending }), unhurried);
    expect([issued.url, issued.key]).toEqual([pending!.url, pending!.keyPem]);
    expect(new X509Certificate(issued.chain).subjectAltName).toBe('DNS:app.test');
    expect(ca.of('new-order').length).toBe(placed);
  });

  it.each([
    ['that the CA does not know', '/my-order/unknown', ['app.test']],
    ['for other names', null, ['app.test', 'b.test']],
  ])('%s is replaced by a new one', async (_what, path, names) => {
    const accounts = new MemoryAccounts();
    const first = await edge.issuer(ca, { accounts }).issue(wish(['app.test']), unhurried);
    const resume = { url: path === null ? first.url : `${ca.origin}${path}`, keyPem: first.key };
    const issued = await edge.issuer(ca, { accounts }).issue(wish(names, { resume }), unhurried);
    expect(namesIn(issued.chain)).toEqual(names);
    expect(issued.url).not.toBe(resume.url);
    expect(issued.key).not.toBe(first.key);
  });

  it('is not begun when it could not be kept', async () => {
    const onPending = async (): Promise<void> => {
      throw new Error('no space left');
    };
    const failure = await failureOf(edge.issuer(ca).issue(wish(['app.test'], { onPending }), unhurried));
    expect([failure.kind, failure.detail]).toEqual(['store', 'the order cannot be kept: no space left']);
    expect(ca.count('challenge') + ca.count('finalize')).toBe(0);
  });
});

describe('an account', () => {
  /** Speaks to the CA as somebody else with the same key would. */
  async function asked(keyPem: string, account: string | null, url: string, payload: object | null) {
    const http = new HttpClient({ clock: systemClock, timeoutMs: 5000, caPem: ca.caPem });
    const session = new Session(ca.directoryUrl, http, systemClock);
    try {
      return await session.post({ url, payload, key: new AccountKey(keyPem), account, what: 'test' }, unhurried);
    } finally {
      await http.close();
    }
  }

  const stored = (accounts: MemoryAccounts) => accounts.accounts.get(ca.directoryUrl)!;

  it('is made once, its key kept before the CA hears of it, and used by whoever comes later', async () => {
    const accounts = new MemoryAccounts();
    const issuer = edge.issuer(ca, { accounts });
    await Promise.all([issuer.issue(wish(['app.test']), unhurried), issuer.issue(wish(['b.test']), unhurried)]);
    expect(accounts.saved.map(({ url }) => url !== null)).toEqual([false, true]);
    expect(accounts.saved[0]?.keyPem).toBe(accounts.saved[1]?.keyPem);
    const made = ca.of('new-account');
    expect(made.at(-1)?.payload).toEqual({ termsOfServiceAgreed: true, contact: ['mailto:ops@app.test'] });
    const before = made.length;
    await edge.issuer(ca, { accounts }).issue(wish(['app.test']), unhurried);
    expect(ca.count('new-account')).toBe(before);
  });

  it('whose making was interrupted is looked up by its key first', async () => {
    const accounts = new MemoryAccounts();
    const keyPem = newAccountKey();
    const made = await asked(keyPem, null, `${ca.origin}/sign-me-up`, { termsOfServiceAgreed: true });
    ca.reset();
    await accounts.save(ca.directoryUrl, { keyPem, url: null, nextKeyPem: null, contacts: null });
    await edge.issuer(ca, { accounts }).issue(wish(['app.test']), unhurried);
    expect(stored(accounts)).toMatchObject({ keyPem, url: made.header('location'), nextKeyPem: null });
    expect(new Set(ca.of('new-account').map(({ payload }) => JSON.stringify(payload)))).toEqual(
      new Set(['{"onlyReturnExisting":true}']),
    );
  });

  it('that the CA lost is made again once, with the same key', async () => {
    const accounts = new MemoryAccounts();
    const keyPem = newAccountKey();
    await accounts.save(ca.directoryUrl, {
      keyPem,
      url: `${ca.origin}/my-account/unknown`,
      nextKeyPem: null,
      contacts: null,
    });
    const issued = await edge.issuer(ca, { accounts }).issue(wish(['app.test']), unhurried);
    expect(namesIn(issued.chain)).toEqual(['app.test']);
    expect(stored(accounts).keyPem).toBe(keyPem);
    expect(stored(accounts).url).not.toMatch(/unknown/);
  });

  it('that is closed is left alone, and another one made with another key', async () => {
    const accounts = new MemoryAccounts();
    await edge.issuer(ca, { accounts }).issue(wish(['app.test']), unhurried);
    const closed = stored(accounts);
    await asked(closed.keyPem, closed.url, closed.url!, { status: 'deactivated' });
    const issued = await edge.issuer(ca, { accounts }).issue(wish(['app.test']), unhurried);
    expect(namesIn(issued.chain)).toEqual(['app.test']);
    expect(stored(accounts).keyPem).not.toBe(closed.keyPem);
  });

  it('that cannot be kept is not made', async () => {
    const accounts = new MemoryAccounts();
    accounts.save = async () => {
      throw new Error('read-only file system');
    };
    const failure = await failureOf(edge.issuer(ca, { accounts }).issue(wish(['app.test']), unhurried));
    expect([failure.kind, failure.detail]).toEqual(['store', 'the account cannot be written: read-only file system']);
    expect(ca.count('new-account')).toBe(0);
  });

  it('gets a new key, by which alone it is used from then on', async () => {
    const accounts = new MemoryAccounts();
    const issuer = edge.issuer(ca, { accounts });
    await issuer.issue(wish(['app.test']), unhurried);
    const { keyPem: oldKey, url } = stored(accounts);
    const newKey = newAccountKey();
    await issuer.rolloverKey(newKey, unhurried);
    expect(stored(accounts)).toMatchObject({ keyPem: newKey, url, nextKeyPem: null });
    // Both keys were kept while the CA had not decided.
    expect(accounts.saved.at(-2)).toMatchObject({ keyPem: oldKey, url, nextKeyPem: newKey });
    await issuer.issue(wish(['app.test']), unhurried);
    await expect(asked(oldKey, url, url!, null)).rejects.toThrow();
  });

  it.each([
    ['before', false],
    ['after', true],
  ])('is found again when the change of its key was cut off %s the CA took it', async (_when, taken) => {
    const accounts = new MemoryAccounts();
    const issuer = edge.issuer(ca, { accounts });
    await issuer.issue(wish(['app.test']), unhurried);
    const { keyPem: oldKey, url } = stored(accounts);
    const newKey = newAccountKey();
    ca.faults = [
      async (request) => {
        if (request.endpoint !== 'key-change') return null;
        if (!taken) return 'cut';
        const reply = await request.pass();
        return reply.status === 200 ? 'cut' : reply;
      },
    ];
    expect((await failureOf(issuer.rolloverKey(newKey, unhurried))).kind).toBe('network');
    ca.faults = [];
    // Another process, with nothing but the store.
    await edge.issuer(ca, { accounts }).issue(wish(['app.test']), unhurried);
    expect(stored(accounts)).toMatchObject({ keyPem: taken ? newKey : oldKey, url, nextKeyPem: null });
  });

  it('keeps its key when the CA refuses the new one', async () => {
    const accounts = new MemoryAccounts();
    const other = new MemoryAccounts();
    const issuer = edge.issuer(ca, { accounts });
    await issuer.issue(wish(['app.test']), unhurried);
    await edge.issuer(ca, { accounts: other }).issue(wish(['app.test']), unhurried);
    const before = stored(accounts);
    const failure = await failureOf(issuer.rolloverKey(stored(other).keyPem, unhurried));
    expect(failure.status).toBeGreaterThanOrEqual(400);
    await issuer.issue(wish(['app.test']), unhurried);
    expect(stored(accounts)).toEqual(before);
  });

  it('learns of other addresses once, and an order does not depend on it', async () => {
    const accounts = new MemoryAccounts();
    const issue = (contacts: readonly string[]) =>
      edge.issuer(ca, { accounts, contacts }).issue(wish(['app.test']), unhurried);
    await issue(['first@app.test']);
    const { url, keyPem } = stored(accounts);
    const contact = async () =>
      (JSON.parse((await asked(keyPem, url, url!, null)).text) as { contact: string[] }).contact;
    expect(await contact()).toEqual(['mailto:first@app.test']);
    await issue(['second@app.test', 'third@app.test']);
    expect(await contact()).toEqual(['mailto:second@app.test', 'mailto:third@app.test']);
    ca.reset();
    await issue(['second@app.test', 'third@app.test']);
    const told = () => ca.requests.filter(({ payload }) => 'contact' in payload).length;
    expect(told()).toBe(0);
    ca.faults = [({ payload }) => ('contact' in payload ? 'cut' : null)];
    await issue(['fourth@app.test']);
    expect(told()).toBe(1);
    expect(stored(accounts).contacts).toEqual(['second@app.test', 'third@app.test']);
  });

  it('may have an RSA key from elsewhere', async () => {
    const accounts = new MemoryAccounts();
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const keyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
    await accounts.save(ca.directoryUrl, { keyPem, url: null, nextKeyPem: null, contacts: null });
    await edge.issuer(ca, { accounts }).issue(wish(['app.test']), unhurried);
    expect(stored(accounts).keyPem).toBe(keyPem);
  });
});

describe('revocation', () => {
  it('is seen at the CA, and harmless when it is repeated', async () => {
    const issuer = edge.issuer(ca);
    const { chain } = await issuer.issue(wish(['app.test']), unhurried);
    const { serialNumber } = new X509Certificate(chain);
    expect(await pebble.statusOf(serialNumber)).toBe('Valid');
    await issuer.revoke(chain, 'superseded', unhurried);
    expect(await pebble.statusOf(serialNumber)).toBe('Revoked');
    expect(ca.of('revoke').at(-1)?.payload['reason']).toBe(4);
    await issuer.revoke(chain, 'superseded', unhurried);
  });

  it('of what another account ordered is refused in words', async () => {
    const { chain } = await edge.issuer(ca).issue(wish(['app.test']), unhurried);
    const accounts = new MemoryAccounts();
    const failure = await failureOf(edge.issuer(ca, { accounts }).revoke(chain, 'unspecified', unhurried));
    expect([failure.kind, failure.problemType]).toEqual(['rejected', 'unauthorized']);
    // It is no reason to open another account.
    expect(new Set(accounts.saved.map(({ keyPem }) => keyPem)).size).toBe(1);
  });
});

describe('external account binding', () => {
  const hmacKey = 'zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W';
  let strict: Pebble;
  beforeAll(async () => {
    strict = await Pebble.start({ httpPort: edge.webPort, externalAccounts: { 'kid-1': hmacKey } });
  });
  afterAll(() => strict?.stop());

  it('opens the account', async () => {
    const issuer = edge.issuer(strict, { externalAccount: { keyId: 'kid-1', hmacKey } });
    expect(namesIn((await issuer.issue(wish(['app.test']), unhurried)).chain)).toEqual(['app.test']);
    expect((await issuer.directoryMeta(unhurried)).externalAccountRequired).toBe(true);
  });

  it('that is missing is told before anything is asked', async () => {
    const failure = await failureOf(edge.issuer(strict).issue(wish(['app.test']), unhurried));
    expect([failure.kind, failure.scope, failure.status]).toEqual(['eab-required', 'account', null]);
  });

  it('with a wrong key is refused, and the key is in no message', async () => {
    const wrong = Buffer.alloc(32, 3).toString('base64url');
    const issuer = edge.issuer(strict, { externalAccount: { keyId: 'kid-1', hmacKey: wrong } });
    const failure = await failureOf(issuer.issue(wish(['app.test']), unhurried));
    expect(failure.kind).toBe('rejected');
    expect(failure.detail).not.toContain(wrong);
  });
});

describe('the CA', () => {
  it('without renewal information gives no window', async () => {
    const issuer = edge.issuer(ca);
    const { chain } = await issuer.issue(wish(['app.test'], { replaces: 'a.b' }), unhurried);
    expect(await issuer.renewalInfo(chain, unhurried)).toBeNull();
    expect(renewalId(chain)).toMatch(/^[\w-]{27}\.[\w-]+$/);
    // What it does not have is not asked of it either.
    expect(ca.of('new-order').some(({ payload }) => 'replaces' in payload)).toBe(false);
  });
});

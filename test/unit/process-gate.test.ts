// The supervisor's side of the gate: passwords, codes, throttling, sessions, overrides.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { addressKey } from '../../src/gate/address-key.ts';
import { type CredentialsDelta, hashOf, type Lifetimes } from '../../src/gate/credentials.ts';
import type { Caller, LoginAnswer } from '../../src/gate/desk.ts';
import { defaultGateSettings } from '../../src/model/gate-policy.ts';
import { GateLedger } from '../../src/process/gate-ledger.ts';
import { GateOffice } from '../../src/process/gate-office.ts';
import { GateOverrides } from '../../src/process/gate-overrides.ts';
import { Passwords, type StoredPassword } from '../../src/process/gate-passwords.ts';
import { GateStore } from '../../src/process/gate-store.ts';
import { LoginThrottle } from '../../src/process/gate-throttle.ts';
import { base32, totpCode, totpStep } from '../../src/process/gate-totp.ts';
import { newUser } from '../../src/process/gate-users.ts';
import { StateStore } from '../../src/process/state-store.ts';
import { HandClock } from '../support/hand-clock.ts';

let directory: string;
let clock: HandClock;
let state: StateStore;
let ledger: GateLedger;
let office: GateOffice;
let spread: { delta: CredentialsDelta; urgent: boolean }[];
let waits: (readonly [string, number])[];
/** Cheap: what is tested is who waits for whom. */
const passwords = new Passwords({ memory: 1024, passes: 1, parallelism: 1 });
let annas: StoredPassword;
let lifetimes: Lifetimes;

const day = 24 * 3_600_000;

function open(): void {
  state = StateStore.open(directory);
  ledger = new GateLedger(
    state.tables((database) => new GateStore(database)),
    async (delta, urgent) => {
      spread.push({ delta, urgent });
    },
  );
  office = new GateOffice({
    clock,
    log: silentLog,
    ledger,
    passwords,
    lifetimes: () => lifetimes,
    sso: () => null,
    throttled: (addresses) => waits.push(...addresses),
  });
}

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-gate-'));
  clock = new HandClock();
  clock.advance(1_800_000_000_000);
  spread = [];
  waits = [];
  lifetimes = defaultGateSettings;
  open();
  annas ??= await passwords.hash('correct horse');
  await ledger.change({ users: { put: [newUser('anna', 'owner', [], annas, 0)] } });
  spread.length = 0;
});

afterEach(() => {
  office.close();
  state.close();
  rmSync(directory, { recursive: true });
});

const caller = (over: Partial<Caller> = {}): Caller => ({
  address: '192.0.2.1',
  host: 'app.test',
  secure: true,
  replaces: [],
  ...over,
});

const logIn = (
  password = 'correct horse',
  over: Partial<Caller> = {},
  user = 'anna',
  code = '',
): Promise<LoginAnswer> =>
  office.answer({ topic: 'login', ask: { user, password, code, caller: caller(over) } }) as Promise<LoginAnswer>;

const idOf = (answer: LoginAnswer): string => {
  if (answer.kind !== 'ok') throw new Error(JSON.stringify(answer));
  return answer.id;
};

describe('a login', () => {
  it('makes a session that is on disk and at every worker before its id is told', async () => {
    const id = idOf(await logIn());
    expect(spread.at(-1)!.delta.sessions.put).toMatchObject([
      { hash: hashOf(id), user: 'anna', host: 'app.test', secure: true },
    ]);
    office.close();
    state.close();
    open();
    expect([...ledger.sessions.keys()]).toEqual([hashOf(id)]);
    expect(ledger.whole()).toMatchObject({ whole: true, users: { put: [{ name: 'anna', role: 'owner' }] } });
    const text =
      readFileSync(join(directory, 'state.db'), 'latin1') + readFileSync(join(directory, 'state.db-wal'), 'latin1');
    expect(text).toContain(hashOf(id));
    for (const secret of [id, 'correct horse']) expect(text).not.toContain(secret);
    expect(JSON.stringify(ledger.whole())).not.toContain(annas.hash);
  });

  it('never gives an id twice, and ends the sessions that the browser brought', async () => {
    const first = idOf(await logIn());
    const second = idOf(await logIn('correct horse', { replaces: [hashOf(first), 'unknown'] }));
    expect(second).not.toBe(first);
    expect(spread.at(-1)).toMatchObject({ urgent: true, delta: { sessions: { gone: [hashOf(first)] } } });
    expect([...ledger.sessions.keys()]).toEqual([hashOf(second)]);
  });

  it('takes names in any case, and passwords as they are, however they were composed', async () => {
    idOf(await logIn('correct horse', {}, ' Anna '));
    await ledger.change({
      users: {
        put: [
          newUser(
            'jörg'.normalize('NFC').replace('ö', 'o'),
            'user',
            [],
            await passwords.hash('stra\u00dfe a\u0308'),
            0,
          ),
        ],
      },
    });
    idOf(await logIn('stra\u00dfe \u00e4', {}, 'jorg'));
    expect(await logIn('Correct horse')).toEqual({ kind: 'refused', why: 'password' });
  });

  it('of a user who was removed or got another password meanwhile is none', async () => {
    const pending = logIn();
    await ledger.change({ users: { gone: ['anna'] } });
    expect(await pending).toEqual({ kind: 'refused', why: 'password' });
    await ledger.change({ users: { put: [newUser('anna', 'owner', [], annas, 0)] } });
    const late = logIn();
    await ledger.change({ users: { put: [newUser('anna', 'owner', [], { ...annas, hash: 'another' }, 0)] } });
    expect(await late).toEqual({ kind: 'refused', why: 'password' });
  });

  it('keeps 200 sessions of a user, the latest used', async () => {
    const old = Array.from({ length: 205 }, (_, i) => ({
      hash: `old ${i}`,
      user: 'anna',
      login: `l${i}`,
      createdAt: clock.now(),
      lastUsedAt: clock.now() - 205 + i,
      secure: true,
      host: 'x',
      address: 'y',
    }));
    await ledger.change({ sessions: { put: old } });
    clock.advance(1000);
    idOf(await logIn());
    expect(ledger.sessions.size).toBe(200);
    expect(ledger.sessions.has('old 5')).toBe(false);
    expect(ledger.sessions.has('old 6')).toBe(true);
  });
});

describe('throttling', () => {
  it('is by address: after five failures that one waits, another logs in at once, and after a while the first one can', async () => {
    for (let i = 0; i < 5; i++) expect((await logIn('wrong')).kind).toBe('refused');
    expect(await logIn()).toEqual({ kind: 'throttled', retryAfterSeconds: 60 });
    idOf(await logIn('correct horse', { address: '198.51.100.7' }));
    clock.advance(61_000);
    idOf(await logIn());
  });

  it('does not count what succeeds, and counts attempts before they are made', async () => {
    for (let i = 0; i < 8; i++) idOf(await logIn());
    const many = await Promise.all(Array.from({ length: 9 }, () => logIn('wrong')));
    expect(many.filter(({ kind }) => kind === 'refused').length).toBeLessThanOrEqual(5);
  });

  it('10 000 failures from 5 000 addresses: memory stays, the owner logs in at once from another one', async () => {
    const throttle = new LoginThrottle(clock);
    let refused = 0;
    for (let i = 0; i < 10_000; i++) {
      const n = i % 5000;
      if (throttle.begin(`10.${n >> 8}.${n & 255}.1`, 'anna') > 0) refused++;
    }
    expect(throttle.size).toBeLessThanOrEqual(11_000);
    expect(throttle.begin('203.0.113.9', 'anna')).toBe(0);
    expect(refused).toBe(0);
    // Somebody is guessing at this name: strangers have two attempts for it, the owner's first one is good.
    expect(throttle.begin('203.0.113.9', 'anna')).toBe(0);
    expect(throttle.begin('203.0.113.9', 'anna')).toBeGreaterThan(0);
    expect(throttle.begin('203.0.113.9', 'ben')).toBe(0);
    for (let i = 0; i < 30_000; i++)
      throttle.begin(`2001:db8:${(i >> 8).toString(16)}:${(i & 255).toString(16)}::1`, `user${i}`);
    expect(throttle.size).toBeLessThanOrEqual(11_000);
  });

  it('a whole IPv6 network is one address', () => {
    expect(addressKey('2001:db8:1:2::1')).toBe(addressKey('2001:db8:1:2:ffff::9'));
    expect(addressKey('2001:db8:1:2::1')).not.toBe(addressKey('2001:db8:1:3::1'));
    expect(addressKey('::1')).toBe('0:0:0:0::/64');
    expect(addressKey('192.0.2.1')).toBe('192.0.2.1');
  });

  it('wrong tokens are paid from the same budget, and the workers are told', async () => {
    office.report({ sessions: [], tokens: [], wrongTokens: [['192.0.2.1', 5]] });
    expect(waits).toEqual([['192.0.2.1', clock.now() + 60_000]]);
    expect((await logIn()).kind).toBe('throttled');
  });

  it('for nobody a password takes as long as for somebody', async () => {
    const slow = new Passwords({ memory: 16_384, passes: 2, parallelism: 1 });
    const stored = await slow.hash('correct horse');
    /** Processor time of all threads: what else runs on the machine does not count. */
    const cost = async (whose: StoredPassword | null): Promise<number> => {
      const began = process.cpuUsage();
      expect(await slow.verify(whose, 'wrong', 'a')).toBe(false);
      return process.cpuUsage(began).user;
    };
    const known = Math.min(await cost(stored), await cost(stored), await cost(stored));
    const unknown = Math.min(await cost(null), await cost(null), await cost(null));
    expect(unknown).toBeGreaterThan(known / 3);
  });

  it('at most 64 wait for a password check, four of one address', async () => {
    const verify = (address: string): Promise<boolean | 'busy'> => passwords.verify(annas, 'correct horse', address);
    const ofOne = await Promise.all(Array.from({ length: 6 }, () => verify('a')));
    expect(ofOne.filter((each) => each === 'busy')).toHaveLength(2);
    expect(ofOne.filter((each) => each === true)).toHaveLength(4);
  });
});

describe('codes of an authenticator', () => {
  it('are those of RFC 6238, appendix B', () => {
    const secret = base32(Buffer.from('12345678901234567890'));
    const vectors: [number, string][] = [
      [59, '94287082'],
      [1_111_111_109, '07081804'],
      [1_111_111_111, '14050471'],
      [1_234_567_890, '89005924'],
      [2_000_000_000, '69279037'],
      [20_000_000_000, '65353130'],
    ];
    for (const [seconds, code] of vectors) expect(totpCode(secret, Math.floor(seconds / 30), 8)).toBe(code);
    expect(base32(Buffer.from('foobar'))).toBe('MZXW6YTBOI');
  });

  it('are asked for after the password, borne for a step either way, and taken once', async () => {
    const secret = base32(Buffer.from('12345678901234567890'));
    await ledger.change({ users: { put: [{ ...ledger.users.get('anna')!, totp: { secret, lastStep: 0 } }] } });
    const step = Math.floor(clock.now() / 30_000);
    expect(await logIn('wrong', {}, 'anna', totpCode(secret, step))).toEqual({ kind: 'refused', why: 'password' });
    expect(await logIn()).toEqual({ kind: 'refused', why: 'code' });
    expect(await logIn('correct horse', {}, 'anna', '000000')).toEqual({ kind: 'refused', why: 'code' });
    expect(totpStep(secret, totpCode(secret, step - 2), clock.now(), 0)).toBe(null);
    const code = totpCode(secret, step + 1);
    idOf(await logIn('correct horse', {}, 'anna', `${code.slice(0, 3)} ${code.slice(3)}`));
    expect(await logIn('correct horse', {}, 'anna', code)).toEqual({ kind: 'refused', why: 'code' });
    expect(await logIn('correct horse', {}, 'anna', totpCode(secret, step))).toEqual({ kind: 'refused', why: 'code' });
  });

  it('are not to be guessed from many addresses by who knows the password', async () => {
    const secret = base32(Buffer.from('12345678901234567890'));
    await ledger.change({ users: { put: [{ ...ledger.users.get('anna')!, totp: { secret, lastStep: 0 } }] } });
    const kinds: string[] = [];
    for (let i = 0; i < 7; i++)
      kinds.push((await logIn('correct horse', { address: `10.0.0.${i}` }, 'anna', '000000')).kind);
    expect(kinds).toEqual(['refused', 'refused', 'refused', 'refused', 'refused', 'throttled', 'throttled']);
  });
});

describe('the first user', () => {
  const setUp = (secret: string, user = 'owner', password = 'long enough pass'): Promise<LoginAnswer> =>
    office.answer({ topic: 'setup', ask: { secret, user, password, caller: caller() } }) as Promise<LoginAnswer>;

  it('is made once, by who has the link, and owns everything', async () => {
    await ledger.change({ users: { gone: ['anna'] } });
    const secret = office.offerSetup()!;
    expect(await setUp('x'.repeat(43))).toEqual({ kind: 'refused', why: 'setup' });
    expect(await setUp(secret, 'owner', 'short')).toEqual({ kind: 'refused', why: 'weak' });
    expect(await setUp(secret, 'no spaces')).toEqual({ kind: 'refused', why: 'name' });
    const both = await Promise.all([setUp(secret), setUp(secret, 'thief')]);
    expect(both.map(({ kind }) => kind).sort()).toEqual(['ok', 'refused']);
    expect([...ledger.users.values()].map(({ role }) => role)).toEqual(['owner']);
    expect(await setUp(secret, 'late')).toEqual({ kind: 'refused', why: 'setup' });
  });

  it('needs no link where there is a user', () => {
    expect(office.offerSetup()).toBe(null);
  });
});

describe('sessions', () => {
  it('of one login end together, everywhere means every login of the user', async () => {
    const here = idOf(await logIn());
    const answer = await office.answer({
      topic: 'handOver',
      ask: { session: hashOf(here), visit: 'mark', to: { host: 'b.test', secure: true, returnTo: '/x' } },
    });
    const code = (answer as { code: string }).code;
    const taken = await office.answer({
      topic: 'redeem',
      ask: { code, visit: 'mark', caller: caller({ host: 'b.test' }) },
    });
    expect(taken).toMatchObject({ returnTo: '/x' });
    const other = idOf(await logIn());
    await office.answer({ topic: 'logout', ask: { session: hashOf(here), everywhere: false } });
    expect([...ledger.sessions.keys()]).toEqual([hashOf(other)]);
    idOf(await logIn());
    await office.answer({ topic: 'logout', ask: { session: hashOf(other), everywhere: true } });
    expect(ledger.sessions.size).toBe(0);
  });

  it('are taken over by a code once, within 30 s, by this browser, on this host', async () => {
    const here = hashOf(idOf(await logIn()));
    const hand = async (): Promise<string> => {
      const answer = await office.answer({
        topic: 'handOver',
        ask: { session: here, visit: 'mark', to: { host: 'b.test', secure: true, returnTo: '/' } },
      });
      return (answer as { code: string }).code;
    };
    const redeem = (code: string, visit = 'mark', over: Partial<Caller> = {}) =>
      office.answer({ topic: 'redeem', ask: { code, visit, caller: caller({ host: 'b.test', ...over }) } });
    expect(await redeem(await hand(), 'other')).toBe(null);
    expect(await redeem(await hand(), 'mark', { host: 'c.test' })).toBe(null);
    expect(await redeem(await hand(), 'mark', { secure: false })).toBe(null);
    const late = await hand();
    clock.advance(30_000);
    expect(await redeem(late)).toBe(null);
    const code = await hand();
    expect(await redeem(code)).not.toBe(null);
    expect(await redeem(code)).toBe(null);
    const orphan = await hand();
    await office.answer({ topic: 'logout', ask: { session: here, everywhere: false } });
    expect(await redeem(orphan)).toBe(null);
  });

  it('end when they were idle for seven days or are thirty days old', async () => {
    const id = idOf(await logIn());
    const use = (): void =>
      office.report({
        sessions: [{ hash: hashOf(id), lastUsedAt: clock.now(), address: '192.0.2.1' }],
        tokens: [],
        wrongTokens: [],
      });
    for (let i = 0; i < 4; i++) {
      clock.advance(6 * day);
      use();
      office.sweep();
    }
    expect(ledger.sessions.size).toBe(1);
    clock.advance(6 * day);
    office.sweep();
    expect(ledger.sessions.size).toBe(0);
    expect(spread.at(-1)).toMatchObject({ urgent: true, delta: { sessions: { gone: [hashOf(id)] } } });
    const idle = idOf(await logIn());
    clock.advance(7 * day);
    office.sweep();
    expect(ledger.sessions.has(hashOf(idle))).toBe(false);
  });

  it('end at the moment when they are too old, though they are in use', async () => {
    clock.advance(12_345);
    const first = hashOf(idOf(await logIn()));
    clock.advance(5000);
    const second = hashOf(idOf(await logIn()));
    lifetimes = { ...lifetimes, sessionAbsoluteMs: 100_000 };
    office.awaitEnding();
    const gone = (): unknown => spread.map(({ urgent, delta }) => [urgent, delta.sessions.gone]);
    spread.length = 0;
    clock.advance(94_999);
    expect(gone()).toEqual([]);
    clock.advance(1);
    expect(gone()).toEqual([[true, [first]]]);
    clock.advance(4999);
    expect([...ledger.sessions.keys()]).toEqual([second]);
    clock.advance(1);
    expect(gone()).toEqual([
      [true, [first]],
      [true, [second]],
    ]);
  });

  it('tokens end at their moment', async () => {
    const common = { name: 'ci', app: 'a', paths: [], methods: [], cidrs: [], createdAt: 0, lastUsedAt: 0 };
    const start = clock.now();
    await ledger.change({ tokens: { put: [{ ...common, hash: 'late', expiresAt: start + 40 * day }] } });
    await ledger.change({ tokens: { put: [{ ...common, hash: 'soon', expiresAt: start + 10_001 }] } });
    spread.length = 0;
    clock.advance(10_000);
    expect(spread).toEqual([]);
    clock.advance(1);
    expect(spread).toMatchObject([{ urgent: true, delta: { tokens: { gone: ['soon'] } } }]);
    expect([...ledger.tokens.keys()]).toEqual(['late']);
  });

  it('whose end cannot be written are ended by a later sweep', async () => {
    const failing = vi.spyOn(ledger, 'change').mockImplementation(() => {
      throw new Error('disk full');
    });
    ledger.sessions.set('s', {
      ...{ hash: 's', user: 'anna', login: 'l', createdAt: clock.now(), lastUsedAt: clock.now() },
      ...{ secure: true, host: 'app.test', address: '192.0.2.1' },
    });
    lifetimes = { ...lifetimes, sessionAbsoluteMs: 1000 };
    office.awaitEnding();
    clock.advance(20_000);
    expect(failing).toHaveBeenCalledOnce();
    failing.mockRestore();
    clock.advance(10_000);
    expect(ledger.sessions.size).toBe(0);
  });

  it('that move to another address are known there by every worker at once', async () => {
    const id = idOf(await logIn());
    spread.length = 0;
    office.report({
      sessions: [{ hash: hashOf(id), lastUsedAt: clock.now() + 1, address: '198.51.100.1' }],
      tokens: [],
      wrongTokens: [],
    });
    expect(spread.map(({ delta }) => delta.sessions.put.map(({ address }) => address))).toEqual([['198.51.100.1']]);
  });

  it('tokens: the last use is kept, without a word to the workers', async () => {
    const row = {
      hash: 't',
      name: 'ci',
      app: 'a',
      expiresAt: null,
      paths: [],
      methods: [],
      cidrs: [],
      createdAt: 0,
      lastUsedAt: 0,
    };
    await ledger.change({ tokens: { put: [row] } });
    spread.length = 0;
    office.report({ sessions: [], tokens: [{ hash: 't', lastUsedAt: 42 }], wrongTokens: [] });
    office.sweep();
    expect(ledger.tokens.get('t')!.lastUsedAt).toBe(42);
    expect(spread.flatMap(({ delta }) => delta.tokens.put)).toEqual([]);
  });
});

describe('overrides', () => {
  it('keep what is not theirs, and ask for a login when the file cannot be understood', async () => {
    const overrides = new GateOverrides(directory);
    const file = join(directory, 'app-configs', 'git.test.json');
    expect(overrides.read('git.test')).toEqual({ enabled: null, problem: null });
    mkdirSync(join(directory, 'app-configs'));
    writeFileSync(file, '{"theme": {"dark": true}}');
    await overrides.set('git.test', false);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ theme: { dark: true }, gateEnabled: false });
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(overrides.readAll()).toEqual(new Map([['git.test', { enabled: false, problem: null }]]));
    await overrides.set('git.test', null);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ theme: { dark: true } });
    for (const broken of [
      '{',
      '[]',
      '"x"',
      '{"gateEnabled": "no"}',
      '{"gateEnabled": null}',
      '{"gateEnabled": 0}',
      '',
    ]) {
      writeFileSync(file, broken);
      expect(overrides.read('git.test'), broken).toMatchObject({ enabled: true, problem: expect.any(String) });
    }
    await expect(overrides.set('git.test', false)).rejects.toMatchObject({ code: 'gate-refused' });
  });

  it('no name leads out of their directory', () => {
    const overrides = new GateOverrides('/state');
    for (const name of ['../../etc/passwd', '..', 'a/b', '*.app.test/api']) {
      expect(overrides.fileOf(name)).toMatch(/^\/state\/app-configs\/[^/]+\.json$/);
    }
  });
});

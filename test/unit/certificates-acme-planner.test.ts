import { describe, expect, it } from 'vitest';
import {
  emptyJournal,
  freshTarget,
  type Journal,
  type Pause,
  parseJournal,
  settled,
  shifted,
  withTarget,
} from '../../src/certificates/acme/journal.ts';
import { type OrderRecord, pruned, registeredDomain, roomFor } from '../../src/certificates/acme/ledger.ts';
import { type Attempt, afterFailure, afterSuccess, type Failure } from '../../src/certificates/acme/outcome.ts';
import { type Held, plan, type Situation, type Target } from '../../src/certificates/acme/planner.ts';
import { dueTime, emergencyTime, urgencyOf } from '../../src/certificates/acme/renewal-time.ts';
import { entryId } from '../../src/certificates/acme/store.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;
const now = Date.UTC(2026, 5, 1);
const le = 'https://acme-v02.api.letsencrypt.org/directory';
const own = 'https://ca.internal/directory';

const target = (name: string, over: Partial<Target> = {}): Target => ({
  id: entryId([name]),
  names: [name],
  coveredBy: null,
  directories: [le],
  impossible: null,
  ...over,
});

/** Signed `age` ago for `lifetime`. */
const held = (age: number, lifetime = 90 * day, over: Partial<Held> = {}): Held => ({
  certificate: { id: 'f00d', notBefore: now - age, notAfter: now - age + lifetime },
  directory: le,
  lagMs: 0,
  ...over,
});

function planned(over: Partial<Omit<Situation, 'held'>> & { held?: Record<string, Held> } = {}) {
  const { held: certificates = {}, ...rest } = over;
  return plan({
    now,
    targets: [target('a.test')],
    journal: emptyJournal,
    forced: new Set(),
    ...rest,
    held: new Map(Object.entries(certificates)),
  });
}

const pause = (ms: number, over: Partial<Pause> = {}): Pause => ({
  since: now - minute,
  until: now + ms,
  by: 'us',
  directory: null,
  why: 'it failed',
  ...over,
});

describe('the time of a renewal', () => {
  it.each([
    ['90 days', 90 * day, 2 / 3],
    ['47 days', 47 * day, 2 / 3],
    ['160 hours', 160 * hour, 1 / 2],
    ['6 days', 6 * day, 1 / 2],
  ])('of a certificate for %s is after its share, or a little before', (_, lifetime, share) => {
    for (let i = 0; i < 50; i++) {
      const { at, why } = dueTime({ id: `id ${i}`, notBefore: 0, notAfter: lifetime }, null);
      expect(at).toBeLessThanOrEqual(lifetime * share);
      expect(at).toBeGreaterThanOrEqual(lifetime * (share - 0.02));
      expect(why).toBe('lifetime');
    }
  });

  it('is inside the window that the CA announces, the same after every restart, another for another certificate', () => {
    const window = { start: 40 * day, end: 42 * day };
    const times = Array.from({ length: 50 }, (_, i) => {
      const validity = { id: `id ${i}`, notBefore: 0, notAfter: 90 * day };
      expect(dueTime(validity, window)).toEqual(dueTime(validity, window));
      return dueTime(validity, window).at;
    });
    expect(Math.min(...times)).toBeGreaterThanOrEqual(window.start);
    expect(Math.max(...times)).toBeLessThanOrEqual(window.end);
    expect(new Set(times).size).toBeGreaterThan(40);
  });

  it('is not put off by a window that lies after the end, nor by one that ends before it begins', () => {
    const validity = { id: 'x', notBefore: 0, notAfter: 90 * day };
    expect(dueTime(validity, { start: 95 * day, end: 99 * day })).toEqual({
      at: emergencyTime(validity),
      why: 'emergency',
    });
    expect(dueTime(validity, { start: 50 * day, end: 40 * day }).why).toBe('lifetime');
  });

  it('presses more the less is left', () => {
    const validity = { id: 'x', notBefore: 0, notAfter: 60 * day };
    expect([30, 51, 58, 61].map((days) => urgencyOf(validity, days * day))).toEqual([
      'calm',
      'late',
      'emergency',
      'emergency',
    ]);
  });
});

describe('the plan', () => {
  it('orders what is missing now, and what is held when it is due', () => {
    expect(planned().due).toMatchObject([{ id: 'a.test', directory: le, urgency: 'missing', replaces: false }]);
    const later = planned({ held: { 'a.test': held(day) } });
    expect(later.due).toEqual([]);
    expect(later.nextAt).toBeGreaterThan(now + 50 * day);
    expect(planned({ held: { 'a.test': held(61 * day) } }).due).toHaveLength(1);
  });

  it('renews in time although the wall clock has fallen behind', () => {
    const behind = held(50 * day, 90 * day, { lagMs: 12 * day });
    expect(planned({ held: { 'a.test': behind } }).due).toHaveLength(1);
  });

  it('names what it replaces only to the CA that announced the renewal, and only once', () => {
    const announced = {
      certificate: 'f00d',
      window: { start: now - 2 * hour, end: now - hour },
      explanationUrl: null,
      checkedAt: now,
      askAgainAt: now + hour,
    };
    const journal = withTarget(emptyJournal, 'a.test', { announced });
    const held1 = { 'a.test': held(day) };
    expect(planned({ journal, held: held1 }).due).toMatchObject([
      { replaces: true, why: 'the CA announced this time' },
    ]);
    const elsewhere = { targets: [target('a.test', { directories: [own] })], journal, held: held1 };
    expect(planned(elsewhere).due).toMatchObject([{ replaces: false, directory: own }]);
    const refused = withTarget(journal, 'a.test', { notReplaced: 'f00d' });
    expect(planned({ journal: refused, held: held1 }).due).toMatchObject([{ replaces: false }]);
  });

  it('takes a renewal for exempt from limits only inside the window that the CA announced', () => {
    const announcedFrom = (start: number, end: number): Journal => {
      const window = { start, end };
      const announced = { certificate: 'f00d', window, explanationUrl: null, checkedAt: now, askAgainAt: now + hour };
      const orders = [1, 2, 3, 4, 5].map((n) => {
        return { at: now - n * hour, directory: le, names: ['a.test'], exempt: false, certificate: true };
      });
      return withTarget({ ...emptyJournal, orders }, 'a.test', { announced });
    };
    const forced = new Set(['a.test']);
    const of = (journal: Journal) => planned({ journal, held: { 'a.test': held(day) }, forced }).rows[0]!;
    const inside = of(announcedFrom(now - hour, now + hour));
    expect(inside).toMatchObject({ replaces: true, exempt: true, at: now });
    for (const [from, to] of [
      [now + hour, now + 2 * hour],
      [now - 2 * hour, now - hour],
    ] as const) {
      const outside = of(announcedFrom(from, to));
      expect(outside).toMatchObject({ replaces: true, exempt: false });
      expect(outside.at).toBeGreaterThan(now + 6 * day);
    }
    // A clock that is known to be behind is not the one that the CA looks at.
    const behind = { 'a.test': held(day, 90 * day, { lagMs: 90 * minute }) };
    const late = planned({ journal: announcedFrom(now + hour, now + 2 * hour), held: behind, forced });
    expect(late.rows[0]).toMatchObject({ exempt: true, at: now });
  });

  it('waits for a pause of its own, less in an emergency, not at all when an operator asks', () => {
    const journal = withTarget(emptyJournal, 'a.test', {
      pause: pause(5 * hour),
      failures: 2,
      lastAttempt: now - minute,
    });
    expect(planned({ journal }).nextAt).toBe(now + 5 * hour);
    expect(planned({ journal }).rows[0]!.why).toBe('it has no certificate yet; waits: it failed');
    const last = { 'a.test': held(89 * day) };
    expect(planned({ journal, held: last }).nextAt).toBe(now + 11 * minute);
    expect(planned({ journal, held: last, forced: new Set(['a.test']) }).due).toHaveLength(1);
  });

  it('never cuts short what the CA asked for', () => {
    const asked = pause(5 * hour, { by: 'ca', directory: le });
    for (const journal of [
      withTarget(emptyJournal, 'a.test', { pause: asked }),
      { ...emptyJournal, authorities: { [le]: { failures: 1, pause: asked } } },
    ]) {
      const last = { 'a.test': held(89 * day) };
      expect(planned({ journal, held: last, forced: new Set(['a.test']) }).nextAt).toBe(now + 5 * hour);
    }
  });

  it('asks the next CA after three failures, or at once when there is no time; a pause at one is none at another', () => {
    const targets = [target('a.test', { directories: [le, own] })];
    const after = (failures: number) => withTarget(emptyJournal, 'a.test', { failures });
    expect([0, 2, 3, 5, 6].map((failures) => planned({ targets, journal: after(failures) }).due[0]!.directory)).toEqual(
      [le, le, own, own, le],
    );
    const down = { ...emptyJournal, authorities: { [le]: { failures: 1, pause: pause(hour, { directory: le }) } } };
    expect(planned({ targets, journal: down }).due[0]!.directory).toBe(own);
    const calm = planned({ targets, journal: down, held: { 'a.test': held(61 * day) } });
    expect(calm.due).toEqual([]);
    expect(planned({ targets, journal: down, held: { 'a.test': held(80 * day) } }).due[0]!.directory).toBe(own);
    const limited = withTarget(emptyJournal, 'a.test', { pause: pause(hour, { by: 'ca', directory: le }) });
    expect(planned({ targets, journal: limited }).due[0]!.directory).toBe(own);
  });

  it('does the most pressing first, and those that fail last', () => {
    const names = ['calm.test', 'late.test', 'missing.test', 'failing.test', 'last.test'];
    const journal = withTarget(emptyJournal, 'failing.test', { failures: 1 });
    const certificates = { 'calm.test': held(61 * day), 'late.test': held(80 * day), 'last.test': held(89 * day) };
    const { due } = planned({ targets: names.map((name) => target(name)), journal, held: certificates });
    expect(due.map(({ id }) => id)).toEqual(['last.test', 'missing.test', 'failing.test', 'late.test', 'calm.test']);
  });

  it('lets a wildcard serve what it covers, unless it keeps failing', () => {
    const wildcard = entryId(['*.a.test']);
    const targets = [target('*.a.test'), target('x.a.test', { coveredBy: wildcard })];
    expect(planned({ targets }).due.map(({ id }) => id)).toEqual([wildcard]);
    expect(planned({ targets, held: { [wildcard]: held(day) } }).due).toEqual([]);
    const failing = withTarget(emptyJournal, wildcard, { failures: 3, pause: pause(hour) });
    expect(planned({ targets, journal: failing }).due.map(({ id }) => id)).toEqual(['x.a.test']);
  });

  it('orders a revoked one anew, and nothing that cannot be had', () => {
    const journal = withTarget(emptyJournal, 'a.test', { revoked: 'f00d' });
    expect(planned({ journal, held: { 'a.test': held(day) } }).due).toMatchObject([{ urgency: 'missing' }]);
    const none = [target('*.b.test', { impossible: 'no provider' }), target('c.internal', { directories: [] })];
    expect(planned({ targets: none }).rows.map(({ at, why }) => [at, why])).toEqual([
      [null, 'no provider'],
      [null, 'no CA that is configured signs for such a name'],
    ]);
  });
});

describe('the ledger', () => {
  const order = (name: string, ago: number, over: Partial<OrderRecord> = {}): OrderRecord => ({
    at: now - ago,
    directory: le,
    names: [name],
    exempt: false,
    certificate: true,
    ...over,
  });
  const ledger = (orders: readonly OrderRecord[], failed: readonly { at: number; name: string }[] = []) => ({
    orders,
    failedValidations: failed,
  });
  const many = (count: number, of: (i: number) => OrderRecord) => Array.from({ length: count }, (_, i) => of(i));

  it.each([
    [
      '300 orders in 3 hours',
      many(300, (i) => order(`x${i}.site${i}.test`, 2 * hour, { certificate: false })),
      'new.test',
      hour,
    ],
    ['5 for the same names in 7 days', many(5, (i) => order('a.test', 6 * day + i)), 'a.test', day],
    ['50 below a domain in 7 days', many(50, (i) => order(`x${i}.a.test`, 6 * day)), 'y.a.test', day],
  ])('keeps %s', (_, orders, name, wait) => {
    const room = roomFor(ledger(orders), [name], le, false, now);
    expect(room.at - now).toBeGreaterThanOrEqual(wait);
    expect(room.at - now).toBeLessThan(wait + 2 * minute);
    expect(room.why).not.toBeNull();
    expect(roomFor(ledger(orders.slice(1)), [name], le, false, now).at).toBe(now);
    expect(roomFor(ledger(orders), [name], le, true, now).at).toBe(now);
    expect(roomFor(ledger(orders), [name], 'https://acme.zerossl.com/v2/DV90', false, now).at).toBe(now);
  });

  it('counts certificates below a domain at Let’s Encrypt only: a CA of your own has its own rules', () => {
    const orders = many(60, (i) => order(`x${i}.a.test`, day, { directory: own }));
    expect(roomFor(ledger(orders), ['y.a.test'], own, false, now).at).toBe(now);
  });

  it('lets no name fail more than five validations an hour, whoever is asked and whatever is exempt', () => {
    const failed = many(5, (i) => order('a.test', 30 * minute + i)).map(({ at }) => ({ at, name: 'a.test' }));
    for (const directory of [le, own]) {
      const room = roomFor(ledger([], failed), ['a.test'], directory, true, now);
      expect(room.at).toBeGreaterThan(now + 29 * minute);
    }
    expect(roomFor(ledger([], failed), ['b.test'], le, false, now).at).toBe(now);
  });

  it('knows where registered domains end', () => {
    expect(
      ['www.example.co.uk', '*.a.example.com', 'me.github.io', '192.0.2.1', 'localhost'].map(registeredDomain),
    ).toEqual(['example.co.uk', 'example.com', 'me.github.io', '192.0.2.1', 'localhost']);
  });

  it('forgets what no window reaches, and takes the future of a wrong clock for now', () => {
    const kept = pruned(ledger([order('a.test', 8 * day), order('b.test', day), order('c.test', -100 * day)]), now);
    expect(kept.orders.map(({ names, at }) => [names[0], at])).toEqual([
      ['b.test', now - day],
      ['c.test', now],
    ]);
  });
});

describe('after an attempt', () => {
  const attempt: Attempt = { id: 'a.test', names: ['a.test'], directory: le, notAfter: null, held: 'f00d' };
  const fail = (journal: Journal, kind: Failure['kind'], over: Partial<Failure> = {}): Journal => {
    const failure: Failure = { kind, detail: 'why', retryAfterMs: null, scope: 'names', perName: [], ...over };
    return afterFailure(journal, attempt, failure, now, () => 0.5);
  };
  const state = (journal: Journal) => journal.targets['a.test'] ?? freshTarget;
  const authority = (journal: Journal) => journal.authorities[le];

  it('backs off from failure to failure, up to a bound', () => {
    let journal = emptyJournal;
    const waits: number[] = [];
    for (let i = 0; i < 12; i++) {
      journal = fail(journal, 'server');
      waits.push(state(journal).pause!.until - now);
    }
    expect(waits.slice(0, 4)).toEqual([2 * minute, 4 * minute, 8 * minute, 16 * minute]);
    expect(Math.max(...waits)).toBe(6 * hour);
  });

  it('tries more often the less time is left', () => {
    let journal = emptyJournal;
    const close = { ...attempt, notAfter: now + 8 * hour };
    for (let i = 0; i < 10; i++) {
      const failure: Failure = { kind: 'validation', detail: '', retryAfterMs: null, scope: 'names', perName: [] };
      journal = afterFailure(journal, close, failure, now, () => 0.5);
    }
    expect(state(journal).pause!.until - now).toBe(hour);
  });

  it('holds a CA that is away against no name, and a name against no CA', () => {
    const away = fail(emptyJournal, 'network');
    expect(state(away)).toMatchObject({ failures: 0, pause: null, lastError: { kind: 'network', detail: 'why' } });
    expect(authority(away)).toMatchObject({ failures: 1, pause: { until: now + minute } });
    const bad = fail(emptyJournal, 'validation', { perName: [{ name: 'a.test', problemType: 'dns', detail: 'no' }] });
    expect(authority(bad)).toBeUndefined();
    expect(bad.failedValidations).toEqual([{ at: now, name: 'a.test' }]);
  });

  it('keeps a pause that the CA asked for through failures and successes of other orders', () => {
    const limited = fail(emptyJournal, 'rate-limited', { retryAfterMs: 3 * hour, scope: 'account' });
    expect(authority(limited)!.pause).toMatchObject({ until: now + 3 * hour, by: 'ca' });
    expect(authority(fail(limited, 'server'))!.pause!.until).toBe(now + 3 * hour);
    expect(authority(afterSuccess(limited, attempt))!.pause!.until).toBe(now + 3 * hour);
    const names = fail(emptyJournal, 'rate-limited', { retryAfterMs: 3 * hour });
    expect(authority(names)).toBeUndefined();
    expect(state(names).pause).toMatchObject({ until: now + 3 * hour, by: 'ca', directory: le });
  });

  it('forgets failures with a success, and remembers what must not be replaced again', () => {
    const journal = fail(fail(emptyJournal, 'server'), 'already-replaced');
    expect(state(journal).notReplaced).toBe('f00d');
    expect(state(afterSuccess(journal, attempt))).toMatchObject({ failures: 0, pause: null, lastError: null });
    expect(fail(emptyJournal, 'aborted')).toEqual(emptyJournal);
  });
});

describe('the journal', () => {
  it('is read as far as it can be', () => {
    expect(parseJournal(null)).toEqual(emptyJournal);
    for (const text of ['', '\0\0\0', '{', '[]', '7', 'null', '{"orders":{},"targets":[],"authorities":"x"}']) {
      expect(parseJournal(text)).toEqual(emptyJournal);
    }
    const journal = withTarget(emptyJournal, 'a.test', { failures: 3 });
    expect(parseJournal(JSON.stringify(journal))).toEqual(journal);
    expect(parseJournal('{"targets":{"a.test":{"failures":2}},"orders":[{"at":"x"},null]}')).toEqual(
      withTarget(emptyJournal, 'a.test', { failures: 2 }),
    );
  });

  it('keeps its distance to now when the clock is set, in both directions', () => {
    const journal = {
      ...withTarget(emptyJournal, 'a.test', { pause: pause(hour), lastAttempt: now - minute }),
      failedValidations: [{ at: now - minute, name: 'a.test' }],
    };
    for (const jump of [-3000 * day, 365 * day]) {
      const moved = shifted(journal, jump, now);
      expect(moved.targets['a.test']!.pause!.until).toBe(now + jump + hour);
      expect(moved.failedValidations[0]!.at).toBe(now + jump - minute);
      expect(shifted(moved, -jump, now + jump)).toEqual(journal);
    }
  });

  it('begins a pause anew that a wrong clock wrote into the future', () => {
    const ahead = withTarget(emptyJournal, 'a.test', {
      pause: pause(0, { since: now + 90 * day, until: now + 91 * day }),
    });
    expect(settled(ahead, now).targets['a.test']!.pause).toMatchObject({ since: now, until: now + day });
    const good = withTarget(emptyJournal, 'a.test', { pause: pause(hour) });
    expect(settled(good, now)).toBe(good);
  });
});

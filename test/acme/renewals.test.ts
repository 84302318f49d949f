// The life cycle on a hand clock with a CA in memory: public reports of ACME clients that ordered too much, too little, or lost
// what they had.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AcmeFailure } from '../../src/certificates/acme/failure.ts';
import { FileStore } from '../../src/certificates/acme/file-store.ts';
import type { OrderWish } from '../../src/certificates/acme/issuer.ts';
import { targetState } from '../../src/certificates/acme/journal.ts';
import { LeaseLock } from '../../src/certificates/acme/lease.ts';
import { AcmeNode, AcmeWorld, type NodeOptions, settingsFor } from '../support/acme-world.ts';
import { MemoryStore } from '../support/memory-store.ts';
import { SimulatedCa } from '../support/simulated-ca.ts';
import { until } from '../support/wait.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

let world: AcmeWorld;
let ca: SimulatedCa;

beforeEach(() => {
  world = new AcmeWorld();
  ca = caAt('https://acme-v02.api.letsencrypt.org/directory');
});
afterEach(() => world.close());

function caAt(url: string, lifetime = 90 * day, announces = false): SimulatedCa {
  return new SimulatedCa({ url, now: world.now, random: () => 0.5, lifetime: () => lifetime, announces });
}

const start = (names: readonly string[], more: Partial<NodeOptions> = {}) =>
  AcmeNode.start(world, { settings: settingsFor({ issuers: [ca], names }), ...more });

const served = ({ renewals }: AcmeNode) => renewals.certificates.flatMap(({ names }) => names);
const path = (...parts: string[]) => join(world.directory, ...parts);
const versions = (id: string) => path('certificates', id, 'current');

/** Lets orders that wait for nothing but themselves go on. */
async function breathe(times = 200): Promise<void> {
  for (let i = 0; i < times; i++) await new Promise((resolve) => setImmediate(resolve));
}

describe('one process', () => {
  it('orders what is missing at the start, renews after two thirds, and writes what openssl can read', async () => {
    const node = await start(['a.test', 'b.test']);
    await world.idle();
    expect(served(node)).toEqual(['a.test', 'b.test']);
    expect(ca.orders).toHaveLength(2);
    expect(readFileSync(join(versions('a.test'), 'privkey.pem'), 'utf8')).toMatch(/^-----BEGIN PRIVATE KEY-----/);
    await world.pass(57 * day);
    expect(ca.orders).toHaveLength(2);
    await world.pass(4 * day);
    expect(ca.orders).toHaveLength(4);
  });

  // auto-ssl/lua-resty-auto-ssl#161, certbot/certbot#3553: a failing name was tried again per restart until the CA banned it.
  it('restarted twenty times within an hour lets no name fail more than five times, and backs off', async () => {
    ca.unreachable.add('bad.test');
    for (let i = 0; i < 20; i++) {
      const node = await start(['bad.test', 'good.test']);
      await world.pass(3 * minute);
      await node.renewals.close();
      node.kill();
    }
    expect(ca.excesses).toEqual([]);
    const ofBad = () => ca.orders.filter(({ names }) => names.includes('bad.test')).length;
    expect(ofBad()).toBeLessThanOrEqual(4);
    expect(ca.orders.filter(({ names }) => names.includes('good.test'))).toHaveLength(1);
    await start(['bad.test', 'good.test']);
    const before = ofBad();
    await world.pass(3 * day);
    expect(ofBad() - before).toBeLessThan(20);
    expect(ofBad() - before).toBeGreaterThan(8);
    ca.unreachable.clear();
    await world.pass(8 * hour);
    expect(ca.signed.size).toBe(2);
  });

  it('waits as long as the CA asks, for every name of the account, over a restart', async () => {
    ca.limited = { orders: 1, retryAfterMs: 3 * hour, scope: 'account' };
    const first = await start(['a.test']);
    await world.pass(hour);
    first.renewals.follow(settingsFor({ issuers: [ca], names: ['a.test', 'b.test'] }));
    await world.pass(hour);
    await first.renewals.close();
    first.kill();
    const node = await start(['a.test', 'b.test']);
    await world.pass(50 * minute);
    expect(ca.orders).toEqual([]);
    expect(node.renewals.plan.rows[1]!.why).toContain('the CA asked for a pause');
    await world.pass(15 * minute);
    expect(served(node)).toEqual(['a.test', 'b.test']);
    expect(ca.excesses).toEqual([]);
  });

  it('asks the next CA when the first one keeps failing and something is missing', async () => {
    const second = caAt('https://second.test/directory');
    ca.down = true;
    const node = await start(['a.test'], { settings: settingsFor({ issuers: [ca, second], names: ['a.test'] }) });
    await world.pass(10 * minute);
    expect(served(node)).toEqual(['a.test']);
    expect(second.orders).toHaveLength(1);
    expect(node.renewals.held('a.test')!.directory).toBe('https://second.test/directory');
  });

  it('does not leave its CA for a renewal that has time', async () => {
    const second = caAt('https://second.test/directory');
    await start(['a.test'], { settings: settingsFor({ issuers: [ca, second], names: ['a.test'] }) });
    await world.pass(57 * day);
    ca.down = true;
    await world.pass(12 * day);
    expect(second.orders).toEqual([]);
    await world.pass(8 * day);
    expect(second.orders).toHaveLength(1);
  });

  it('orders nothing that is not a target, and nothing for a host that was removed', async () => {
    const node = await start(['a.test', 'gone.test']);
    await world.idle();
    node.renewals.follow(settingsFor({ issuers: [ca], names: ['a.test'] }));
    await world.idle();
    expect(served(node)).toEqual(['a.test']);
    await world.pass(29 * day);
    expect(existsSync(path('certificates', 'gone.test'))).toBe(true);
    await world.pass(3 * day);
    expect(existsSync(path('certificates', 'gone.test'))).toBe(false);
    await world.pass(60 * day);
    expect(ca.orders.filter(({ names }) => names.includes('gone.test'))).toHaveLength(1);
    await expect(node.renewals.renew('other.test')).rejects.toMatchObject({ code: 'acme-unknown-name' });
  });

  it('keeps, and goes on serving, everything while its clock is years wrong', async () => {
    const node = await start(['a.test']);
    await world.idle();
    for (const skew of [-3000 * day, 3000 * day]) {
      node.clock.skewMs = skew;
      await world.pass(92 * day);
      expect(served(node)).toEqual(['a.test']);
      expect(existsSync(versions('a.test'))).toBe(true);
      expect(node.renewals.certificates[0]!.notAfter).toBeGreaterThan(world.now());
      // One when it was due; with a clock by which every new certificate is over already, a few in vain.
      expect(ca.orders.length).toBeLessThan(skew < 0 ? 4 : 25);
    }
    expect(ca.excesses).toEqual([]);
  });

  it('looks before the first order, and does not ask the CA for a name that leads nowhere', async () => {
    let looks = 0;
    const preflight = async () => {
      looks++;
      return looks < 4 ? { detail: 'a.test has no address in the DNS', certain: true } : null;
    };
    const node = await start(['a.test'], { preflight });
    await world.idle();
    expect(ca.orders).toEqual([]);
    expect(node.renewals.plan.rows[0]!.why).toContain('a.test has no address in the DNS');
    await world.pass(10 * minute);
    expect(looks).toBe(4);
    expect(served(node)).toEqual(['a.test']);
  });

  it('asks the CA nevertheless when what answers may only seem wrong from here', async () => {
    const node = await start(['a.test'], { preflight: async () => ({ detail: 'a router answers', certain: false }) });
    await world.pass(10 * minute);
    expect(served(node)).toEqual(['a.test']);
  });

  it('revokes, orders a successor at once, and serves the old one until it is there', async () => {
    const node = await start(['a.test']);
    await world.idle();
    const [old] = node.renewals.certificates;
    ca.down = false;
    await node.renewals.revoke('a.test', 'superseded');
    expect(node.renewals.certificates).toHaveLength(1);
    await world.idle();
    expect(node.renewals.certificates[0]!.id).not.toBe(old!.id);
    expect(ca.signed.get(old!.id)!.revokedAt).not.toBeNull();
  });

  it('does not take up the order of the certificate that it holds, which a crash left behind', async () => {
    const node = await start(['a.test']);
    await world.pass(minute);
    const [old] = node.renewals.certificates;
    const left = { directory: ca.directoryUrl, url: 'https://ca.test/order/valid', keyPem: old!.key };
    await new FileStore(world.directory).write('orders/a.test', JSON.stringify(left));
    const resumed: OrderWish['resume'][] = [];
    const issue = ca.issue.bind(ca);
    ca.issue = async (wish: OrderWish, signal) => {
      resumed.push(wish.resume);
      return await issue(wish, signal);
    };
    await node.renewals.revoke('a.test', 'key-compromise');
    await world.idle();
    expect(resumed).toEqual([null]);
    expect(node.renewals.certificates[0]!.id).not.toBe(old!.id);
    expect(node.renewals.journal.orders.filter(({ certificate }) => certificate)).toHaveLength(2);
  });

  it('renews once when it is asked once, and says why when it cannot', async () => {
    const node = await start(['a.test']);
    await world.idle();
    await node.renewals.renew('a.test');
    expect(ca.orders).toHaveLength(2);
    ca.unreachable.add('a.test');
    await expect(node.renewals.renew('a.test')).rejects.toMatchObject({
      code: 'acme-failed',
      message: 'a.test: no answer from a.test',
    });
    expect(served(node)).toEqual(['a.test']);
    for (let i = 0; i < 8; i++) await node.renewals.renew('a.test').catch(() => {});
    expect(ca.excesses).toEqual([]);
  });

  it('names the certificate that it replaces when the CA announced the renewal, and another time without', async () => {
    ca = caAt('https://ca.test/directory', 90 * day, true);
    const wishes: (string | null)[] = [];
    const issue = ca.issue.bind(ca);
    ca.issue = async (wish: OrderWish, signal) => {
      wishes.push(wish.replaces);
      if (wishes.length === 2) throw new AcmeFailure('already-replaced', 'done before');
      return issue(wish, signal);
    };
    await start(['a.test']);
    await world.pass(64 * day);
    expect(wishes.slice(0, 3)).toEqual([null, expect.any(String), null]);
    expect(ca.signed.size).toBe(2);
  });

  it('whose orders fail after they were made is not held back as if it had got certificates', async () => {
    const node = await start(['a.test']);
    await world.pass(minute);
    const issue = ca.issue.bind(ca);
    ca.issue = async (wish: OrderWish) => {
      await wish.onPending?.({ url: `https://ca.test/order/${world.now()}`, keyPem: 'key' });
      throw new AcmeFailure('presentation', 'the record could not be set');
    };
    for (let i = 0; i < 6; i++) {
      await expect(node.renewals.renew('a.test')).rejects.toThrow('could not be set');
      await world.pass(minute);
    }
    // As orders they count: the CA has them.
    expect(node.renewals.journal.orders.map(({ certificate }) => certificate)).toEqual([true, ...Array(6).fill(false)]);
    ca.issue = issue;
    await node.renewals.renew('a.test');
    expect(ca.signed.size).toBe(2);
  });

  it('counts one certificate for an order that it takes up again, and keeps the order through a refusal', async () => {
    const node = await start([]);
    const resumed: (string | undefined)[] = [];
    const failures = ['timeout', 'rate-limited'] as const;
    const issue = ca.issue.bind(ca);
    ca.issue = async (wish: OrderWish, signal) => {
      const kind = failures[resumed.length];
      resumed.push(wish.resume?.url);
      const order = wish.resume ?? { url: 'https://ca.test/order/1', keyPem: 'key' };
      await wish.onPending?.(order);
      if (kind !== undefined) throw new AcmeFailure(kind, kind);
      return await issue({ ...wish, onPending: null }, signal);
    };
    node.renewals.follow(settingsFor({ issuers: [ca], names: ['a.test'] }));
    await world.pass(2 * hour);
    expect(served(node)).toEqual(['a.test']);
    expect(resumed).toEqual([undefined, 'https://ca.test/order/1', 'https://ca.test/order/1']);
    expect(node.renewals.journal.orders.filter(({ certificate }) => certificate)).toHaveLength(1);
    expect(existsSync(path('orders', 'a.test'))).toBe(false);
  });

  it('gives up an order that it has taken up in vain, and makes another one', async () => {
    const node = await start([]);
    const resumed: (string | undefined)[] = [];
    const issue = ca.issue.bind(ca);
    ca.issue = async (wish: OrderWish, signal) => {
      resumed.push(wish.resume?.url);
      const order = wish.resume ?? { url: 'https://ca.test/order/stuck', keyPem: 'key' };
      if (resumed.length > 1 && wish.resume === null) return await issue(wish, signal);
      await wish.onPending?.(order);
      throw new AcmeFailure('timeout', 'the certificate did not come');
    };
    node.renewals.follow(settingsFor({ issuers: [ca], names: ['a.test'] }));
    await world.pass(2 * day);
    const stuck = 'https://ca.test/order/stuck';
    expect(resumed).toEqual([undefined, stuck, stuck, undefined]);
    expect(served(node)).toEqual(['a.test']);
  });
});

describe('the store', () => {
  // caddyserver/certmagic#232, caddyserver/caddy#4448, #6481: lock and metadata files that a crash left empty or damaged.
  it.each([
    ['empty', ''],
    ['full of NULs', '\0'.repeat(64)],
    ['of a process that died on another host', '{"holder":"other-4711","beats":3}\n'],
    ['from the future', '{"holder":"other-1","beats":9007199254740991}\n'],
  ])('a lease that is %s is taken over when it has run out', async (_, text) => {
    await new FileStore(world.directory).open();
    writeFileSync(path('lease.0000000007'), text, { mode: 0o600 });
    const node = await start(['a.test']);
    await world.pass(20_000);
    expect(ca.orders).toEqual([]);
    await world.pass(30_000);
    expect(served(node)).toEqual(['a.test']);
  });

  it('a directory in place of the lease is got over, too', async () => {
    await new FileStore(world.directory).open();
    mkdirSync(path('lease.0000000007'), { mode: 0o700 });
    const node = await start(['a.test']);
    await world.pass(60_000);
    expect(served(node)).toEqual(['a.test']);
  });

  it.each([
    ['meta.json', (file: string) => writeFileSync(file, `${readFileSync(file, 'utf8')}}`)],
    ['meta.json', (file: string) => truncateSync(file)],
    ['meta.json', (file: string) => writeFileSync(file, '\0'.repeat(64))],
  ])('metadata that are damaged do not make a good pair unusable (%s)', async (name, damage) => {
    const before = await start(['a.test']);
    await world.idle();
    await before.renewals.close();
    before.kill();
    damage(join(versions('a.test'), name));
    const node = await start(['a.test']);
    await world.idle();
    expect(served(node)).toEqual(['a.test']);
    expect(ca.orders).toHaveLength(1);
  });

  // nginx/njs-acme#52, acmesh-official/acme.sh#292: half a pair after a crash, and nothing to serve.
  it.each([
    ['the key is empty', 'privkey.pem', 0],
    ['the chain is empty', 'fullchain.pem', 0],
    ['the chain is cut', 'fullchain.pem', 300],
  ])(
    'falls back to the pair before when in the newest %s, and the others are not affected',
    async (_, name, length) => {
      const before = await start(['a.test', 'b.test']);
      await world.idle();
      const old = before.renewals.held('a.test')!.certificate.id;
      await before.renewals.renew('a.test');
      await before.renewals.close();
      before.kill();
      truncateSync(join(versions('a.test'), name), length);
      const node = await start(['a.test', 'b.test']);
      expect(node.renewals.held('a.test')!.certificate.id).toBe(old);
      expect(served(node)).toEqual(['a.test', 'b.test']);
      expect(node.renewals.problems).toHaveLength(1);
      expect(node.renewals.problems[0]).toMatch(name === 'privkey.pem' ? /v\d+\.1: the key/ : /v\d+\.1: the chain/);
    },
  );

  it('that cannot be written costs no order, is told once, and is got over', async () => {
    const files = new FileStore(world.directory);
    let broken = false;
    const store = new Proxy(files, {
      get: (target, name) => {
        const member = Reflect.get(target, name) as unknown;
        if (typeof member !== 'function') return member;
        return (...args: unknown[]) => {
          const writes = ['put', 'write', 'create', 'erase', 'remove'].includes(String(name));
          if (broken && writes) throw Object.assign(new Error('EROFS: read-only file system'), { code: 'EROFS' });
          return (member as (...all: unknown[]) => unknown).apply(target, args);
        };
      },
    });
    const node = await start(['a.test'], { store });
    await world.idle();
    await world.pass(58 * day);
    broken = true;
    await world.pass(5 * day);
    expect(served(node)).toEqual(['a.test']);
    expect(ca.orders).toHaveLength(1);
    expect(node.renewals.storeTrouble).toContain('read-only');
    broken = false;
    await world.pass(hour);
    expect(node.renewals.storeTrouble).toBeNull();
    expect(ca.orders).toHaveLength(2);
  });

  it('that is empty of a sudden is not mounted: what is held is kept and served, and nothing is ordered', async () => {
    const node = await start(['a.test']);
    await world.idle();
    const away = `${world.directory}.away`;
    renameSync(world.directory, away);
    mkdirSync(world.directory, { mode: 0o700 });
    await world.pass(2 * hour);
    expect(served(node)).toEqual(['a.test']);
    expect(ca.orders).toHaveLength(1);
    expect(node.renewals.storeTrouble).toContain('is it mounted?');
    await world.pass(70 * day);
    expect(served(node)).toEqual(['a.test']);
    expect(ca.orders).toHaveLength(1);
    rmSync(world.directory, { recursive: true });
    renameSync(away, world.directory);
    await world.pass(hour);
    expect(node.renewals.storeTrouble).toBeNull();
    expect(ca.orders).toHaveLength(2);
  });

  it('names what others may read, and how to close it', async () => {
    const node = await start(['a.test']);
    await world.idle();
    const files = new FileStore(world.directory);
    expect(await files.exposed()).toEqual([]);
    const key = join(versions('a.test'), 'privkey.pem');
    chmodSync(key, 0o644);
    const [exposed, ...more] = await files.exposed();
    expect(exposed).toMatch(/privkey\.pem may be read by others \(mode 0644\): chmod go= .*privkey\.pem$/);
    expect(more).toEqual([]);
    await node.renewals.close();
  });
});

describe('several processes on one store', () => {
  const settings = () => settingsFor({ issuers: [ca], names: ['a.test'] });

  // pteich/caddy-tlsconsul#35, caddyserver/certmagic#196: each node ordered for itself.
  it('make one order in total, now and at the renewal, and all serve it within a minute', async () => {
    const store = new MemoryStore();
    ca = caAt('https://ca.test/directory', 7 * day);
    const own = { settings: settings(), store, pollMs: 30_000 };
    const nodes = await Promise.all([1, 2, 3].map(() => AcmeNode.start(world, own)));
    await world.pass(minute);
    expect(ca.orders).toHaveLength(1);
    expect(new Set(nodes.map(({ renewals }) => renewals.certificates[0]?.id)).size).toBe(1);
    await world.pass(4 * day);
    expect(ca.orders).toHaveLength(2);
    expect(new Set(nodes.map(({ renewals }) => renewals.certificates[0]?.id))).toEqual(
      new Set([...ca.signed.keys()].slice(1)),
    );
  });

  it('one that dies between the order and the certificate is followed by one that takes its order up', async () => {
    const resumed: (string | null)[] = [];
    const issue = ca.issue.bind(ca);
    ca.issue = async (wish, signal) => {
      resumed.push(wish.resume?.url ?? null);
      const order = { url: 'https://ca.test/order/1', keyPem: 'key' };
      await wish.onPending?.(order);
      if (resumed.length === 1) await new Promise(() => {});
      return issue({ ...wish, onPending: null }, signal);
    };
    const leader = await start(['a.test']);
    await until('the order', () => existsSync(path('orders', 'a.test')));
    const survivor = await start(['a.test']);
    leader.kill();
    await world.pass(minute);
    expect(resumed).toEqual([null, 'https://ca.test/order/1']);
    expect(served(survivor)).toEqual(['a.test']);
  });

  it('one that was stopped past its lease and goes on does not hide what the next one got', async () => {
    const store = new MemoryStore();
    const issue = ca.issue.bind(ca);
    let goOn = (): void => {};
    ca.issue = async (wish, signal) => {
      ca.issue = issue;
      // Its clock stands still, too: it is stopped, and does not know.
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
      return issue(wish, signal);
    };
    const own = { settings: settings(), store, pollMs: 10_000 };
    const paused = await AcmeNode.start(world, own);
    await breathe();
    world.nodes.delete(paused);
    paused.clock.stopped = true;
    const next = await AcmeNode.start(world, own);
    await world.pass(minute);
    const [newer] = next.renewals.certificates;
    expect(newer).toBeDefined();
    goOn();
    await breathe();
    paused.clock.stopped = false;
    world.nodes.add(paused);
    await world.pass(minute);
    const third = await AcmeNode.start(world, own);
    expect(third.renewals.certificates[0]!.id).toBe(newer!.id);
    expect(next.renewals.certificates[0]!.id).toBe(newer!.id);
    expect(paused.renewals.certificates[0]!.id).toBe(newer!.id);
    expect(ca.orders.length).toBeLessThanOrEqual(2);
  });

  it('of many that want the lease at once one gets it, and each later one has a higher number', async () => {
    const store = new FileStore(world.directory);
    await store.open();
    let term = 0;
    for (let round = 0; round < 10; round++) {
      const locks = Array.from({ length: 8 }, (_, i) => new LeaseLock(store, world.clock, `p${i}`));
      const leases = (await Promise.all(locks.map((lock) => lock.tryAcquire()))).filter((lease) => lease !== null);
      expect(leases).toHaveLength(1);
      expect(leases[0]!.term).toBeGreaterThan(term);
      term = leases[0]!.term;
      expect(await leases[0]!.holds()).toBe(true);
      await leases[0]!.release();
    }
  });

  it('one that was late for a lease which came and went does not take an old number for the newest', async () => {
    const store = new MemoryStore();
    const of = (holder: string) => new LeaseLock(store, world.clock, holder);
    const slow = new Proxy(store, {
      get: (target, name) => {
        if (name !== 'create') return (Reflect.get(target, name) as () => unknown).bind(target);
        return async (document: string, text: string) => {
          await (await of('b').tryAcquire())!.release();
          expect(await of('c').tryAcquire()).not.toBeNull();
          return target.create(document, text);
        };
      },
    });
    expect(await new LeaseLock(slow, world.clock, 'a').tryAcquire()).toBeNull();
    expect(await store.list('lease.')).toEqual(['lease.0000000002']);
  });

  it('the ledger is one for all of them', async () => {
    const store = new MemoryStore();
    ca.unreachable.add('a.test');
    const nodes = await Promise.all([1, 2].map(() => AcmeNode.start(world, { settings: settings(), store })));
    await world.pass(hour);
    expect(ca.excesses).toEqual([]);
    expect(ca.orders.length).toBeLessThan(5);
    for (const { renewals } of nodes) expect(targetState(renewals.journal, 'a.test').failures).toBe(ca.orders.length);
  });
});

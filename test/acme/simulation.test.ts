// Four hundred days of thirty hosts in seconds: a CA that is away, refuses nonces, limits and revokes, clocks that are wrong,
// processes that die with the lease in their hands.
import { afterEach, describe, expect, it } from 'vitest';
import { AcmeNode, AcmeWorld, epoch, randomFrom, settingsFor } from '../support/acme-world.ts';
import { MemoryStore } from '../support/memory-store.ts';
import { SimulatedCa } from '../support/simulated-ca.ts';

const hour = 3_600_000;
const day = 24 * hour;

/** 160 hours, 47 and 90 days: what public CAs issue. */
const lifetimes = [160 * hour, 47 * day, 90 * day];
const hosts = Array.from({ length: 30 }, (_, i) => `host${i}.site${i % 7}.test`);
const lifetimeOf = (name: string): number => lifetimes[hosts.indexOf(name) % 3] ?? 90 * day;
const broken = 'broken.site0.test';
const late = 'late.site1.test';

let world: AcmeWorld;
afterEach(() => world.close());

interface Event {
  readonly at: number;
  readonly run: () => void | Promise<void>;
}

async function simulate(seed: number, announces: boolean, days: number) {
  world = new AcmeWorld();
  const random = randomFrom(seed);
  const url = 'https://acme-v02.api.letsencrypt.org/directory';
  const ca = new SimulatedCa({ url, now: world.now, random, lifetime: lifetimeOf, announces });
  ca.nonceTrouble = 0.5;
  ca.unreachable.add(broken);
  const store = new MemoryStore();
  let names = [...hosts, broken];
  const start = async (skewMs = 0): Promise<void> => {
    const settings = settingsFor({ issuers: [ca], names });
    node = await AcmeNode.start(world, { settings, store, random, pollMs: 2 * hour, skewMs });
  };
  let node: AcmeNode;
  await start();

  const expired: string[] = [];
  const issued = new Set<string>();
  const look = (): void => {
    const now = world.now();
    const current = new Map(node.renewals.certificates.flatMap((each) => each.names.map((name) => [name, each])));
    for (const name of names) {
      const certificate = current.get(name);
      if (certificate === undefined) {
        if (issued.has(name)) expired.push(`${name} has lost its certificate`);
        continue;
      }
      issued.add(name);
      const { revokedAt } = ca.signed.get(certificate.id)!;
      if (certificate.notAfter <= now) expired.push(`${name} expired on day ${((now - epoch) / day).toFixed(2)}`);
      // What the CA announces a day ahead must be over by then.
      if (revokedAt !== null) expired.push(`${name} is served revoked`);
    }
  };

  const dayOf = (from: number, to: number): number => (from + random() * (to - from)) * day;
  const events: Event[] = [];
  const at = (time: number, run: Event['run']): void => {
    events.push({ at: time, run });
  };
  // The CA is away for three days, twice.
  for (const time of [dayOf(30, 120), dayOf(200, 300)]) {
    at(time, () => {
      ca.down = true;
    });
    at(time + 3 * day, () => {
      ca.down = false;
    });
  }
  for (let i = 0; i < 8; i++) {
    at(dayOf(5, 390), () => {
      const scope = random() < 0.5 ? 'account' : 'names';
      ca.limited = { orders: 3, retryAfterMs: (1 + random() * 5) * hour, scope };
    });
  }
  if (announces) {
    // A revocation: windows move into the past, a day later the certificates are revoked.
    const time = dayOf(130, 190);
    const doomed: string[] = [];
    at(time, () => {
      const now = world.now();
      for (const signed of [...ca.signed.values()].filter((each) => each.notAfter > now).slice(0, 12)) {
        signed.window = { start: now - 2 * hour, end: now - hour };
        doomed.push(signed.id);
      }
    });
    at(time + day, () => {
      for (const signed of ca.signed.values()) if (doomed.includes(signed.id)) signed.revokedAt = world.now();
    });
  }
  for (let i = 0; i < 6; i++) {
    at(dayOf(1, 395), async () => {
      await node.renewals.close();
      node.kill();
      await start(node.clock.skewMs);
    });
  }
  for (let i = 0; i < 6; i++) {
    // The next order never ends, and the process dies with the lease.
    const time = dayOf(1, 390);
    at(time, async () => {
      ca.hang = true;
      void node.renewals.renew(hosts[i]!).catch(() => {});
      for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
      node.kill();
      ca.hang = false;
      await start(node.clock.skewMs);
    });
  }
  for (const [time, skew, lasts] of [
    [dayOf(20, 380), 2 * day, 3 * day],
    [dayOf(20, 380), -2 * day, 4 * day],
    [dayOf(20, 380), 365 * day, hour],
    [dayOf(20, 380), -3000 * day, 5 * hour],
  ] as const) {
    at(time, () => {
      node.clock.skewMs = skew;
    });
    at(time + lasts, () => {
      node.clock.skewMs = 0;
    });
  }
  at(100 * day, () => {
    names = [...names, late];
    node.renewals.follow(settingsFor({ issuers: [ca], names }));
  });
  at(200 * day, () => {
    names = names.filter((name) => name !== late);
    node.renewals.follow(settingsFor({ issuers: [ca], names }));
  });

  const within = events.filter((each) => each.at < days * day).toSorted((a, b) => a.at - b.at);
  for (const { at: time, run } of within) {
    await world.pass(time - world.clock.now(), look);
    await run();
  }
  await world.pass(days * day - world.clock.now(), look);
  return { ca, expired, issued };
}

describe('thirty hosts', () => {
  it.each([
    [2, true, 400],
    [3, false, 130],
  ])(
    'lose nothing and pass no limit (seed %i, announced renewals: %s, %i days)',
    async (seed, announces, days) => {
      const before = process.cpuUsage();
      const { ca, expired, issued } = await simulate(seed, announces, days);
      expect(expired.slice(0, 5)).toEqual([]);
      expect(ca.excesses).toEqual([]);
      expect([...issued].toSorted()).toEqual([...hosts, late].toSorted());
      const asked = new Set(ca.orders.flatMap((each) => each.names));
      expect([...asked].toSorted()).toEqual([...hosts, broken, late].toSorted());
      const { user, system } = process.cpuUsage(before);
      expect((user + system) / 1e6).toBeLessThan(30);
    },
    150_000,
  );
});

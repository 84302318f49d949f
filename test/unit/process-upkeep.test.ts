import { expect, test } from 'vitest';
import { Fault } from '../../src/base/fault.ts';
import { silentLog } from '../../src/base/log.ts';
import type { SnapshotParts } from '../../src/model/snapshot.ts';
import { Publisher } from '../../src/process/publication.ts';
import type { Proposal } from '../../src/process/publication-run.ts';
import { Upkeep } from '../../src/process/upkeep.ts';
import { HandClock, settle } from '../support/hand-clock.ts';
import { noCertificates, noChallenges, noGate, noHealth, routing, testKeys } from '../support/routing.ts';

const first: SnapshotParts = {
  routing: routing(),
  health: noHealth,
  certificates: noCertificates,
  challenges: noChallenges,
  gate: noGate,
  keys: testKeys,
};

async function world(served = true) {
  const clock = new HandClock();
  const persisted: string[] = [];
  let broken = false;
  /** Happens while a publication is under way. */
  const meanwhile: { run: () => void } = { run: () => {} };
  const publisher = new Publisher({ clock, workers: () => [], deciding: () => {}, observer: null }, 0);
  if (served) await publisher.publish(() => ({ parts: first, persist: () => {} }));
  const upkeep = new Upkeep('health', publisher, clock, silentLog);
  const want = (address: string): void =>
    upkeep.request(
      (): Proposal => ({
        parts: { health: { down: { a: [address] } } },
        persist: () => {
          meanwhile.run();
          if (broken) throw new Fault('state-unusable', 'disk full');
          persisted.push(address);
        },
      }),
    );
  const breaks = (now: boolean): void => {
    broken = now;
  };
  const pass = async (ms: number): Promise<void> => {
    await settle();
    clock.advance(ms);
    await settle();
  };
  return { want, pass, persisted, upkeep, clock, breaks, meanwhile };
}

test('changes that come together are published together, the last one', async () => {
  const { want, pass, persisted } = await world();
  want('h:1');
  want('h:2');
  await pass(50);
  expect(persisted).toEqual(['h:2']);
  want('h:3');
  await pass(50);
  expect(persisted).toEqual(['h:2', 'h:3']);
});

test('what fails is tried again, less and less often, until it is published', async () => {
  const { want, pass, persisted, breaks } = await world();
  breaks(true);
  want('h:1');
  await pass(50);
  await pass(1000);
  breaks(false);
  await pass(1000);
  expect(persisted).toEqual([]);
  await pass(1000);
  expect(persisted).toEqual(['h:1']);
});

test('a later request takes the place of one that failed', async () => {
  const { want, pass, persisted, breaks } = await world();
  breaks(true);
  want('h:1');
  await pass(50);
  breaks(false);
  want('h:2');
  await pass(50);
  expect(persisted).toEqual(['h:2']);
  await pass(120_000);
  expect(persisted).toEqual(['h:2']);
});

test('before the first publication there is nothing to do, and nothing is after the end', async () => {
  const early = await world(false);
  early.want('h:1');
  await early.pass(50);
  expect(early.persisted).toEqual([]);
  const late = await world();
  late.want('h:1');
  late.upkeep.close();
  await late.pass(60_000);
  expect(late.persisted).toEqual([]);
  expect(late.clock.pending).toBe(0);
});

test('a request that comes while an older one fails is the one that is tried again', async () => {
  const { want, pass, persisted, breaks, meanwhile } = await world();
  breaks(true);
  meanwhile.run = () => {
    meanwhile.run = () => {};
    want('h:2');
  };
  want('h:1');
  await pass(50);
  breaks(false);
  await pass(1000);
  expect(persisted).toEqual(['h:2']);
});

test('what fails at the end is not tried again', async () => {
  const { want, pass, breaks, meanwhile, upkeep, clock } = await world();
  breaks(true);
  meanwhile.run = () => upkeep.close();
  want('h:1');
  await pass(50);
  expect(clock.pending).toBe(0);
});

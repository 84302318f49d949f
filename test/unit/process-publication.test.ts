import { expect, test } from 'vitest';
import { Fault } from '../../src/base/fault.ts';
import { type PartName, partNames, type SnapshotParts } from '../../src/model/snapshot.ts';
import type { Question, Questions, ToWorker } from '../../src/process/protocol.ts';
import { Publisher } from '../../src/process/publication.ts';
import type { Proposal, StepName } from '../../src/process/publication-run.ts';
import type { Answer, WorkerChannel } from '../../src/process/worker-handle.ts';
import { HandClock, settle } from '../support/hand-clock.ts';
import {
  host,
  noCertificates,
  noChallenges,
  noGate,
  noHealth,
  route,
  routing,
  service,
  testKeys,
} from '../support/routing.ts';

/** A worker that does as it is told, answers when the test says so, and can die. */
class ScriptedWorker implements WorkerChannel {
  readonly id: string;
  digests: Readonly<Record<PartName, string>> | null = null;
  readonly left: Promise<void>;
  readonly heard: string[] = [];
  /** What it answers; a question without an entry is never answered. */
  readonly script: Partial<Record<Question, 'agree' | FaultAnswer>> = {
    prepare: 'agree',
    hold: 'agree',
    commit: 'agree',
  };
  killed = false;
  readonly watchers = new Set<() => void>();
  readonly #unanswered: Unanswered[] = [];
  readonly #log: string[];
  #leave: () => void = () => {};

  constructor(id: string, log: string[]) {
    this.id = id;
    this.#log = log;
    this.left = new Promise((resolve) => {
      this.#leave = resolve;
    });
  }

  ask<Q extends Question>(question: Q, ask: Questions[Q]['ask']): Promise<Answer<Q>> {
    this.heard.push(question);
    this.#log.push(`${this.id} ${question}`);
    if (question === 'prepare') this.prepared = (ask as Questions['prepare']['ask']).delta;
    const reply = this.script[question];
    if (reply === undefined) return new Promise((resolve) => this.#unanswered.push(resolve as Unanswered));
    if (reply !== 'agree') return Promise.resolve({ ok: false, fault: reply as FaultAnswer });
    return Promise.resolve({ ok: true, value: this.#answer(question) } as Answer<Q>);
  }

  prepared: Questions['prepare']['ask']['delta'] | null = null;

  tell(message: ToWorker): void {
    this.heard.push(message.kind);
  }

  lend(key: string): void {
    this.heard.push(`lend ${key}`);
  }

  kill(): void {
    this.killed = true;
  }

  onLeft(listener: () => void): () => void {
    this.watchers.add(listener);
    return () => this.watchers.delete(listener);
  }

  die(): void {
    for (const listener of this.watchers) listener();
    for (const answer of this.#unanswered) answer({ ok: false, fault: { code: 'publish-refused', detail: 'gone' } });
    this.#leave();
  }

  #answer(question: Question): unknown {
    if (question === 'prepare') return { digests: this.prepared!.digests };
    return question === 'commit' ? { flips: [{ service: 'a', generation: 1, active: 2, held: 1 }] } : null;
  }
}

type Unanswered = (answer: Answer<Question>) => void;
type FaultAnswer = Extract<Answer<'prepare'>, { ok: false }>['fault'];

function world(names: readonly string[] = ['w1', 'w2']) {
  const clock = new HandClock();
  const log: string[] = [];
  const workers = names.map((name) => new ScriptedWorker(name, log));
  const steps: StepName[] = [];
  const publisher = new Publisher(
    {
      clock,
      workers: () => workers.filter((worker) => !worker.killed),
      deciding: () => log.push('decided'),
      observer: { before: (step) => steps.push(step) },
    },
    7,
  );
  const propose = (part: Partial<SnapshotParts>, over: Partial<Proposal> = {}): (() => Proposal) => {
    return () => ({
      parts: part,
      persist: (revision) => log.push(`persist ${revision}`),
      abandoned: () => log.push('abandoned'),
      acknowledged: () => log.push('acknowledged'),
      ...over,
    });
  };
  return { clock, log, workers, steps, publisher, propose };
}

const parts = (number: number, address: string): SnapshotParts => ({
  routing: routing({
    hosts: [host('a.test', [route('a.test', 'a')])],
    services: [service('a', number, [address])],
  }),
  health: noHealth,
  certificates: noCertificates,
  challenges: noChallenges,
  gate: noGate,
  keys: testKeys,
});
const first = parts(1, '10.0.0.1:80');
const second = { routing: parts(2, '10.0.0.2:80').routing };

async function started(names?: readonly string[]) {
  const it = world(names);
  await it.publisher.publish(it.propose(first));
  it.log.length = 0;
  it.steps.length = 0;
  for (const worker of it.workers) worker.heard.length = 0;
  return it;
}

test('the first publication gives every worker every part and goes on from the stored revision', async () => {
  const { publisher, propose, workers, log } = world();
  const published = await publisher.publish(propose(first));
  expect(published).toMatchObject({ revision: 8, changed: true, holdMs: 0 });
  expect(Object.keys(workers[0]!.prepared!.parts)).toEqual([...partNames]);
  expect(log).toEqual(['w1 prepare', 'w2 prepare', 'persist 8', 'decided', 'w1 commit', 'w2 commit', 'acknowledged']);
});

test('a change of backends is held, persisted and committed, and only the changed part travels', async () => {
  const { publisher, propose, workers, steps } = await started();
  const published = await publisher.publish(propose(second));
  expect(workers[0]!.heard).toEqual(['prepare', 'hold', 'commit']);
  expect(Object.keys(workers[0]!.prepared!.parts)).toEqual(['routing']);
  expect(steps).toEqual(['prepare', 'hold', 'persist', 'commit', 'acknowledge']);
  expect(published.flips).toHaveLength(2);
  expect(publisher.committed?.revision).toBe(9);
});

test('publishing what is served already asks nobody', async () => {
  const { publisher, propose, workers } = await started();
  const published = await publisher.publish(propose({ routing: first.routing }));
  expect(published).toMatchObject({ revision: 8, changed: false });
  expect(workers[0]!.heard).toEqual([]);
});

test('a refusal leaves the old snapshot committed and tells everyone', async () => {
  const { publisher, propose, workers, log } = await started();
  workers[1]!.script.prepare = { code: 'certificate-unusable', detail: 'no key' };
  const publishing = publisher.publish(propose(second));
  await expect(publishing).rejects.toMatchObject({ code: 'certificate-unusable', message: 'no key' });
  expect(workers.map((worker) => worker.heard.at(-1))).toEqual(['abort', 'abort']);
  expect(log).toContain('abandoned');
  expect(log).not.toContain('persist 9');
  expect(publisher.committed?.revision).toBe(8);
});

test('a worker that builds other data than it was sent is a refusal', async () => {
  const { publisher, propose, workers } = await started();
  const worker = workers[0]!;
  const ask = worker.ask.bind(worker);
  worker.ask = async <Q extends Question>(question: Q, body: Questions[Q]['ask']) => {
    const answer = await ask(question, body);
    if (question !== 'prepare') return answer;
    return { ok: true, value: { digests: { ...worker.prepared!.digests, routing: 'other' } } } as Answer<Q>;
  };
  await expect(publisher.publish(propose(second))).rejects.toMatchObject({ code: 'publish-refused' });
});

test.each([
  ['prepare', 10_000],
  ['hold', 500],
] as const)('a worker silent during %s is given %i ms, then nothing has changed', async (move, ms) => {
  const { publisher, propose, workers, clock, log } = await started();
  delete workers[1]!.script[move];
  const publishing = publisher.publish(propose(second));
  publishing.catch(() => {});
  await settle();
  clock.advance(ms - 1);
  await settle();
  expect(workers[0]!.heard).not.toContain('abort');
  clock.advance(1);
  await expect(publishing).rejects.toMatchObject({ code: 'publish-timeout' });
  expect(workers[0]!.heard.at(-1)).toBe('abort');
  expect(workers[1]!.killed).toBe(false);
  expect(log).not.toContain('persist 9');
});

test('what cannot be made durable is aborted', async () => {
  const { publisher, propose, workers } = await started();
  const persist = (): void => {
    throw new Fault('state-unusable', 'disk full');
  };
  await expect(publisher.publish(propose(second, { persist }))).rejects.toMatchObject({ message: 'disk full' });
  expect(workers[0]!.heard).toEqual(['prepare', 'hold', 'abort']);
  expect(publisher.committed?.revision).toBe(8);
});

test('a worker that does not commit is killed, and the answer waits for its end', async () => {
  const { publisher, propose, workers, clock } = await started();
  delete workers[1]!.script.commit;
  let answered = false;
  const publishing = publisher.publish(propose(second)).then((published) => {
    answered = true;
    return published;
  });
  await settle();
  clock.advance(2000);
  await settle();
  expect(workers[1]!.killed).toBe(true);
  expect(answered).toBe(false);
  workers[1]!.die();
  expect(await publishing).toMatchObject({ revision: 9, changed: true });
});

test.each(['prepare', 'hold'] as const)('a death during %s aborts', async (move) => {
  const { publisher, propose, workers } = await started();
  delete workers[1]!.script[move];
  const publishing = publisher.publish(propose(second));
  publishing.catch(() => {});
  await settle();
  workers[1]!.die();
  await expect(publishing).rejects.toMatchObject({ code: 'publish-refused' });
});

test('a publication that is over keeps no hold on its workers', async () => {
  const { publisher, propose, workers } = await started();
  await publisher.publish(propose(second));
  workers[1]!.script.prepare = { code: 'internal', detail: 'no' };
  await publisher.publish(propose({ routing: parts(3, '10.0.0.3:80').routing })).catch(() => {});
  expect(workers.map((worker) => worker.watchers.size)).toEqual([0, 0]);
});

test('publications wait for each other, and each is made from what the one before left', async () => {
  const { publisher, propose, workers } = await started(['w1']);
  const seen: (number | undefined)[] = [];
  const worker = workers[0]!;
  const one = publisher.publish((committed) => {
    seen.push(committed?.revision);
    return propose(second)();
  });
  const two = publisher.publish((committed) => {
    seen.push(committed?.revision);
    return propose({ health: { down: { a: ['10.0.0.2:80'] } } })();
  });
  expect((await one).revision).toBe(9);
  expect((await two).revision).toBe(10);
  expect(seen).toEqual([8, 9]);
  expect(worker.heard).toEqual(['prepare', 'hold', 'commit', 'prepare', 'commit']);
});

test('a failed publication does not stop the next one', async () => {
  const { publisher, propose } = await started();
  const failing = publisher.publish(() => {
    throw new Fault('bind-failed', 'in use');
  });
  await expect(failing).rejects.toMatchObject({ code: 'bind-failed' });
  expect((await publisher.publish(propose(second))).revision).toBe(9);
});

test('a worker that joins while something is published gets what was committed, whole, and listeners first', async () => {
  const { publisher, propose, workers, log } = await started();
  const late = new ScriptedWorker('w3', log);
  const publishing = publisher.publish(propose(second));
  const joining = publisher.join(late, (worker) => worker.lend('tcp *:80', null as never));
  await publishing;
  expect(await joining).toBeNull();
  expect(late.heard).toEqual(['lend tcp *:80', 'prepare', 'commit']);
  expect(late.prepared?.revision).toBe(9);
  expect(Object.keys(late.prepared!.parts)).toHaveLength(partNames.length);
  expect(late.digests).toEqual(workers[0]!.digests);
});

test('a worker that joins after an abort gets the old snapshot', async () => {
  const { publisher, propose, workers, log } = await started();
  workers[0]!.script.prepare = { code: 'publish-refused', detail: 'no' };
  const late = new ScriptedWorker('w3', log);
  publisher.publish(propose(second)).catch(() => {});
  expect(await publisher.join(late, () => {})).toBeNull();
  expect(late.prepared?.revision).toBe(8);
});

test('a worker that refuses, hangs or dies while joining blocks nobody', async () => {
  const { publisher, propose, clock, log } = await started();
  const refusing = new ScriptedWorker('w3', log);
  refusing.script.prepare = { code: 'internal', detail: 'broken' };
  expect(await publisher.join(refusing, () => {})).toEqual({ code: 'internal', detail: 'broken' });
  const hanging = new ScriptedWorker('w4', log);
  delete hanging.script.prepare;
  const joining = publisher.join(hanging, () => {});
  await settle();
  clock.advance(10_000);
  expect(await joining).toMatchObject({ code: 'publish-timeout' });
  const dying = new ScriptedWorker('w5', log);
  delete dying.script.commit;
  const dead = publisher.join(dying, () => {});
  await settle();
  dying.die();
  expect(await dead).toMatchObject({ code: 'publish-refused' });
  expect((await publisher.publish(propose(second))).revision).toBe(9);
});

test('a worker that joins and does not commit is killed, and nothing is published before it is gone', async () => {
  const { publisher, propose, clock, log } = await started();
  const silent = new ScriptedWorker('w6', log);
  delete silent.script.commit;
  const joining = publisher.join(silent, () => {});
  const publishing = publisher.publish(propose(second));
  await settle();
  clock.advance(2000);
  await settle();
  expect(silent.killed).toBe(true);
  expect(log).not.toContain('w1 prepare');
  silent.die();
  expect(await joining).toMatchObject({ code: 'publish-timeout' });
  expect((await publishing).revision).toBe(9);
});

test('once closed it finishes what is under way and begins nothing', async () => {
  const { publisher, propose, workers, log } = await started();
  const running = publisher.publish(propose(second));
  await settle();
  publisher.close();
  expect((await running).revision).toBe(9);
  await expect(publisher.publish(propose(first))).rejects.toMatchObject({ code: 'not-running' });
  expect(await publisher.join(new ScriptedWorker('w7', log), () => {})).toMatchObject({ code: 'not-running' });
  expect(workers[0]!.heard).toEqual(['prepare', 'hold', 'commit']);
});

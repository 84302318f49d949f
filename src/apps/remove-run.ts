// An app is removed: its traffic is withdrawn, its processes end, and only then are its name and hosts free.
// Invariant: volumes and secrets stay under the old incarnation; a removal that was decided is finished by whoever starts next.
import { Fault, type FaultCode } from '../base/fault.ts';
import { leftoversOf } from './plan.ts';
import type { OnProgress } from './reports.ts';
import type { RunGround } from './service-run.ts';
import type { AppsChange, Deploy } from './state.ts';

export class RemoveRun {
  readonly #ground: RunGround;
  readonly #id: string;
  readonly #progress: OnProgress;

  /** `deploy` is in the journal already. */
  constructor(ground: RunGround, deploy: Deploy, progress: OnProgress) {
    this.#ground = ground;
    this.#id = deploy.id;
    this.#progress = progress;
  }

  get deploy(): Deploy {
    return this.#ground.book.deploy(this.#id)!;
  }

  async run(): Promise<Deploy> {
    const { observer } = this.#ground;
    try {
      this.#progress('', 'withdrawing');
      observer('withdrawing');
      const drained = await this.#withdraw();
      observer('withdrawn');
      this.#progress('', 'draining');
      await drained;
      return await this.#finish();
    } catch (error) {
      return this.#failed(error);
    }
  }

  async resume(): Promise<Deploy> {
    if (this.deploy.moved.length > 0) return this.#finish().catch((error: unknown) => this.#failed(error));
    const fault = { code: 'deploy-failed', detail: 'Turnpike ended before the removal was decided' };
    return this.#end('undone', fault);
  }

  /** The app is there, without traffic; whoever removes it again goes on from here. */
  #failed(error: unknown): Deploy {
    const code: FaultCode = error instanceof Fault ? error.code : 'stop-failed';
    return this.#end('failed', { code, detail: error instanceof Error ? error.message : String(error) });
  }

  #end(outcome: NonNullable<Deploy['outcome']>, fault: Deploy['fault']): Deploy {
    const deploy: Deploy = { ...this.deploy, outcome, fault, endedAt: this.#now() };
    this.#adopt({ deploys: [deploy] });
    return deploy;
  }

  /** One publication for all of it, ports of an app without services included. */
  async #withdraw(): Promise<Promise<unknown>> {
    const { book, traffic, retirements } = this.#ground;
    const active = book.activeOf(this.deploy.incarnation);
    const since = this.#now();
    const incarnation = book.incarnation(this.deploy.incarnation)!;
    const moved = await traffic.move({
      incarnations: [{ ...incarnation, active: null }],
      inactive: active,
      retiring: active.flatMap(({ incarnation, app, name: service, service: spec, instance }) =>
        instance === null ? [] : [{ incarnation, app, service, instance, spec, phase: 'draining' as const, since }],
      ),
      deploys: [{ ...this.deploy, moved: ['*'] }],
    });
    const drained = Promise.all(moved.drains.map(({ done }) => done));
    for (const { instance } of active) if (instance !== null) retirements.begin(instance.id, drained, 0);
    return drained;
  }

  async #finish(): Promise<Deploy> {
    const { book, retirements, runtime, log, observer } = this.#ground;
    const { incarnation: id } = this.deploy;
    this.#progress('', 'stopping');
    observer('stopping');
    await retirements.hasten(id, null);
    await runtime.leave?.(id).catch((error: unknown) => log.warn('network-not-removed', { err: error }));
    observer('stopped');
    const incarnation = book.incarnation(id)!;
    // Another removal was faster: what it left behind is written down, and its revisions are forgotten.
    if (incarnation.removedAt !== null) return this.#end('done', null);
    const leftovers = leftoversOf(book.revisions(id));
    const deploy: Deploy = { ...this.deploy, outcome: 'done', endedAt: this.#now() };
    observer('write-end');
    this.#adopt({
      deploys: [deploy],
      incarnations: [{ ...incarnation, removedAt: this.#now(), active: null, leftovers }],
      forgottenRevisions: book.revisions(id),
    });
    observer('end');
    return deploy;
  }

  #now(): number {
    return this.#ground.clock.now();
  }

  #adopt(change: AppsChange): void {
    this.#ground.store.write(change);
    this.#ground.book.adopt(change);
  }
}

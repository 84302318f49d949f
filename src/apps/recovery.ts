// After a start: finishes or undoes what an earlier process began, ends what nobody knows of, starts what no longer runs.
// Invariant: traffic is served before, by what was decided last; nothing here moves it but by a deploy like any other.
import type { Deploys } from './deploys.ts';
import type { DeployRequest } from './preflight.ts';
import type { RunGround } from './service-run.ts';
import type { Deploy, Incarnation } from './state.ts';

export class Recovery {
  readonly #ground: RunGround;
  readonly #deploys: Deploys;

  constructor(ground: RunGround, deploys: Deploys) {
    this.#ground = ground;
    this.#deploys = deploys;
  }

  async run(): Promise<void> {
    const { book, retirements } = this.#ground;
    retirements.resume();
    await Promise.all([this.#sweep(), ...book.unfinished().map((deploy) => this.#resume(deploy))]);
    await Promise.all(book.apps().map((incarnation) => this.#revive(incarnation)));
  }

  async #resume(deploy: Deploy): Promise<void> {
    const { book, log } = this.#ground;
    const incarnation = book.incarnation(deploy.incarnation);
    if (incarnation === null) return;
    const { app, kind, current } = deploy;
    log.warn('app-deploy-resumed', { app, kind, phase: current?.phase ?? null });
    const revision = book.revision(deploy.incarnation, deploy.revision);
    await this.#deploys
      .inTurn(
        incarnation,
        kind,
        () => {},
        (turn) => this.#deploys.resume(deploy, revision, turn),
      )
      .catch((error: unknown) => log.error('app-deploy-not-resumed', { app, err: error }));
  }

  /** A machine that started again has none of the processes that were there. */
  async #revive(incarnation: Incarnation): Promise<void> {
    const { book, runtime, log } = this.#ground;
    for (const { instance, name, app } of book.activeOf(incarnation.id)) {
      if (instance === null || (await runtime.alive(instance)) !== false) continue;
      log.warn('app-instance-missing', { app, service: name });
      await this.#startAgain(incarnation, name).catch((error: unknown) =>
        log.error('app-not-revived', { app, service: name, err: error }),
      );
    }
  }

  async #startAgain(incarnation: Incarnation, name: string): Promise<void> {
    const { book, traffic, clock } = this.#ground;
    await this.#deploys.inTurn(
      incarnation,
      'revive',
      () => {},
      async (turn) => {
        const active = book.activeService(incarnation.id, name);
        const revision = active === null ? null : book.revision(incarnation.id, active.revision);
        if (active === null || revision === null) return;
        const { app, service: spec, instance, given } = active;
        if (instance !== null) {
          // Nobody answers at its address: arrivals wait for the one that is started now.
          const row = { incarnation: incarnation.id, app, service: name, instance, spec, since: clock.now() };
          await traffic.move({
            active: [{ ...active, instance: null }],
            retiring: [{ ...row, phase: 'stopping' }],
          });
        }
        const request: DeployRequest = {
          app,
          kind: 'revive',
          revision: null,
          only: name,
          given: new Map(),
          wait: false,
        };
        const plan = { services: [{ name, action: 'replace' as const, given }], checks: new Map(), whole: false };
        await this.#deploys.deploy(book.incarnation(incarnation.id)!, revision, request, plan, turn);
      },
    );
  }

  /** Processes that carry our label and that nothing is written of. */
  async #sweep(): Promise<void> {
    const { book, runtime, log } = this.#ground;
    const known = new Set(book.instances().map(({ id }) => id));
    for (const { current } of book.unfinished()) if (current !== null) known.add(current.candidate);
    for (const id of await runtime.list()) {
      if (known.has(id)) continue;
      log.warn('app-instance-unknown', { instance: id });
      await runtime
        .stop({ id, app: '', service: '', backends: [], managed: true }, 0, () => {})
        .catch((error: unknown) => log.error('app-instance-not-stopped', { instance: id, err: error }));
    }
  }
}

// After a start: finishes or undoes what an earlier process began, ends what nobody knows of, starts what no longer runs.
// Invariant: traffic is served before, by what was decided last; nothing here moves it but by a deploy like any other.
import type { Deploys } from './deploys.ts';
import type { Reconciler } from './reconciler.ts';
import type { RunGround } from './service-run.ts';
import type { Deploy } from './state.ts';

export class Recovery {
  readonly #ground: RunGround;
  readonly #deploys: Deploys;
  readonly #reconciler: Reconciler;

  constructor(ground: RunGround, deploys: Deploys, reconciler: Reconciler) {
    this.#ground = ground;
    this.#deploys = deploys;
    this.#reconciler = reconciler;
  }

  async run(): Promise<void> {
    const { book, retirements } = this.#ground;
    retirements.resume();
    await Promise.all([
      this.#sweep().catch(this.#notSwept),
      ...book.unfinished().map((deploy) => this.#resume(deploy)),
    ]);
    await Promise.all(book.apps().map((incarnation) => this.#reconciler.revive(incarnation)));
  }

  /** An engine may start after us; the reconciler looks again. */
  readonly #notSwept = (error: unknown): void => this.#ground.log.warn('apps-not-looked-at', { err: error });

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

  /** Processes that carry our label and that nothing is written of. */
  async #sweep(): Promise<void> {
    const { book, runtime, log } = this.#ground;
    for (const id of await runtime.list()) {
      // Asked now: a deploy that is being resumed has written its candidate down before it started it.
      const known = [...book.instances().map((instance) => instance.id), ...book.candidates()];
      if (known.includes(id)) continue;
      log.warn('app-instance-unknown', { instance: id });
      await runtime
        .stop({ id, app: '', service: '', backends: [], managed: true }, 0, () => {})
        .catch((error: unknown) => log.error('app-instance-not-stopped', { instance: id, err: error }));
    }
  }
}

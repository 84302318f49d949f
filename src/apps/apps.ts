// The apps of this installation: every verb of `turnpike apps`, and what is served for them.
// Invariant: whatever is wrong is refused before anything changes; one operation of an app at a time, and its end is the
// truth; nobody waits for a drain unless they ask to.
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { App } from '../manifest/app.ts';
import { appDigest, diffApps } from '../manifest/diff.ts';
import type { Origins } from '../manifest/origins.ts';
import type { RoutingPart } from '../model/snapshot.ts';
import type { PortBackend, Runtime } from '../runtime/runtime.ts';
import type { AppsBook } from './book.ts';
import { Deploys, type Tell } from './deploys.ts';
import { servesWhole } from './plan.ts';
import type { AppsObserver, AppsStore, AppTraffic } from './ports.ts';
import { type DeployRequest, preflight } from './preflight.ts';
import { Probation, probationMs } from './probation.ts';
import { Reconciler, type RestartTrouble } from './reconciler.ts';
import { Recovery } from './recovery.ts';
import type { DeployReport } from './reports.ts';
import { Reservations } from './reservations.ts';
import { Retirements } from './retirements.ts';
import { type AppGround, routingServices } from './routing.ts';
import type { RunGround } from './service-run.ts';
import type { ActiveService, AppsChange, DeployKind, Incarnation, Revision } from './state.ts';

export interface AppsOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly book: AppsBook;
  readonly store: AppsStore;
  readonly traffic: AppTraffic;
  readonly runtime: Runtime;
  readonly observer: AppsObserver;
  readonly newId: () => string;
  /** The routing of the configuration file, as it is served. */
  readonly file: () => RoutingPart;
  readonly ground: () => AppGround;
  readonly settings: () => AppsSettings;
}

export interface AppsSettings {
  readonly autoRollback: boolean;
  /** Revisions that are kept of each app. */
  readonly history: number;
}

export interface Manifest {
  readonly app: App;
  /** As the operator named it. */
  readonly file: string;
  readonly origins: Origins;
  readonly watched: boolean;
}

export interface Applied {
  readonly app: string;
  /** The revision that is wanted now, or would be. */
  readonly revision: number;
  readonly outcome: 'stored' | 'unchanged' | 'dry-run';
  /** Against the revision that was wanted before. */
  readonly diff: readonly string[];
  /** It was not known before. */
  readonly isNew: boolean;
}

/** An app whose deploy has ended well at least once. */
export interface ActiveApp {
  readonly app: App;
  readonly incarnation: string;
  readonly revision: number;
}

export class Apps {
  readonly book: AppsBook;
  readonly #options: AppsOptions;
  readonly #retirements: Retirements;
  readonly #reservations: Reservations;
  readonly #deploys: Deploys;
  readonly #reconciler: Reconciler;
  readonly #recovery: Recovery;
  readonly #probation: Probation;
  readonly #store: AppsStore;
  #closed = false;

  constructor(options: AppsOptions) {
    const { clock, log, book, traffic, runtime, observer, newId } = options;
    this.#options = options;
    const store: AppsStore = { write: (change) => this.#writeOpen(change) };
    this.#store = store;
    this.book = book;
    const common = { clock, log, book, store, runtime, observer };
    this.#retirements = new Retirements(common);
    this.#reservations = new Reservations(book);
    const ground: RunGround = {
      ...common,
      traffic,
      newId,
      retirements: this.#retirements,
      keepMs: () => (options.settings().autoRollback ? probationMs : 0),
    };
    this.#probation = new Probation(clock, traffic);
    this.#deploys = new Deploys(ground);
    this.#reconciler = new Reconciler(ground, this.#deploys);
    this.#recovery = new Recovery(ground, this.#deploys, this.#reconciler);
  }

  /** Finishes or undoes what an earlier process began, and starts again what no longer runs. */
  resume(): Promise<void> {
    return this.#recovery.run();
  }

  /** From now on what ends is started again. */
  keepAlive(): void {
    this.#reconciler.begin();
  }

  /** Null: it runs by itself. */
  troubleOf(service: Pick<ActiveService, 'incarnation' | 'name'>): RestartTrouble | null {
    return this.#reconciler.troubleOf(service);
  }

  /** What is under way stops where it is, as if the process had been killed: the journal has it for the next one. */
  close(): void {
    this.#closed = true;
    this.#probation.close();
    this.#reconciler.close();
    this.#retirements.close();
  }

  /** By name. An app that is being replaced counts as before until its deploy has ended well. */
  activeApps(): readonly ActiveApp[] {
    return this.book.apps().flatMap(({ id, active }) => {
      const revision = active === null ? null : this.book.revision(id, active);
      return revision === null ? [] : [{ app: revision.app, incarnation: id, revision: revision.number }];
    });
  }

  /** `activeApps` may give something else now. Returns what ends it. */
  onChange(listener: () => void): () => void {
    return this.#deploys.onEnd(listener);
  }

  /** What has its turn now, or waits for it. */
  underWay(name: string): readonly DeployKind[] {
    return this.#deploys.kinds(this.#find(name));
  }

  /** What stands between another routing of the file and the apps. */
  conflictsWith(file: RoutingPart, ground: AppGround): readonly string[] {
    return this.#reservations.conflictsWith(file, ground);
  }

  /** Stores a new wanted revision. Throws `reservation-conflict` and has stored nothing. */
  apply(manifest: Manifest, dryRun: boolean): Applied {
    const { app } = manifest;
    const known = this.book.app(app.name);
    if (known !== null && this.#deploys.kinds(known).includes('remove')) {
      throw new Fault('deploy-refused', `${app.name} is being removed: apply it again when that is done`);
    }
    const wanted = known === null ? null : this.book.revision(known.id, known.desired);
    const revision = this.#newRevision(known, manifest, 'apply');
    this.#check(revision);
    const answer = { app: app.name, diff: diffApps(wanted?.app ?? null, app), isNew: known === null };
    // A watched file is read again whenever anything happens beside it: only what changed in it undoes a rollback.
    const before = manifest.watched && known !== null ? (this.#lastApplied(known.id) ?? wanted) : wanted;
    if (wanted !== null && before?.digest === revision.digest) {
      return { ...answer, diff: [], revision: wanted.number, outcome: 'unchanged' };
    }
    if (dryRun) return { ...answer, revision: revision.number, outcome: 'dry-run' };
    this.#keepRevision(known, revision);
    this.#options.log.info('app-applied', { app: app.name, revision: revision.number, changes: answer.diff });
    return { ...answer, revision: revision.number, outcome: 'stored' };
  }

  async deploy(request: DeployRequest, tell: Tell): Promise<DeployReport> {
    return this.#deploys.inTurn(this.#find(request.app), request.kind, tell, async (turn) => {
      const incarnation = this.#find(request.app);
      const revision = this.#revision(incarnation, request.revision ?? incarnation.desired);
      const plan = await this.#preflight(incarnation, revision, request);
      const report = await this.#deploys.deploy(incarnation, revision, request, plan, turn);
      if (request.kind === 'deploy' && report.outcome === 'done') this.#watch(incarnation, report);
      return report;
    });
  }

  /** Makes an older revision the wanted one, as a new revision, and deploys it. */
  async rollback(app: string, number: number | null, wait: boolean, tell: Tell): Promise<DeployReport> {
    const known = this.#find(app);
    // Nothing gives up its turn for what cannot be done.
    if (number !== null) this.#revision(known, number);
    return this.#deploys.inTurn(known, 'rollback', tell, async (turn) => {
      const incarnation = this.#find(app);
      const target = number === null ? this.#previous(incarnation) : this.#revision(incarnation, number);
      if (target === null) throw new Fault('deploy-refused', `${app} has no earlier revision to go back to`);
      const revision = this.#newRevision(incarnation, target, `rollback to ${target.number}`);
      const given = this.#givenOf(incarnation, target.number);
      const request: DeployRequest = { app, kind: 'rollback', revision: null, only: null, given, wait };
      const plan = await this.#preflight(incarnation, revision, request);
      this.#keepRevision(incarnation, revision);
      return this.#deploys.deploy(this.#find(app), revision, request, plan, turn);
    });
  }

  async remove(app: string, tell: Tell): Promise<DeployReport> {
    return this.#deploys.inTurn(this.#find(app), 'remove', tell, (turn) => this.#deploys.remove(this.#find(app), turn));
  }

  /** Gives up for good what removed apps of this name left behind. */
  async prune(app: string): Promise<readonly Incarnation[]> {
    const gone = this.book.removed().filter(({ name, leftovers }) => name === app && leftovers.length > 0);
    if (gone.length === 0) throw new Fault('unknown-app', `no removed app ${app} has left anything behind`);
    for (const { id } of gone) await this.#options.runtime.prune?.(id);
    this.#write({ incarnations: gone.map((each) => ({ ...each, leftovers: [] })) });
    return gone;
  }

  /** What was replaced has a minute to prove itself. */
  #watch({ id }: Incarnation, { services }: DeployReport): void {
    if (!this.#options.settings().autoRollback) return;
    for (const { service, outcome } of services) {
      const active = this.book.activeService(id, service);
      if (outcome !== 'replaced' || active?.instance == null) continue;
      const { instance } = active;
      this.#probation
        .begin(instance.id, routingServices(active), () => {
          // It may have been replaced meanwhile.
          const now = this.book.activeService(id, service);
          if (now?.instance?.id === instance.id) this.#failed(now);
        })
        .catch((error: unknown) => this.#options.log.warn('app-not-watched', { app: active.app, service, err: error }));
    }
  }

  /** A new generation that fails goes back by itself; one that came by going back does not. */
  #failed({ app, name, incarnation }: ActiveService): void {
    const { log, settings } = this.#options;
    const last = this.book.deploysOf(incarnation).findLast(({ outcome }) => outcome === 'done');
    if (!settings().autoRollback || last?.kind !== 'deploy' || this.#previous(this.#find(app)) === null) return;
    log.warn('app-rolls-back', { app, service: name });
    this.rollback(app, null, false, () => {}).catch((error: unknown) =>
      log.error('app-not-rolled-back', { app, err: error }),
    );
  }

  #preflight(incarnation: Incarnation, revision: Revision, request: DeployRequest) {
    const { runtime, file } = this.#options;
    this.#check(revision);
    return preflight(incarnation, revision, request, this.book, runtime, file());
  }

  #check(revision: Revision): void {
    this.#reservations.check(revision, this.#options.file(), this.#options.ground());
  }

  /** The one before the active one that is not the same; the active one itself when not all of it is what serves. */
  #previous({ id, active, desired }: Incarnation): Revision | null {
    const current = this.book.revision(id, active ?? desired);
    if (active !== null && current !== null && !servesWhole(current, this.book.activeOf(id))) return current;
    const earlier = this.book.revisions(id).filter(({ number }) => number < (active ?? desired));
    return earlier.findLast(({ digest }) => digest !== current?.digest) ?? null;
  }

  /** What its manifest last said; a rollback is of another mind. */
  #lastApplied(incarnation: string): Revision | null {
    return this.book.revisions(incarnation).findLast(({ why }) => why === 'apply') ?? null;
  }

  /** Addresses that the operator named when this revision was last deployed. */
  #givenOf({ id }: Incarnation, revision: number): ReadonlyMap<string, readonly PortBackend[]> {
    const deploy = this.book.deploysOf(id).findLast((each) => each.revision === revision && each.outcome === 'done');
    return new Map(deploy?.services.map(({ name, given }) => [name, given]));
  }

  #find(name: string): Incarnation {
    const found = this.book.app(name);
    if (found === null) throw new Fault('unknown-app', `no app is named ${name}`);
    return found;
  }

  #revision({ id, name }: Incarnation, number: number): Revision {
    const found = this.book.revision(id, number);
    if (found !== null) return found;
    const kept = this.book.revisions(id).map((each) => each.number);
    throw new Fault('unknown-app', `${name} has no revision ${number} (it has ${kept.join(', ')})`);
  }

  #newRevision(known: Incarnation | null, manifest: Manifest, why: string): Revision {
    const { app, file, origins, watched } = manifest;
    const last = known === null ? 0 : (this.book.revisions(known.id).at(-1)?.number ?? 0);
    const incarnation = known?.id ?? this.#options.newId();
    const at = this.#options.clock.now();
    return { incarnation, number: last + 1, app, digest: appDigest(app), at, file, why, origins, watched };
  }

  #writeOpen(change: AppsChange): void {
    if (this.#closed) throw new Fault('not-running', 'Turnpike is ending; apps are seen to after its next start');
    this.#options.store.write(change);
  }

  #keepRevision(known: Incarnation | null, revision: Revision): void {
    const { incarnation: id, app, number: desired, at } = revision;
    const born = { id, name: app.name, createdAt: at, removedAt: null, active: null, leftovers: [] };
    const inUse = new Set([known?.active, ...this.book.activeOf(id).map((each) => each.revision)]);
    for (const each of this.book.unfinished()) if (each.incarnation === id) inUse.add(each.revision);
    if (revision.why !== 'apply') inUse.add(this.#lastApplied(id)?.number);
    const all = this.book.revisions(id);
    const kept = new Set([...all, revision].slice(-this.#options.settings().history));
    this.#write({
      incarnations: [{ ...(known ?? born), desired }],
      revisions: [revision],
      forgottenRevisions: all.filter((each) => !kept.has(each) && !inUse.has(each.number)),
    });
  }

  #write(change: AppsChange): void {
    this.#store.write(change);
    this.book.adopt(change);
  }
}

// What is known of apps: incarnations, revisions, what serves, what is being stopped, and the journal of deploys.
// Invariant: plain JSON data. What serves traffic changes together with the revision of a publication, in one transaction.
import type { App, AppService } from '../manifest/app.ts';
import type { InstanceRef, PortBackend } from '../runtime/runtime.ts';
import type { Replacement } from './replacement.ts';

/** An app from its first apply until it is removed; who takes the name afterwards is another one. */
export interface Incarnation {
  readonly id: string;
  readonly name: string;
  readonly createdAt: number;
  /** Null: it lives. What it leaves behind (volumes, secrets) stays under its id. */
  readonly removedAt: number | null;
  /** The revision that is wanted. */
  readonly desired: number;
  /** The revision whose deploy last ended well; null: never. */
  readonly active: number | null;
  /** Names of what stays when it is removed: "volume web-data", "secret web/api-key". */
  readonly leftovers: readonly string[];
}

export interface Revision {
  readonly incarnation: string;
  /** Rises by one, never reused within an incarnation. */
  readonly number: number;
  readonly app: App;
  readonly digest: string;
  readonly at: number;
  /** The manifest's file as the operator named it. */
  readonly file: string;
  /** "apply", "rollback to 3". */
  readonly why: string;
  /** Claim ("host blog.test", "entrypoint game tcp") → place in the file ("blog.toml:12 services.web.http[0].host"). */
  readonly origins: Readonly<Record<string, string>>;
  /** It comes from the watched directory. */
  readonly watched: boolean;
}

/** One generation of a service as it runs. */
export interface Instance extends InstanceRef {
  readonly revision: number;
  /** Of all that would make another instance necessary. */
  readonly digest: string;
  readonly stopGraceMs: number;
  readonly startedAt: number;
}

/** A service of an app that traffic knows. */
export interface ActiveService {
  readonly incarnation: string;
  readonly app: string;
  readonly name: string;
  /** Of the generation that serves; of the last one while nothing does. */
  readonly service: AppService;
  readonly revision: number;
  readonly origins: Readonly<Record<string, string>>;
  readonly file: string;
  /** Null: withdrawn; arrivals wait, or are refused when it is `down`. */
  readonly instance: Instance | null;
  /** A replacement failed and left nothing that could serve. */
  readonly down: boolean;
  /** Addresses that the operator named, for as long as no deploy names others. */
  readonly given: readonly PortBackend[];
}

/** A generation that serves no more and will be stopped. */
export interface Retiring {
  readonly incarnation: string;
  readonly app: string;
  readonly service: string;
  readonly instance: Instance;
  /** What it was, should it serve again. */
  readonly spec: AppService;
  /** `draining`: it still has claims, or waits for a possible way back. `stopping`: it was or will be asked to end. */
  readonly phase: 'draining' | 'stopping';
  readonly since: number;
}

export type DeployKind = 'deploy' | 'rollback' | 'restart' | 'remove' | 'revive';

/** What one deploy does to one service, in the order of the list. */
export interface PlannedService {
  readonly name: string;
  /** `keep`: nothing changed. `withdraw`: the new revision does not have it. */
  readonly action: 'replace' | 'keep' | 'withdraw';
  /** Same manifest, other secrets or image: no older generation will do. */
  readonly fresh?: boolean;
  readonly given: readonly PortBackend[];
}

export interface Deploy {
  readonly id: string;
  readonly incarnation: string;
  readonly app: string;
  readonly kind: DeployKind;
  /** What it makes active. */
  readonly revision: number;
  /** Whole app: the revision becomes the active one when it ends well. */
  readonly whole: boolean;
  readonly services: readonly PlannedService[];
  /** Of the service that is being replaced. */
  readonly index: number;
  readonly current: Replacement | null;
  /** Addresses of the candidate that is being made ready. */
  readonly started: readonly PortBackend[];
  /** Services whose traffic has moved so far. */
  readonly moved: readonly string[];
  readonly begunAt: number;
  readonly endedAt: number | null;
  readonly outcome: 'done' | 'failed' | 'superseded' | 'undone' | null;
  readonly fault: { readonly code: string; readonly detail: string } | null;
}

/** Rows to write, and rows to forget. */
export interface AppsChange {
  readonly incarnations?: readonly Incarnation[];
  readonly revisions?: readonly Revision[];
  readonly forgottenRevisions?: readonly Pick<Revision, 'incarnation' | 'number'>[];
  readonly active?: readonly ActiveService[];
  readonly inactive?: readonly Pick<ActiveService, 'incarnation' | 'name'>[];
  readonly retiring?: readonly Retiring[];
  /** Instances that retire no more: gone, or serving again. */
  readonly retired?: readonly string[];
  readonly deploys?: readonly Deploy[];
  readonly forgottenDeploys?: readonly string[];
}

export interface AppsRows {
  readonly incarnations: readonly Incarnation[];
  readonly revisions: readonly Revision[];
  readonly active: readonly ActiveService[];
  readonly retiring: readonly Retiring[];
  readonly deploys: readonly Deploy[];
}

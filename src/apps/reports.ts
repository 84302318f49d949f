// What a deploy tells on its way and at its end.
// Invariant: plain data that may leave the process; no environment value and no secret is in it.
import type { ReplacementMode } from '../manifest/replacement.ts';
import type { Deploy, DeployKind } from './state.ts';

export interface DeployProgress {
  readonly app: string;
  /** '' for the app as a whole. */
  readonly service: string;
  /** `waiting`, the phases of a replacement, `draining`, `stopping`, `withdrawn`. */
  readonly step: string;
  readonly elapsedMs: number;
  readonly detail: string | null;
}

export type OnProgress = (service: string, step: string, detail?: string | null) => void;

export interface ServiceReport {
  readonly service: string;
  readonly outcome: 'replaced' | 'started' | 'kept' | 'withdrawn' | 'failed';
  /** Null: nothing was replaced. */
  readonly mode: ReplacementMode | null;
  /** The generation that served before had not been stopped yet and took over again. */
  readonly warm: boolean;
  readonly from: readonly string[];
  readonly to: readonly string[];
  /** Revision of the snapshot since which every worker serves it; null: no traffic moved. */
  readonly snapshot: number | null;
  readonly inFlight: number;
  readonly held: number;
  readonly holdMs: number;
  /** Until every worker served it. */
  readonly tookMs: number;
  /** How the old generation ended; null: it still drains. */
  readonly drained: DrainReport | null;
  /** Failed exchanges of the service from the beginning until now. */
  readonly errors: number;
  readonly detail: string | null;
}

export interface DrainReport {
  readonly requests: number;
  readonly forced: number;
  readonly tookMs: number;
}

export interface DeployReport {
  readonly app: string;
  readonly deploy: string;
  readonly kind: DeployKind;
  readonly revision: number;
  readonly outcome: NonNullable<Deploy['outcome']>;
  readonly fault: Deploy['fault'];
  readonly services: readonly ServiceReport[];
  readonly tookMs: number;
  /** Nothing failed, and as far as known nothing was lost. */
  readonly clean: boolean;
}

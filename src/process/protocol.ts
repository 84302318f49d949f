// The messages between the supervisor and a worker, over the IPC channel of a fork (structured clone).
// Invariant: the supervisor asks and a worker answers every question exactly once, in the order asked; only notices come
// unasked. A worker that cannot read a message is of another version and must go.
import type { FaultCode } from '../base/fault.ts';
import type { LogLevel } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { CredentialsDelta } from '../gate/credentials.ts';
import type { DeskAnswer, DeskQuestion, UsageReport } from '../gate/desk.ts';
import type { LoadReading, Rung } from '../model/overload.ts';
import type { Certificate, PartName, SealedDelta } from '../model/snapshot.ts';

export interface FaultMessage {
  readonly code: FaultCode;
  readonly detail: string;
}

/** Question → what it carries and what it is answered with. */
export interface Questions {
  /** Builds everything the delta needs beside what runs. Refusable. */
  prepare: { ask: { readonly delta: SealedDelta }; answer: { readonly digests: Readonly<Record<PartName, string>> } };
  /** Arrivals of these services wait from now on. */
  hold: { ask: { readonly services: readonly string[] }; answer: null };
  /** Serves what was prepared. Not refusable. `drainMs`: limits of this change only, by service. */
  commit: { ask: { readonly drainMs: Readonly<Record<string, number>> }; answer: { readonly flips: readonly Flip[] } };
  /** Who may pass the gate: in force when it is answered. */
  credentials: { ask: CredentialsDelta; answer: null };
  /** Is anybody there? */
  ping: { ask: null; answer: null };
  stats: { ask: null; answer: WorkerStats };
  metrics: { ask: null; answer: ProcessMetrics };
}

export type Question = keyof Questions;
export type ProcessMetrics = ReturnType<Metrics['collect']>;

/** A generation at the instant it was retired in one worker. */
export interface Flip {
  readonly service: string;
  readonly generation: number;
  readonly active: number;
  /** Arrivals that waited for the commit. */
  readonly held: number;
}

export interface WorkerStats {
  readonly revision: number;
  readonly rssBytes: number;
  readonly load: WorkerLoad;
  readonly services: readonly ServiceStats[];
  readonly entrypoints: readonly EntrypointStats[];
}

/** Where a worker stands on the overload ladder, and what put it there. */
export interface WorkerLoad extends LoadReading {
  readonly rung: Rung;
}

export interface ServiceStats {
  readonly service: string;
  readonly generation: number;
  readonly active: number;
  readonly claimed: number;
  readonly waiting: number;
  readonly draining: readonly GenerationStats[];
  readonly backends: readonly BackendStats[];
}

export interface GenerationStats {
  readonly generation: number;
  readonly active: number;
  readonly claimed: number;
}

export interface BackendStats {
  readonly address: string;
  readonly active: number;
  readonly requests: number;
  readonly failures: number;
  readonly ejected: boolean;
}

export interface EntrypointStats {
  readonly name: string;
  /** Open now. */
  readonly connections: number;
  /** Why its owner cannot listen; null: it does. */
  readonly problem: string | null;
}

export type ToWorker =
  | { readonly kind: 'start'; readonly slot: number; readonly workers: number; readonly logLevel: LogLevel }
  /** A held listening socket travels with the message. It is used once a committed snapshot names its key. */
  | { readonly kind: 'listener'; readonly key: string }
  /** Listeners that were offered for a publication that did not happen, or that nothing uses any more. */
  | { readonly kind: 'withdraw'; readonly keys: readonly string[] }
  /** The UDP sockets that are this worker's to bind from now on, and no others. Said before a publication adds one. */
  | { readonly kind: 'own'; readonly keys: readonly string[] }
  | { [Q in Question]: { readonly kind: Q; readonly id: number; readonly ask: Questions[Q]['ask'] } }[Question]
  /** Forget what was prepared and let arrivals go on. */
  | { readonly kind: 'abort' }
  | { readonly kind: 'leaf'; readonly name: string; readonly certificate: Certificate | null }
  /** The answer to a question of the gate, by its number. */
  | { readonly kind: 'desk'; readonly id: number; readonly answer: DeskAnswer | null }
  /** Addresses that have to wait before they try a password or a token again, and until when (epoch ms). */
  | { readonly kind: 'throttled'; readonly addresses: readonly (readonly [address: string, until: number])[] }
  | { readonly kind: 'log'; readonly level: LogLevel }
  /** Stop accepting, finish within the limits, exit 0. */
  | { readonly kind: 'drain'; readonly limits: DrainLimits };

export interface DrainLimits {
  readonly requestsMs: number;
  readonly streamsMs: number;
}

export type FromWorker =
  | { readonly kind: 'booted' }
  | { readonly kind: 'answer'; readonly id: number; readonly answer: unknown; readonly fault: FaultMessage | null }
  | Notice;

export type Notice =
  | {
      readonly kind: 'drained';
      readonly service: string;
      readonly generation: number;
      readonly claimed: number;
      readonly forced: number;
    }
  | { readonly kind: 'ejected'; readonly service: string; readonly address: string; readonly until: number }
  /** It accepts again after an overload: it needs the sockets of these keys anew. */
  | { readonly kind: 'listeners-wanted'; readonly keys: readonly string[] }
  /** A handshake needs a leaf of the internal CA for this canonical name. */
  | { readonly kind: 'leaf-wanted'; readonly name: string }
  /** The gate of a worker asks; answered by `desk` with the same number. */
  | { readonly kind: 'desk-question'; readonly id: number; readonly question: DeskQuestion }
  | { readonly kind: 'gate-usage'; readonly report: UsageReport }
  /** The last words of a worker that leaves: its counters must not vanish with it. */
  | { readonly kind: 'leaving'; readonly metrics: ProcessMetrics };

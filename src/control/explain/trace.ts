// The steps of an explanation and how it ends.
// Invariant: a step that lets the request through gives facts on; the one that ends it gives the outcome, once.
import type { Reason } from '../../model/reason.ts';

export interface ExplainStep {
  readonly name: string;
  readonly text: string;
  /** The configuration line that decides; null where none does. */
  readonly origin: string | null;
  /** The request gets no further. */
  readonly stops: boolean;
}

export interface ExplainOutcome {
  /** Null: no HTTP answer of ours, or the backend's own. */
  readonly status: number | null;
  /** The word of the access log; null where no request comes about that could be logged. */
  readonly reason: Reason | null;
  readonly text: string;
}

export interface Explanation {
  readonly request: string;
  readonly revision: number;
  readonly steps: readonly ExplainStep[];
  readonly outcome: ExplainOutcome;
}

export class Trace {
  readonly steps: ExplainStep[] = [];

  pass(name: string, text: string, origin: string | null = null): void {
    this.steps.push({ name, text, origin, stops: false });
  }

  stop(name: string, text: string, origin: string | null, outcome: ExplainOutcome): ExplainOutcome {
    this.steps.push({ name, text, origin, stops: true });
    return outcome;
  }
}

export function isOutcome(value: object): value is ExplainOutcome {
  return 'reason' in value && 'status' in value;
}

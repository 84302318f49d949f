// The replacement of one service's running generation, as a machine without I/O: what happened so far, and what to do next.
// Invariant: every phase is one thing to do, written down before it is done. In sequential mode nothing is started before
// everything older is gone; in overlap mode the old one is not touched before the new one has the traffic.
import type { ReplacementMode } from '../manifest/replacement.ts';

export type ReplacementPhase =
  | 'planned'
  /** Traffic is being taken from the old one (sequential). */
  | 'withdrawing'
  /** The old one, and whatever is older, is being stopped (sequential). */
  | 'stopping'
  | 'starting'
  | 'probing'
  /** The candidate is being given the traffic. */
  | 'publishing'
  /** A candidate that failed is being stopped. */
  | 'discarding'
  /** The old one could not be stopped and is being given its traffic back. */
  | 'reinstating'
  | 'done'
  | 'failed';

export interface ReplacementFault {
  readonly code: string;
  readonly detail: string;
}

export interface Replacement {
  readonly service: string;
  readonly mode: ReplacementMode;
  readonly phase: ReplacementPhase;
  /** `old`: the new one failed behind the point of no return, and the old revision is started again. */
  readonly attempt: 'new' | 'old';
  /** Instance that is being made ready. */
  readonly candidate: string;
  /** Instance that served when it began; null: none did. */
  readonly old: string | null;
  /** The candidate runs already: it is a retired generation that takes over again. */
  readonly warm: boolean;
  /** The candidate is discarded because of a restart of ours, not because of a fault of its own. */
  readonly again: boolean;
  readonly fault: ReplacementFault | null;
  /** After a failure the old revision serves again. */
  readonly restored: boolean;
}

export type ReplacementEvent =
  | { readonly kind: 'begin' }
  | { readonly kind: 'withdrawn' }
  /** Nothing older is left. */
  | { readonly kind: 'stopped' }
  | { readonly kind: 'started' }
  | { readonly kind: 'ready' }
  | { readonly kind: 'published' }
  /** `fresh`: id for the next candidate, should there be one. */
  | { readonly kind: 'discarded'; readonly fresh: string }
  | { readonly kind: 'failed'; readonly fault: ReplacementFault };

export type NewReplacement = Pick<Replacement, 'service' | 'mode' | 'candidate' | 'old' | 'warm'>;

export function planReplacement(planned: NewReplacement): Replacement {
  return { ...planned, phase: 'planned', attempt: 'new', again: false, fault: null, restored: false };
}

export const isOver = ({ phase }: Replacement): boolean => phase === 'done' || phase === 'failed';

/** Nothing has been decided: giving up leaves everything as it was. */
export function isCancellable({ mode, phase, attempt }: Replacement): boolean {
  if (attempt === 'old') return false;
  return phase === 'planned' || (mode === 'overlap' && (phase === 'starting' || phase === 'probing'));
}

/** Events that do not belong to the phase change nothing. */
export function step(state: Replacement, event: ReplacementEvent): Replacement {
  const to = (phase: ReplacementPhase, more: Partial<Replacement> = {}): Replacement => ({ ...state, ...more, phase });
  if (event.kind === 'failed') return failed(state, event.fault);
  switch (state.phase) {
    case 'planned':
      if (event.kind !== 'begin') return state;
      if (state.mode === 'sequential') return to(state.old === null ? 'stopping' : 'withdrawing');
      return to(state.warm ? 'probing' : 'starting');
    case 'withdrawing':
      return event.kind === 'withdrawn' ? to('stopping') : state;
    case 'stopping':
      return event.kind === 'stopped' ? to('starting') : state;
    case 'starting':
      return event.kind === 'started' ? to('probing') : state;
    case 'probing':
      return event.kind === 'ready' ? to('publishing') : state;
    case 'publishing':
      if (event.kind !== 'published') return state;
      return state.attempt === 'new' ? to('done') : to('failed', { restored: true });
    case 'discarding':
      return event.kind === 'discarded' ? afterDiscard(state, event.fresh) : state;
    case 'reinstating':
      return event.kind === 'published' ? to('failed', { restored: true }) : state;
    case 'done':
    case 'failed':
      return state;
  }
}

function failed(state: Replacement, fault: ReplacementFault): Replacement {
  const kept = { ...state, fault: state.fault ?? fault };
  switch (state.phase) {
    case 'planned':
    case 'withdrawing':
      // Nothing was touched: a withdrawal that failed blocks the stop.
      return { ...kept, phase: 'failed', restored: true };
    case 'stopping':
      return { ...kept, phase: state.old === null ? 'failed' : 'reinstating' };
    case 'starting':
    case 'publishing':
      return { ...kept, phase: 'discarding' };
    case 'probing':
      // A generation that served before is left to whoever stops it.
      return state.warm ? { ...kept, phase: 'failed', restored: true } : { ...kept, phase: 'discarding' };
    case 'discarding':
    case 'reinstating':
      // What cannot be stopped now is stopped later; two alive would be worse than none.
      return { ...kept, phase: 'failed' };
    case 'done':
    case 'failed':
      return state;
  }
}

function afterDiscard(state: Replacement, fresh: string): Replacement {
  if (state.again) return { ...state, phase: 'starting', candidate: fresh, again: false };
  if (state.mode === 'overlap') return { ...state, phase: 'failed', restored: state.old !== null };
  if (state.attempt === 'new' && state.old !== null) {
    return { ...state, phase: 'starting', attempt: 'old', candidate: fresh };
  }
  return { ...state, phase: 'failed' };
}

/** What the state store says after a restart of ours. */
export interface RecoveryFacts {
  /** Instance that has the traffic; null: it was withdrawn, or there never was one. */
  readonly serving: string | null;
  /** Something earlier in the same deploy is decided: it has to go on. */
  readonly forward: boolean;
}

export const interrupted: ReplacementFault = {
  code: 'deploy-failed',
  detail: 'Turnpike ended meanwhile; nothing was decided, and it was undone',
};

/** The phase to go on with: what was decided is finished, what was not is undone. */
export function recover(state: Replacement, { serving, forward }: RecoveryFacts): Replacement {
  const withdrawn = state.old !== null && serving === null;
  switch (state.phase) {
    case 'planned':
      return forward ? state : { ...state, phase: 'failed', fault: interrupted, restored: true };
    case 'withdrawing':
      if (withdrawn) return { ...state, phase: 'stopping' };
      return forward ? state : { ...state, phase: 'failed', fault: interrupted, restored: true };
    case 'publishing':
      if (serving === state.candidate) return step(state, { kind: 'published' });
      return undo(state, forward);
    case 'starting':
    case 'probing':
      return undo(state, forward);
    case 'discarding':
      return state;
    case 'stopping':
    case 'reinstating':
    case 'done':
    case 'failed':
      return serving !== null && serving === state.old && state.phase === 'reinstating'
        ? { ...state, phase: 'failed', restored: true }
        : state;
  }
}

/** A candidate that was on its way may run or not: it is stopped in any case. */
function undo(state: Replacement, forward: boolean): Replacement {
  // Without connections nothing drains, so there is nothing warm any more.
  const cold = { ...state, phase: 'discarding', warm: false } as const;
  if (state.mode === 'sequential' || forward) return { ...cold, again: true };
  return { ...cold, fault: state.fault ?? interrupted };
}

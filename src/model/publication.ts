// One publication as a machine without I/O: prepare → hold → persist → commit, over workers that may refuse, hang or die.
// Invariant: every failure before `persisted` ends in `aborted` with every asked worker told so; after it the publication
// can only succeed, and a worker that does not follow is killed.

export interface PublicationFault {
  readonly code: string;
  readonly detail: string;
}

export type PublicationPhase = 'idle' | 'preparing' | 'holding' | 'persisting' | 'committing' | 'published' | 'aborted';
/** What workers are asked to do, in this order. */
export type Move = 'prepare' | 'hold' | 'commit';

/** Milliseconds that every worker has for a move. */
export const moveDeadlines: Readonly<Record<Move, number>> = { prepare: 10_000, hold: 500, commit: 2_000 };

export interface Publication {
  readonly phase: PublicationPhase;
  /** Whether live traffic moves, so that arrivals wait between the first and the last commit. */
  readonly holds: boolean;
  /** Workers that take part. One that left during the commit is no longer listed. */
  readonly workers: readonly string[];
  /** Those of `workers` that have not answered the move of this phase. */
  readonly silent: readonly string[];
  readonly fault: PublicationFault | null;
}

export type PublicationEvent =
  | { readonly kind: 'begin' }
  | { readonly kind: 'agreed'; readonly move: Move; readonly worker: string }
  | { readonly kind: 'refused'; readonly move: Move; readonly worker: string; readonly fault: PublicationFault }
  | { readonly kind: 'left'; readonly worker: string }
  | { readonly kind: 'deadline'; readonly move: Move }
  | { readonly kind: 'persisted' }
  | { readonly kind: 'not-persisted'; readonly fault: PublicationFault };

export type PublicationEffect =
  | { readonly kind: 'ask'; readonly move: Move; readonly workers: readonly string[]; readonly deadlineMs: number }
  | { readonly kind: 'persist' }
  | { readonly kind: 'abort'; readonly workers: readonly string[] }
  | { readonly kind: 'kill'; readonly workers: readonly string[] }
  | { readonly kind: 'finish' };

export interface PublicationStep {
  readonly state: Publication;
  readonly effects: readonly PublicationEffect[];
}

export function newPublication(workers: readonly string[], holds: boolean): Publication {
  return { phase: 'idle', holds, workers, silent: [], fault: null };
}

/** Events of another phase (a late answer, the deadline of a move that is over) change nothing. */
export function step(state: Publication, event: PublicationEvent): PublicationStep {
  const stay: PublicationStep = { state, effects: [] };
  switch (event.kind) {
    case 'begin':
      return state.phase === 'idle' ? ask(state, 'prepare') : stay;
    case 'agreed': {
      if (event.move !== moveOf(state.phase) || !state.silent.includes(event.worker)) return stay;
      const next = { ...state, silent: state.silent.filter((worker) => worker !== event.worker) };
      return next.silent.length === 0 ? advance(next) : { state: next, effects: [] };
    }
    case 'refused':
      if (event.move !== moveOf(state.phase)) return stay;
      // Nothing can fail in a commit; a worker that says otherwise is broken and makes room for a whole one.
      if (event.move === 'commit') return { state, effects: [{ kind: 'kill', workers: [event.worker] }] };
      return abort(state, event.fault);
    case 'left': {
      if (!state.workers.includes(event.worker)) return stay;
      if (state.phase === 'preparing' || state.phase === 'holding') {
        return abort(
          { ...state, workers: without(state.workers, event.worker) },
          { code: 'publish-refused', detail: `worker ${event.worker} died during ${moveOf(state.phase)}` },
        );
      }
      if (state.phase === 'published' || state.phase === 'aborted') return stay;
      const next = {
        ...state,
        workers: without(state.workers, event.worker),
        silent: without(state.silent, event.worker),
      };
      return next.phase === 'committing' && next.silent.length === 0 ? advance(next) : { state: next, effects: [] };
    }
    case 'deadline':
      if (event.move !== moveOf(state.phase) || state.silent.length === 0) return stay;
      // A killed worker serves until it is gone: `left` counts, not the signal.
      if (event.move === 'commit') return { state, effects: [{ kind: 'kill', workers: state.silent }] };
      return abort(state, {
        code: 'publish-timeout',
        detail: `no answer to ${event.move} within ${moveDeadlines[event.move]} ms from worker ${state.silent.join(', ')}`,
      });
    case 'persisted':
      return state.phase === 'persisting' ? ask(state, 'commit') : stay;
    case 'not-persisted':
      return state.phase === 'persisting' ? abort(state, event.fault) : stay;
  }
}

function advance(state: Publication): PublicationStep {
  switch (state.phase) {
    case 'preparing':
      return state.holds ? ask(state, 'hold') : persist(state);
    case 'holding':
      return persist(state);
    default:
      return { state: { ...state, phase: 'published' }, effects: [{ kind: 'finish' }] };
  }
}

function ask(state: Publication, move: Move): PublicationStep {
  const next: Publication = { ...state, phase: phaseOf[move], silent: state.workers };
  // Nobody to ask: at the first start, or while every worker is being replaced.
  if (state.workers.length === 0) return advance(next);
  return {
    state: next,
    effects: [{ kind: 'ask', move, workers: state.workers, deadlineMs: moveDeadlines[move] }],
  };
}

function persist(state: Publication): PublicationStep {
  return { state: { ...state, phase: 'persisting', silent: [] }, effects: [{ kind: 'persist' }] };
}

function abort(state: Publication, fault: PublicationFault): PublicationStep {
  return {
    state: { ...state, phase: 'aborted', silent: [], fault },
    effects: [{ kind: 'abort', workers: state.workers }, { kind: 'finish' }],
  };
}

const phaseOf: Readonly<Record<Move, PublicationPhase>> = {
  prepare: 'preparing',
  hold: 'holding',
  commit: 'committing',
};

function moveOf(phase: PublicationPhase): Move | null {
  switch (phase) {
    case 'preparing':
      return 'prepare';
    case 'holding':
      return 'hold';
    case 'committing':
      return 'commit';
    default:
      return null;
  }
}

const without = (list: readonly string[], item: string): readonly string[] => list.filter((each) => each !== item);

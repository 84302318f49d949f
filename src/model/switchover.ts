// One switch of a service to other backends, as a machine without I/O: what happened so far, and what to do next.
// Invariant: before `committed` every failure ends in `aborted` and asks for no change; from `committed` on there is no
// way back, only forward to `done`.

export type SwitchPhase =
  | 'reserved'
  | 'probing'
  | 'preparing'
  | 'holding'
  | 'committed'
  | 'draining'
  | 'done'
  | 'aborted';

export interface SwitchFault {
  readonly code: string;
  readonly detail: string;
}

export interface Switchover {
  readonly id: string;
  readonly service: string;
  /** Number of the generation that serves when the switch begins. */
  readonly from: number;
  /** Number of the generation that took over; null before `committed`. */
  readonly to: number | null;
  readonly addresses: readonly string[];
  readonly phase: SwitchPhase;
  /** Addresses that have not passed their probe yet. */
  readonly unproven: readonly string[];
  readonly fault: SwitchFault | null;
}

export type SwitchEvent =
  | { readonly kind: 'begin'; readonly probe: boolean }
  | { readonly kind: 'probe-passed'; readonly address: string }
  | { readonly kind: 'probe-failed'; readonly address: string; readonly detail: string }
  | { readonly kind: 'holding' }
  /** Every worker serves the new generation. */
  | { readonly kind: 'committed'; readonly generation: number }
  | { readonly kind: 'refused'; readonly fault: SwitchFault }
  | { readonly kind: 'draining' }
  | { readonly kind: 'drained' };

export type SwitchEffect =
  | { readonly kind: 'probe'; readonly addresses: readonly string[] }
  | { readonly kind: 'stop-probes' }
  | { readonly kind: 'publish' }
  /** Another switch of this service may begin. */
  | { readonly kind: 'release' };

export interface SwitchStep {
  readonly state: Switchover;
  readonly effects: readonly SwitchEffect[];
}

export function reserve(id: string, service: string, from: number, addresses: readonly string[]): Switchover {
  return { id, service, from, to: null, addresses, phase: 'reserved', unproven: addresses, fault: null };
}

/** Events that do not belong to the phase change nothing: a late probe result, a second acknowledgement. */
export function step(state: Switchover, event: SwitchEvent): SwitchStep {
  const stay: SwitchStep = { state, effects: [] };
  switch (event.kind) {
    case 'begin':
      if (state.phase !== 'reserved') return stay;
      if (event.probe && state.unproven.length > 0) {
        return {
          state: { ...state, phase: 'probing' },
          effects: [{ kind: 'probe', addresses: state.unproven }],
        };
      }
      return publish(state);
    case 'probe-passed': {
      if (state.phase !== 'probing') return stay;
      const unproven = state.unproven.filter((address) => address !== event.address);
      const next = { ...state, unproven };
      return unproven.length === 0 ? publish(next) : { state: next, effects: [] };
    }
    case 'probe-failed':
      if (state.phase !== 'probing') return stay;
      return abort(state, { code: 'probe-failed', detail: `${event.address}: ${event.detail}` });
    case 'holding':
      return state.phase === 'preparing' ? { state: { ...state, phase: 'holding' }, effects: [] } : stay;
    case 'refused':
      return state.phase === 'preparing' || state.phase === 'holding' ? abort(state, event.fault) : stay;
    case 'committed':
      // Nothing is held when no traffic moves, so `preparing` may come here too.
      if (state.phase !== 'preparing' && state.phase !== 'holding') return stay;
      return { state: { ...state, phase: 'committed', to: event.generation }, effects: [{ kind: 'release' }] };
    case 'draining':
      return state.phase === 'committed' ? { state: { ...state, phase: 'draining' }, effects: [] } : stay;
    case 'drained':
      return state.phase === 'draining' ? { state: { ...state, phase: 'done' }, effects: [] } : stay;
  }
}

function publish(state: Switchover): SwitchStep {
  return { state: { ...state, phase: 'preparing' }, effects: [{ kind: 'publish' }] };
}

function abort(state: Switchover, fault: SwitchFault): SwitchStep {
  const effects: SwitchEffect[] = [{ kind: 'release' }];
  return {
    state: { ...state, phase: 'aborted', fault },
    effects: state.phase === 'probing' ? [{ kind: 'stop-probes' }, ...effects] : effects,
  };
}

// When a backend counts as up or down: only N results in a row flip it.
// Invariant: pure; a state that holds is returned unchanged (same object) except for its counter.

export interface BackendHealth {
  readonly up: boolean;
  /** Results in a row that contradict `up`. */
  readonly against: number;
}

export interface FlipRules {
  readonly healthyAfter: number;
  readonly unhealthyAfter: number;
}

/** A backend nobody has looked at yet takes traffic: a proxy that starts must not answer 503 until its first probe. */
export const unknownHealth: BackendHealth = { up: true, against: 0 };

export function observe(health: BackendHealth, ok: boolean, rules: FlipRules): BackendHealth {
  if (ok === health.up) return health.against === 0 ? health : { ...health, against: 0 };
  const against = health.against + 1;
  const needed = health.up ? rules.unhealthyAfter : rules.healthyAfter;
  return against >= needed ? { up: ok, against: 0 } : { ...health, against };
}

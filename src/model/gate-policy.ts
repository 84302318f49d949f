// What the gate does with requests of an app: the declared policy, and what the operator set at run time. Pure.
// Invariant: an override decides about the login and nothing else; without a word to the contrary a login is asked for.
import type { GatePart, GateSettings, RouteGate } from './snapshot.ts';

export interface EffectivePolicy {
  /** Without a session or a token of this app a request goes no further. */
  readonly login: boolean;
  /** Fields that forbid framing are changed so that the dashboard may frame the app. */
  readonly frames: boolean;
  /** While the app is down people get a page that waits for it, others a 503. */
  readonly retryPage: boolean;
  readonly source: 'declared' | 'override';
}

const day = 24 * 3_600_000;

export const defaultGateSettings: GateSettings = {
  host: null,
  port: null,
  sessionIdleMs: 7 * day,
  sessionAbsoluteMs: 30 * day,
  dashboardOrigins: [],
  singleSignOn: null,
  forwardAuth: null,
  https: 'allow',
};

export function effectivePolicy({ app, policy }: RouteGate, { overrides }: GatePart): EffectivePolicy {
  // An app may be called `constructor`.
  const override = Object.hasOwn(overrides, app) ? overrides[app]! : null;
  const fronted = policy !== 'session';
  return {
    login: override ?? policy !== 'open',
    frames: fronted,
    retryPage: fronted,
    source: override === null ? 'declared' : 'override',
  };
}

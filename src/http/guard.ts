// What the gate does with the requests and answers of one route, worked out with its plan.
// Invariant: on a machine with a gate no route lets the gate's credentials through to an app, or an app's word for ours
// through to a browser; routes that ask for no login have a guard for that alone.
import type { Cell } from '../base/metrics.ts';
import { stripTokens } from '../gate/authorization.ts';
import { dropForeignSetCookies, type StrippedCookie, stripCookies, stripVisits } from '../gate/cookies.ts';
import { type Identity, LiveSession } from '../gate/credentials.ts';
import { fixFrameFields } from '../gate/frame-fields.ts';
import { removeClaims, removeOwnClaims, removeSpelled, setIdentity } from '../gate/identity-fields.ts';
import { originOf } from '../gate/origin.ts';
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import type { ConnectionFacts } from '../message/stream.ts';
import { type EffectivePolicy, effectivePolicy } from '../model/gate-policy.ts';
import type { GatePart, GateSettings, RouteGate } from '../model/snapshot.ts';

/** By what a request passed. */
export interface Passed {
  readonly identity: Identity | null;
  /** The last line of cookies of its connection. */
  readonly stripped: StrippedCookie;
  /** Fields that another program gave for the app. */
  readonly vouched: readonly (readonly [name: string, value: string])[];
}

export class RouteGuard {
  /** Null: the route is no app's of the gate. */
  readonly gate: RouteGate | null;
  readonly policy: EffectivePolicy | null;
  readonly #settings: GateSettings;
  readonly #foreignCookies: Cell;

  constructor(gate: RouteGate | null, part: GatePart, foreignCookies: Cell) {
    this.gate = gate;
    this.policy = gate === null ? null : effectivePolicy(gate, part);
    this.#settings = part.settings;
    this.#foreignCookies = foreignCookies;
  }

  /** A try at a backend begins. Doing it twice is harmless. */
  prepareRequest(fields: Fields, pass: Passed | null): void {
    const { gate } = this;
    stripTokens(fields);
    if (gate === null) {
      stripCookies(fields);
      removeOwnClaims(fields);
      return;
    }
    const identity = pass === null ? null : pass.identity;
    if (gate.sessionPassthrough && gate.policy === 'gated' && identity instanceof LiveSession) stripVisits(fields);
    else stripCookies(fields, pass === null ? null : pass.stripped);
    removeClaims(fields);
    if (this.#settings.forwardAuth !== null) removeSpelled(fields, this.#settings.forwardAuth.copyHeaders);
    if (identity !== null) setIdentity(fields, identity, gate.app);
    if (pass !== null) for (const [name, value] of pass.vouched) fields.add(name, value);
  }

  /** What only the other program may say is not said at the end either. Claims are no trailers on any route. */
  prepareRequestTrailers(fields: Fields): void {
    const { forwardAuth } = this.#settings;
    if (this.gate !== null && forwardAuth !== null) removeSpelled(fields, forwardAuth.copyHeaders);
  }

  /** @param host  canonical host of the request */
  prepareResponse(fields: Fields, connection: ConnectionFacts, host: string): void {
    if (fields.has(FieldId.SetCookie)) this.#foreignCookies.value += dropForeignSetCookies(fields);
    if (this.policy?.frames !== true) return;
    const { ids } = fields;
    for (let i = 0; i < ids.length; i++) {
      switch (ids[i]) {
        case FieldId.XFrameOptions:
        case FieldId.ContentSecurityPolicy:
        case FieldId.ContentSecurityPolicyReportOnly:
          fixFrameFields(fields, this.ancestors(connection.tls !== null, host));
          return;
      }
    }
  }

  /** The app itself, and wherever the dashboard may be for whoever uses this name. */
  ancestors(secure: boolean, host: string): string {
    const { port, host: gateHost, dashboardOrigins } = this.#settings;
    const sources = ["'self'"];
    if (port !== null) sources.push(originOf(secure, host, port));
    if (gateHost !== null) sources.push(originOf(true, gateHost, null));
    return [...sources, ...dashboardOrigins].join(' ');
  }
}

/** Some spelling of a path could lead past a login: routes or rules of this host tell paths apart. */
export function pathsDecide(gates: readonly (RouteGate | null)[]): boolean {
  const gated = gates.filter((gate) => gate !== null);
  if (gated.length === 0) return false;
  if (gated.some(({ openPaths, upgradeOpenPaths }) => openPaths.length + upgradeOpenPaths.length > 0)) return true;
  return gates.some((gate) => gate === null || gate.app !== gated[0]!.app || gate.policy !== gated[0]!.policy);
}

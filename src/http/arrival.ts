// What is to be done with a request: refuse it, answer it, or forward it. Decided anew after a hold and for a second try.
// Invariant: reads the request, its connection and the plans, and changes nothing; the order of the questions is the
// order in which `turnpike explain` tells them.
import { Fault } from '../base/fault.ts';
import { reservedPath } from '../gate/return-path.ts';
import { FieldId } from '../message/field-id.ts';
import type { RequestHead } from '../message/head.ts';
import type { Reason } from '../model/reason.ts';
import type { RouteAction } from '../model/snapshot.ts';
import type { Answer } from './answer.ts';
import type { ConnectionPlan } from './connection-plan.ts';
import type { HostMatch } from './host-match.ts';
import { judgePlaintextRequest } from './plaintext.ts';
import type { RoutePlan } from './plans.ts';
import { fixedAnswer, redirectAnswer } from './respond.ts';
import { applySite } from './response-headers.ts';

export type Arrival =
  | { readonly kind: 'refuse'; readonly fault: Fault; readonly reason: Reason | null }
  | { readonly kind: 'answer'; readonly answer: Answer; readonly reason: Reason }
  /** Another program has to say whether it may pass. */
  | { readonly kind: 'ask' }
  /** One of the gate's own addresses. */
  | { readonly kind: 'visit' }
  /** The route's own action: nothing is allocated for what nearly every request comes to. */
  | Extract<RouteAction, { kind: 'forward' }>;

/** Who asks the gate. */
export interface Doorman {
  /** Null: the request may pass to the app behind this route. */
  refusal(plan: RoutePlan, match: HostMatch): Arrival | null;
}

const visit: Arrival = { kind: 'visit' };

/** @param plan  the route of the matched host for this target, if there is one */
export function judgeArrival(
  head: RequestHead,
  connection: ConnectionPlan,
  match: HostMatch,
  plan: RoutePlan | null,
  doorman: Doorman,
): Arrival {
  if (match.plan === null) return refuse(match.fault!, match.faultReason);
  const problem = requestProblem(head);
  if (problem !== null) return refuse(problem);
  if (connection.facts.tls === null) {
    const verdict = judgePlaintextRequest(head, match, match.plan, connection);
    if (verdict === 'misdirected') return refuse(new Fault('misdirected', 'TLS only'), 'misdirected-plaintext');
    if (verdict !== null) return { kind: 'answer', answer: verdict, reason: 'redirect-https' };
  }
  if (match.plan.gated && head.target.startsWith(reservedPath)) return visit;
  if (plan === null) return refuse(new Fault('no-route', 'no such path'));
  if (plan.guard !== null && plan.guard.gate !== null) {
    const refusal = doorman.refusal(plan, match);
    if (refusal !== null) return refusal;
  }
  const { action, limits } = plan.route;
  if (head.bodyLength > limits.bodySize) return refuse(new Fault('body-too-large', 'declared length over the limit'));
  switch (action.kind) {
    case 'forward':
      return action;
    case 'gate':
      return visit;
    case 'respond': {
      const answer = fixedAnswer(action, plan.body, head);
      applySite(answer.head.fields, plan, connection.facts);
      return { kind: 'answer', answer, reason: 'responded' };
    }
    case 'redirect': {
      const answer = redirectAnswer(action, match.host, head);
      applySite(answer.head.fields, plan, connection.facts);
      return { kind: 'answer', answer, reason: 'redirected' };
    }
  }
}

function refuse(fault: Fault, reason: Reason | null = null): Arrival {
  return { kind: 'refuse', fault, reason };
}

/** What no route could make acceptable. */
function requestProblem(head: RequestHead): Fault | null {
  // Only RFC 8441 makes a CONNECT of a WebSocket; a plain one would turn us into a forward proxy.
  if (head.method === 'CONNECT' && head.upgrade === '') return new Fault('method-refused', 'CONNECT');
  const expectations = head.version >= 11 ? head.fields.count(FieldId.Expect) : 0;
  if (expectations > (head.expectContinue ? 1 : 0)) {
    return new Fault('expectation-failed', 'unknown expectation');
  }
  return null;
}

// What the gate makes of one request: judged at every arrival, remembered until the exchange ends.
// Invariant: an identity knows of the exchange exactly while a backend works for it, so that its end reaches all it opened.
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { StrippedCookie } from '../gate/cookies.ts';
import type { Admitted, Identity } from '../gate/credentials.ts';
import type { Gatekeeper } from '../gate/gatekeeper.ts';
import { pathOf } from '../gate/path.ts';
import { isOwnOrigin, judge } from '../gate/verdict.ts';
import type { RequestHead } from '../message/head.ts';
import { type Answer, faultAnswer } from './answer.ts';
import type { Arrival } from './arrival.ts';
import type { ConnectionPlan } from './connection-plan.ts';
import { challengeAnswer, deniedAnswer, outsideAnswer } from './gate-answers.ts';
import type { RouteGuard } from './guard.ts';
import type { HostMatch } from './host-match.ts';
import type { OutsideAuth } from './outside-auth.ts';
import { RequestVisitor } from './visitor.ts';

/** The exchange, as the gate sees it. */
export interface PassHolder extends Admitted {
  readonly head: RequestHead;
  readonly connection: ConnectionPlan;
  readonly clientAddress: string;
  readonly record: { readonly requestId: string };
}

const ask: Arrival = { kind: 'ask' };
const nothing: readonly (readonly [string, string])[] = [];

export class GatePass {
  /** What the request showed, before anything of it was changed. */
  readonly visitor: RequestVisitor;
  readonly #holder: PassHolder;
  readonly #keeper: Gatekeeper;
  #identity: Identity | null = null;
  /** It passed by a rule for upgrades: any other answer than one is not for it. */
  upgradeOnly = false;

  constructor(holder: PassHolder, match: HostMatch, keeper: Gatekeeper) {
    this.#holder = holder;
    this.#keeper = keeper;
    this.visitor = new RequestVisitor(holder.head, holder.connection, match, holder.clientAddress);
  }

  get stripped(): StrippedCookie {
    return this.#holder.connection.credentials.stripped;
  }

  get identity(): Identity | null {
    return this.#identity;
  }

  /** The other program lets it through to this app, and the app gets these fields. */
  #vouched: { readonly app: string; readonly fields: readonly (readonly [string, string])[] } | null = null;

  /** Fields that the other program gave for the app. */
  get vouched(): readonly (readonly [string, string])[] {
    return this.#vouched === null ? nothing : this.#vouched.fields;
  }

  /** Null: the request may pass. */
  refusal({ gate, policy }: RouteGuard, match: HostMatch): Arrival | null {
    const { head, record, clientAddress } = this.#holder;
    const { visitor } = this;
    const keeper = this.#keeper;
    visitor.path = pathOf(head.target);
    const verdict = judge(gate!, policy!, visitor, keeper);
    this.leave();
    switch (verdict.kind) {
      case 'pass':
        this.#identity = verdict.identity;
        this.upgradeOnly = verdict.upgradeOnly;
        if (verdict.identity !== null) keeper.used(verdict.identity, clientAddress);
        return null;
      case 'challenge': {
        const waitSeconds = verdict.wrongToken ? keeper.failed(visitor.token!, clientAddress) : 0;
        if (waitSeconds > 0) {
          const fault = new Fault('login-throttled', 'wrong tokens');
          return {
            kind: 'answer',
            answer: faultAnswer(fault, head, record.requestId, waitSeconds),
            reason: 'throttled',
          };
        }
        if (this.#vouched !== null && this.#vouched.app === gate!.app) return null;
        if (match.plans.gatePart.settings.forwardAuth !== null) {
          // Cookies of the other program ride along with whatever a page of a stranger sends, too.
          if (!visitor.upgrade || isOwnOrigin(gate!, visitor)) return ask;
          return { kind: 'answer', answer: deniedAnswer('origin', head, record.requestId), reason: 'forbidden' };
        }
        const answer = challengeAnswer(head, match, visitor, gate!.app, record.requestId);
        return { kind: 'answer', answer, reason: 'login' };
      }
      case 'deny':
        return { kind: 'answer', answer: deniedAnswer(verdict.why, head, record.requestId), reason: 'forbidden' };
    }
  }

  /** Asks the other program. `answered` gets null when the request may arrive anew. Returns how to take it back. */
  ask(
    { gate }: RouteGuard,
    { plans }: HostMatch,
    { outside, log }: { readonly outside: OutsideAuth; readonly log: Log },
    answered: (refusal: Answer | null) => void,
  ): () => void {
    const { head, record } = this.#holder;
    return outside.ask(plans.gatePart.settings.forwardAuth!, head, this.visitor, (verdict) => {
      if (verdict.kind === 'unknown') log.warn('gate-forward-auth', { detail: verdict.detail });
      if (verdict.kind === 'pass') this.#vouched = { app: gate!.app, fields: verdict.fields };
      answered(verdict.kind === 'pass' ? null : outsideAnswer(verdict, head, record.requestId));
    });
  }

  /** A backend works for it from now on. */
  enter(): void {
    this.#identity?.admitted.add(this.#holder);
  }

  leave(): void {
    this.#identity?.admitted.delete(this.#holder);
    this.#identity = null;
  }
}

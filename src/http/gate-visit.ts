// A request for one of the gate's own addresses: its form is read, to a bound, and the gate answers.
// Invariant: nothing of it is ever forwarded; the answer comes once, or not at all when the client left first.
import { Fault } from '../base/fault.ts';
import { isForm } from '../gate/client-kind.ts';
import type { Gatekeeper } from '../gate/gatekeeper.ts';
import { liveSession } from '../gate/verdict.ts';
import { answerVisit } from '../gate/visit.ts';
import type { VisitReply, VisitRequest } from '../gate/visit-request.ts';
import { Fields } from '../message/fields.ts';
import type { RequestHead } from '../message/head.ts';
import type { ClientStream } from '../message/stream.ts';
import type { HostMatch } from './host-match.ts';
import type { RequestVisitor } from './visitor.ts';

/** The exchange, as a visit sees it. */
export interface VisitHost {
  readonly head: RequestHead;
  readonly client: ClientStream;
  readonly requestEnded: boolean;
  visitAnswered(reply: VisitReply): void;
  fail(fault: Fault): void;
  bug(error: unknown): void;
}

const formMax = 8192;

export class GateVisit {
  readonly #exchange: VisitHost;
  readonly #match: HostMatch;
  readonly #visitor: RequestVisitor;
  readonly #keeper: Gatekeeper;
  #chunks: Buffer[] = [];
  #size = 0;
  #over = false;

  constructor(exchange: VisitHost, match: HostMatch, visitor: RequestVisitor, keeper: Gatekeeper) {
    this.#exchange = exchange;
    this.#match = match;
    this.#visitor = visitor;
    this.#keeper = keeper;
  }

  begin(): void {
    const { head, client, requestEnded } = this.#exchange;
    if (requestEnded || head.method !== 'POST' || !isForm(head) || head.bodyLength > formMax) {
      this.#answer(null);
      return;
    }
    if (head.expectContinue) client.sendInformation(100, new Fields());
    client.resumeBody();
  }

  requestData(chunk: Buffer): void {
    this.#size += chunk.length;
    if (this.#size > formMax) this.#exchange.fail(new Fault('body-too-large', 'more than a form of ours can hold'));
    else this.#chunks.push(chunk);
  }

  requestEnd(): void {
    this.#answer(new URLSearchParams(Buffer.concat(this.#chunks).toString('utf8')));
  }

  leave(): void {
    this.#over = true;
    this.#chunks = [];
  }

  #answer(form: URLSearchParams | null): void {
    answerVisit(this.#request(form), this.#keeper).then(
      (reply) => {
        if (!this.#over) this.#exchange.visitAnswered(reply);
      },
      (error: unknown) => {
        if (!this.#over) this.#exchange.bug(error);
      },
    );
  }

  #request(form: URLSearchParams | null): VisitRequest {
    const visitor = this.#visitor;
    const { plans, host, plan } = this.#match;
    const { method, origin, fetchSite, secure, address, ownOrigin, visits, sessions } = visitor;
    const { target } = this.#exchange.head;
    return {
      method,
      target,
      form,
      host,
      secure,
      address,
      ownOrigin,
      origin,
      fetchSite,
      visits,
      sessions,
      session: liveSession(visitor, this.#keeper),
      isOurs: (url) => plans.isGatedOrigin(url),
      isGateHost: plans.gatePart.settings.host === host,
      isDashboard: plan?.entry.host.routes.some(({ action }) => action.kind === 'gate') ?? false,
    };
  }
}

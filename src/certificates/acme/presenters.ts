// Who shows a proof: the data plane those that come over HTTP and TLS, a DNS provider the others.
// Invariant: `present` resolves when all of them are shown; what was withdrawn is in no publication that begins afterwards.
import type { ChallengesPart } from '../../model/snapshot.ts';
import { AcmeFailure } from './failure.ts';
import type { Challenge, ChallengePresenter, DnsProof } from './issuer.ts';

export interface Presenters {
  /** Makes every worker answer exactly these. */
  publish(challenges: ChallengesPart): Promise<unknown>;
  /** The provider that is configured now; null: none. */
  dns(): DnsPresenter | null;
}

export interface DnsPresenter {
  present(proofs: readonly DnsProof[], signal: AbortSignal): Promise<void>;
  /** Never rejects. */
  withdraw(proofs: readonly DnsProof[]): Promise<void>;
}

type ServedProof = Exclude<Challenge, DnsProof>;

/** Of all orders that run in this process; there is one of these. */
export class ChallengeBoard implements ChallengePresenter {
  readonly #presenters: Presenters;
  readonly #shown = new Set<ServedProof>();
  /** Whoever set a record takes it away again, also when another provider is configured by then. */
  readonly #recorded = new Map<DnsProof, DnsPresenter>();

  constructor(presenters: Presenters) {
    this.#presenters = presenters;
  }

  async present(challenges: readonly Challenge[], signal: AbortSignal): Promise<void> {
    const { served, dns } = split(challenges);
    // Both begin at once and both end before this does: a failure must not leave the other one running.
    const outcomes = await Promise.allSettled([this.#serve(served), this.#setRecords(dns, signal)]);
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  async withdraw(challenges: readonly Challenge[]): Promise<void> {
    const { served, dns } = split(challenges);
    const known = served.filter((proof) => this.#shown.delete(proof));
    await Promise.all([
      // What stays published for a while proves nothing to anybody else; the next publication takes it along.
      known.length === 0 ? null : this.#presenters.publish(this.#part()).catch(() => {}),
      ...this.#recordersOf(dns).map(([presenter, proofs]) => presenter.withdraw(proofs)),
    ]);
  }

  async #serve(proofs: readonly ServedProof[]): Promise<void> {
    if (proofs.length === 0) return;
    for (const proof of proofs) this.#shown.add(proof);
    await this.#presenters.publish(this.#part());
  }

  async #setRecords(proofs: readonly DnsProof[], signal: AbortSignal): Promise<void> {
    if (proofs.length === 0) return;
    const dns = this.#presenters.dns();
    if (dns === null) throw new AcmeFailure('presentation', 'dns-01 needs a provider, and none is configured');
    for (const proof of proofs) this.#recorded.set(proof, dns);
    await dns.present(proofs, signal);
  }

  #recordersOf(proofs: readonly DnsProof[]): readonly (readonly [DnsPresenter, readonly DnsProof[]])[] {
    const by = new Map<DnsPresenter, DnsProof[]>();
    for (const proof of proofs) {
      const presenter = this.#recorded.get(proof);
      if (presenter === undefined) continue;
      this.#recorded.delete(proof);
      by.set(presenter, [...(by.get(presenter) ?? []), proof]);
    }
    return [...by];
  }

  #part(): ChallengesPart {
    return challengesPart([...this.#shown]);
  }
}

export function challengesPart(challenges: readonly Challenge[]): ChallengesPart {
  const http: { host: string; token: string; answer: string }[] = [];
  const alpn: { name: string; chain: string; key: string }[] = [];
  for (const challenge of challenges) {
    if (challenge.kind === 'http-01') {
      http.push({ host: challenge.name, token: challenge.token, answer: challenge.answer });
    } else if (challenge.kind === 'tls-alpn-01') {
      alpn.push({ name: challenge.name, chain: challenge.chain, key: challenge.key });
    }
  }
  return { http, alpn };
}

function split(challenges: readonly Challenge[]): { served: ServedProof[]; dns: DnsProof[] } {
  const served: ServedProof[] = [];
  const dns: DnsProof[] = [];
  for (const challenge of challenges) {
    if (challenge.kind === 'dns-01') dns.push(challenge);
    else served.push(challenge);
  }
  return { served, dns };
}

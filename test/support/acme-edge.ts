// The data plane as what a CA looks at: plaintext and TLS ports that answer the challenges of the issuers made here.
// Invariant: issuers share the ports and nothing else; all are closed by `close`.
import { acmeIssuer } from '../../src/certificates/acme/acme-issuer.ts';
import type { Challenge, ChallengePresenter, Issuer, IssuerOptions } from '../../src/certificates/acme/issuer.ts';
import { ChallengeBoard } from '../../src/certificates/acme/presenters.ts';
import type { ChallengesPart, RoutingPart } from '../../src/model/snapshot.ts';
import { DataPlane } from '../unit/tcp-kit.ts';
import { MemoryAccounts } from './acme.ts';
import { fastClock, patientTimings } from './pebble.ts';
import { entrypoint, host, noChallenges, route, routing } from './routing.ts';

/** How much faster than the CA expects the waiting goes. */
export const haste = 30;

export class AcmeEdge {
  readonly plane = new DataPlane();
  readonly webPort = this.plane.lend();
  readonly securePort = this.plane.lend();
  /** Published now. */
  challenges: ChallengesPart = noChallenges;
  readonly #routing: RoutingPart;
  readonly #issuers: Issuer[] = [];
  readonly #board: ChallengeBoard;

  constructor() {
    this.#routing = routing({
      entrypoints: [
        entrypoint('web', { port: this.webPort }),
        entrypoint('secure', { port: this.securePort, protocol: 'smart_tcp' }),
      ],
      // TLS only: whatever is answered in the clear is a challenge.
      hosts: [host('app.test', [route('app', 'app')], { entrypoints: ['web', 'secure'], tls: 'always' })],
    });
    this.publish(noChallenges);
    this.#board = new ChallengeBoard({ publish: async (part) => this.publish(part), dns: () => null });
  }

  publish(challenges: ChallengesPart): void {
    this.challenges = challenges;
    this.plane.publish(this.#routing, { challenges });
  }

  get presenter(): ChallengePresenter {
    return this.#board;
  }

  /** @param ca  where its directory is and whose certificates its HTTPS has */
  issuer(ca: { readonly directoryUrl: string; readonly caPem: string }, over: Partial<IssuerOptions> = {}): Issuer {
    const issuer = acmeIssuer({
      directoryUrl: ca.directoryUrl,
      caPem: ca.caPem,
      contacts: ['ops@app.test'],
      externalAccount: null,
      accounts: new MemoryAccounts(),
      presenter: this.#board,
      clock: fastClock(haste),
      timings: patientTimings,
      ...over,
    });
    this.#issuers.push(issuer);
    return issuer;
  }

  async close(): Promise<void> {
    for (const issuer of this.#issuers) await issuer.close();
    await this.plane.close();
  }
}

/** Shows everything through another presenter, and keeps what was shown and withdrawn. */
export class WatchedPresenter implements ChallengePresenter {
  readonly shown: Challenge[] = [];
  readonly withdrawn: Challenge[] = [];
  readonly #inner: ChallengePresenter;

  constructor(inner: ChallengePresenter) {
    this.#inner = inner;
  }

  present(challenges: readonly Challenge[], signal: AbortSignal): Promise<void> {
    this.shown.push(...challenges);
    return this.#inner.present(challenges, signal);
  }

  withdraw(challenges: readonly Challenge[]): Promise<void> {
    this.withdrawn.push(...challenges);
    return this.#inner.withdraw(challenges);
  }
}

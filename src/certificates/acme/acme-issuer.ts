// A certificate authority that speaks ACME (RFC 8555), with what belongs to it: renewal information (RFC 9773), profiles,
// external accounts, addresses as names (RFC 8738).
// Invariant: all that is known between two calls is the account, the directory for an hour, and nonces.

import { readChain } from '../x509.ts';
import { Account, asFailure } from './account.ts';
import { renewalId } from './chain.ts';
import { AcmeFailure } from './failure.ts';
import { HttpClient } from './http.ts';
import type {
  DirectoryMeta,
  Issued,
  Issuer,
  IssuerOptions,
  IssuerTimings,
  OrderWish,
  RenewalWindow,
  RevocationReason,
} from './issuer.ts';
import { runOrder } from './order.ts';
import { printable, retryAfter } from './problem.ts';
import { Session } from './session.ts';

const defaultTimings: IssuerTimings = {
  requestMs: 30_000,
  validationMs: 180_000,
  issuanceMs: 180_000,
  pollMs: 1000,
};

/** RFC 5280 §5.3.1 */
const reasonCodes: Readonly<Record<RevocationReason, number>> = {
  unspecified: 0,
  'key-compromise': 1,
  'affiliation-changed': 3,
  superseded: 4,
  cessation: 5,
};

export function acmeIssuer(options: IssuerOptions): Issuer {
  return new AcmeIssuer(options);
}

class AcmeIssuer implements Issuer {
  readonly directoryUrl: string;
  readonly #options: IssuerOptions;
  readonly #timings: IssuerTimings;
  readonly #http: HttpClient;
  readonly #session: Session;
  readonly #account: Account;

  constructor(options: IssuerOptions) {
    const { directoryUrl, clock, caPem, accounts, contacts, externalAccount } = options;
    this.directoryUrl = directoryUrl;
    this.#options = options;
    this.#timings = { ...defaultTimings, ...options.timings };
    this.#http = new HttpClient({ clock, caPem, timeoutMs: this.#timings.requestMs });
    this.#session = new Session(directoryUrl, this.#http, clock);
    this.#account = new Account(this.#session, { store: accounts, contacts, externalAccount });
  }

  issue(wish: OrderWish, signal: AbortSignal): Promise<Issued> {
    const { presenter, clock } = this.#options;
    const { validationMs, issuanceMs, pollMs } = this.#timings;
    const deps = {
      session: this.#session,
      account: this.#account,
      presenter,
      clock,
      validationMs,
      issuanceMs,
      pollMs,
    };
    return failing(runOrder(wish, deps, signal));
  }

  renewalInfo(chainPem: string, signal: AbortSignal): Promise<RenewalWindow | null> {
    return failing(this.#renewalInfo(chainPem, signal));
  }

  revoke(chainPem: string, reason: RevocationReason, signal: AbortSignal): Promise<void> {
    return failing(this.#revoke(chainPem, reason, signal));
  }

  rolloverKey(newKeyPem: string, signal: AbortSignal): Promise<void> {
    return failing(this.#account.rollover(newKeyPem, signal));
  }

  directoryMeta(signal: AbortSignal): Promise<DirectoryMeta> {
    return failing(this.#session.directory(signal).then(({ meta }) => meta));
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  async #renewalInfo(chainPem: string, signal: AbortSignal): Promise<RenewalWindow | null> {
    const { renewalInfo } = await this.#session.directory(signal);
    const id = renewalId(chainPem);
    if (renewalInfo === null || id === null) return null;
    const answer = await this.#session.get(`${renewalInfo.replace(/\/$/, '')}/${id}`, 'renewal information', signal);
    const window = readWindow(answer.text);
    if (window === null) throw new AcmeFailure('server', 'the CA sent renewal information that is none');
    return { ...window, retryAfterMs: retryAfter(answer, this.#options.clock.now()) };
  }

  async #revoke(chainPem: string, reason: RevocationReason, signal: AbortSignal): Promise<void> {
    const [leaf] = readChain(chainPem);
    if (leaf === undefined) throw new AcmeFailure('rejected', 'there is no certificate to revoke');
    const { revokeCert } = await this.#session.directory(signal);
    const payload = { certificate: leaf.raw.toString('base64url'), reason: reasonCodes[reason] };
    try {
      await this.#account.ask({ url: revokeCert, payload, what: 'revocation' }, signal);
    } catch (error) {
      // RFC 8555 §7.6: it is as the operator wants it.
      if (asFailure(error).problemType !== 'alreadyRevoked') throw error;
    }
  }
}

/** RFC 9773 §4.2. Null: unreadable, or an end that is not after its start. */
export function readWindow(text: string): Omit<RenewalWindow, 'retryAfterMs'> | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const { suggestedWindow, explanationURL } = (value ?? {}) as Record<string, unknown>;
  const { start, end } = (suggestedWindow ?? {}) as Record<string, unknown>;
  if (typeof start !== 'string' || typeof end !== 'string') return null;
  const window = { start: Date.parse(start), end: Date.parse(end) };
  if (!(window.end > window.start)) return null;
  const explanationUrl = typeof explanationURL === 'string' ? printable(explanationURL) : null;
  return { ...window, explanationUrl };
}

async function failing<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw asFailure(error);
  }
}

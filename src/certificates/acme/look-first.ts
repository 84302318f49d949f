// The look before a first order, for real: the name's addresses, and what answers at the place where a CA would ask.
// Invariant: ends within seconds and never rejects; a failure of the look itself is no doubt.
import { randomBytes } from 'node:crypto';
import { Resolver } from 'node:dns/promises';
import type { Clock } from '../../base/clock.ts';
import { isPublicAddress } from '../../config/acme-names.ts';
import { AcmeFailure } from './failure.ts';
import { HttpClient } from './http.ts';
import type { ChallengePresenter, HttpProof } from './issuer.ts';
import { bareAddress } from './names.ts';
import type { Doubt, Preflight } from './preflight.ts';

export interface LookFirstDeps {
  /** `host:port`; empty: the system's. */
  readonly resolvers: readonly string[];
  readonly presenter: ChallengePresenter;
  readonly clock: Clock;
  /** A CA of the public is to look: what only neighbours reach is worth a word. */
  readonly publicCa: boolean;
  /** Where a CA asks; another one only in tests. */
  readonly httpPort?: number;
}

const lookUpMs = 3000;
const answerMs = 5000;
/** Ours has less than a hundred bytes. */
const longestAnswer = 65_536;

export function lookFirst(deps: LookFirstDeps): Preflight {
  const { resolvers, publicCa } = deps;
  return async (target, signal) => {
    const [name = ''] = target.names;
    // Records prove it there, and whether they can be set shows when they are.
    if (target.challenge === 'dns-01') return null;
    const address = bareAddress(name);
    const addresses = address === null ? await addressesOf(name, resolvers) : [address];
    if (addresses === null) return null;
    const [first] = addresses;
    if (first === undefined) return { detail: `${name} has no address in the DNS`, certain: true };
    if (publicCa && !addresses.some(isPublicAddress) && !addresses.every(isLoopback)) {
      const detail = `${name} leads to ${addresses.join(', ')}, which no public CA can reach`;
      return { detail, certain: false };
    }
    return target.challenge === 'http-01' ? await askBack(name, first, deps, signal) : null;
  };
}

/** Null: nobody could tell. */
async function addressesOf(name: string, resolvers: readonly string[]): Promise<readonly string[] | null> {
  const resolver = new Resolver({ timeout: lookUpMs, tries: 1 });
  try {
    if (resolvers.length > 0) resolver.setServers(resolvers);
  } catch {
    // Resolvers that are named by host: those of the system will do for this.
  }
  const outcomes = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const found = outcomes.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
  if (found.length > 0) return found;
  const absent = outcomes.every((each) => each.status === 'fulfilled' || isAbsent(each.reason));
  return absent ? [] : null;
}

function isAbsent(error: unknown): boolean {
  const { code } = error as { readonly code?: string };
  return code === 'ENOTFOUND' || code === 'ENODATA';
}

const isLoopback = (address: string): boolean => address.startsWith('127.') || address === '::1';

/** Publishes a proof of our own and asks for it as a CA would. */
async function askBack(
  name: string,
  address: string,
  { presenter, clock, httpPort = 80 }: LookFirstDeps,
  signal: AbortSignal,
): Promise<Doubt | null> {
  const token = randomBytes(24).toString('base64url');
  const proof: HttpProof = { kind: 'http-01', name, token, answer: `${token}.look-first` };
  const authority = `${address.includes(':') ? `[${address}]` : address}:${httpPort}`;
  const url = `http://${authority}/.well-known/acme-challenge/${token}`;
  const http = new HttpClient({ clock, timeoutMs: answerMs, caPem: null, maxBytes: longestAnswer, keepAlive: false });
  const doubt = (what: string): Doubt => ({
    detail: `http://${name}/.well-known/acme-challenge/ is answered by something else (${what}) at ${address}`,
    certain: false,
  });
  try {
    await presenter.present([proof], signal);
    const { status, text } = await http.ask({ method: 'GET', url, headers: { host: name } }, signal);
    return status === 200 && text.trim() === proof.answer ? null : doubt(String(status));
  } catch (error) {
    // Something answers, and goes on and on.
    if (error instanceof AcmeFailure && error.kind === 'server') return doubt('a long page');
    // From inside a network its own public address often cannot be reached: the CA may see more.
    return null;
  } finally {
    await presenter.withdraw([proof]);
  }
}

// The look before a first order, for real: the name's addresses, and what answers at the place where a CA would ask.
// Invariant: ends within seconds and never rejects; a failure of the look itself is no doubt.
import { randomBytes } from 'node:crypto';
import { Resolver } from 'node:dns/promises';
import { request } from 'undici';
import { isPublicAddress } from '../../config/acme-names.ts';
import type { ChallengePresenter, HttpProof } from './issuer.ts';
import { bareAddress } from './names.ts';
import type { Doubt, Preflight } from './preflight.ts';

export interface LookFirstDeps {
  /** `host:port`; empty: the system's. */
  readonly resolvers: readonly string[];
  readonly presenter: ChallengePresenter;
  /** Where a CA asks; another one only in tests. */
  readonly httpPort?: number;
}

const lookUpMs = 3000;
const answerMs = 5000;

export function lookFirst({ resolvers, presenter, httpPort = 80 }: LookFirstDeps): Preflight {
  return async (target, signal) => {
    const [name = ''] = target.names;
    // Records prove it there, and whether they can be set shows when they are.
    if (target.challenge === 'dns-01') return null;
    const address = bareAddress(name);
    const addresses = address === null ? await addressesOf(name, resolvers) : [address];
    if (addresses === null) return null;
    const [first] = addresses;
    if (first === undefined) return { detail: `${name} has no address in the DNS`, certain: true };
    if (!addresses.some(isPublicAddress) && !addresses.every(isLoopback)) {
      const detail = `${name} leads to ${addresses.join(', ')}, which no public CA can reach`;
      return { detail, certain: false };
    }
    return target.challenge === 'http-01' ? await askBack(name, first, httpPort, presenter, signal) : null;
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
  port: number,
  presenter: ChallengePresenter,
  signal: AbortSignal,
): Promise<Doubt | null> {
  const token = randomBytes(24).toString('base64url');
  const proof: HttpProof = { kind: 'http-01', name, token, answer: `${token}.look-first` };
  const path = `/.well-known/acme-challenge/${token}`;
  try {
    await presenter.present([proof], signal);
    const host = address.includes(':') ? `[${address}]` : address;
    const { statusCode, body } = await request(`http://${host}:${port}${path}`, {
      headers: { host: name },
      signal: AbortSignal.any([signal, AbortSignal.timeout(answerMs)]),
    });
    const text = (await body.text()).slice(0, 1000);
    if (statusCode === 200 && text.trim() === proof.answer) return null;
    const detail = `http://${name}/.well-known/acme-challenge/ is answered by something else (${statusCode}) at ${address}`;
    return { detail, certain: false };
  } catch {
    // From inside a network its own public address often cannot be reached: the CA may see more.
    return null;
  } finally {
    await presenter.withdraw([proof]);
  }
}

// How much a CA will still give: its published limits, counted by us before it has to refuse.
// Invariant: pure; an order is in the ledger before the CA is asked, so that no crash makes the count too low; windows slide,
// which is never more than the CA's own refilling buckets allow.
import { getDomain } from 'tldts';
import { isAddressLiteral } from '../../model/host.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

export interface OrderRecord {
  readonly at: number;
  readonly directory: string;
  /** Canonical, sorted. */
  readonly names: readonly string[];
  /** A renewal inside the window that the CA's renewal information announced: no limit counts it (RFC 9773 §5, and the CA's own rules). */
  readonly exempt: boolean;
  /** False once it is certain that no certificate came of it. */
  readonly certificate: boolean;
}

export interface FailedValidation {
  readonly at: number;
  readonly name: string;
}

interface Limit {
  readonly count: number;
  readonly windowMs: number;
}

export interface CaLimits {
  readonly orders: Limit;
  /** Certificates for one registered domain. */
  readonly domain: Limit | null;
  /** Certificates for exactly the same names. */
  readonly identical: Limit;
}

/** https://letsencrypt.org/docs/rate-limits/ */
const letsEncrypt: CaLimits = {
  orders: { count: 300, windowMs: 3 * hourMs },
  domain: { count: 50, windowMs: 7 * dayMs },
  identical: { count: 5, windowMs: 7 * dayMs },
};

/** Nobody needs more by right; what a CA allows beyond or below is its own business, told by 429. */
const anyCa: CaLimits = { ...letsEncrypt, domain: null };

/** Of all CAs; Let's Encrypt counts alike. */
export const failedValidations: Limit = { count: 5, windowMs: hourMs };

/** The CA notes an order a little later than we do. */
const marginMs = minuteMs;
const longestWindowMs = 7 * dayMs + marginMs;

export function limitsOf(directory: string): CaLimits {
  return isHostOf(directory, 'letsencrypt.org') && !directory.includes('staging') ? letsEncrypt : anyCa;
}

function isHostOf(url: string, domain: string): boolean {
  const host = URL.canParse(url) ? new URL(url).hostname : '';
  return host === domain || host.endsWith(`.${domain}`);
}

export interface Ledger {
  readonly orders: readonly OrderRecord[];
  readonly failedValidations: readonly FailedValidation[];
}

export interface Room {
  /** When the order may be made: `now`, or later. */
  readonly at: number;
  /** What it waits for; null: nothing. */
  readonly why: string | null;
}

export function roomFor(
  ledger: Ledger,
  names: readonly string[],
  directory: string,
  exempt: boolean,
  now: number,
): Room {
  let room: Room = { at: now, why: null };
  const later = (limit: Limit, times: readonly number[], why: string): void => {
    const at = freeAt(limit, times, now);
    if (at > room.at) room = { at, why };
  };
  for (const name of names) {
    const times = ledger.failedValidations.filter((each) => each.name === name).map((each) => each.at);
    later(failedValidations, times, `${failedValidations.count} failed validations of ${name} within an hour`);
  }
  if (exempt || ledger.orders.length === 0) return room;
  const limits = limitsOf(directory);
  const counted = ledger.orders.filter((each) => each.directory === directory && !each.exempt);
  const times = (records: readonly OrderRecord[]): readonly number[] => records.map(({ at }) => at);
  later(limits.orders, times(counted), `${limits.orders.count} orders within 3 hours`);
  const certificates = counted.filter(({ certificate }) => certificate);
  const set = names.toSorted().join();
  const same = certificates.filter((each) => each.names.join() === set);
  later(limits.identical, times(same), `${limits.identical.count} certificates for the same names within 7 days`);
  if (limits.domain !== null) {
    for (const domain of new Set(names.map(registeredDomain))) {
      const below = certificates.filter((each) => each.names.some((name) => registeredDomain(name) === domain));
      later(limits.domain, times(below), `${limits.domain.count} certificates below ${domain} within 7 days`);
    }
  }
  return room;
}

/** How many orders of each kind are left right now, for people. */
export function leftOf(ledger: Ledger, directory: string, now: number): { readonly orders: number } {
  const { orders } = limitsOf(directory);
  const counted = ledger.orders.filter((each) => each.directory === directory && !each.exempt);
  const recent = counted.filter(({ at }) => at > now - orders.windowMs - marginMs);
  return { orders: Math.max(0, orders.count - recent.length) };
}

/** Drops what no window reaches any more. What comes from the future, by a clock that was wrong, counts as of now. */
export function pruned(ledger: Ledger, now: number): Ledger {
  const sane = <T extends { readonly at: number }>(each: T): T => (each.at > now ? { ...each, at: now } : each);
  return {
    orders: ledger.orders.filter(({ at }) => at > now - longestWindowMs).map(sane),
    failedValidations: ledger.failedValidations
      .filter(({ at }) => at > now - failedValidations.windowMs - marginMs)
      .map(sane),
  };
}

/** The domain that its owner registered, by the public suffix list; an address stands for itself. */
export function registeredDomain(name: string): string {
  if (isAddressLiteral(name)) return name;
  let domain = registered.get(name);
  if (domain === undefined) {
    const host = name.startsWith('*.') ? name.slice(2) : name;
    domain = getDomain(host, { allowPrivateDomains: true }) ?? host;
    if (registered.size >= registeredMax) registered.clear();
    registered.set(name, domain);
  }
  return domain;
}

/** Looked up before: the list is long, and a plan asks for the same names again and again. */
const registered = new Map<string, string>();
const registeredMax = 10_000;

function freeAt({ count, windowMs }: Limit, times: readonly number[], now: number): number {
  const span = windowMs + marginMs;
  const recent = times.filter((at) => at > now - span).sort((a, b) => a - b);
  return recent.length < count ? now : recent[recent.length - count]! + span;
}

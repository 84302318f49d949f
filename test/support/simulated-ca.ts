// A certificate authority in memory, behind the interface that the life cycle knows. It counts what is asked of it by rules of
// its own: what Let's Encrypt publishes, as windows.
// Invariant: it lives in true time, whatever the clocks of its clients say; `excesses` holds every limit that was passed.
import { generateKeyPairSync, type KeyObject, X509Certificate } from 'node:crypto';
import { AcmeFailure } from '../../src/certificates/acme/failure.ts';
import type { DirectoryMeta, Issued, Issuer, OrderWish, RenewalWindow } from '../../src/certificates/acme/issuer.ts';
import { fingerprintOf, issueCertificate } from '../../src/certificates/x509.ts';

const hour = 3_600_000;
const day = 24 * hour;

export interface Signed {
  readonly id: string;
  readonly names: readonly string[];
  readonly notBefore: number;
  readonly notAfter: number;
  revokedAt: number | null;
  window: { start: number; end: number } | null;
}

export interface CaSettings {
  readonly url: string;
  /** True time. */
  readonly now: () => number;
  readonly random: () => number;
  readonly lifetime: (name: string) => number;
  readonly announces: boolean;
}

export class SimulatedCa implements Issuer {
  readonly directoryUrl: string;
  readonly excesses: string[] = [];
  readonly orders: { at: number; names: readonly string[]; exempt: boolean }[] = [];
  /** By fingerprint. */
  readonly signed = new Map<string, Signed>();
  readonly #byChain = new Map<string, Signed>();
  readonly #byRenewalId = new Map<string, Signed>();
  failedValidations: { at: number; name: string }[] = [];
  /** Nobody answers. */
  down = false;
  /** Share of requests whose nonce is refused. */
  nonceTrouble = 0;
  /** The next so many orders are answered 429. */
  limited: { orders: number; retryAfterMs: number; scope: 'account' | 'names' } | null = null;
  /** Validation of these fails. */
  readonly unreachable = new Set<string>();
  /** Orders hang for ever from here on: a client that dies in the middle of one. */
  hang = false;
  readonly #settings: CaSettings;
  readonly #key: KeyObject;
  readonly #certificate: X509Certificate;
  readonly #leaf = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  readonly #certificates: { at: number; names: readonly string[]; exempt: boolean }[] = [];
  #pausedSince = 0;
  #pausedUntil = 0;

  constructor(settings: CaSettings) {
    this.#settings = settings;
    this.directoryUrl = settings.url;
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    this.#key = privateKey;
    const now = settings.now();
    const content = { commonName: 'Simulated CA', organization: null, publicKey, names: [], use: { pathLength: 0 } };
    const pem = issueCertificate(
      { ...content, notBefore: now - day, notAfter: now + 4000 * day },
      { certificate: null, key: privateKey },
    );
    this.#certificate = new X509Certificate(pem);
  }

  async issue(wish: OrderWish, signal: AbortSignal): Promise<Issued> {
    const now = this.#settings.now();
    this.#converse();
    // Orders that were on their way when the first one was refused are nobody's fault.
    if (this.#pausedUntil > now && this.#pausedSince < now)
      this.excesses.push(`an order ${this.#pausedUntil - now} ms before the end of a pause`);
    const names = wish.names.toSorted();
    const replaced = wish.replaces === null ? undefined : this.#byRenewalId.get(wish.replaces);
    const exempt = wish.replaces !== null && replaced !== undefined;
    if (this.limited !== null && this.limited.orders-- > 0) {
      const { retryAfterMs, scope } = this.limited;
      if (scope === 'account') {
        this.#pausedUntil = now + retryAfterMs;
        this.#pausedSince = now;
      }
      throw new AcmeFailure('rate-limited', 'too many', { retryAfterMs, scope });
    }
    this.orders.push({ at: now, names, exempt });
    if (!exempt) this.#judge(names, now);
    if (this.hang) await new Promise(() => {});
    if (signal.aborted) throw new AcmeFailure('aborted', 'aborted');
    for (const name of names) {
      if (!this.unreachable.has(name)) continue;
      this.failedValidations = this.failedValidations.filter(({ at }) => at > now - hour);
      this.failedValidations.push({ at: now, name });
      const count = this.failedValidations.filter((each) => each.name === name).length;
      if (count > 5) this.excesses.push(`${count} failed validations of ${name}`);
      throw new AcmeFailure('validation', `no answer from ${name}`, {
        perName: [{ name, problemType: 'connection', detail: 'no answer' }],
      });
    }
    await wish.onPending?.({ url: `${this.directoryUrl}/order/${this.orders.length}`, keyPem: '' });
    return this.#sign(names, exempt, now);
  }

  async renewalInfo(chainPem: string): Promise<RenewalWindow | null> {
    if (!this.#settings.announces) return null;
    this.#converse();
    const signed = this.#byChain.get(chainPem);
    if (signed === undefined) throw new AcmeFailure('rejected', 'unknown');
    const lifetime = signed.notAfter - signed.notBefore;
    const start = signed.notBefore + lifetime * (lifetime < 10 * day ? 0.48 : 0.66);
    const window = signed.window ?? { start, end: start + lifetime / 30 };
    return { ...window, explanationUrl: null, retryAfterMs: 6 * hour };
  }

  async revoke(chainPem: string): Promise<void> {
    this.#converse();
    this.#byChain.get(chainPem)!.revokedAt = this.#settings.now();
  }

  async rolloverKey(): Promise<void> {
    this.#converse();
  }

  async directoryMeta(): Promise<DirectoryMeta> {
    const { announces } = this.#settings;
    return { profiles: new Map(), externalAccountRequired: false, termsOfService: null, renewalInfo: announces };
  }

  async close(): Promise<void> {}

  /** Half of all nonces may be refused: the client signs again, a few times. */
  #converse(): void {
    if (this.down) throw new AcmeFailure('network', 'connection refused');
    for (let tries = 0; tries < 6; tries++) if (this.#settings.random() >= this.nonceTrouble) return;
    throw new AcmeFailure('server', 'badNonce six times in a row');
  }

  #judge(names: readonly string[], now: number): void {
    const since = (ms: number) => (each: { at: number; exempt: boolean }) => each.at > now - ms && !each.exempt;
    const orders = this.orders.filter(since(3 * hour)).length;
    if (orders > 300) this.excesses.push(`${orders} orders in 3 hours`);
    const recent = this.#certificates.filter(since(7 * day));
    const same = recent.filter((each) => each.names.join() === names.join()).length;
    if (same >= 5) this.excesses.push(`${same + 1} certificates for ${names} in 7 days`);
    for (const name of names) {
      const domain = domainOf(name);
      const below = recent.filter((each) => each.names.some((other) => domainOf(other) === domain)).length;
      if (below >= 50) this.excesses.push(`${below + 1} certificates below ${domain} in 7 days`);
    }
  }

  #sign(names: readonly string[], exempt: boolean, now: number): Issued {
    const notBefore = Math.floor((now - hour) / 1000) * 1000;
    const notAfter = notBefore + this.#settings.lifetime(names[0]!);
    const content = { commonName: names[0]!, organization: null, publicKey: this.#leaf.publicKey, names };
    const pem = issueCertificate(
      { ...content, notBefore, notAfter, use: 'server' },
      { certificate: this.#certificate, key: this.#key },
    );
    const id = fingerprintOf(new X509Certificate(pem));
    const signed: Signed = { id, names, notBefore, notAfter, revokedAt: null, window: null };
    this.signed.set(id, signed);
    this.#byChain.set(pem, signed);
    this.#byRenewalId.set(renewalIdOf(pem), signed);
    this.#certificates.push({ at: now, names, exempt });
    const key = this.#leaf.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    return { chain: pem, key, issuer: 'Simulated CA', notBefore, notAfter, url: '' };
  }
}

/** Test names have their registered domain in the last two labels. */
const domainOf = (name: string): string => name.split('.').slice(-2).join('.');

/** RFC 9773 §4.1: authority key identifier and serial number, read with node's own eyes. */
function renewalIdOf(pem: string): string {
  const { raw, serialNumber } = new X509Certificate(pem);
  // AuthorityKeyIdentifier (2.5.29.35): the OID, an octet string, a sequence, [0] with twenty bytes.
  const at = raw.indexOf(Buffer.from('0603551d23', 'hex'));
  const aki = raw.subarray(at + 11, at + 31).toString('base64url');
  const hex = serialNumber.length % 2 === 0 ? serialNumber : `0${serialNumber}`;
  return `${aki}.${Buffer.from(hex, 'hex').toString('base64url')}`;
}

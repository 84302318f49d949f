// Leaves of the internal CA as one worker knows them: asked for when a handshake needs one, kept until they grow old.
// Invariant: at most one question per name is open; an expired leaf is never handed out.
import type { Clock } from '../base/clock.ts';
import type { Certificate } from '../model/snapshot.ts';

/** Signs, or has signed, a leaf for a canonical name; null when the internal CA will not. */
export type LeafFor = (name: string) => Promise<Certificate | null>;

/** After a failure the next handshakes are refused without asking again. */
const failurePauseMs = 1000;

interface Leaf {
  readonly certificate: Certificate;
  readonly renewAt: number;
}

export class LeafCache {
  readonly #leafFor: LeafFor;
  readonly #clock: Clock;
  readonly #leaves = new Map<string, Leaf>();
  readonly #asked = new Map<string, Promise<Certificate | null>>();
  readonly #failedAt = new Map<string, number>();

  constructor(leafFor: LeafFor, clock: Clock) {
    this.#leafFor = leafFor;
    this.#clock = clock;
  }

  /** A leaf that may be used now, or null. One past two thirds of its validity, or not valid yet, is renewed meanwhile. */
  get(name: string): Certificate | null {
    const leaf = this.#leaves.get(name);
    if (leaf === undefined) return null;
    const now = this.#clock.now();
    if (now >= leaf.renewAt || now < leaf.certificate.notBefore) void this.request(name);
    return now < leaf.certificate.notAfter ? leaf.certificate : null;
  }

  /** Never rejects; null when there is none to be had. */
  request(name: string): Promise<Certificate | null> {
    const asked = this.#asked.get(name);
    if (asked !== undefined) return asked;
    const failedAt = this.#failedAt.get(name);
    if (failedAt !== undefined && this.#clock.monotonic() - failedAt < failurePauseMs) return Promise.resolve(null);
    const question = this.#ask(name);
    this.#asked.set(name, question);
    return question;
  }

  /** Id of the leaf in use for a name of this cache? Tells which servers are still wanted. */
  has(certificateId: string): boolean {
    for (const { certificate } of this.#leaves.values()) if (certificate.id === certificateId) return true;
    return false;
  }

  clear(): void {
    this.#leaves.clear();
    this.#failedAt.clear();
  }

  async #ask(name: string): Promise<Certificate | null> {
    try {
      const certificate = await this.#leafFor(name);
      if (certificate === null) throw new Error('no leaf');
      const { notBefore, notAfter } = certificate;
      this.#leaves.set(name, { certificate, renewAt: notBefore + ((notAfter - notBefore) * 2) / 3 });
      this.#failedAt.delete(name);
      return certificate;
    } catch {
      this.#failedAt.set(name, this.#clock.monotonic());
      return null;
    } finally {
      this.#asked.delete(name);
    }
  }
}

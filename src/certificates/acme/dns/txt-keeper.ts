// Whoever can put TXT records into a zone.
// Invariant: adding leaves other values of the same name alone, and so does removing; both are harmless when repeated.

export interface TxtRecord {
  /** Canonical, without a trailing dot. */
  readonly name: string;
  readonly value: string;
}

export interface TxtKeeper {
  /** For messages: "Cloudflare". */
  readonly label: string;
  /** Resolves when the zone has them all, wherever else they are not seen yet. */
  add(records: readonly TxtRecord[], signal: AbortSignal): Promise<void>;
  remove(records: readonly TxtRecord[], signal: AbortSignal): Promise<void>;
}

// Shows dns-01 proofs: puts the records where a name is delegated to, and waits until those who are in charge show them.
// Invariant: whatever was put is taken away again, also when it never became visible or the order was stopped.
import type { Clock } from '../../../base/clock.ts';
import type { Log } from '../../../base/log.ts';
import { AcmeFailure } from '../failure.ts';
import type { DnsProof } from '../issuer.ts';
import type { DnsPresenter } from '../presenters.ts';
import { sleep } from '../sleep.ts';
import type { LookUp } from './look-up.ts';
import type { TxtKeeper, TxtRecord } from './txt-keeper.ts';

export interface DnsChallengesDeps {
  readonly keeper: TxtKeeper;
  readonly lookUp: Pick<LookUp, 'delegated' | 'authorities' | 'sees'>;
  readonly clock: Clock;
  readonly log: Log;
  /** Until every server in charge shows a record. */
  readonly propagationTimeoutMs: number;
  /** Before the first look. */
  readonly propagationDelayMs: number;
  /** Between two looks. */
  readonly pollMs?: number;
}

const defaultPollMs = 2000;
const cleanupMs = 60_000;

export class DnsChallenges implements DnsPresenter {
  readonly #deps: DnsChallengesDeps;
  /** Where the record of a proof was put. */
  readonly #put = new Map<DnsProof, TxtRecord>();

  constructor(deps: DnsChallengesDeps) {
    this.#deps = deps;
  }

  async present(proofs: readonly DnsProof[], signal: AbortSignal): Promise<void> {
    const { keeper, lookUp, clock, propagationDelayMs } = this.#deps;
    const records: TxtRecord[] = [];
    for (const proof of proofs) {
      const record = { name: await lookUp.delegated(proof.record), value: proof.value };
      this.#put.set(proof, record);
      records.push(record);
    }
    try {
      await keeper.add(records, signal);
    } catch (error) {
      if (error instanceof AcmeFailure) throw error;
      if (signal.aborted) throw new AcmeFailure('aborted', 'stopped', { cause: error });
      const why = error instanceof Error ? error.message : String(error);
      throw new AcmeFailure('presentation', `${keeper.label}: ${why}`, { cause: error });
    }
    if (propagationDelayMs > 0) await sleep(clock, propagationDelayMs, signal);
    await this.#untilShown(records, signal);
  }

  async withdraw(proofs: readonly DnsProof[]): Promise<void> {
    const { keeper, log, clock } = this.#deps;
    const records = proofs.flatMap((proof) => this.#put.get(proof) ?? []);
    for (const proof of proofs) this.#put.delete(proof);
    if (records.length === 0) return;
    const late = new AbortController();
    const timer = clock.after(cleanupMs, () => late.abort());
    try {
      await keeper.remove(records, late.signal);
    } catch (error) {
      const names = records.map(({ name }) => name);
      const why = error instanceof Error ? error.message : String(error);
      log.warn('acme-dns-cleanup-failed', { provider: keeper.label, names, error: why });
    } finally {
      timer.cancel();
    }
  }

  async #untilShown(records: readonly TxtRecord[], signal: AbortSignal): Promise<void> {
    const { clock, propagationTimeoutMs, pollMs = defaultPollMs } = this.#deps;
    const deadline = clock.monotonic() + propagationTimeoutMs;
    const open = new Set(records);
    for (;;) {
      for (const record of open) if (await this.#isShown(record)) open.delete(record);
      if (open.size === 0) return;
      if (clock.monotonic() + pollMs > deadline) break;
      await sleep(clock, pollMs, signal);
    }
    const names = [...new Set([...open].map(({ name }) => name))].join(', ');
    const seconds = Math.round(propagationTimeoutMs / 1000);
    throw new AcmeFailure('presentation', `the TXT record did not become visible within ${seconds} s: ${names}`);
  }

  /** By all who are in charge and answer; where none of them can be asked from here, by the usual resolvers. */
  async #isShown({ name, value }: TxtRecord): Promise<boolean> {
    const { lookUp } = this.#deps;
    const servers = await lookUp.authorities(name);
    const sights = await Promise.all(servers.map((server) => lookUp.sees(name, value, server)));
    if (sights.includes('missing')) return false;
    return sights.includes('shown') || (await lookUp.sees(name, value, null)) === 'shown';
  }
}

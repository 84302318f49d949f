// A worker's end of the gate: its copy of the credentials, its questions to the supervisor, and its reports.
// Invariant: every question is answered exactly once; what is remembered about strangers is bounded.
import type { Clock } from '../base/clock.ts';
import { addressKey } from '../gate/address-key.ts';
import { Credentials } from '../gate/credentials.ts';
import type { DeskAnswer, DeskQuestion, DeskQuestions, DeskTopic, UsageReport } from '../gate/desk.ts';
import type { GateHost } from '../gate/gatekeeper.ts';
import type { FromWorker } from './protocol.ts';

/** Nobody waits longer than this for a login. */
const answerMs = 30_000;
/** More than people ask at once. */
const questionsMax = 256;
const reportMs = 10_000;
/** A new address, or wrong tokens: told at once, but not one by one. */
const urgentMs = 100;
const strangersMax = 10_000;

export class WorkerGate implements GateHost {
  readonly credentials = new Credentials();
  readonly #clock: Clock;
  readonly #tell: (message: FromWorker) => void;
  readonly #questions = new Map<number, (answer: DeskAnswer | null) => void>();
  readonly #wrongTokens = new Map<string, number>();
  readonly #waits = new Map<string, number>();
  #lastId = 0;
  #urgent = false;

  constructor(clock: Clock, tell: (message: FromWorker) => void) {
    this.#clock = clock;
    this.#tell = tell;
    clock.every(reportMs, () => this.#report());
  }

  ask<T extends DeskTopic>(topic: T, ask: DeskQuestions[T]['ask']): Promise<DeskQuestions[T]['answer'] | null> {
    if (this.#questions.size >= questionsMax) return Promise.resolve(null);
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      const timer = this.#clock.after(answerMs, () => this.answered(id, null));
      this.#questions.set(id, (answer) => {
        timer.cancel();
        resolve(answer as DeskQuestions[T]['answer'] | null);
      });
      this.#tell({ kind: 'desk-question', id, question: { topic, ask } as DeskQuestion });
    });
  }

  answered(id: number, answer: DeskAnswer | null): void {
    const take = this.#questions.get(id);
    this.#questions.delete(id);
    take?.(answer);
  }

  wrongToken(from: string): void {
    const address = addressKey(from);
    const count = this.#wrongTokens.get(address) ?? 0;
    if (count === 0 && this.#wrongTokens.size >= strangersMax) return;
    this.#wrongTokens.set(address, count + 1);
    this.#soon();
  }

  waitOf(from: string): number {
    const address = addressKey(from);
    const until = this.#waits.get(address);
    if (until === undefined) return 0;
    const left = until - this.#clock.now();
    if (left > 0) return Math.ceil(left / 1000);
    this.#waits.delete(address);
    return 0;
  }

  throttled(addresses: readonly (readonly [string, number])[]): void {
    const now = this.#clock.now();
    for (const [address, until] of addresses) {
      this.#waits.delete(address);
      if (until > now) this.#waits.set(address, until);
    }
    // The ones that were told first end first.
    for (const address of this.#waits.keys()) {
      if (this.#waits.size <= strangersMax) break;
      this.#waits.delete(address);
    }
  }

  /** A session is used from an address that the others do not know it by yet. */
  addressChanged(): void {
    this.#soon();
  }

  #soon(): void {
    if (this.#urgent) return;
    this.#urgent = true;
    this.#clock.after(urgentMs, () => this.#report());
  }

  #report(): void {
    this.#urgent = false;
    const report: UsageReport = {
      sessions: this.#usedSessions(),
      tokens: this.#usedTokens(),
      wrongTokens: [...this.#wrongTokens],
    };
    this.#wrongTokens.clear();
    if (report.sessions.length + report.tokens.length + report.wrongTokens.length === 0) return;
    this.#tell({ kind: 'gate-usage', report });
  }

  /** A session that carries a stream is in use, even if the stream is silent. */
  #usedSessions(): UsageReport['sessions'] {
    const rows: { hash: string; lastUsedAt: number; address: string }[] = [];
    const now = this.#clock.now();
    for (const session of this.credentials.sessions()) {
      if (session.admitted.size > 0) session.lastUsedAt = now;
      else if (!session.used) continue;
      session.used = false;
      rows.push({ hash: session.row.hash, lastUsedAt: session.lastUsedAt, address: session.address });
    }
    return rows;
  }

  #usedTokens(): UsageReport['tokens'] {
    const rows: { hash: string; lastUsedAt: number }[] = [];
    for (const token of this.credentials.tokens()) {
      if (!token.used) continue;
      token.used = false;
      rows.push({ hash: token.row.hash, lastUsedAt: token.lastUsedAt });
    }
    return rows;
  }
}

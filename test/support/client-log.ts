// The independent witness of the guarantees: what clients asked, when, and which generation answered.
// Invariant: judges from the clients' clocks and the clients' answers alone; nothing here asks the proxy.

export type ClientKind = 'h1' | 'h2' | 'ws';

export interface Entry {
  readonly kind: ClientKind;
  readonly sentAt: number;
  answeredAt: number;
  /** Generation that answered, by its place in the order of switches; -1 while there is none. */
  generation: number;
  /** Why it failed; '' when it did not. */
  failure: string;
}

export interface Acknowledgement {
  /** The switch was acknowledged to its caller. */
  readonly at: number;
  readonly generation: number;
}

export class ClientLog {
  readonly entries: Entry[] = [];
  readonly acknowledgements: Acknowledgement[] = [];

  begin(kind: ClientKind): Entry {
    const entry: Entry = { kind, sentAt: performance.now(), answeredAt: 0, generation: -1, failure: '' };
    this.entries.push(entry);
    return entry;
  }

  answered(entry: Entry, generation: number): void {
    entry.answeredAt = performance.now();
    entry.generation = generation;
  }

  failed(entry: Entry, failure: string): void {
    entry.answeredAt = performance.now();
    entry.failure = failure;
  }

  get failures(): readonly Entry[] {
    return this.entries.filter((entry) => entry.failure !== '' || entry.answeredAt === 0);
  }

  count(kind: ClientKind): number {
    return this.entries.filter((entry) => entry.kind === kind && entry.failure === '').length;
  }

  /** Guarantee (a): sent after a switch was acknowledged, answered by an older generation. */
  get afterAcknowledgement(): readonly Entry[] {
    return this.entries.filter((entry) => {
      let newest = -1;
      for (const { at, generation } of this.acknowledgements) {
        if (at <= entry.sentAt && generation > newest) newest = generation;
      }
      return entry.failure === '' && entry.generation < newest;
    });
  }

  /** Guarantee (b): sent after any client had an answer of a newer generation, answered by an older one. */
  get goingBack(): readonly Entry[] {
    const whole = this.entries.filter((entry) => entry.failure === '' && entry.answeredAt > 0);
    const byAnswer = whole.toSorted((a, b) => a.answeredAt - b.answeredAt);
    const bySending = whole.toSorted((a, b) => a.sentAt - b.sentAt);
    const back: Entry[] = [];
    let newest = -1;
    let next = 0;
    for (const entry of bySending) {
      for (; next < byAnswer.length && byAnswer[next]!.answeredAt < entry.sentAt; next++) {
        newest = Math.max(newest, byAnswer[next]!.generation);
      }
      if (entry.generation < newest) back.push(entry);
    }
    return back;
  }

  /** Latency percentile of what was answered, milliseconds. */
  latency(quantile: number): number {
    const times = this.entries
      .filter((entry) => entry.failure === '')
      .map((entry) => entry.answeredAt - entry.sentAt)
      .toSorted((a, b) => a - b);
    return times[Math.floor(quantile * (times.length - 1))] ?? 0;
  }
}

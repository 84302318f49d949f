// Latencies counted in buckets that grow with the value: a fixed amount of memory, whatever comes.
// Invariant: a percentile is at most 0.1 % above a value that was really recorded at that rank, and never below it.

const subBits = 10;
const subCount = 1 << subBits;
/** 2^31 µs are 35 minutes; longer ones are counted there. */
const maxMicros = 2 ** 31 - 1;
const bucketCount = (32 - subBits) * subCount;

export interface Latency {
  readonly count: number;
  /** Microseconds. NaN when nothing was recorded. */
  readonly mean: number;
  readonly min: number;
  readonly max: number;
  readonly percentiles: Readonly<Record<string, number>>;
}

export class Histogram {
  count = 0;
  #sum = 0;
  #min = Number.POSITIVE_INFINITY;
  #max = 0;
  readonly #buckets = new Float64Array(bucketCount);

  record(micros: number): void {
    const value = micros <= 0 ? 0 : micros >= maxMicros ? maxMicros : Math.round(micros);
    this.#buckets[bucketOf(value)]!++;
    this.count++;
    this.#sum += value;
    if (value < this.#min) this.#min = value;
    if (value > this.#max) this.#max = value;
  }

  /** @param percent  0 to 100 */
  percentile(percent: number): number {
    if (this.count === 0) return Number.NaN;
    const rank = Math.max(1, Math.ceil((percent / 100) * this.count));
    let seen = 0;
    for (let bucket = 0; bucket < bucketCount; bucket++) {
      seen += this.#buckets[bucket]!;
      if (seen >= rank) return Math.min(highestOf(bucket), this.#max);
    }
    return this.#max;
  }

  summary(percents: readonly number[]): Latency {
    const none = this.count === 0;
    return {
      count: this.count,
      mean: none ? Number.NaN : this.#sum / this.count,
      min: none ? Number.NaN : this.#min,
      max: none ? Number.NaN : this.#max,
      percentiles: Object.fromEntries(percents.map((each) => [String(each), this.percentile(each)])),
    };
  }
}

/** Exact below 2048 µs; above, each doubling has 1024 buckets. */
function bucketOf(value: number): number {
  if (value < 2 * subCount) return value;
  const shift = 31 - Math.clz32(value) - subBits;
  return shift * subCount + (value >>> shift);
}

function highestOf(bucket: number): number {
  if (bucket < 2 * subCount) return bucket;
  const shift = Math.floor(bucket / subCount) - 1;
  const sub = bucket - shift * subCount;
  return (sub + 1) * 2 ** shift - 1;
}

// How often somebody may fail to log in.
// Invariant: counted by address, so nobody can lock a user out from elsewhere; memory is bounded whatever comes; an attempt
// is paid for before it is made, so many at once do not pass together.
import type { Clock } from '../base/clock.ts';
import { addressKey } from '../gate/address-key.ts';

/** Attempts that an address has, and how long it takes to get one back. */
const budget = 5;
const refillMs = 60_000;
/** A user for whom this many have failed lately is being guessed at: strangers get fewer attempts for that name. */
const alarm = 50;
const budgetInAlarm = 2;
const addressesMax = 10_000;
const usersMax = 1000;

interface Bucket {
  /** Attempts spent, as of `at`. */
  spent: number;
  at: number;
}

export class LoginThrottle {
  readonly #clock: Clock;
  readonly #addresses = new Map<string, Bucket>();
  readonly #users = new Map<string, Bucket>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Number of buckets held. */
  get size(): number {
    return this.#addresses.size + this.#users.size;
  }

  /** Takes one attempt. Returns 0, or the seconds to wait for the next one: then nothing was taken. */
  begin(address: string, user: string): number {
    const bucket = this.#bucket(this.#addresses, addressKey(address), addressesMax);
    const limit = this.#spentOn(user) >= alarm ? budgetInAlarm : budget;
    if (bucket.spent + 1 > limit) return Math.max(1, Math.ceil(((bucket.spent + 1 - limit) * refillMs) / 1000));
    bucket.spent++;
    const ofUser = this.#bucket(this.#users, user, usersMax);
    ofUser.spent = Math.min(2 * alarm, ofUser.spent + 1);
    return 0;
  }

  /** The attempt was a success, or was none. */
  refund(address: string, user: string): void {
    const bucket = this.#bucket(this.#addresses, addressKey(address), addressesMax);
    bucket.spent = Math.max(0, bucket.spent - 1);
    const ofUser = this.#bucket(this.#users, user, usersMax);
    ofUser.spent = Math.max(0, ofUser.spent - 1);
  }

  /** Wrong tokens came. Returns when the address may try again (epoch ms), or 0. */
  failed(address: string, count: number): number {
    const bucket = this.#bucket(this.#addresses, addressKey(address), addressesMax);
    bucket.spent = Math.min(budget, bucket.spent + count);
    return bucket.spent < budget ? 0 : this.#clock.now() + refillMs;
  }

  #spentOn(user: string): number {
    return this.#users.has(user) ? this.#bucket(this.#users, user, usersMax).spent : 0;
  }

  /** As of now; the newest is the last one to be forgotten. */
  #bucket(buckets: Map<string, Bucket>, key: string, max: number): Bucket {
    const now = this.#clock.now();
    const bucket = buckets.get(key) ?? { spent: 0, at: now };
    bucket.spent = Math.max(0, bucket.spent - (now - bucket.at) / refillMs);
    bucket.at = now;
    buckets.delete(key);
    buckets.set(key, bucket);
    if (buckets.size > max) buckets.delete(buckets.keys().next().value!);
    return bucket;
  }
}

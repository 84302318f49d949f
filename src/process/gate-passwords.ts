// Passwords: argon2id (RFC 9106), a few at a time.
// Invariant: checking the password of nobody takes as long as that of somebody; neither memory nor processors can be taken
// by asking often.
import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';

/** The parameters stay with the hash, so that later ones can be stronger. */
export interface StoredPassword {
  readonly algorithm: 'argon2id';
  /** KiB. */
  readonly memory: number;
  readonly passes: number;
  readonly parallelism: number;
  /** base64url */
  readonly salt: string;
  readonly hash: string;
}

type Cost = Pick<StoredPassword, 'memory' | 'passes' | 'parallelism'>;

/** RFC 9106 §4 names larger ones; these are for machines that have little and other things to do. */
const usualCost: Cost = { memory: 32 * 1024, passes: 2, parallelism: 1 };
const hashSize = 32;
const saltSize = 16;
const atOnce = 2;
const waitingMax = 64;
/** One address cannot fill the queue. */
const waitingPerAddress = 4;
const passwordMax = 1024;

export class Passwords {
  #running = 0;
  readonly #waiting: (() => void)[] = [];
  readonly #perAddress = new Map<string, number>();
  readonly #cost: Cost;
  readonly #nobodys: StoredPassword;

  constructor(cost: Cost = usualCost) {
    this.#cost = cost;
    const random = (size: number): string => randomBytes(size).toString('base64url');
    this.#nobodys = { algorithm: 'argon2id', ...cost, salt: random(saltSize), hash: random(hashSize) };
  }

  hash(password: string): Promise<StoredPassword> {
    const salt = randomBytes(saltSize);
    return derive(password, salt, this.#cost).then((hash) => ({
      algorithm: 'argon2id',
      ...this.#cost,
      salt: salt.toString('base64url'),
      hash: hash.toString('base64url'),
    }));
  }

  /** @param stored  null: there is no such user. `busy`: too many are waiting already. */
  async verify(stored: StoredPassword | null, password: string, address: string): Promise<boolean | 'busy'> {
    const ofAddress = this.#perAddress.get(address) ?? 0;
    if (ofAddress >= waitingPerAddress || this.#waiting.length >= waitingMax) return 'busy';
    this.#perAddress.set(address, ofAddress + 1);
    // Who leaves hands its place on: nobody slips in between.
    if (this.#running >= atOnce) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    else this.#running++;
    try {
      return await matches(stored ?? this.#nobodys, password, stored !== null);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next();
      const left = this.#perAddress.get(address)! - 1;
      if (left === 0) this.#perAddress.delete(address);
      else this.#perAddress.set(address, left);
    }
  }
}

async function matches(stored: StoredPassword, password: string, known: boolean): Promise<boolean> {
  if (password.length > passwordMax) return false;
  const right = Buffer.from(stored.hash, 'base64url');
  const given = await derive(password, Buffer.from(stored.salt, 'base64url'), stored);
  return given.length === right.length && timingSafeEqual(given, right) && known;
}

function derive(password: string, salt: Buffer, { memory, passes, parallelism }: Cost): Promise<Buffer> {
  // One keyboard composes letters, another one does not.
  const message = Buffer.from(password.normalize('NFC'), 'utf8');
  return new Promise((resolve, reject) => {
    argon2('argon2id', { message, nonce: salt, parallelism, tagLength: hashSize, memory, passes }, (error, hash) =>
      error === null ? resolve(hash) : reject(error),
    );
  });
}

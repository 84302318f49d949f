// What opens apps, as every worker knows it: a full copy of users, sessions and tokens, changed by deltas.
// Invariant: holds hashes, never an id or a token; who is taken out loses, in the same step, every stream that it opened.
import { hash as digest } from 'node:crypto';
import { BlockList, isIP } from 'node:net';
import { formerAddressMs } from './logins.ts';

export interface UserRow {
  readonly name: string;
  readonly role: 'owner' | 'user';
  /** What a `user` may open; owners may open everything. */
  readonly apps: readonly string[];
}

export interface SessionRow {
  /** `hashOf` the id in the cookie. */
  readonly hash: string;
  readonly user: string;
  readonly createdAt: number;
  readonly lastUsedAt: number;
  /** Born on https: not accepted in the clear. */
  readonly secure: boolean;
  /** Canonical host of the cookie. */
  readonly host: string;
  /** Where it was last used from. */
  readonly address: string;
}

export interface TokenRow {
  /** `hashOf` the whole token. */
  readonly hash: string;
  readonly name: string;
  readonly app: string;
  /** Null: never. */
  readonly expiresAt: number | null;
  /** Like `openPaths`; empty: every path. */
  readonly paths: readonly string[];
  /** Empty: every method. */
  readonly methods: readonly string[];
  /** Empty: from everywhere. */
  readonly cidrs: readonly string[];
}

export interface RowsDelta<R> {
  readonly put: readonly R[];
  /** Keys: a user's name, else a hash. */
  readonly gone: readonly string[];
}

export interface CredentialsDelta {
  /** All that is not put is gone. */
  readonly whole: boolean;
  readonly users: RowsDelta<UserRow>;
  readonly sessions: RowsDelta<SessionRow>;
  readonly tokens: RowsDelta<TokenRow>;
}

/** A request, stream or tunnel that an identity opened. */
export interface Admitted {
  /** What had opened it is gone: end now. */
  identityEnded(): void;
}

/** Who somebody proved to be. */
export interface Identity {
  readonly user: string;
  readonly role: 'owner' | 'user' | 'token';
  readonly admitted: Set<Admitted>;
}

export interface Lifetimes {
  readonly sessionIdleMs: number;
  readonly sessionAbsoluteMs: number;
}

export function hashOf(secret: string): string {
  return digest('sha256', secret, 'base64url');
}

export class LiveSession implements Identity {
  row: SessionRow;
  account: UserRow;
  lastUsedAt: number;
  address: string;
  /** Where it was used from before, and until when that counts. */
  #former: { readonly address: string; readonly until: number } | null = null;
  /** Used since the supervisor was last told. */
  used = false;
  readonly admitted = new Set<Admitted>();

  constructor(row: SessionRow, account: UserRow) {
    this.row = row;
    this.account = account;
    this.lastUsedAt = row.lastUsedAt;
    this.address = row.address;
  }

  get user(): string {
    return this.account.name;
  }

  get role(): 'owner' | 'user' {
    return this.account.role;
  }

  /** It is used from another address. */
  move(address: string, now: number): void {
    if (address === this.address) return;
    this.#former = { address: this.address, until: now + formerAddressMs };
    this.address = address;
  }

  isAt(address: string, now: number): boolean {
    if (address === this.address) return true;
    return this.#former !== null && this.#former.address === address && now < this.#former.until;
  }

  opens(app: string): boolean {
    return this.account.role === 'owner' || this.account.apps.includes(app);
  }

  liveAt(now: number, { sessionIdleMs, sessionAbsoluteMs }: Lifetimes): boolean {
    return now < this.row.createdAt + sessionAbsoluteMs && now < this.lastUsedAt + sessionIdleMs;
  }
}

export class LiveToken implements Identity {
  readonly row: TokenRow;
  readonly user: string;
  readonly role = 'token';
  lastUsedAt = 0;
  used = false;
  readonly admitted = new Set<Admitted>();
  readonly #sources: BlockList | null;

  constructor(row: TokenRow) {
    this.row = row;
    this.user = `token/${row.name}`;
    this.#sources = row.cidrs.length === 0 ? null : blockList(row.cidrs);
  }

  liveAt(now: number): boolean {
    return this.row.expiresAt === null || now < this.row.expiresAt;
  }

  comesFrom(address: string): boolean {
    return this.#sources === null || this.#sources.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
}

export class Credentials {
  readonly #users = new Map<string, UserRow>();
  readonly #sessions = new Map<string, LiveSession>();
  readonly #tokens = new Map<string, LiveToken>();

  session(hash: string): LiveSession | undefined {
    return this.#sessions.get(hash);
  }

  token(hash: string): LiveToken | undefined {
    return this.#tokens.get(hash);
  }

  sessions(): IterableIterator<LiveSession> {
    return this.#sessions.values();
  }

  tokens(): IterableIterator<LiveToken> {
    return this.#tokens.values();
  }

  /** Every change of one delta is in force when the first stream is told to end. */
  apply(delta: CredentialsDelta): void {
    const ended: Identity[] = [];
    const { users, sessions, tokens } = delta;
    for (const name of goneFrom(this.#users, users, delta.whole, (row) => row.name)) this.#users.delete(name);
    for (const row of users.put) this.#users.set(row.name, row);
    for (const hash of goneFrom(this.#sessions, sessions, delta.whole, (row) => row.hash)) {
      this.#drop(this.#sessions, hash, ended);
    }
    for (const row of sessions.put) this.#putSession(row);
    for (const hash of goneFrom(this.#tokens, tokens, delta.whole, (row) => row.hash)) {
      this.#drop(this.#tokens, hash, ended);
    }
    for (const row of tokens.put) {
      this.#drop(this.#tokens, row.hash, ended);
      this.#tokens.set(row.hash, new LiveToken(row));
    }
    this.#followUsers(ended);
    for (const { admitted } of ended) for (const each of [...admitted]) each.identityEnded();
  }

  #putSession(row: SessionRow): void {
    const account = this.#users.get(row.user);
    const live = this.#sessions.get(row.hash);
    // Whose user is unknown opens nothing.
    if (account === undefined) return;
    if (live === undefined) this.#sessions.set(row.hash, new LiveSession(row, account));
    else {
      live.row = row;
      live.lastUsedAt = Math.max(live.lastUsedAt, row.lastUsedAt);
      live.move(row.address, row.lastUsedAt);
    }
  }

  /** A user who was narrowed may have streams of an app that is closed to them now: all of theirs begin anew. */
  #followUsers(ended: Identity[]): void {
    for (const [hash, live] of this.#sessions) {
      const account = this.#users.get(live.row.user);
      if (account === undefined) this.#drop(this.#sessions, hash, ended);
      else if (account !== live.account) {
        const narrowed = live.role === 'owner' ? account.role !== 'owner' : false;
        const lost = live.account.apps.some((app) => !account.apps.includes(app)) && account.role !== 'owner';
        live.account = account;
        if (narrowed || lost) ended.push({ user: live.user, role: live.role, admitted: live.admitted });
      }
    }
  }

  #drop<I extends Identity>(map: Map<string, I>, hash: string, ended: Identity[]): void {
    const live = map.get(hash);
    if (live === undefined) return;
    map.delete(hash);
    ended.push(live);
  }
}

function goneFrom<R>(
  map: ReadonlyMap<string, unknown>,
  { put, gone }: RowsDelta<R>,
  whole: boolean,
  keyOf: (row: R) => string,
): readonly string[] {
  if (!whole) return gone;
  const kept = new Set(put.map(keyOf));
  return [...map.keys()].filter((key) => !kept.has(key));
}

function blockList(cidrs: readonly string[]): BlockList {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [address, bits] = cidr.split('/') as [string, string?];
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (bits === undefined) list.addAddress(address, family);
    else list.addSubnet(address, Number(bits), family);
  }
  return list;
}

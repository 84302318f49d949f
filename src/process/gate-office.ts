// Answers what the workers' gates ask: logins, logouts, the first user, and logins taken over to another name.
// Invariant: a session exists at every worker before anybody gets its id; each one is new and comes from a proven password
// or from a code that was made out to this very browser and host.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { hashOf, type Lifetimes } from '../gate/credentials.ts';
import type {
  Caller,
  DeskAnswer,
  DeskQuestion,
  DeskQuestions,
  Handover,
  LoginAnswer,
  SsoAnswer,
  UsageReport,
} from '../gate/desk.ts';
import type { GateLedger } from './gate-ledger.ts';
import type { Passwords } from './gate-passwords.ts';
import type { SingleSignOn, SsoPerson } from './gate-sso.ts';
import type { StoredSession, StoredUser } from './gate-store.ts';
import { LoginThrottle } from './gate-throttle.ts';
import { totpStep } from './gate-totp.ts';
import { isFitPassword, isUserName, newUser } from './gate-users.ts';

export interface OfficeDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly ledger: GateLedger;
  readonly passwords: Passwords;
  /** Null: not known yet, no session ends. */
  readonly lifetimes: () => Lifetimes | null;
  /** Null: nobody logs in by an issuer. */
  readonly sso: () => SingleSignOn | null;
  /** Workers tell these addresses to wait. */
  readonly throttled: (addresses: readonly (readonly [address: string, until: number])[]) => void;
}

export type OfficeQuestion = Exclude<DeskQuestion, { readonly topic: 'dashboard' }>;

interface Ticket extends Handover {
  readonly visit: string;
  readonly user: string;
  readonly login: string;
  readonly expiresAt: number;
}

const codeLifeMs = 30_000;
const ticketsMax = 1000;
/** Of one user; the one that was not used for the longest time makes room. */
const sessionsMax = 200;
const sweepMs = 30_000;

export class GateOffice {
  readonly #deps: OfficeDeps;
  readonly #throttle: LoginThrottle;
  /** By hash of the code. */
  readonly #tickets = new Map<string, Ticket>();
  readonly #sweep: Timer;
  /** Until the next session or token is too old. */
  #ending: Timer | null = null;
  #setupHash: Buffer | null = null;
  /** Uses that were reported and are not on disk yet. */
  readonly #used = new Map<string, StoredSession>();
  readonly #usedTokens = new Map<string, number>();

  constructor(deps: OfficeDeps) {
    this.#deps = deps;
    this.#throttle = new LoginThrottle(deps.clock);
    this.#sweep = deps.clock.every(sweepMs, () => this.sweep());
    deps.ledger.changed = () => this.awaitEnding();
    this.awaitEnding();
  }

  close(): void {
    this.#sweep.cancel();
    this.#ending?.cancel();
    this.#deps.ledger.changed = () => {};
    this.#saveUses();
  }

  /** Buckets of the throttle: bounded, whoever comes. */
  get throttleSize(): number {
    return this.#throttle.size;
  }

  /** A secret for the link that makes the first user; null when there are users already. Good until then. */
  offerSetup(): string | null {
    if (this.#deps.ledger.users.size > 0) return null;
    const secret = randomBytes(32).toString('base64url');
    this.#setupHash = Buffer.from(hashOf(secret));
    return secret;
  }

  async answer(question: OfficeQuestion): Promise<DeskAnswer> {
    switch (question.topic) {
      case 'login':
        return this.#login(question.ask);
      case 'setup':
        return this.#setup(question.ask);
      case 'ssoBegin':
        return this.#ssoBegin(question.ask);
      case 'ssoEnd':
        return this.#ssoEnd(question.ask);
      case 'logout':
        return this.#logout(question.ask);
      case 'handOver':
        return this.#handOver(question.ask);
      case 'redeem':
        return this.#redeem(question.ask);
    }
  }

  // ---- login -----------------------------------------------------------------------------------------------------

  async #login({ user, password, code, caller }: DeskQuestions['login']['ask']): Promise<LoginAnswer> {
    const { ledger, log, passwords } = this.#deps;
    const name = user.trim().toLowerCase();
    const { address } = caller;
    const wait = this.#throttle.begin(address, name);
    if (wait > 0) return { kind: 'throttled', retryAfterSeconds: wait };
    const stored = ledger.users.get(name)?.password ?? null;
    const right = await passwords.verify(stored, password, address);
    if (right === 'busy') {
      this.#throttle.refund(address, name);
      return { kind: 'throttled', retryAfterSeconds: 2 };
    }
    // The user may have been removed, or given another password, while this one was being checked.
    const account = ledger.users.get(name);
    if (!right || account === undefined || stored === null || account.password !== stored) {
      log.warn('gate-login-failed', { address, known: account !== undefined });
      return { kind: 'refused', why: 'password' };
    }
    const refusal = account.totp === null ? null : await this.#checkCode(account, account.totp, code, caller);
    if (refusal !== null) return refusal;
    this.#throttle.refund(address, name);
    const id = await this.#begin(name, newSecret(), caller);
    log.info('gate-login', { user: name, address });
    return { kind: 'ok', id };
  }

  async #checkCode(
    account: StoredUser,
    totp: NonNullable<StoredUser['totp']>,
    code: string,
    { address }: Caller,
  ): Promise<LoginAnswer | null> {
    const refused = { kind: 'refused', why: 'code' } as const;
    if (code === '') {
      this.#throttle.refund(address, account.name);
      return refused;
    }
    // Six digits are few, and who gets here knows the password: counted by user, from wherever.
    const wait = this.#throttle.begin(`code of ${account.name}`, '');
    if (wait > 0) return { kind: 'throttled', retryAfterSeconds: wait };
    const step = totpStep(totp.secret, code, this.#deps.clock.now(), totp.lastStep);
    if (step === null) return refused;
    this.#throttle.refund(`code of ${account.name}`, '');
    await this.#deps.ledger.change({ users: { put: [{ ...account, totp: { ...totp, lastStep: step } }] } });
    return null;
  }

  async #setup({ secret, user, password, caller }: DeskQuestions['setup']['ask']): Promise<LoginAnswer> {
    const { ledger, passwords, clock, log } = this.#deps;
    if (!this.#isSetup(secret)) return { kind: 'refused', why: 'setup' };
    const name = user.trim().toLowerCase();
    if (!isUserName(name)) return { kind: 'refused', why: 'name' };
    if (!isFitPassword(password)) return { kind: 'refused', why: 'weak' };
    const hash = await passwords.hash(password);
    // Two forms may have been sent at once.
    if (!this.#isSetup(secret)) return { kind: 'refused', why: 'setup' };
    this.#setupHash = null;
    await ledger.change({ users: { put: [newUser(name, 'owner', [], hash, clock.now())] } });
    log.info('gate-first-user', { user: name, address: caller.address });
    return { kind: 'ok', id: await this.#begin(name, newSecret(), caller) };
  }

  #isSetup(secret: string): boolean {
    if (this.#setupHash === null || this.#deps.ledger.users.size > 0) return false;
    return timingSafeEqual(this.#setupHash, Buffer.from(hashOf(secret)));
  }

  /** A session of its own, whatever the browser brought; that one ends. Returns the id. */
  async #begin(user: string, login: string, { address, host, secure, replaces }: Caller): Promise<string> {
    const { ledger, clock } = this.#deps;
    const id = newSecret();
    const now = clock.now();
    const session = { hash: hashOf(id), user, login, createdAt: now, lastUsedAt: now, secure, host, address };
    const gone = ledger.sessionsWhere(({ hash }) => replaces.includes(hash));
    const others = [...ledger.sessions.values()]
      .filter((each) => each.user === user && !gone.includes(each.hash))
      .sort((a, b) => b.lastUsedAt - a.lastUsedAt);
    const surplus = others.slice(sessionsMax - 1).map(({ hash }) => hash);
    await ledger.change({ sessions: { put: [session], gone: [...gone, ...surplus] } });
    return id;
  }

  // ---- an issuer -------------------------------------------------------------------------------------------------

  async #ssoBegin(ask: DeskQuestions['ssoBegin']['ask']): Promise<DeskQuestions['ssoBegin']['answer']> {
    const url = await this.#deps.sso()?.begin(ask);
    return url === undefined ? null : { url };
  }

  async #ssoEnd({ url, visit, caller }: DeskQuestions['ssoEnd']['ask']): Promise<SsoAnswer> {
    const { ledger, log, clock } = this.#deps;
    const ended = (await this.#deps.sso()?.end(url, visit)) ?? null;
    if (ended === null) return { kind: 'refused', why: 'sso' };
    const { person, purpose } = ended;
    if (person === null) return { kind: 'refused', why: 'stranger' };
    const user = userOf(person, ledger.users, clock.now());
    if (user === null) return { kind: 'refused', why: 'name' };
    await ledger.change({ users: { put: [user] } });
    const id = await this.#begin(user.name, newSecret(), caller);
    log.info('gate-login', { user: user.name, address: caller.address, issuer: person.issuer });
    return { kind: 'ok', id, returnTo: purpose.returnTo, awayVisit: purpose.awayVisit };
  }

  // ---- logout ----------------------------------------------------------------------------------------------------

  async #logout({ session, everywhere }: DeskQuestions['logout']['ask']): Promise<'ended'> {
    const { ledger } = this.#deps;
    const ending = ledger.sessions.get(session);
    if (ending === undefined) return 'ended';
    const { user, login } = ending;
    const gone = ledger.sessionsWhere((each) => each.user === user && (everywhere || each.login === login));
    await ledger.change({ sessions: { gone } });
    return 'ended';
  }

  // ---- another name ----------------------------------------------------------------------------------------------

  #handOver({ session, visit, to }: DeskQuestions['handOver']['ask']): DeskQuestions['handOver']['answer'] {
    const from = this.#deps.ledger.sessions.get(session);
    if (from === undefined) return null;
    const code = newSecret();
    const { user, login } = from;
    this.#tickets.set(hashOf(code), { ...to, visit, user, login, expiresAt: this.#deps.clock.now() + codeLifeMs });
    if (this.#tickets.size > ticketsMax) this.#tickets.delete(this.#tickets.keys().next().value!);
    return { code };
  }

  async #redeem({ code, visit, caller }: DeskQuestions['redeem']['ask']): Promise<DeskQuestions['redeem']['answer']> {
    const { ledger, clock } = this.#deps;
    const hash = hashOf(code);
    const ticket = this.#tickets.get(hash);
    // Whoever tries it, it is used.
    this.#tickets.delete(hash);
    if (ticket === undefined || clock.now() >= ticket.expiresAt) return null;
    if (ticket.visit !== visit || ticket.host !== caller.host || ticket.secure !== caller.secure) return null;
    // Logged out meanwhile: so is this.
    const alive = [...ledger.sessions.values()].some(({ login }) => login === ticket.login);
    if (!alive) return null;
    return { id: await this.#begin(ticket.user, ticket.login, caller), returnTo: ticket.returnTo };
  }

  // ---- uses ------------------------------------------------------------------------------------------------------

  report({ sessions, tokens, wrongTokens }: UsageReport): void {
    const { ledger } = this.#deps;
    let moved = false;
    for (const { hash, lastUsedAt, address } of sessions) {
      const session = this.#used.get(hash) ?? ledger.sessions.get(hash);
      if (session === undefined || !ledger.sessions.has(hash)) continue;
      if (lastUsedAt < session.lastUsedAt) continue;
      moved ||= address !== session.address;
      this.#used.set(hash, { ...session, lastUsedAt, address });
    }
    for (const { hash, lastUsedAt } of tokens) this.#usedTokens.set(hash, lastUsedAt);
    const waits = wrongTokens
      .map(([address, count]) => [address, this.#throttle.failed(address, count)] as const)
      .filter(([, until]) => until > 0);
    if (waits.length > 0) this.#deps.throttled(waits);
    // Whoever opens a port by logging in uses it next.
    if (moved) this.#saveUses();
  }

  /** Now and then: uses to disk, what is over out of memory. */
  sweep(): void {
    this.#saveUses();
    const now = this.#deps.clock.now();
    for (const [hash, { expiresAt }] of this.#tickets) if (now >= expiresAt) this.#tickets.delete(hash);
    // A session with something open is in use: the end of idle ones can wait for this, and for uses on their way here.
    this.#endExpired(this.#deps.lifetimes()?.sessionIdleMs ?? Infinity);
  }

  /** What a session or token has open ends with it, not at some sweep. To be called when the lifetimes have changed. */
  awaitEnding(): void {
    const { ledger, clock } = this.#deps;
    const sessionAbsoluteMs = this.#deps.lifetimes()?.sessionAbsoluteMs ?? Infinity;
    let at = Infinity;
    for (const { createdAt } of ledger.sessions.values()) at = Math.min(at, createdAt + sessionAbsoluteMs);
    for (const { expiresAt } of ledger.tokens.values()) at = Math.min(at, expiresAt ?? Infinity);
    this.#ending?.cancel();
    // A timer may fire early, by a little or because the time is beyond its reach: then another one is set.
    this.#ending =
      at === Infinity ? null : clock.after(Math.max(at - clock.now(), 1), () => this.#endExpired(Infinity));
  }

  #endExpired(sessionIdleMs: number): void {
    const { ledger, clock, log } = this.#deps;
    const now = clock.now();
    const sessionAbsoluteMs = this.#deps.lifetimes()?.sessionAbsoluteMs ?? Infinity;
    const sessions = ledger.sessionsWhere(
      ({ createdAt, lastUsedAt }) => now >= createdAt + sessionAbsoluteMs || now >= lastUsedAt + sessionIdleMs,
    );
    const tokens = [...ledger.tokens.values()]
      .filter(({ expiresAt }) => expiresAt !== null && now >= expiresAt)
      .map(({ hash }) => hash);
    if (sessions.length + tokens.length === 0) {
      this.awaitEnding();
      return;
    }
    // One that cannot be written is tried again at the next sweep.
    const failed = (error: unknown): void => log.error('gate-sweep-failed', { err: error });
    try {
      ledger.change({ sessions: { gone: sessions }, tokens: { gone: tokens } }).catch(failed);
    } catch (error) {
      failed(error);
    }
  }

  #saveUses(): void {
    const { ledger, log } = this.#deps;
    const put = [...this.#used.values()].filter(({ hash }) => ledger.sessions.has(hash));
    this.#used.clear();
    const tokens = [...this.#usedTokens].flatMap(([hash, lastUsedAt]) => {
      const token = ledger.tokens.get(hash);
      return token === undefined || lastUsedAt <= token.lastUsedAt ? [] : [{ ...token, lastUsedAt }];
    });
    this.#usedTokens.clear();
    if (put.length + tokens.length === 0) return;
    try {
      ledger.saveUses(put, tokens).catch(() => {});
    } catch (error) {
      log.error('gate-uses-not-saved', { err: error });
    }
  }
}

/**
 * Null: the name is somebody else's, or fit for nobody. Rights to apps are the operator's to give; owners come and go with
 * the issuer's groups, if it is asked for them.
 */
export function userOf(
  { issuer, subject, name, owner }: SsoPerson,
  users: ReadonlyMap<string, StoredUser>,
  now: number,
): StoredUser | null {
  for (const user of users.values()) {
    if (user.sso?.issuer === issuer && user.sso.subject === subject) {
      return owner === null ? user : { ...user, role: roleOf(owner) };
    }
  }
  if (!isUserName(name) || users.has(name)) return null;
  return { ...newUser(name, roleOf(owner), [], null, now), sso: { issuer, subject } };
}

function roleOf(owner: boolean | null): StoredUser['role'] {
  return owner === true ? 'owner' : 'user';
}

function newSecret(): string {
  return randomBytes(32).toString('base64url');
}

// What a worker judges by, gathered: the credentials, how long sessions last, the time, and the desk.
// Invariant: one a worker; follows the committed snapshot.
import type { Clock } from '../base/clock.ts';
import type { GateSettings } from '../model/snapshot.ts';
import { type Credentials, hashOf, type Identity, LiveSession, LiveToken } from './credentials.ts';
import type { Desk } from './desk.ts';
import type { Logins } from './logins.ts';
import type { Ground } from './verdict.ts';

/** What a worker's process gives its gate. */
export interface GateHost extends Desk {
  readonly credentials: Credentials;
  /** A session is used from an address that nobody knew it by. */
  addressChanged(): void;
}

const triedMax = 1000;

export class Gatekeeper implements Ground, Logins {
  readonly desk: GateHost;
  readonly credentials: Credentials;
  lifetimes: GateSettings;
  /** What forms are signed with. */
  formKey = '';
  readonly #clock: Clock;
  /** Hashes of wrong tokens: a client that sends one again and again is broken, it does not guess. */
  readonly #tried = new Set<string>();

  constructor(desk: GateHost, clock: Clock, settings: GateSettings) {
    this.desk = desk;
    this.credentials = desk.credentials;
    this.lifetimes = settings;
    this.#clock = clock;
  }

  get now(): number {
    return this.#clock.now();
  }

  follow(settings: GateSettings, cookieKey: string): void {
    this.lifetimes = settings;
    this.formKey = hashOf(`turnpike forms ${cookieKey}`);
  }

  isLoggedIn(app: string, address: string): boolean {
    const now = this.#clock.now();
    for (const session of this.credentials.sessions()) {
      if (session.isAt(address, now) && session.opens(app) && session.liveAt(now, this.lifetimes)) return true;
    }
    return false;
  }

  /** Somebody passed by this identity. */
  used(identity: Identity, address: string): void {
    if (identity instanceof LiveSession) {
      identity.used = true;
      identity.lastUsedAt = this.#clock.now();
      if (identity.address === address) return;
      identity.move(address, identity.lastUsedAt);
      this.desk.addressChanged();
    } else if (identity instanceof LiveToken) {
      identity.used = true;
      identity.lastUsedAt = this.#clock.now();
    }
  }

  /** Somebody failed with this token (by hash). Returns the seconds that they have to wait. */
  failed(token: string, address: string): number {
    if (this.credentials.token(token) === undefined && !this.#tried.has(token)) {
      this.#tried.add(token);
      if (this.#tried.size > triedMax) this.#tried.delete(this.#tried.values().next().value!);
      this.desk.wrongToken(address);
    }
    return this.desk.waitOf(address);
  }
}

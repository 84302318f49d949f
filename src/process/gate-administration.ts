// The gate's operations on what runs.
// Invariant: input is judged here, whichever way it came: command, JSON-RPC or dashboard.
import { randomBytes } from 'node:crypto';
import { isIP } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import { hashOf } from '../gate/credentials.ts';
import { effectivePolicy } from '../model/gate-policy.ts';
import type { GatePart, RoutingPart } from '../model/snapshot.ts';
import type { GateHouse } from './gate-house.ts';
import {
  type AppGateStatus,
  type CreatedToken,
  type GateOperations,
  type GatePortStatus,
  type GateStatus,
  type NewToken,
  type NewUser,
  publicId,
  type SessionStatus,
  type TokenStatus,
  type TotpSecret,
  type UserRowStatus,
} from './gate-operations.ts';
import type { StoredSession, StoredToken, StoredUser } from './gate-store.ts';
import { newTotpSecret, totpUri } from './gate-totp.ts';
import { isFitPassword, isUserName, nameRule, newUser, passwordRule } from './gate-users.ts';

export interface GateScene {
  readonly routing: RoutingPart;
  readonly gate: GatePart;
}

export class GateAdministration implements GateOperations {
  readonly #house: GateHouse;
  readonly #clock: Clock;
  readonly #scene: () => GateScene;
  readonly #ports: () => readonly GatePortStatus[];

  constructor(house: GateHouse, clock: Clock, scene: () => GateScene, ports: () => readonly GatePortStatus[]) {
    this.#house = house;
    this.#clock = clock;
    this.#scene = scene;
    this.#ports = ports;
  }

  async status(): Promise<GateStatus> {
    const { users, sessions, tokens } = this.#house.ledger;
    const apps = new Set(this.#house.declared?.apps.keys());
    for (const { app } of this.#house.gates) apps.add(app);
    return {
      host: this.#scene().gate.settings.host,
      users: users.size,
      sessions: sessions.size,
      tokens: tokens.size,
      apps: [...apps].sort().map((app) => this.#appStatus(app)),
      ports: this.#ports(),
    };
  }

  // ---- users -----------------------------------------------------------------------------------------------------

  async users(): Promise<readonly UserRowStatus[]> {
    return [...this.#house.ledger.users.values()].map((user) => this.#userStatus(user));
  }

  async addUser({ name, role, apps, password }: NewUser): Promise<UserRowStatus> {
    const { ledger, passwords } = this.#house;
    if (!isUserName(name)) throw new Fault('gate-refused', `${name} is no user name: ${nameRule}`);
    this.#judgePassword(password);
    if (ledger.users.has(name)) throw new Fault('gate-refused', `there is a user ${name} already`);
    const hash = await passwords.hash(password);
    if (ledger.users.has(name)) throw new Fault('gate-refused', `there is a user ${name} already`);
    const user = newUser(name, role, apps, hash, this.#clock.now());
    await ledger.change({ users: { put: [user] } });
    return this.#userStatus(user);
  }

  async removeUser(name: string): Promise<void> {
    const { ledger } = this.#house;
    const user = this.#user(name);
    this.#refuseLastOwner(user);
    const gone = ledger.sessionsWhere((session) => session.user === name);
    await ledger.change({ users: { gone: [name] }, sessions: { gone } });
  }

  async setPassword(name: string, password: string): Promise<void> {
    const { ledger, passwords } = this.#house;
    this.#user(name);
    this.#judgePassword(password);
    const hash = await passwords.hash(password);
    const user = this.#user(name);
    const gone = ledger.sessionsWhere((session) => session.user === name);
    await ledger.change({ users: { put: [{ ...user, password: hash }] }, sessions: { gone } });
  }

  async setRights(name: string, role: 'owner' | 'user', apps: readonly string[]): Promise<UserRowStatus> {
    const user = this.#user(name);
    if (role === 'user') this.#refuseLastOwner(user);
    const next = { ...user, role, apps };
    await this.#house.ledger.change({ users: { put: [next] } });
    return this.#userStatus(next);
  }

  async addTotp(name: string): Promise<TotpSecret> {
    const user = this.#user(name);
    const secret = newTotpSecret();
    await this.#house.ledger.change({ users: { put: [{ ...user, totp: { secret, lastStep: 0 } }] } });
    return { secret, uri: totpUri(secret, name, 'Turnpike') };
  }

  async removeTotp(name: string): Promise<void> {
    await this.#house.ledger.change({ users: { put: [{ ...this.#user(name), totp: null }] } });
  }

  // ---- tokens ----------------------------------------------------------------------------------------------------

  async tokens(): Promise<readonly TokenStatus[]> {
    return [...this.#house.ledger.tokens.values()].map(tokenStatus);
  }

  async createToken(wanted: NewToken): Promise<CreatedToken> {
    this.#judgeToken(wanted);
    const token = `tp_${randomBytes(32).toString('base64url')}`;
    const { app, name, expiresAt, paths, methods, cidrs } = wanted;
    const createdAt = this.#clock.now();
    const row = { hash: hashOf(token), app, name, expiresAt, paths, methods, cidrs, createdAt, lastUsedAt: 0 };
    await this.#house.ledger.change({ tokens: { put: [row] } });
    return { ...tokenStatus(row), token };
  }

  async revokeToken(which: string): Promise<TokenStatus> {
    const { ledger } = this.#house;
    const all = [...ledger.tokens.values()];
    const found = all.filter((token) => publicId(token.hash) === which);
    const named = found.length > 0 ? found : all.filter(({ name }) => name === which);
    if (named.length === 0) throw new Fault('gate-refused', `no token is called ${which}`);
    if (named.length > 1) {
      const ids = named.map(({ app, hash }) => `${publicId(hash)} (${app})`).join(', ');
      throw new Fault('gate-refused', `several tokens are called ${which}: name one by its id: ${ids}`);
    }
    await ledger.change({ tokens: { gone: [named[0]!.hash] } });
    return tokenStatus(named[0]!);
  }

  // ---- sessions --------------------------------------------------------------------------------------------------

  async sessions(): Promise<readonly SessionStatus[]> {
    return [...this.#house.ledger.sessions.values()].map(sessionStatus);
  }

  async revokeSessions(
    which: { readonly id: string } | { readonly user: string },
  ): Promise<{ readonly ended: number }> {
    const { ledger } = this.#house;
    const gone = ledger.sessionsWhere((session) =>
      'id' in which ? publicId(session.hash) === which.id : session.user === which.user,
    );
    if ('id' in which && gone.length === 0) throw new Fault('gate-refused', `no session is called ${which.id}`);
    if ('user' in which) this.#user(which.user);
    await ledger.change({ sessions: { gone } });
    return { ended: gone.length };
  }

  // ---- access control --------------------------------------------------------------------------------------------

  async setAppGate(app: string, enabled: boolean | null): Promise<AppGateStatus> {
    if (!this.#house.gates.some((gate) => gate.app === app)) {
      const known = this.#house.gates.map((gate) => gate.app).join(', ') || 'none';
      throw new Fault('gate-refused', `no app behind the gate is called ${app}; there are: ${known}`);
    }
    await this.#house.setOverride(app, enabled);
    return this.#appStatus(app);
  }

  #appStatus(app: string): AppGateStatus {
    const { routing, gate } = this.#scene();
    const declared = this.#house.declared?.apps.get(app) ?? null;
    const live = this.#house.gates.find((each) => each.app === app) ?? null;
    const { enabled, problem } = this.#house.overrides.read(app);
    const routes = routing.hosts.flatMap((host) => host.routes.filter((route) => route.gate?.app === app));
    return {
      app,
      policy: live?.policy ?? declared?.policy ?? 'absent',
      rationale: declared?.rationale ?? null,
      override: enabled,
      login: live === null ? null : effectivePolicy(live, gate).login,
      openPaths: live?.openPaths ?? [],
      upgradeOpenPaths: live?.upgradeOpenPaths ?? [],
      routes: [...new Set(routes.map(({ id }) => id))],
      origin: declared?.origin ?? routes[0]?.origin ?? '',
      problem,
    };
  }

  #userStatus({ name, role, apps, totp, createdAt }: StoredUser): UserRowStatus {
    const sessions = this.#house.ledger.sessionsWhere((session) => session.user === name).length;
    return { name, role, apps, totp: totp !== null, createdAt, sessions };
  }

  #user(name: string): StoredUser {
    const user = this.#house.ledger.users.get(name);
    if (user === undefined) throw new Fault('gate-refused', `there is no user ${name}`);
    return user;
  }

  /** Without an owner nobody could let anybody in by the dashboard. */
  #refuseLastOwner({ name, role }: StoredUser): void {
    const others = [...this.#house.ledger.users.values()].filter((each) => each.name !== name);
    if (role === 'owner' && others.length > 0 && !others.some((each) => each.role === 'owner')) {
      throw new Fault('gate-refused', `${name} is the last owner: make another user one first`);
    }
  }

  #judgePassword(password: string): void {
    if (!isFitPassword(password)) throw new Fault('gate-refused', `the password has to have ${passwordRule}`);
  }

  #judgeToken({ app, name, expiresAt, paths, methods, cidrs }: NewToken): void {
    const refuse = (message: string): never => {
      throw new Fault('gate-refused', message);
    };
    if (!this.#house.gates.some((gate) => gate.app === app)) refuse(`no app behind the gate is called ${app}`);
    if (!/^[A-Za-z0-9._-]{1,64}$/.test(name)) refuse('a token name has 1 to 64 letters, digits, or . _ -');
    if (expiresAt !== null && expiresAt <= this.#clock.now()) refuse('the token would have expired already');
    for (const path of paths) if (!/^\/[^\s?#%\\]*$/.test(path)) refuse(`${path}: a path such as /api/* is accepted`);
    for (const method of methods)
      if (!/^[A-Z]{1,20}$/.test(method)) refuse(`${method}: a method such as GET is accepted`);
    for (const cidr of cidrs)
      if (!isCidr(cidr)) refuse(`${cidr}: an address or CIDR such as 192.168.1.0/24 is accepted`);
  }
}

function tokenStatus({
  hash,
  app,
  name,
  expiresAt,
  paths,
  methods,
  cidrs,
  createdAt,
  lastUsedAt,
}: StoredToken): TokenStatus {
  return { id: publicId(hash), app, name, expiresAt, paths, methods, cidrs, createdAt, lastUsedAt };
}

function sessionStatus({ hash, user, host, secure, createdAt, lastUsedAt, address }: StoredSession): SessionStatus {
  return { id: publicId(hash), user, host, secure, createdAt, lastUsedAt, address };
}

function isCidr(text: string): boolean {
  const [address, bits, more] = text.split('/') as [string, string?, string?];
  const family = isIP(address);
  if (family === 0 || more !== undefined) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

// Logins by an OpenID Connect issuer (authorization code with PKCE, RFC 7636).
// Invariant: an answer of the issuer counts once, within ten minutes, for the browser that was sent there; who somebody is, is
// told by issuer and subject, never by a name that the issuer lets people choose.
import { readFileSync } from 'node:fs';
import type { ClientAuth, Configuration } from 'openid-client';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { DeclaredOidc } from '../config/declared-gate.ts';
import { addressKey } from '../gate/address-key.ts';
import { isId } from '../gate/cookies.ts';
import { isRecord, textOf, textsOf } from './gate-claims.ts';

/** Where a login by the issuer is wanted for; handed back with its end. */
export interface SsoPurpose {
  /** The client's. */
  readonly address: string;
  /** Hash of the browser's mark. */
  readonly visit: string;
  readonly redirectUri: string;
  readonly returnTo: string;
  /** Of the name that sent the browser here. */
  readonly awayVisit: string;
}

/** Somebody whom the issuer knows and who may log in. */
export interface SsoPerson {
  readonly issuer: string;
  readonly subject: string;
  readonly name: string;
  /** Null: the issuer is not asked about that. */
  readonly owner: boolean | null;
}

interface Pending extends SsoPurpose {
  readonly verifier: string;
  readonly nonce: string;
  readonly expiresAt: number;
}

const lifeMs = 10 * 60_000;
const pendingMax = 5000;
/** Of one address (an IPv6 /64): whoever begins again and again pushes out nobody else. */
const pendingOfOneMax = 20;
/** Longer ones lead nowhere anyhow. */
const returnToMax = 2048;
/** For each request to the issuer. A login takes up to four, while a worker waits for half a minute. */
const requestSeconds = 5;

export class SingleSignOn {
  readonly #declared: DeclaredOidc;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #requestSeconds: number;
  /** By state. */
  readonly #pending = new Map<string, Pending>();
  #issuer: Promise<Configuration> | null = null;

  constructor(declared: DeclaredOidc, clock: Clock, log: Log, seconds = requestSeconds) {
    this.#requestSeconds = seconds;
    this.#declared = declared;
    this.#clock = clock;
    this.#log = log;
  }

  get declared(): DeclaredOidc {
    return this.#declared;
  }

  /** Where to send the browser. Rejects when the issuer cannot be asked. */
  async begin(purpose: SsoPurpose): Promise<string> {
    const oidc = await import('openid-client');
    const issuer = await this.#discover();
    const verifier = oidc.randomPKCECodeVerifier();
    const [state, nonce] = [oidc.randomState(), oidc.randomNonce()];
    this.#remember(state, { ...purpose, verifier, nonce, expiresAt: this.#clock.now() + lifeMs });
    return oidc.buildAuthorizationUrl(issuer, {
      redirect_uri: purpose.redirectUri,
      scope: this.#declared.scopes.join(' '),
      code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      nonce,
    }).href;
  }

  #remember(state: string, pending: Pending): void {
    const address = addressKey(pending.address);
    const returnTo = pending.returnTo.length > returnToMax ? '/' : pending.returnTo;
    const awayVisit = isId(pending.awayVisit) ? pending.awayVisit : '';
    const own = [...this.#pending].filter(([, each]) => each.address === address);
    if (own.length >= pendingOfOneMax) this.#pending.delete(own[0]![0]);
    this.#pending.set(state, { ...pending, address, returnTo, awayVisit });
    if (this.#pending.size > pendingMax) this.#pending.delete(this.#pending.keys().next().value!);
  }

  /** @param url  as the browser came back @param visit  hash of its mark. Null: this login is none. */
  async end(
    url: string,
    visit: string,
  ): Promise<{ readonly person: SsoPerson | null; readonly purpose: SsoPurpose } | null> {
    const given = new URL(url);
    const state = given.searchParams.get('state') ?? '';
    const pending = this.#pending.get(state);
    // Whoever tries it, it is used.
    this.#pending.delete(state);
    if (pending === undefined || pending.visit !== visit || this.#clock.now() >= pending.expiresAt) return null;
    const current = new URL(pending.redirectUri);
    current.search = given.search;
    const oidc = await import('openid-client');
    const issuer = await this.#discover();
    try {
      const tokens = await oidc.authorizationCodeGrant(issuer, current, {
        pkceCodeVerifier: pending.verifier,
        expectedState: state,
        expectedNonce: pending.nonce,
        idTokenExpected: true,
      });
      const claims = tokens.claims();
      if (claims === undefined) return null;
      // Some issuers tell groups and addresses there only.
      const more =
        issuer.serverMetadata().userinfo_endpoint === undefined
          ? {}
          : await oidc.fetchUserInfo(issuer, tokens.access_token, claims.sub);
      return { person: judge({ ...claims, ...more }, claims.iss, claims.sub, this.#declared), purpose: pending };
    } catch (error) {
      const { message, error: problem, code } = error as Error & { readonly error?: string; readonly code?: string };
      this.#log.warn('gate-single-sign-on-refused', {
        issuer: this.#declared.issuer,
        detail: message,
        problem: problem ?? code ?? '',
      });
      // The secret may have been replaced, or the issuer have moved its endpoints.
      if (code !== 'OAUTH_AUTHORIZATION_RESPONSE_ERROR') this.#issuer = null;
      return null;
    }
  }

  /** Asked once it is needed; again after a failure. */
  #discover(): Promise<Configuration> {
    if (this.#issuer === null) {
      const found = this.#ask();
      this.#issuer = found;
      found.catch(() => {
        this.#issuer = null;
      });
    }
    return this.#issuer;
  }

  async #ask(): Promise<Configuration> {
    const { issuer, clientId, clientSecretFile } = this.#declared;
    const oidc = await import('openid-client');
    const secret = readFileSync(clientSecretFile, 'utf8').split('\n', 1)[0]!.trim();
    const url = new URL(issuer);
    const execute = [
      oidc.enableNonRepudiationChecks,
      // Loopback: anything else has to be https.
      ...(url.protocol === 'http:' ? [oidc.allowInsecureRequests] : []),
    ];
    const authentication = clientAuthentication(oidc.ClientSecretBasic(secret), oidc.ClientSecretPost(secret));
    return oidc.discovery(url, clientId, undefined, authentication, { execute, timeout: this.#requestSeconds });
  }
}

/** As the issuer takes it; basic where it does not say (OpenID Connect Discovery 1.0 §3). */
function clientAuthentication(basic: ClientAuth, post: ClientAuth): ClientAuth {
  return (server, ...rest) => {
    const accepted = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
    const way = accepted.includes('client_secret_basic') ? basic : post;
    way(server, ...rest);
  };
}

/** Null: the issuer knows them, we do not let them in. Pure. */
export function judge(claims: unknown, issuer: string, subject: string, declared: DeclaredOidc): SsoPerson | null {
  if (!isRecord(claims)) return null;
  const name = textOf(claims, declared.usernameClaim).trim().toLowerCase();
  const groups = textsOf(claims, declared.groupsClaim);
  const email = textOf(claims, 'email').toLowerCase();
  const domain = claims['email_verified'] === true ? email.slice(email.lastIndexOf('@') + 1) : '';
  const allowed =
    declared.allowedUsers.some((each) => each.toLowerCase() === name && name !== '') ||
    declared.allowedGroups.some((each) => groups.includes(each)) ||
    (domain !== '' && declared.allowedDomains.includes(domain));
  if (!allowed) return null;
  const { ownerGroups } = declared;
  const owner = ownerGroups.length === 0 ? null : ownerGroups.some((each) => groups.includes(each));
  return { issuer, subject, name, owner };
}

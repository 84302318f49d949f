// An OpenID Connect issuer on loopback: discovery, keys, token and userinfo endpoints, signed ID tokens.
// Invariant: it checks what a real one checks (client, code, PKCE, redirect URI) and hands a code out once.
import { createHash, generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';

export interface IssuedTo {
  readonly sub: string;
  readonly [claim: string]: unknown;
}

interface Grant {
  readonly claims: IssuedTo;
  readonly nonce: string;
  readonly challenge: string;
  readonly redirectUri: string;
}

export class Issuer {
  readonly clientId = 'turnpike';
  /** Members of the next ID tokens that are not as they should be. */
  wrong: Record<string, unknown> = {};
  /** Signs with a key that is not among its own. */
  forges = false;
  /** Ways of a client to prove itself that it tells; the first one is the only one that it takes. Null: tells none, takes basic. */
  methods: readonly ('client_secret_basic' | 'client_secret_post')[] | null = null;
  /** Takes requests and does not answer. */
  silent = false;
  secret = 'the client secret: 100 %';
  readonly #server: Server;
  readonly #key: KeyObject;
  readonly #strangersKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
  readonly #jwk: object;
  readonly #grants = new Map<string, Grant>();
  readonly #tokens = new Map<string, IssuedTo>();

  private constructor() {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    this.#key = privateKey;
    this.#jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'k', use: 'sig', alg: 'RS256' };
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(): Promise<Issuer> {
    const issuer = new Issuer();
    await new Promise<void>((resolve) => issuer.#server.listen(0, '127.0.0.1', resolve));
    return issuer;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  /** Somebody agrees at the address that the browser was sent to. Returns where the browser is sent next. */
  agree(authorizationUrl: string, claims: IssuedTo): string {
    const { searchParams, origin } = new URL(authorizationUrl);
    const given = (name: string): string => searchParams.get(name) ?? '';
    if (origin !== this.url || given('client_id') !== this.clientId || given('code_challenge_method') !== 'S256') {
      throw new Error(`not a request for this issuer: ${authorizationUrl}`);
    }
    const code = randomUUID();
    const redirectUri = given('redirect_uri');
    this.#grants.set(code, { claims, nonce: given('nonce'), challenge: given('code_challenge'), redirectUri });
    return `${redirectUri}?${new URLSearchParams({ code, state: given('state') }).toString()}`;
  }

  close(): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const send = (status: number, body: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    const { url } = this;
    if (this.silent) return;
    switch (request.url) {
      case '/.well-known/openid-configuration':
        return send(200, {
          issuer: url,
          authorization_endpoint: `${url}/authorize`,
          token_endpoint: `${url}/token`,
          jwks_uri: `${url}/jwks`,
          userinfo_endpoint: `${url}/userinfo`,
          response_types_supported: ['code'],
          id_token_signing_alg_values_supported: ['RS256'],
          ...(this.methods === null ? {} : { token_endpoint_auth_methods_supported: this.methods }),
        });
      case '/jwks':
        return send(200, { keys: [this.#jwk] });
      case '/userinfo':
        return send(200, this.#tokens.get(request.headers.authorization?.slice('Bearer '.length) ?? '') ?? {});
      case '/token': {
        let text = '';
        for await (const part of request) text += String(part);
        const form = new URLSearchParams(text);
        const grant = this.#grants.get(form.get('code') ?? '');
        this.#grants.delete(form.get('code') ?? '');
        const challenge = createHash('sha256')
          .update(form.get('code_verifier') ?? '')
          .digest('base64url');
        const fits =
          this.#isClient(request, form) &&
          grant !== undefined &&
          grant.challenge === challenge &&
          grant.redirectUri === form.get('redirect_uri');
        if (!fits) return send(400, { error: 'invalid_grant' });
        const accessToken = randomUUID();
        this.#tokens.set(accessToken, grant.claims);
        const now = Math.floor(Date.now() / 1000);
        const { sub } = grant.claims;
        const idToken = {
          iss: url,
          aud: this.clientId,
          sub,
          nonce: grant.nonce,
          iat: now,
          exp: now + 60,
          ...this.wrong,
        };
        return send(200, { access_token: accessToken, token_type: 'Bearer', id_token: this.#sign(idToken) });
      }
      default:
        send(404, {});
    }
  }

  /** RFC 6749 §2.3.1: both parts are form-encoded before they are joined. */
  #isClient({ headers }: IncomingMessage, form: URLSearchParams): boolean {
    if (this.methods?.[0] === 'client_secret_post') {
      return form.get('client_secret') === this.secret && headers.authorization === undefined;
    }
    const encoded = (text: string): string => new URLSearchParams({ x: text }).toString().slice(2);
    const pair = Buffer.from(`${encoded(this.clientId)}:${encoded(this.secret)}`).toString('base64');
    return headers.authorization === `Basic ${pair}` && !form.has('client_secret');
  }

  #sign(claims: object): string {
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
    const text = `${part({ alg: 'RS256', kid: 'k' })}.${part(claims)}`;
    return `${text}.${sign('sha256', Buffer.from(text), this.forges ? this.#strangersKey : this.#key).toString('base64url')}`;
  }
}

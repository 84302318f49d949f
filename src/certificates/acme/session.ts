// The conversation with one CA: its directory, its nonces, signed requests.
// Invariant: no nonce is used twice; a request that the CA refuses for its nonce is the same request under another one, a
// bounded number of times.
import type { Clock } from '../../base/clock.ts';
import { type Directory, readDirectory, resourceUrl } from './directory.ts';
import { AcmeFailure } from './failure.ts';
import type { HttpAnswer, HttpClient } from './http.ts';
import type { AccountKey } from './jose.ts';
import { failureOf } from './problem.ts';
import { sleep } from './sleep.ts';

/** A CA that refuses this many nonces of its own in a row has no good ones. */
const maxAttempts = 24;
/** Up to here it is bad luck, and waiting would not help. */
const freeAttempts = 6;
const noncePauseMs = 200;
const keptNonces = 16;
const directoryLifeMs = 3_600_000;

export interface Ask {
  readonly url: string;
  /** Null: POST-as-GET. */
  readonly payload: object | null;
  readonly key: AccountKey;
  /** Null: by public key, for requests before there is an account. */
  readonly account: string | null;
  /** For messages: "new order". */
  readonly what: string;
  /** That the request is about. */
  readonly names?: readonly string[];
  readonly accept?: string;
}

export class Session {
  readonly directoryUrl: string;
  readonly clock: Clock;
  readonly #http: HttpClient;
  #directory: { readonly value: Directory; readonly at: number } | null = null;
  /** Most recent last; that one is used first. */
  readonly #nonces: string[] = [];

  constructor(directoryUrl: string, http: HttpClient, clock: Clock) {
    this.directoryUrl = directoryUrl;
    this.#http = http;
    this.clock = clock;
  }

  async directory(signal: AbortSignal): Promise<Directory> {
    const known = this.#directory;
    const now = this.clock.monotonic();
    if (known !== null && now - known.at < directoryLifeMs) return known.value;
    const answer = await this.#http.ask({ method: 'GET', url: this.directoryUrl }, signal);
    if (answer.status !== 200) throw failureOf(answer, 'directory', [], this.clock.now());
    const value = readDirectory(answer.text, this.directoryUrl);
    this.#directory = { value, at: now };
    return value;
  }

  /** A signed request that was accepted. Rejects with what the CA said otherwise. */
  async post(ask: Ask, signal: AbortSignal): Promise<HttpAnswer> {
    const { url, payload, key, account, what, names = [], accept } = ask;
    for (let attempt = 1; ; attempt++) {
      const nonce = await this.#takeNonce(signal);
      const header = { ...(account === null ? { jwk: key.jwk } : { kid: account }), nonce, url };
      const headers = { 'content-type': 'application/jose+json', ...(accept === undefined ? {} : { accept }) };
      const body = JSON.stringify(key.sign(header, payload));
      const answer = await this.#http.ask({ method: 'POST', url, headers, body }, signal);
      this.#keepNonce(answer);
      if (answer.status >= 200 && answer.status < 300) return answer;
      const failure = failureOf(answer, what, names, this.clock.now());
      if (failure.problemType !== 'badNonce' || attempt === maxAttempts) throw failure;
      if (attempt >= freeAttempts) await sleep(this.clock, noncePauseMs, signal);
    }
  }

  /** What needs no signature (RFC 9773 §4.1). */
  async get(url: string, what: string, signal: AbortSignal): Promise<HttpAnswer> {
    const answer = await this.#http.ask({ method: 'GET', url }, signal);
    if (answer.status !== 200) throw failureOf(answer, what, [], this.clock.now());
    return answer;
  }

  /** A URL that the CA told in an answer. */
  resource(value: unknown, what: string): string {
    const url = resourceUrl(value, this.directoryUrl);
    if (url === null) throw new AcmeFailure('server', `${what}: the answer names no usable URL`, { scope: 'account' });
    return url;
  }

  async #takeNonce(signal: AbortSignal): Promise<string> {
    const kept = this.#nonces.pop();
    if (kept !== undefined) return kept;
    const { newNonce } = await this.directory(signal);
    const answer = await this.#http.ask({ method: 'HEAD', url: newNonce }, signal);
    const nonce = nonceOf(answer);
    if (nonce !== null) return nonce;
    if (answer.status >= 400) throw failureOf(answer, 'new nonce', [], this.clock.now());
    throw new AcmeFailure('server', 'the CA gave no nonce', { status: answer.status, scope: 'account' });
  }

  #keepNonce(answer: HttpAnswer): void {
    const nonce = nonceOf(answer);
    if (nonce === null) return;
    if (this.#nonces.length === keptNonces) this.#nonces.shift();
    this.#nonces.push(nonce);
  }
}

/** RFC 8555 §6.5.1: base64url, or it is ignored. */
function nonceOf(answer: HttpAnswer): string | null {
  const nonce = answer.header('replay-nonce');
  return nonce !== null && /^[A-Za-z0-9_-]{1,512}$/.test(nonce) ? nonce : null;
}

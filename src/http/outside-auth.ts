// Asks another program whether a request may pass (forward authentication), and understands its answer.
// Invariant: nobody passes without a 2xx of that program within the time; it sees no credential of ours, and nothing of its
// answer reaches an app or a client but the fields named here.
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Clock, Timer } from '../base/clock.ts';
import { request, secureRequest } from '../base/node-http.ts';
import { stripTokens } from '../gate/authorization.ts';
import { dropForeignSetCookies, joinedCookies, stripCookies } from '../gate/cookies.ts';
import { FieldId } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import type { RequestHead } from '../message/head.ts';
import type { ForwardAuth } from '../model/snapshot.ts';
import type { RequestVisitor } from './visitor.ts';

export type OutsideVerdict =
  /** Fields for the app, as named in `copy_headers`. */
  | { readonly kind: 'pass'; readonly fields: readonly (readonly [name: string, value: string])[] }
  /** What the client is to be told. */
  | { readonly kind: 'refuse'; readonly status: number; readonly fields: Fields; readonly body: Buffer }
  /** No answer, or one that means nothing: nobody passes. */
  | { readonly kind: 'unknown'; readonly detail: string };

const bodyMax = 65_536;
/** Open at once in one worker; whoever comes then is not let in. */
const questionsMax = 256;
/** What the program says to the client. */
const relayed = ['location', 'www-authenticate', 'content-type'] as const;
/** What it may want to know of the request. */
const shown = ['Accept', 'User-Agent', 'X-Requested-With', 'Accept-Language'] as const;

export class OutsideAuth {
  readonly #clock: Clock;
  #open = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `answered` once, later; never after the returned function was called. */
  ask(
    auth: ForwardAuth,
    head: RequestHead,
    visitor: RequestVisitor,
    answered: (verdict: OutsideVerdict) => void,
  ): () => void {
    if (this.#open >= questionsMax) return refuseSoon(answered);
    const question = new Question(auth, questionFields(head, visitor), this.#clock, answered, () => {
      this.#open--;
    });
    this.#open++;
    return () => question.leave();
  }
}

function refuseSoon(answered: (verdict: OutsideVerdict) => void): () => void {
  let over = false;
  queueMicrotask(() => {
    if (!over) answered({ kind: 'unknown', detail: `${questionsMax} questions are open` });
  });
  return () => {
    over = true;
  };
}

/** One question, until its connection is free again. */
class Question {
  readonly #auth: ForwardAuth;
  readonly #fields: Readonly<Record<string, string>>;
  readonly #answered: (verdict: OutsideVerdict) => void;
  readonly #closed: () => void;
  readonly #timer: Timer;
  #asking: ClientRequest;
  /** Nobody waits for the verdict any more. */
  #over = false;
  #heard = false;

  constructor(
    auth: ForwardAuth,
    fields: Readonly<Record<string, string>>,
    clock: Clock,
    answered: (verdict: OutsideVerdict) => void,
    closed: () => void,
  ) {
    this.#auth = auth;
    this.#fields = fields;
    this.#answered = answered;
    this.#closed = closed;
    this.#asking = this.#send(false);
    // Covers the body as well: a program that never ends its answer does not keep the connection.
    this.#timer = clock.after(auth.timeoutMs, () => this.#fail(`no answer within ${auth.timeoutMs} ms`));
  }

  leave(): void {
    this.#over = true;
    this.#asking.destroy();
  }

  #send(again: boolean): ClientRequest {
    const { url } = this.#auth;
    const send = url.startsWith('https:') ? secureRequest : request;
    const asking = send(url, { method: 'GET', headers: this.#fields, ...(again ? { agent: false } : {}) });
    asking.on('error', (error) => {
      // A kept connection that was closed over there in this moment says nothing about the request.
      if (!again && asking.reusedSocket && !this.#heard && !this.#over) this.#asking = this.#send(true);
      else this.#finish({ kind: 'unknown', detail: error.message });
    });
    asking.on('response', (response) => this.#read(response));
    asking.on('close', () => {
      if (asking !== this.#asking) return;
      this.#timer.cancel();
      this.#finish({ kind: 'unknown', detail: 'no answer' });
      this.#closed();
    });
    asking.end();
    return asking;
  }

  #read(response: IncomingMessage): void {
    this.#heard = true;
    const { statusCode: status = 0, headers } = response;
    const refuses = status >= 300 && status < 500;
    const chunks: Buffer[] = [];
    let size = 0;
    response.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > bodyMax) this.#fail(`an answer of more than ${bodyMax} bytes`);
      else if (refuses) chunks.push(chunk);
    });
    response.on('error', (error) => this.#finish({ kind: 'unknown', detail: error.message }));
    response.on('end', () => {
      if (refuses) this.#finish({ kind: 'refuse', status, fields: toldFields(headers), body: Buffer.concat(chunks) });
    });
    if (refuses) return;
    const passes = status >= 200 && status < 300;
    this.#finish(
      passes
        ? { kind: 'pass', fields: copiedFields(headers, this.#auth.copyHeaders) }
        : { kind: 'unknown', detail: `status ${status}` },
    );
  }

  #fail(detail: string): void {
    this.#finish({ kind: 'unknown', detail });
    this.#asking.destroy();
  }

  #finish(verdict: OutsideVerdict): void {
    if (this.#over) return;
    this.#over = true;
    this.#answered(verdict);
  }
}

function questionFields(
  head: RequestHead,
  { ownOrigin, address, secure, method }: RequestVisitor,
): Record<string, string> {
  const own = new Fields();
  for (const [name, value] of head.fields.entries()) own.add(name, value);
  stripCookies(own);
  stripTokens(own);
  const host = ownOrigin.slice(ownOrigin.indexOf('//') + 2);
  const headers: Record<string, string> = {
    'x-forwarded-method': method,
    'x-forwarded-proto': secure ? 'https' : 'http',
    'x-forwarded-host': host,
    'x-forwarded-uri': head.target,
    'x-forwarded-for': address,
    'x-original-url': ownOrigin + head.target,
    'x-original-method': method,
  };
  const cookie = joinedCookies(own);
  if (cookie !== '') headers['cookie'] = cookie;
  const authorization = own.get(FieldId.Authorization);
  if (authorization !== null) headers['authorization'] = authorization;
  for (const name of shown) {
    const value = own.getNamed(name);
    if (value !== null) headers[name.toLowerCase()] = value;
  }
  return headers;
}

/** For the app. */
function copiedFields(
  headers: IncomingHttpHeaders,
  names: readonly string[],
): readonly (readonly [name: string, value: string])[] {
  return names.flatMap((name) => {
    const value = headers[name.toLowerCase()];
    return typeof value === 'string' ? [[name, value] as const] : [];
  });
}

/** For the client. */
function toldFields(headers: IncomingHttpHeaders): Fields {
  const fields = new Fields();
  fields.push('Cache-Control', 'no-store', FieldId.CacheControl);
  for (const name of relayed) {
    const value = headers[name];
    if (typeof value === 'string') fields.add(name, value);
  }
  for (const cookie of headers['set-cookie'] ?? []) fields.push('Set-Cookie', cookie, FieldId.SetCookie);
  dropForeignSetCookies(fields);
  return fields;
}

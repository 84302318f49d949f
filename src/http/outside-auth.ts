// Asks another program whether a request may pass (forward authentication), and understands its answer.
// Invariant: nobody passes without a 2xx of that program within the time; it sees no credential of ours, and nothing of its
// answer reaches an app or a client but the fields named here.
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Clock } from '../base/clock.ts';
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
/** What the program says to the client. */
const relayed = ['location', 'www-authenticate', 'content-type'] as const;
/** What it may want to know of the request. */
const shown = ['Accept', 'User-Agent', 'X-Requested-With', 'Accept-Language'] as const;

/** Calls `answered` once, later; never after the returned function was called. */
export function askOutside(
  { url, copyHeaders, timeoutMs }: ForwardAuth,
  head: RequestHead,
  visitor: RequestVisitor,
  clock: Clock,
  answered: (verdict: OutsideVerdict) => void,
): () => void {
  let over = false;
  const finish = (verdict: OutsideVerdict): void => {
    if (over) return;
    over = true;
    timer.cancel();
    answered(verdict);
  };
  const send = url.startsWith('https:') ? secureRequest : request;
  const asking: ClientRequest = send(url, { method: 'GET', headers: question(head, visitor), setHost: true });
  const timer = clock.after(timeoutMs, () => {
    finish({ kind: 'unknown', detail: `no answer within ${timeoutMs} ms` });
    asking.destroy();
  });
  asking.on('error', (error) => finish({ kind: 'unknown', detail: error.message }));
  asking.on('response', (response) => read(response, copyHeaders, finish));
  asking.end();
  return () => {
    over = true;
    timer.cancel();
    asking.destroy();
  };
}

function question(head: RequestHead, { ownOrigin, address, secure, method }: RequestVisitor): Record<string, string> {
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

function read(response: IncomingMessage, copied: readonly string[], finish: (verdict: OutsideVerdict) => void): void {
  const { statusCode: status = 0, headers } = response;
  if (status >= 200 && status < 300) {
    response.resume();
    const fields = copied.flatMap((name) => {
      const value = headers[name.toLowerCase()];
      return typeof value === 'string' ? [[name, value] as const] : [];
    });
    finish({ kind: 'pass', fields });
    return;
  }
  if (status < 300 || status >= 500) {
    response.resume();
    finish({ kind: 'unknown', detail: `status ${status}` });
    return;
  }
  const fields = new Fields();
  fields.push('Cache-Control', 'no-store', FieldId.CacheControl);
  for (const name of relayed) {
    const value = headers[name];
    if (typeof value === 'string') fields.add(name, value);
  }
  for (const cookie of headers['set-cookie'] ?? []) fields.push('Set-Cookie', cookie, FieldId.SetCookie);
  dropForeignSetCookies(fields);
  const chunks: Buffer[] = [];
  let size = 0;
  response.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size <= bodyMax) chunks.push(chunk);
    else {
      finish({ kind: 'unknown', detail: `an answer of more than ${bodyMax} bytes` });
      response.destroy();
    }
  });
  response.on('error', (error) => finish({ kind: 'unknown', detail: error.message }));
  response.on('end', () => finish({ kind: 'refuse', status, fields, body: Buffer.concat(chunks) }));
}

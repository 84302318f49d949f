// Names for requests, so that a client's complaint, a log line and an app's log can be put together.
// Invariant: unique over processes and restarts for all practical purposes; made of [0-9a-z-] only.
import { randomBytes } from 'node:crypto';

/** 60 random bits per process, then a counter: one short concatenation per request instead of a call for entropy. */
export class RequestIds {
  readonly #prefix = BigInt(`0x${randomBytes(8).toString('hex')}`)
    .toString(36)
    .slice(0, 12);
  #next = 0;

  next(): string {
    return `${this.#prefix}-${(this.#next++).toString(36)}`;
  }
}

/** An id that a trusted peer sent is kept when it can stand in a log line and a page unchanged. */
export function isUsableRequestId(id: string): boolean {
  if (id.length === 0 || id.length > 128) return false;
  for (let i = 0; i < id.length; i++) {
    const c = id.charCodeAt(i);
    if (c < 0x21 || c > 0x7e) return false;
  }
  return true;
}

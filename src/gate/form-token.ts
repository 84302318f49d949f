// Forms of the gate come from the gate: a token that only a page of ours on this name, in this browser, has. Pure.
// Invariant: bound to the browser's mark and the host; needs no memory, so every worker knows every other's.
import { createHmac, timingSafeEqual } from 'node:crypto';

/** @param key  the workers' shared secret @param visit  the mark in the cookie */
export function formToken(key: string, host: string, visit: string): string {
  return createHmac('sha256', key).update(`turnpike form\n${host}\n${visit}`).digest('base64url');
}

export function isFormToken(given: string, key: string, host: string, visit: string): boolean {
  const right = Buffer.from(formToken(key, host, visit));
  const sent = Buffer.from(given);
  return sent.length === right.length && timingSafeEqual(sent, right);
}

// The gate's cookies: their names, how they are read from a request, taken out of it, and set. Pure.
// Invariant: whoever spells one of the names, in whatever case, it does not reach an app or come from one; only the exact
// name is ever believed.
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';

const session = 'turnpike_session';
/** Random, without meaning to the supervisor: forms and logins elsewhere are bound to the browser by it. */
const visit = 'turnpike_visit';
/** Browsers accept such a name over https only, for one host, from that host (RFC 6265bis §4.1.3.2). */
const hostPrefix = '__Host-';

const spellings = (name: string): readonly string[] => [name, (hostPrefix + name).toLowerCase()];
const marks: ReadonlySet<string> = new Set(spellings(visit));
const ours: ReadonlySet<string> = new Set([...spellings(session), ...marks]);
/** Four identities at once is nobody's browser. */
const candidatesMax = 4;

/** A cookie in the clear is one that everybody on the way could have set: over https only the other one counts. */
export function sessionCookieName(secure: boolean): string {
  return secure ? hostPrefix + session : session;
}

export function visitCookieName(secure: boolean): string {
  return secure ? hostPrefix + visit : visit;
}

/** Every different value of the cookie that has the form of an id of ours, in order; none when there are too many. */
export function cookieIds(cookie: string, name: string): readonly string[] {
  if (!cookie.includes(name)) return none;
  const found: string[] = [];
  for (const pair of cookie.split(';')) {
    const equals = pair.indexOf('=');
    if (equals < 0 || pair.slice(0, equals).trim() !== name) continue;
    const value = pair.slice(equals + 1).trim();
    if (isId(value) && !found.includes(value)) found.push(value);
  }
  return found.length > candidatesMax ? none : found;
}

const none: readonly string[] = [];

/** 256 bits in base64url. */
export function isId(text: string): boolean {
  return text.length === 43 && /^[A-Za-z0-9_-]+$/.test(text);
}

/** Takes our cookies out of every Cookie line; the rest stays as it was, and a line that was ours alone goes. */
export function stripCookies(fields: Fields, last: StrippedCookie | null = null): void {
  const i = fields.ids.indexOf(FieldId.Cookie);
  if (i < 0) return;
  // A client sends the same cookies again and again.
  const alone = fields.ids.indexOf(FieldId.Cookie, i + 1) < 0;
  if (last !== null && alone && fields.values[i] === last.cookie && last.cookie !== '') {
    if (last.rest === '') fields.removeAt(i);
    else fields.replace(i, last.rest);
    return;
  }
  const cookie = fields.values[i]!;
  strip(fields, ours);
  if (last === null || !alone) return;
  last.cookie = cookie;
  last.rest = fields.ids[i] === FieldId.Cookie ? fields.values[i]! : '';
}

/** What was left of a line of cookies. */
export interface StrippedCookie {
  cookie: string;
  rest: string;
}

function strip(fields: Fields, names: ReadonlySet<string>): void {
  const { ids, values } = fields;
  for (let i = ids.indexOf(FieldId.Cookie); i >= 0; i = ids.indexOf(FieldId.Cookie, i + 1)) {
    const value = values[i]!;
    if (!mayHoldOurs(value)) continue;
    const rest = without(value, names);
    if (rest === '') fields.removeAt(i);
    else fields.replace(i, rest);
  }
}

/** Where the app is to get the session, it still has no use for the mark. */
export function stripVisits(fields: Fields): void {
  strip(fields, marks);
}

/** All Cookie lines as one. */
export function joinedCookies(fields: Fields): string {
  const { ids, values } = fields;
  let joined = '';
  for (let i = ids.indexOf(FieldId.Cookie); i >= 0; i = ids.indexOf(FieldId.Cookie, i + 1)) {
    joined = joined === '' ? values[i]! : `${joined}; ${values[i]!}`;
  }
  return joined;
}

const mayHoldOurs = (value: string): boolean => /turnpike_/i.test(value);

function without(value: string, names: ReadonlySet<string>): string {
  let kept = '';
  let first = true;
  for (const pair of value.split(';')) {
    const equals = pair.indexOf('=');
    const name = (equals < 0 ? pair : pair.slice(0, equals)).trim().toLowerCase();
    if (names.has(name)) continue;
    kept = first ? pair.trimStart() : `${kept};${pair}`;
    first = false;
  }
  return kept;
}

/**
 * Removes what would set or clear a cookie of ours, and tells how many lines that were. Browsers send a nameless cookie
 * (`=turnpike_session=x`) just like one of that name.
 */
export function dropForeignSetCookies(fields: Fields): number {
  const { ids, values } = fields;
  let dropped = 0;
  for (let i = ids.indexOf(FieldId.SetCookie); i >= 0; i = ids.indexOf(FieldId.SetCookie, i + 1)) {
    const value = values[i]!;
    if (!mayHoldOurs(value)) continue;
    const pair = value.split(';', 1)[0]!.replace(/^[\s=]+/, '');
    if (!ours.has(pair.split('=', 1)[0]!.trim().toLowerCase())) continue;
    fields.removeAt(i);
    dropped++;
  }
  return dropped;
}

export function setSession(id: string, secure: boolean, maxAgeMs: number): string {
  return setCookie(sessionCookieName(secure), id, secure, Math.floor(maxAgeMs / 1000));
}

export function clearSession(secure: boolean): string {
  return setCookie(sessionCookieName(secure), '', secure, 0);
}

export function setVisit(id: string, secure: boolean): string {
  return setCookie(visitCookieName(secure), id, secure, 3600);
}

function setCookie(name: string, value: string, secure: boolean, maxAge: number): string {
  return `${name}=${value}; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
}

// The fields that tell an app who asks: everybody else's are removed, ours are set. Pure.
// Invariant: after `removeClaims` no field is left that an app could take for ours, in any spelling that CGI-like servers
// make one of; ours are set only for an identity that was proven.
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import type { Identity } from './credentials.ts';

/** Names by which other gates tell apps who asks. */
const claims: ReadonlySet<string> = new Set([
  'remote-user',
  'remote-name',
  'remote-email',
  'remote-groups',
  'x-remote-user',
  'x-forwarded-user',
  'x-forwarded-email',
  'x-forwarded-groups',
  'x-forwarded-preferred-username',
  'x-webauth-user',
]);
const claimFamilies = ['x-turnpike-', 'x-auth-request-'];

export function removeClaims(fields: Fields): void {
  const { ids, names } = fields;
  for (let i = 0; i < ids.length; i++) {
    if (ids[i] === FieldId.Other && isClaim(names[i]!)) ids[i] = FieldId.Removed;
  }
}

/** The gate's own family alone: what no app may be told by anybody, behind the gate or not. */
export function removeOwnClaims(fields: Fields): void {
  const { ids, names } = fields;
  for (let i = 0; i < ids.length; i++) {
    if (ids[i] === FieldId.Other && spelled(names[i]!).startsWith('x-turnpike-')) ids[i] = FieldId.Removed;
  }
}

/** Fields with these names, however a client spells them. */
export function removeSpelled(fields: Fields, wanted: readonly string[]): void {
  for (const name of wanted) fields.removeNamed(name);
  const { ids, names } = fields;
  for (let i = 0; i < ids.length; i++) {
    if (ids[i] !== FieldId.Other || !/[_.]/.test(names[i]!)) continue;
    const name = names[i]!.toLowerCase().replace(/[_.]/g, '-');
    if (wanted.some((each) => each.toLowerCase() === name)) ids[i] = FieldId.Removed;
  }
}

export function setIdentity(fields: Fields, identity: Identity, app: string): void {
  // Names of users, tokens and apps are fit for a line when they are made.
  fields.pushSafe('X-Turnpike-User', identity.user, FieldId.Other);
  fields.pushSafe('X-Turnpike-Role', identity.role, FieldId.Other);
  fields.pushSafe('X-Turnpike-App', app, FieldId.Other);
}

function isClaim(name: string): boolean {
  const lower = spelled(name);
  return lower !== '' && (claims.has(lower) || claimFamilies.some((family) => lower.startsWith(family)));
}

/** In the one spelling of the lists; '' for a name that begins like none of them. */
function spelled(name: string): string {
  const first = name.charCodeAt(0) | 0x20;
  if (first !== 0x78 && first !== 0x72) return '';
  return name.toLowerCase().replace(/[_.]/g, '-');
}

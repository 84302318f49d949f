// The fields that tell an app who asks: everybody else's are removed, ours are set. Pure.
// Invariant: after `removeClaims` no field is left that an app could take for ours, in any spelling that CGI-like servers
// make one of; ours are set only for an identity that was proven.
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import { isClaim, isOwnClaim } from '../message/identity-claims.ts';
import type { Identity } from './credentials.ts';

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
    if (ids[i] === FieldId.Other && isOwnClaim(names[i]!)) ids[i] = FieldId.Removed;
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

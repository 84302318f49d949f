// App tokens in the Authorization field: `Bearer tp_…`, or as the password of Basic for clients that know nothing else.
// Invariant: what does not have exactly the form of a token of ours belongs to the app: never believed, never removed.
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';

const tokenLength = 46;
/** `Basic ` and the base64 of a name of 256 bytes with a token. */
const basicMax = 512;

/** The one token that the request brings; null: none, or more than one. */
export function tokenOf(fields: Fields): string | null {
  const i = fields.indexOf(FieldId.Authorization);
  if (i < 0 || fields.ids.indexOf(FieldId.Authorization, i + 1) >= 0) return null;
  return tokenIn(fields.values[i]!);
}

/** Takes away every Authorization line that holds a token of ours, valid or not. */
export function stripTokens(fields: Fields): void {
  const { ids, values } = fields;
  for (let i = ids.indexOf(FieldId.Authorization); i >= 0; i = ids.indexOf(FieldId.Authorization, i + 1)) {
    if (tokenIn(values[i]!) !== null) fields.removeAt(i);
  }
}

export function isToken(text: string): boolean {
  return text.length === tokenLength && /^tp_[A-Za-z0-9_-]+$/.test(text);
}

function tokenIn(authorization: string): string | null {
  const space = authorization.indexOf(' ');
  if (space < 0) return null;
  const rest = authorization.slice(space + 1).trim();
  switch (authorization.slice(0, space).toLowerCase()) {
    case 'bearer':
      return isToken(rest) ? rest : null;
    case 'basic': {
      if (rest.length > basicMax) return null;
      // RFC 7617 §2: the user id ends at the first colon.
      const pair = Buffer.from(rest, 'base64').toString('latin1');
      const password = pair.slice(pair.indexOf(':') + 1);
      return isToken(password) ? password : null;
    }
    default:
      return null;
  }
}

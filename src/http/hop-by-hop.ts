// What belongs to one hop only and must not travel further, in either direction (RFC 9110 §7.6.1).
// Invariant: runs before anything of ours is added, so no peer can name a field of ours and have it stripped.
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';

/**
 * Marks the fields that Connection nominates. The framing and connection fields themselves are never emitted by a
 * serialiser, whatever is found here; Host is not a field that a peer may talk away.
 */
export function removeNominated(fields: Fields): void {
  const { ids, names, values } = fields;
  let nominated: Set<string> | null = null;
  for (let i = ids.indexOf(FieldId.Connection); i >= 0; i = ids.indexOf(FieldId.Connection, i + 1)) {
    const value = values[i]!;
    if (isPlainOption(value)) continue;
    nominated ??= new Set();
    for (const each of value.split(',')) nominated.add(each.trim().toLowerCase());
  }
  if (nominated === null) return;
  // One pass over the fields, however many names there are: thousands of names fit into one head.
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if (id === FieldId.Removed || id === FieldId.Host || isConnectionField(id)) continue;
    if (nominated.has(names[i]!.toLowerCase())) ids[i] = FieldId.Removed;
  }
}

/** The options that nearly every Connection field consists of; they nominate nothing that would be forwarded. */
function isPlainOption(value: string): boolean {
  switch (value) {
    case 'keep-alive':
    case 'Keep-Alive':
    case 'close':
    case 'Upgrade':
    case 'upgrade':
      return true;
    default:
      return false;
  }
}

/** True for the fields that serialisers write by themselves: never part of what is forwarded, added or set by rules. */
export function isConnectionField(id: number): boolean {
  switch (id) {
    case FieldId.Connection:
    case FieldId.ContentLength:
    case FieldId.TransferEncoding:
    case FieldId.Te:
    case FieldId.Trailer:
    case FieldId.Upgrade:
    case FieldId.KeepAlive:
    case FieldId.ProxyConnection:
    case FieldId.Http2Settings:
      return true;
    default:
      return false;
  }
}

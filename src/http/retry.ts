// Whether a request that its backend failed may be tried once more. Pure.
// Invariant: a request that may have been acted on is never sent twice unless its method makes that harmless.
import type { Fault } from '../base/fault.ts';

/** RFC 9110 §9.2.2. Methods are case-sensitive; one we do not know may do anything. */
export function isIdempotent(method: string): boolean {
  switch (method) {
    case 'GET':
    case 'HEAD':
    case 'PUT':
    case 'DELETE':
    case 'OPTIONS':
    case 'TRACE':
      return true;
    default:
      return false;
  }
}

export function mayTryAgain(fault: Fault, method: string): boolean {
  return fault.retry === 'yes' || (fault.retry === 'idempotent' && isIdempotent(method));
}

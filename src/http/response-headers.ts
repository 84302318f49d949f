// The header fields of an answer as its client gets them.
// Invariant: what the backend's hop owns is removed before anything of ours is added; Set-Cookie and Location lines pass
// unchanged and in order; Date, Via and Server are the app's own business.
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';
import type { ConnectionFacts } from '../message/stream.ts';
import { applyRules } from './header-rules.ts';
import { removeNominated } from './hop-by-hop.ts';
import type { RoutePlan } from './plans.ts';

/** @param stickyCookie  a Set-Cookie value that binds the client to the backend, or null
 * @param host  canonical host of the request
 */
export function prepareResponse(
  fields: Fields,
  plan: RoutePlan,
  connection: ConnectionFacts,
  stickyCookie: string | null,
  host: string,
): void {
  removeNominated(fields);
  fields.remove(FieldId.ProxyAuthenticate);
  plan.guard?.prepareResponse(fields, connection, host);
  if (stickyCookie !== null) fields.push('Set-Cookie', stickyCookie, FieldId.SetCookie);
  applySite(fields, plan, connection);
}

/** What a host or route adds to every answer of its own, be it an app's, a fixed one or a redirect. */
export function applySite(fields: Fields, plan: RoutePlan, connection: ConnectionFacts): void {
  const { hsts } = plan.host.entry.host;
  // RFC 6797 §7.2: never over plaintext.
  if (hsts !== null && connection.tls !== null) {
    fields.set('Strict-Transport-Security', hsts, FieldId.StrictTransportSecurity);
  }
  applyRules(plan.responseRules, fields);
}

/** The fields of a 1xx answer (RFC 9110 §15.2): of this hop's, nothing. */
export function prepareInformation(fields: Fields): void {
  removeNominated(fields);
}

// What the TLS policy of a host makes of a plaintext request: serve it, send it to https, or refuse it.
// Invariant: `always` is judged by the connection alone; the target of a redirect is the matched host, path and query as
// sent, and a TLS port that a client can reach.
import { clientKind } from '../gate/client-kind.ts';
import { FieldId } from '../message/field-id.ts';
import type { RequestHead } from '../message/head.ts';
import { judgePlaintext, redirectPort } from '../model/tls-policy.ts';
import type { Answer } from './answer.ts';
import type { ConnectionPlan } from './connection-plan.ts';
import type { HostMatch } from './host-match.ts';
import type { HostPlan } from './plans.ts';
import { lastElement } from './request-headers.ts';
import { httpsRedirect } from './respond.ts';

/** Null: serve it. */
export function judgePlaintextRequest(
  head: RequestHead,
  match: HostMatch,
  plan: HostPlan,
  connection: ConnectionPlan,
): Answer | 'misdirected' | null {
  const policy = plan.entry.host.tls;
  if (policy === 'never') return null;
  if (policy === 'either' && !prefersHttps(head, match, connection)) return null;
  const endpoint = plan.httpsEndpoint(match.host);
  const { redirect } = match.plans.compiled.table.part.settings;
  const { facts } = connection;
  switch (
    judgePlaintext(
      policy === 'either' ? 'auto' : policy,
      endpoint !== null,
      redirect,
      facts.trustedPeer && saysHttps(head),
    )
  ) {
    case 'serve':
      return null;
    case 'misdirected':
      return 'misdirected';
    case 'redirect': {
      const { port, publicPort } = endpoint!;
      // Clients know the plaintext listener by its public port, when it has one.
      const plainPort = match.port === match.listenPort ? match.listenPort : facts.localPort;
      return httpsRedirect(match.host, redirectPort(match.port, plainPort, port, publicPort), head);
    }
  }
}

/** On a port of the gate pages are sent to https if the operator prefers that; programmes are served as they come. */
function prefersHttps(head: RequestHead, { plans }: HostMatch, { facts }: ConnectionPlan): boolean {
  if (plans.gatePart.settings.https !== 'prefer' || clientKind(head) !== 'navigation') return false;
  return !(facts.trustedPeer && saysHttps(head));
}

/** The last element is what the trusted peer itself says; anything before it may come from anyone. */
export function saysHttps(head: RequestHead): boolean {
  const { ids, values } = head.fields;
  const i = ids.lastIndexOf(FieldId.XForwardedProto);
  return i >= 0 && lastElement(values[i]!).toLowerCase() === 'https';
}

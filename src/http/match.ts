// Which host of ours a request is for, judged once per connection and host name.
// Invariant: depends on the connection's facts, the authority as sent and the plans; on nothing else of the request.
import { Fault } from '../base/fault.ts';
import type { RequestHead } from '../message/head.ts';
import type { ConnectionFacts } from '../message/stream.ts';
import type { Reason } from '../model/reason.ts';
import { findHost, type RoutingTable } from '../model/routing-table.ts';
import { judgeTls } from '../model/tls-policy.ts';
import { authorityOf } from './authority.ts';
import type { ConnectionPlan } from './connection-plan.ts';
import { forwardedBlock } from './forwarded-block.ts';
import type { HostMatch } from './host-match.ts';
import type { Plans } from './plans.ts';

export function matchHost(head: RequestHead, connection: ConnectionPlan, plans: Plans): HostMatch {
  const last = connection.lastMatch;
  if (
    last !== null &&
    last.plans === plans &&
    last.authority === head.authority &&
    last.otherAuthority === head.otherAuthority &&
    last.version === head.version
  ) {
    return last;
  }
  const match = judge(head, connection, plans);
  connection.lastMatch = match;
  return match;
}

function judge(head: RequestHead, connection: ConnectionPlan, plans: Plans): HostMatch {
  const { authority, otherAuthority, version } = head;
  const { table } = plans.compiled;
  const { entrypoint, localPort } = connection.facts;
  const judged = authorityOf(head);
  const found = judged instanceof Fault ? { host: '', port: null } : judged;
  const { host, port } = found;
  const hostHeader = port === null ? host : `${host}:${port}`;
  const listenPort = table.entrypoints.get(entrypoint)?.entrypoint.publicPort ?? localPort;
  const { facts, proto } = connection;
  const block = facts.trustedPeer ? null : forwardedBlock(facts, proto, hostHeader, listenPort);
  const base = { plans, authority, otherAuthority, version, host, port, hostHeader, listenPort, block };
  if (judged instanceof Fault) return { ...base, fault: judged, faultReason: null, plan: null };
  const misdirected = misdirection(host, connection.facts, plans.compiled.table);
  if (misdirected !== null) {
    return { ...base, fault: new Fault('misdirected', misdirected), faultReason: misdirected, plan: null };
  }
  const plan = plans.host(entrypoint, host);
  if (plan === null) return { ...base, fault: new Fault('unknown-host', 'no such host'), faultReason: null, plan };
  return { ...base, fault: null, faultReason: null, plan };
}

/** The 421 rules for a request that came over TLS (RFC 9110 §7.4): asked of every reserved host, wherever it is served. */
export function misdirection(
  host: string,
  connection: Pick<ConnectionFacts, 'tls' | 'trustedPeer'>,
  table: RoutingTable,
): Reason | null {
  const { tls, trustedPeer } = connection;
  if (tls === null) return null;
  const reserved = findHost(table.reserved, host);
  if (reserved === null) return null;
  // Whoever named this very host in the handshake got the identity that we chose for it; a fresh connection would get no
  // other. (A catch-all behind a default certificate lives on this.)
  const exempt = trustedPeer || tls.serverName === host;
  const { tls: policy } = reserved.host;
  const verdict = judgeTls(policy, host, reserved.profileId, tls.profileId, tls.certificateNames, exempt);
  return verdict === 'serve' ? null : verdict;
}

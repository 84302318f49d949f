// The part of an explanation that has no HTTP in it: what goes to a network service, byte for byte.
// Invariant: names, ways and policies are decided by the functions that decide them for real traffic.
import { SourcePolicy } from '../../entrypoint/source-policy.ts';
import { certificateIndex } from '../../model/certificate-index.ts';
import { isAddressLiteral } from '../../model/host.ts';
import type { Reason } from '../../model/reason.ts';
import { type EntrypointRoutes, findPassthrough, type RoutingTable } from '../../model/routing-table.ts';
import type { Entrypoint } from '../../model/snapshot.ts';
import type { ExplainFacts } from '../../process/operations.ts';
import { byRawFallback, byRouter, serviceBehind, type Way } from '../../tcp/way.ts';
import { canonicalServerName, chooseTermination } from '../../tls/identity.ts';
import type { Asked } from './arrival.ts';
import { explainNetworkService } from './service.ts';
import { explainIdentity } from './tls.ts';
import { type ExplainOutcome, isOutcome, type Trace } from './trace.ts';

/** Null: this goes on as HTTP. */
export function explainPassing(
  asked: Asked,
  entrypoint: Entrypoint,
  facts: ExplainFacts,
  table: RoutingTable,
  trace: Trace,
): ExplainOutcome | null {
  const routes = table.entrypoints.get(entrypoint.name)!;
  switch (entrypoint.protocol) {
    case 'udp': {
      const { udp } = routes;
      if (udp === null) return nowhere('no router leads anywhere', entrypoint.origin, trace);
      trace.pass('router', `every datagram, to ${udp.service}`, udp.origin);
      return explainNetworkService(udp.service, 'datagrams', table, facts, trace);
    }
    case 'tcp':
      return throughRouter(asked, routes, facts, table, trace);
    case 'smart_tcp':
    case 'tls_mux':
      if (asked.tls) return byName(asked, routes, facts, table, trace);
      return asked.carries === 'http' ? null : throughFallback(asked, entrypoint, facts, table, trace);
    default:
      return null;
  }
}

function throughRouter(
  asked: Asked,
  { entrypoint, tcp }: EntrypointRoutes,
  facts: ExplainFacts,
  table: RoutingTable,
  trace: Trace,
): ExplainOutcome {
  if (tcp === null) return nowhere('no router leads anywhere', entrypoint.origin, trace);
  const { terminate } = tcp;
  if (terminate === null) {
    trace.pass('router', `every byte as it comes, to ${tcp.service}`, tcp.origin);
    return leadsTo(byRouter, entrypoint, facts, table, trace);
  }
  if (!asked.tls) return nowhere('TLS ends here, and this is none', tcp.origin, trace);
  const sent = sentName(asked);
  const identity = chooseTermination(table, certificateIndex(facts.certificates), terminate, sent);
  const shown = explainIdentity(identity, sent, tcp.origin, trace);
  if (isOutcome(shown)) return shown;
  trace.pass('router', `TLS ends here; what was inside goes to ${tcp.service}`, tcp.origin);
  return leadsTo(byRouter, entrypoint, facts, table, trace);
}

function byName(
  asked: Asked,
  { entrypoint, passthrough }: EntrypointRoutes,
  facts: ExplainFacts,
  table: RoutingTable,
  trace: Trace,
): ExplainOutcome | null {
  const sent = sentName(asked);
  const name = sent === null ? null : canonicalServerName(sent);
  const router = name === null ? null : findPassthrough(passthrough, name);
  if (name === null || router === null) return null;
  const how = router.names.includes(name) ? 'exact' : 'by wildcard';
  trace.pass('name', `${name} passes unopened (${how}), to ${router.service}`, router.origin);
  return leadsTo({ kind: 'passthrough', name }, entrypoint, facts, table, trace);
}

function throughFallback(
  asked: Asked,
  entrypoint: Entrypoint,
  facts: ExplainFacts,
  table: RoutingTable,
  trace: Trace,
): ExplainOutcome {
  const { rawFallback, origin } = entrypoint;
  if (entrypoint.protocol === 'tls_mux') return nowhere('only TLS is taken', origin, trace);
  if (rawFallback === null) return nowhere('neither HTTP nor TLS, and there is no raw_fallback', origin, trace);
  const { service, trustedCidrs } = rawFallback;
  const who = trustedCidrs === null ? 'everyone' : trustedCidrs.join(', ');
  if (asked.from !== null && trustedCidrs !== null && !new SourcePolicy(trustedCidrs).admits(asked.from)) {
    return nowhere(`${asked.from} is not in raw_fallback_trusted_cidrs`, origin, trace);
  }
  trace.pass('raw fallback', `what is neither HTTP nor TLS, of ${who}, to ${service}`, origin);
  return leadsTo(byRawFallback, entrypoint, facts, table, trace);
}

function leadsTo(
  way: Way,
  entrypoint: Entrypoint,
  facts: ExplainFacts,
  table: RoutingTable,
  trace: Trace,
): ExplainOutcome {
  const service = serviceBehind(table, entrypoint.name, way)!;
  return explainNetworkService(service, 'bytes', table, facts, trace);
}

/** A client sends no SNI for an address literal (RFC 6066 §3). */
function sentName(asked: Asked): string | null {
  return asked.sni ?? (isAddressLiteral(asked.host) ? null : asked.host);
}

function nowhere(why: string, origin: string, trace: Trace): ExplainOutcome {
  const reason: Reason | null = why.startsWith('no router') ? 'no-route' : null;
  return trace.stop('router', why, origin, { status: null, reason, text: 'closed, and no backend hears of it' });
}

// The last steps of an explanation: the service a route forwards to, and which backends it may choose from.
// Invariant: names every backend with its state; what only a worker knows (its own ejections, load) is not claimed.
import { formatDuration } from '../../base/units.ts';
import { rewritten } from '../../http/request-headers.ts';
import type { RoutingTable } from '../../model/routing-table.ts';
import type { Balance, Route, RouteAction, Service } from '../../model/snapshot.ts';
import type { ExplainFacts } from '../../process/operations.ts';
import type { Asked } from './arrival.ts';
import type { ExplainOutcome, Trace } from './trace.ts';

export function explainService(
  asked: Asked,
  route: Route,
  action: Extract<RouteAction, { kind: 'forward' }>,
  table: RoutingTable,
  facts: ExplainFacts,
  trace: Trace,
): ExplainOutcome {
  const service = table.services.get(action.service)!;
  describeService(service, facts, trace);
  if (service.state === 'stopped') {
    return trace.stop('state', 'stopped by an operator', null, {
      status: 503,
      reason: 'stopped',
      text: `maintenance page; ends with: turnpike service start ${service.name}`,
    });
  }
  const { up, down } = backendsOf(service, facts);
  if (up.length === 0) {
    return trace.stop('backend', `none is live: ${down.join(', ')} down`, service.origin, {
      status: 503,
      reason: 'no-live-backend',
      text: 'no live backend',
    });
  }
  const without = down.length === 0 ? '' : ` (down: ${down.join(', ')})`;
  trace.pass('backend', `${up.length === 1 ? '' : balanceText(service)}${up.join(', ')}${without}`, service.origin);
  const target = action.rewrite === null ? asked.target : rewritten(asked.target, route.path, action.rewrite);
  const text = `forwarded to ${up.length === 1 ? up[0] : `one of ${up.join(', ')}`} as ${asked.method} ${target}`;
  if (service.state === 'paused') {
    const limit = formatDuration(service.maxHoldMs);
    return { status: null, reason: 'held', text: `waits at most ${limit} for \`service resume\`, then ${text}` };
  }
  return { status: null, reason: 'served', text };
}

/** @param what  what goes to it: bytes of a connection, or datagrams */
export function explainNetworkService(
  name: string,
  what: 'bytes' | 'datagrams',
  table: RoutingTable,
  facts: ExplainFacts,
  trace: Trace,
): ExplainOutcome {
  const service = table.services.get(name)!;
  const ends = what === 'bytes' ? 'the connection is closed' : 'the datagrams are dropped';
  describeService(service, facts, trace);
  if (service.state === 'stopped') {
    return trace.stop('state', 'stopped by an operator', null, {
      status: null,
      reason: 'stopped',
      text: `${ends}; until: turnpike service start ${name}`,
    });
  }
  const { up, down } = backendsOf(service, facts);
  if (up.length === 0) {
    return trace.stop('backend', `none is live: ${down.join(', ')} down`, service.origin, {
      status: null,
      reason: 'no-live-backend',
      text: ends,
    });
  }
  const without = down.length === 0 ? '' : ` (down: ${down.join(', ')})`;
  const by = up.length === 1 ? '' : networkBalanceTexts[service.balance];
  trace.pass('backend', `${by}${up.join(', ')}${without}`, service.origin);
  const tls = service.protocol === 'tls' ? ' inside TLS' : '';
  const header =
    what === 'bytes' && service.network?.sendProxyProtocol != null
      ? `, behind a PROXY header of version ${service.network.sendProxyProtocol}`
      : '';
  const text = `${what} pass to ${up.length === 1 ? up[0] : `one of ${up.join(', ')}`}${tls}${header}`;
  if (service.state === 'paused') {
    const limit = formatDuration(service.maxHoldMs);
    return { status: null, reason: 'held', text: `waits at most ${limit} for \`service resume\`, then ${text}` };
  }
  return { status: null, reason: null, text };
}

/** As the keys of a network service are called. */
const networkBalanceTexts: Readonly<Record<Balance, string>> = {
  least_requests: 'the one with the fewest connections of ',
  round_robin: 'the next one of ',
  hash_client: 'by client address, one of ',
  hash_header: '',
  hash_cookie: '',
};

function backendsOf(
  service: Service,
  facts: ExplainFacts,
): { readonly up: string[]; readonly down: readonly string[] } {
  const down = facts.health.down[service.name] ?? [];
  const up = service.generation.backends.map((each) => each.address).filter((each) => !down.includes(each));
  return { up, down };
}

function describeService(service: Service, facts: ExplainFacts, trace: Trace): void {
  const { number, origin, backends } = service.generation;
  const addresses = backends.map((each) => each.address).join(', ');
  const override = facts.overrides.find((each) => each.service === service.name);
  const file = override === undefined ? '' : `; the file says ${override.declared.join(', ')}`;
  trace.pass('service', `${service.name}, generation ${number}: ${addresses}${file}`, origin);
  if (service.state === 'paused') trace.pass('state', 'paused by an operator: arrivals wait');
}

const balanceTexts: Readonly<Record<Balance, string>> = {
  least_requests: 'the one with the fewest requests of ',
  round_robin: 'the next one of ',
  hash_client: 'by client address, one of ',
  hash_header: 'by header, one of ',
  hash_cookie: 'by cookie, one of ',
};

function balanceText(service: Service): string {
  const sticky = service.stickyCookie === '' ? '' : `as the cookie ${service.stickyCookie} says, else `;
  return sticky + balanceTexts[service.balance];
}

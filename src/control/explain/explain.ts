// What would happen to a request, told step by step from the facts that the workers serve by.
// Invariant: pure, and every decision is made by the same function that decides it for real traffic; nothing is decided
// here twice. The reason at the end is the word that the access log would use.
import { createHash } from 'node:crypto';
import { coversPath, pathOf } from '../../gate/path.ts';
import { challengeAnswer, compileAnswers } from '../../http/challenge-answers.ts';
import { redirectAnswer } from '../../http/respond.ts';
import { certificateIndex } from '../../model/certificate-index.ts';
import { effectivePolicy } from '../../model/gate-policy.ts';
import {
  compileRoutingTable,
  findHost,
  findRoute,
  type HostEntry,
  type RoutingTable,
} from '../../model/routing-table.ts';
import type { Entrypoint, Route, RouteGate } from '../../model/snapshot.ts';
import type { ExplainFacts } from '../../process/operations.ts';
import type { ExplainBody } from '../api.ts';
import { type Asked, admitClient, chooseEntrypoint, parseQuestion } from './arrival.ts';
import { explainPassing } from './passing.ts';
import { explainService } from './service.ts';
import { explainHandshake, explainMisdirection, explainPlaintext, locationOf } from './tls.ts';
import { type ExplainOutcome, type Explanation, isOutcome, Trace } from './trace.ts';

/** Throws a UsageError when the question itself is wrong. */
export function explain(facts: ExplainFacts, question: ExplainBody): Explanation {
  const table = compileRoutingTable(facts.routing, (text) => createHash('sha256').update(text).digest('hex'));
  const asked = parseQuestion(question, [...table.entrypoints.keys()]);
  const trace = new Trace();
  const outcome = walk(asked, facts, table, trace);
  const request = asked.carries === 'http' ? `${asked.method} ${asked.url}` : asked.url;
  return { request, revision: facts.revision, steps: trace.steps, outcome };
}

function walk(asked: Asked, facts: ExplainFacts, table: RoutingTable, trace: Trace): ExplainOutcome {
  const entrypoint = chooseEntrypoint(asked, table, trace);
  if (isOutcome(entrypoint)) return entrypoint;
  const client = admitClient(asked, entrypoint, facts.routing.settings, trace);
  if (isOutcome(client)) return client;
  const passed = explainPassing(asked, entrypoint, facts, table, trace);
  if (passed !== null) return passed;
  const tls = asked.tls
    ? explainHandshake(asked, entrypoint, table, certificateIndex(facts.certificates), trace)
    : null;
  if (tls !== null && isOutcome(tls)) return tls;
  if (asked.carries !== 'http') {
    return trace.stop('protocol', 'TLS ends here, and what is inside must be HTTP', entrypoint.origin, {
      status: null,
      reason: null,
      text: 'served as HTTPS: ask again with https://',
    });
  }
  if (asked.method === 'CONNECT') {
    return trace.stop('method', 'CONNECT is for forward proxies', null, {
      status: 405,
      reason: 'refused',
      text: 'Turnpike is no forward proxy',
    });
  }
  const challenge = challengeAnswer(compileAnswers(facts.challenges), asked.head, asked.host);
  if (challenge !== null) {
    return trace.stop('challenge', 'a certificate authority is being shown that the host is ours', null, {
      status: challenge.head.status,
      reason: 'acme-challenge',
      text: 'answered with the proof, before redirects, gate and app',
    });
  }
  const misdirected = explainMisdirection(asked, { tls, trustedPeer: client.trusted }, table, trace);
  if (misdirected !== null) return misdirected;
  const entry = matchHost(asked, entrypoint, table, trace);
  if (isOutcome(entry)) return entry;
  if (tls === null) {
    const turned = explainPlaintext(asked, entrypoint, entry, table, facts, trace);
    if (turned !== null) return turned;
  } else trace.pass('TLS policy', `tls = "${entry.host.tls}": served on this connection`, entry.host.origin);
  const route = matchRoute(asked, entry, trace);
  if (isOutcome(route)) return route;
  return act(asked, route, table, facts, trace);
}

function matchHost(
  asked: Asked,
  entrypoint: Entrypoint,
  table: RoutingTable,
  trace: Trace,
): HostEntry | ExplainOutcome {
  const entry = findHost(table.entrypoints.get(entrypoint.name)!.hosts, asked.host);
  if (entry !== null) {
    const { pattern, origin } = entry.host;
    const how = pattern === asked.host ? 'exact' : pattern === '*' ? 'catch-all' : `wildcard ${pattern}`;
    trace.pass('host', `${asked.host} (${how})`, origin);
    return entry;
  }
  const elsewhere = findHost(table.reserved, asked.host);
  const text =
    elsewhere === null
      ? `${asked.host} is configured nowhere`
      : `${asked.host} is served on ${elsewhere.host.entrypoints.join(', ') || 'no entrypoint'} only`;
  return trace.stop('host', text, elsewhere?.host.origin ?? null, {
    status: 404,
    reason: 'unknown-host',
    text: 'no such host',
  });
}

function matchRoute(asked: Asked, { host }: HostEntry, trace: Trace): Route | ExplainOutcome {
  const route = findRoute(host, asked.target);
  if (route !== null) {
    trace.pass('route', route.path === '/' ? 'every path' : `${route.path} and below`, route.origin);
    return route;
  }
  const paths = host.routes.map((each) => each.path).join(', ');
  return trace.stop('route', `no route covers the path; there are: ${paths || 'none'}`, host.origin, {
    status: 404,
    reason: 'no-route',
    text: 'no such path',
  });
}

/** Nobody's credentials are at hand: what follows is for who has passed. */
function explainGate(route: Route, gate: RouteGate, asked: Asked, { gate: part }: ExplainFacts, trace: Trace): void {
  const { login, source } = effectivePolicy(gate, part);
  const why = source === 'override' ? 'set at run time' : `policy ${gate.policy}`;
  const open = login && coversPath(gate.openPaths, pathOf(asked.target));
  const text = !login
    ? `no login (${why})`
    : open
      ? 'no login for this path (open_paths)'
      : `a login for ${gate.app} (${why}): 303 to it, or 401; with one it goes on`;
  trace.pass('gate', text, route.origin);
}

function act(asked: Asked, route: Route, table: RoutingTable, facts: ExplainFacts, trace: Trace): ExplainOutcome {
  if (route.gate !== null) explainGate(route, route.gate, asked, facts, trace);
  if (route.rateLimit !== null) {
    const { perSecond, burst } = route.rateLimit;
    trace.pass('rate limit', `${perSecond} a second for each client address, ${burst} at once`, route.origin);
  }
  const { action } = route;
  switch (action.kind) {
    case 'respond':
      trace.pass('action', `fixed response ${action.status}`, route.origin);
      return { status: action.status, reason: 'responded', text: 'answered by the route itself' };
    case 'redirect':
      trace.pass('action', `redirect to ${action.to}`, route.origin);
      return {
        status: action.status,
        reason: 'redirected',
        text: `sent to ${locationOf(redirectAnswer(action, asked.host, asked.head))}`,
      };
    case 'gate':
      trace.pass('action', "the gate's login and dashboard", route.origin);
      return { status: 200, reason: 'gate', text: 'a page of the gate itself' };
    case 'forward':
      return explainService(asked, route, action, table, facts, trace);
  }
}

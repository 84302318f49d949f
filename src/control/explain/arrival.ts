// The first steps of an explanation: what is asked, which entrypoint takes it, whether this client may connect.
// Invariant: a guess (an entrypoint for a URL without a port) is named as one in its step.
import { isIP } from 'node:net';
import { CidrSet, SourcePolicy } from '../../entrypoint/source-policy.ts';
import { Fields } from '../../message/fields.ts';
import type { RequestHead } from '../../message/head.ts';
import { formatBind } from '../../model/changes.ts';
import { canonicalAuthority } from '../../model/host.ts';
import { findHost, type RoutingTable } from '../../model/routing-table.ts';
import type { Entrypoint, EntrypointProtocol, Settings } from '../../model/snapshot.ts';
import type { ExplainBody } from '../api.ts';
import { UsageError } from '../request-body.ts';
import type { ExplainOutcome, Trace } from './trace.ts';

export interface Asked {
  readonly url: string;
  readonly method: string;
  /** `bytes`: whatever a TCP client sends; `datagrams`: whatever a UDP client sends. */
  readonly carries: 'http' | 'bytes' | 'datagrams';
  readonly tls: boolean;
  /** Canonical. */
  readonly host: string;
  readonly port: number;
  /** The port is written in the URL. */
  readonly portGiven: boolean;
  /** Path and query. */
  readonly target: string;
  readonly from: string | null;
  /** As given; null: the host of the URL. */
  readonly sni: string | null;
  readonly entrypoint: string | null;
  /** The request as a client would send it, for the functions that answer real ones. */
  readonly head: RequestHead;
}

const schemes: Readonly<Record<string, Pick<Asked, 'carries' | 'tls'>>> = {
  'http:': { carries: 'http', tls: false },
  'ws:': { carries: 'http', tls: false },
  'https:': { carries: 'http', tls: true },
  'wss:': { carries: 'http', tls: true },
  'tcp:': { carries: 'bytes', tls: false },
  'tls:': { carries: 'bytes', tls: true },
  'udp:': { carries: 'datagrams', tls: false },
};

export function parseQuestion(question: ExplainBody, entrypoints: readonly string[]): Asked {
  const { method, from, sni, entrypoint } = question;
  const url = URL.parse(question.url);
  const scheme = url === null ? undefined : schemes[url.protocol];
  if (url === null || scheme === undefined) {
    throw new UsageError(
      `${question.url}: a URL with http:// or https:// is accepted, such as https://app.example.com/; or tcp://HOST:PORT, tls://, udp://`,
    );
  }
  const { carries, tls } = scheme;
  const authority = canonicalAuthority(url.host);
  if (authority === null) throw new UsageError(`${url.host} is not a host that a request can name`);
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(method)) throw new UsageError(`--method ${method} is not a method`);
  if (from !== null && isIP(from) === 0) throw new UsageError(`--from ${from}: an IP address is accepted`);
  if (entrypoint !== null && !entrypoints.includes(entrypoint)) {
    throw new UsageError(`--entrypoint ${entrypoint}: there is ${entrypoints.join(', ') || 'none'}`);
  }
  if (sni !== null && !tls) throw new UsageError('--sni belongs to an https:// URL, or to tls://');
  if (carries !== 'http' && authority.port === null && entrypoint === null && !tls) {
    throw new UsageError(`${question.url} has no port, and nothing else tells the entrypoint`);
  }
  return {
    url: url.href,
    method,
    carries,
    tls,
    host: authority.host,
    port: authority.port ?? (tls ? 443 : 80),
    portGiven: authority.port !== null,
    target: url.pathname + url.search,
    from,
    sni,
    entrypoint,
    head: {
      method,
      target: url.pathname + url.search,
      version: 11,
      authority: url.host,
      otherAuthority: null,
      fields: new Fields(),
      bodyLength: 0,
      upgrade: '',
      expectContinue: false,
      acceptsTrailers: false,
    },
  };
}

/** A tcp entrypoint takes what comes; the others know what they want. */
function takersOf({ carries, tls }: Asked): readonly EntrypointProtocol[] {
  if (carries === 'datagrams') return ['udp'];
  if (tls) return ['https', 'smart_tcp', 'tls_mux', 'tcp'];
  return carries === 'http' ? ['http', 'smart_tcp', 'tcp'] : ['tcp', 'smart_tcp'];
}

export function chooseEntrypoint(asked: Asked, table: RoutingTable, trace: Trace): Entrypoint | ExplainOutcome {
  const transport = asked.carries === 'datagrams' ? 'udp' : 'tcp';
  const all = [...table.entrypoints.values()]
    .map((each) => each.entrypoint)
    .filter((each) => each.name === asked.entrypoint || (each.protocol === 'udp') === (transport === 'udp'));
  const wanted = takersOf(asked);
  const named = asked.entrypoint === null ? null : all.find((each) => each.name === asked.entrypoint)!;
  const onPort = all.filter((each) => each.port === asked.port || each.publicPort === asked.port);
  const found = named ?? onPort.find((each) => wanted.includes(each.protocol)) ?? onPort[0];
  if (found !== undefined) {
    if (wanted.includes(found.protocol)) {
      trace.pass('entrypoint', describe(found), found.origin);
      return found;
    }
    return trace.stop('entrypoint', `${describe(found)} ${unfitTexts[found.protocol]}`, found.origin, closed);
  }
  const possible = asked.portGiven
    ? []
    : all.filter((each) => each.protocol !== 'tcp' && wanted.includes(each.protocol));
  const serves = (each: Entrypoint): boolean => findHost(table.entrypoints.get(each.name)!.hosts, asked.host) !== null;
  const guess = possible.find(serves) ?? possible[0];
  if (guess === undefined) {
    const hint = asked.portGiven ? ' (behind a port mapping, name one with --entrypoint)' : '';
    return trace.stop('entrypoint', `none listens for this on port ${asked.port}${hint}`, null, closed);
  }
  trace.pass('entrypoint', `${describe(guess)}, assumed: none has port ${asked.port}`, guess.origin);
  return guess;
}

/** What makes an entrypoint unfit for something that it does not take. */
const unfitTexts: Readonly<Record<EntrypointProtocol, string>> = {
  http: 'speaks no TLS',
  https: 'speaks TLS only',
  tls_mux: 'speaks TLS only',
  smart_tcp: 'takes no datagrams',
  tcp: 'takes no datagrams',
  udp: 'takes datagrams only',
};

const closed: ExplainOutcome = { status: null, reason: null, text: 'no answer: the connection fails' };

/** `trusted_cidrs` decides who may connect, `trusted_proxies` whose X-Forwarded-* are believed. */
export function admitClient(
  asked: Asked,
  entrypoint: Entrypoint,
  settings: Settings,
  trace: Trace,
): { readonly trusted: boolean } | ExplainOutcome {
  const { trustedCidrs, origin } = entrypoint;
  if (asked.from === null) {
    const who = trustedCidrs.length === 0 ? 'everyone may connect' : `only ${trustedCidrs.join(', ')} may connect`;
    trace.pass('client', `${who} (--from IP asks about one)`, origin);
    return { trusted: false };
  }
  if (!new SourcePolicy(trustedCidrs).admits(asked.from)) {
    return trace.stop('client', `${asked.from} is not in trusted_cidrs`, origin, {
      status: null,
      reason: null,
      text: 'closed before a byte is read',
    });
  }
  const trusted = new CidrSet(entrypoint.trustedProxies ?? settings.trustedProxies).has(asked.from);
  const text = trusted ? `${asked.from}, a trusted proxy: its X-Forwarded-* are believed` : `${asked.from} may connect`;
  trace.pass('client', text, origin);
  return { trusted };
}

function describe(entrypoint: Entrypoint): string {
  return `${entrypoint.name} (${formatBind(entrypoint.host, entrypoint.port)}, ${entrypoint.protocol})`;
}

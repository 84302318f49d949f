// What every request of one client connection shares: constants for headers and log lines, and the last host matched.
// Invariant: made once per connection from its frozen facts; nothing in it outlives the plans it was matched with.
import type { StrippedCookie } from '../gate/cookies.ts';
import type { ConnectionFacts } from '../message/stream.ts';
import type { HostMatch } from './host-match.ts';
import { jsonText } from './json-text.ts';

export class ConnectionPlan {
  readonly facts: ConnectionFacts;
  readonly proto: 'http' | 'https';
  /** The end of a log line that is the same for every request of this connection. */
  readonly logTail: string;
  /** The RFC 7239 element that names our peer, without `host` and `proto`. */
  readonly forwardedNode: string;
  /** Clients ask for one host again and again: the last answer of `matchHost`. */
  lastMatch: HostMatch | null = null;
  /** What the last cookies and the last token came to. */
  readonly credentials = new KnownCredentials();

  constructor(facts: ConnectionFacts) {
    this.facts = facts;
    this.proto = facts.tls === null ? 'http' : 'https';
    const { peerAddress, tls } = facts;
    // RFC 7239 §6: an IPv6 address is bracketed and, for its colons, quoted.
    this.forwardedNode = peerAddress.includes(':') ? `for="[${peerAddress}]"` : `for=${peerAddress}`;
    const tlsPart =
      tls === null ? '' : `,"tls":${jsonText(tls.version)},"server_name":${jsonText(tls.serverName ?? '')}`;
    this.logTail = `,"entrypoint":${jsonText(facts.entrypoint)},"peer":${jsonText(peerAddress)}${tlsPart}}\n`;
  }
}

/** Made from the text beside it, so that a hash is not worked out for every request. */
export class KnownCredentials {
  cookie = '';
  secure = false;
  sessions: readonly string[] = [];
  visits: readonly string[] = [];
  /** The line as it went on. */
  readonly stripped: StrippedCookie = { cookie: '', rest: '' };
  token = '';
  tokenHash = '';
}

const plans = new WeakMap<ConnectionFacts, ConnectionPlan>();

export function connectionPlan(facts: ConnectionFacts): ConnectionPlan {
  let plan = plans.get(facts);
  if (plan === undefined) {
    plan = new ConnectionPlan(facts);
    plans.set(facts, plan);
  }
  return plan;
}

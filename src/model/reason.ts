// One list of reason codes: the access log, `explain` and the tests use the same words for why a request went as it did.
// Invariant: every code is documented in docs/faults.md, and nothing in the program says another word for the same thing.

export const reasons = {
  served: 'forwarded to a live backend and answered',
  responded: 'answered by a fixed response of the route',
  redirected: 'answered by a redirect of the route',
  'acme-challenge': "answered a certificate authority's question whether the host is ours",
  'redirect-https': 'plaintext request sent to https by the TLS policy',
  'misdirected-plaintext': '421: the host wants TLS and no TLS entrypoint serves it',
  'misdirected-never': '421: the host is plaintext only and the request came over TLS',
  'misdirected-identity': "421: this connection's certificate does not cover the host",
  'misdirected-profile': '421: the host has other TLS settings than this connection',
  'unknown-host': '404: no route for this host on this entrypoint',
  'no-route': '404: the host has no route for this path',
  'bad-request': '400: the message or its host is malformed',
  refused: 'refused by a limit or an unsupported feature',
  'rate-limited': '429: over the rate limit of the route',
  held: 'waited for a switch or a paused service, then went on',
  'hold-timeout': '503: waited as long as max_hold allows',
  'hold-full': '503: too many requests were waiting already',
  stopped: '503: the service is stopped by the operator',
  'no-live-backend': '503: no backend of the service may be chosen',
  'over-capacity': '503: all connections to the backends are busy',
  retried: 'the first backend failed before it answered, a second one was used',
  'upstream-failed': '502: the backend refused, broke off or sent a malformed answer',
  'upstream-timeout': '504: the backend did not connect or answer in time',
  'client-gone': 'the client went away first',
  drained: 'ended by a drain of its generation',
  upgraded: 'WebSocket established',
  ended: 'tunnel: both sides ended their direction',
  idle: 'tunnel or flow: nothing moved for as long as the idle timeout allows',
  'not-admitted': 'tunnel or flow: the client may not be here any more, by a change of the configuration',
  evicted: 'flow: idle for the longest time when there was no room for another',
  internal: '500: a bug; the log has the stack',
} as const;

export type Reason = keyof typeof reasons;

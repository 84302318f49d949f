// Everything that can go wrong with traffic or a command, as data: what, whose side, whether trying again may help.
// Invariant: every code below is described in docs/faults.md and the reverse (test/house.test.ts).

export type FaultSide = 'client' | 'upstream' | 'proxy' | 'operator';
/** `yes`: nothing reached the backend. `idempotent`: it may have been read; safe methods only. */
export type FaultRetry = 'no' | 'yes' | 'idempotent';

interface FaultKind {
  readonly side: FaultSide;
  readonly retry: FaultRetry;
  /** The HTTP status that `http/answer` gives; 0 where no answer is possible or due. */
  readonly status: number;
}

const kind = (side: FaultSide, status: number, retry: FaultRetry = 'no'): FaultKind => ({ side, status, retry });

export const faultKinds = {
  // client
  'bad-request': kind('client', 400),
  'bad-host': kind('client', 400),
  'host-mismatch': kind('client', 400),
  'login-required': kind('client', 401),
  forbidden: kind('client', 403),
  'unknown-host': kind('client', 404),
  'no-route': kind('client', 404),
  'method-refused': kind('client', 405),
  'request-timeout': kind('client', 408),
  'body-too-large': kind('client', 413),
  'target-too-long': kind('client', 414),
  'expectation-failed': kind('client', 417),
  misdirected: kind('client', 421),
  'rate-limited': kind('client', 429),
  'login-throttled': kind('client', 429),
  'head-too-large': kind('client', 431),
  'client-gone': kind('client', 499),
  'not-implemented': kind('client', 501),
  'version-unsupported': kind('client', 505),
  // upstream
  'upstream-refused': kind('upstream', 502, 'yes'),
  'upstream-tls': kind('upstream', 502, 'yes'),
  'upstream-reset': kind('upstream', 502, 'idempotent'),
  'upstream-bad-response': kind('upstream', 502),
  'upstream-cut': kind('upstream', 502),
  'upstream-no-101': kind('upstream', 502),
  'upstream-connect-timeout': kind('upstream', 504, 'yes'),
  'upstream-head-timeout': kind('upstream', 504),
  'upstream-idle': kind('upstream', 504),
  'no-live-backend': kind('upstream', 503),
  'app-down': kind('upstream', 503),
  'login-unavailable': kind('upstream', 503),
  // proxy
  'service-stopped': kind('proxy', 503),
  'hold-timeout': kind('proxy', 503),
  'hold-full': kind('proxy', 503),
  'over-capacity': kind('proxy', 503),
  overloaded: kind('proxy', 503),
  drained: kind('proxy', 503),
  'shutting-down': kind('proxy', 503),
  internal: kind('proxy', 500),
  // operator
  'config-invalid': kind('operator', 0),
  'bind-failed': kind('operator', 0),
  'publish-refused': kind('operator', 0),
  'publish-timeout': kind('operator', 0),
  'probe-failed': kind('operator', 0),
  'unknown-service': kind('operator', 0),
  'unknown-app': kind('operator', 0),
  'app-service': kind('operator', 0),
  'manifest-invalid': kind('operator', 0),
  'reservation-conflict': kind('operator', 0),
  'deploy-refused': kind('operator', 0),
  'deploy-failed': kind('operator', 0),
  'deploy-superseded': kind('operator', 0),
  'stop-failed': kind('operator', 0),
  'gate-refused': kind('operator', 0),
  'runtime-unavailable': kind('operator', 0),
  'runtime-unsupported': kind('operator', 0),
  'runtime-refused': kind('operator', 0),
  'secret-missing': kind('operator', 0),
  'secret-refused': kind('operator', 0),
  'state-unusable': kind('operator', 0),
  'certificate-unusable': kind('operator', 0),
  'acme-unknown-name': kind('operator', 0),
  'acme-failed': kind('operator', 0),
  'not-running': kind('operator', 0),
} as const satisfies Record<string, FaultKind>;

export type FaultCode = keyof typeof faultKinds;

/** A known failure. Never carries a secret, a backend address for a client, or a body. */
export class Fault extends Error {
  readonly code: FaultCode;
  readonly side: FaultSide;
  readonly retry: FaultRetry;
  readonly status: number;

  /** `detail` is for the operator's log; clients only ever see the code's public sentence. */
  constructor(code: FaultCode, detail?: string, options?: { cause?: unknown }) {
    super(detail ?? code, options);
    this.name = 'Fault';
    this.code = code;
    const { side, retry, status } = faultKinds[code];
    this.side = side;
    this.retry = retry;
    this.status = status;
  }
}

// What a client is told about each fault, and what the log calls it.
// Invariant: the words depend on the code alone: no address, no path, no detail of a backend can get into them.
import type { FaultCode } from '../base/fault.ts';
import type { Reason } from '../model/reason.ts';

export interface PublicText {
  readonly title: string;
  readonly sentence: string;
  readonly hint: string;
}

const text = (title: string, sentence: string, hint = ''): PublicText => ({ title, sentence, hint });

const tryAgain = 'Please try again in a moment.';
const upstream = text('The app did not answer', 'The app behind this address broke off or answered badly.', tryAgain);
const slow = text('The app is too slow', 'The app behind this address did not answer in time.', tryAgain);
const wrong = text('Something went wrong', 'This request could not be handled.');
const badRequest = text('Bad request', 'The request is malformed.');
const unavailable = text(
  'Temporarily unavailable',
  'The app behind this address cannot take requests right now.',
  tryAgain,
);

const texts: Partial<Record<FaultCode, PublicText>> = {
  'bad-request': badRequest,
  'bad-host': text('Bad request', 'The host of the request is not a valid host name.'),
  'host-mismatch': text('Bad request', 'The request names two different hosts.'),
  'login-required': text('Login required', 'This app is open to those who log in.'),
  forbidden: text('Not for you', 'You are logged in, but this app is not open to you.'),
  'login-throttled': text(
    'Too many attempts',
    'Too many failed logins came from your address.',
    'Please wait a while.',
  ),
  'unknown-host': text('No site here', 'Nothing is set up for this address.'),
  'no-route': text('Page not found', 'Nothing is set up for this path.'),
  'method-refused': text('Method not allowed', 'This method is not accepted here.'),
  'request-timeout': text('Request timeout', 'The request did not arrive in time.'),
  'body-too-large': text('Too large', 'What was sent is larger than this address accepts.'),
  'target-too-long': text('Address too long', 'The address of the request is too long.'),
  'expectation-failed': text('Expectation failed', 'The request expects something that is not supported.'),
  misdirected: text('Wrong connection', 'This site cannot be reached over the connection that was used.'),
  'rate-limited': text('Too many requests', 'Too many requests came from your address.', tryAgain),
  'head-too-large': text('Request head too large', 'The header fields of the request are too large.'),
  'not-implemented': text('Not implemented', 'The request asks for something that is not supported.'),
  'version-unsupported': text('Version not supported', 'This version of HTTP is not supported.'),
  'upstream-refused': upstream,
  'upstream-tls': upstream,
  'upstream-reset': upstream,
  'upstream-bad-response': upstream,
  'upstream-cut': upstream,
  'upstream-no-101': upstream,
  'upstream-connect-timeout': slow,
  'upstream-head-timeout': slow,
  'upstream-idle': slow,
  'no-live-backend': unavailable,
  'login-unavailable': text('Nobody can log in right now', 'The login does not answer.', tryAgain),
  'app-down': text('The app is not running', 'The app behind this address does not answer yet.', tryAgain),
  'service-stopped': text('Down for maintenance', 'This app has been taken down for maintenance.', 'It will be back.'),
  'hold-timeout': unavailable,
  'hold-full': unavailable,
  'over-capacity': unavailable,
  overloaded: text('Busy', 'This server has more to do than it can right now.', tryAgain),
  drained: unavailable,
  'shutting-down': unavailable,
};

export function publicText(code: FaultCode): PublicText {
  return texts[code] ?? wrong;
}

const reasons: Partial<Record<FaultCode, Reason>> = {
  'bad-request': 'bad-request',
  'bad-host': 'bad-request',
  'host-mismatch': 'bad-request',
  'unknown-host': 'unknown-host',
  'no-route': 'no-route',
  'rate-limited': 'rate-limited',
  'login-required': 'login',
  forbidden: 'forbidden',
  'login-throttled': 'throttled',
  'login-unavailable': 'login',
  'app-down': 'app-down',
  'client-gone': 'client-gone',
  'upstream-refused': 'upstream-failed',
  'upstream-tls': 'upstream-failed',
  'upstream-reset': 'upstream-failed',
  'upstream-bad-response': 'upstream-failed',
  'upstream-cut': 'upstream-failed',
  'upstream-no-101': 'upstream-failed',
  'upstream-connect-timeout': 'upstream-timeout',
  'upstream-head-timeout': 'upstream-timeout',
  'upstream-idle': 'upstream-timeout',
  'no-live-backend': 'no-live-backend',
  'service-stopped': 'stopped',
  'hold-timeout': 'hold-timeout',
  'hold-full': 'hold-full',
  'over-capacity': 'over-capacity',
  overloaded: 'overloaded',
  drained: 'drained',
  'shutting-down': 'drained',
  internal: 'internal',
};

/** The reason code of an exchange that ended in this fault; a `misdirected` one knows its own better. */
export function reasonOf(code: FaultCode): Reason {
  return reasons[code] ?? 'refused';
}

/** Seconds for Retry-After; 0: the field is not due. */
export function retryAfterOf(code: FaultCode): number {
  switch (code) {
    case 'over-capacity':
    case 'hold-full':
    case 'rate-limited':
    case 'drained':
    case 'shutting-down':
      return 1;
    case 'no-live-backend':
    case 'app-down':
    case 'login-unavailable':
    case 'hold-timeout':
    case 'overloaded':
      return 5;
    case 'service-stopped':
      return 60;
    default:
      return 0;
  }
}

// A lane carries one request at a time: a connection, one of the streams of an HTTP/2 connection, a socket.
// Invariant: each `begin` is followed by exactly one `answered` or `failed`; a lane that failed makes itself fit again.
import type { LoadPlan } from './plan.ts';

export interface Lane {
  /** When the request in work should have begun, `performance.now()`; set by the pacer. */
  dueAt: number;
  /** Sends one request. */
  begin(): void;
  /** It takes too long: gives it up, without a word to the host. */
  abandon(): void;
  close(): void;
}

export interface LaneHost {
  readonly plan: LoadPlan;
  /** A complete answer. `status` is 0 where there is none: a message or datagram came back. */
  answered(lane: Lane, status: number): void;
  /** `why`: one of few words, it is counted by it. */
  failed(lane: Lane, why: string): void;
  received(bytes: number): void;
  connected(): void;
}

const networkErrors: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'reset',
  EPIPE: 'reset',
  ETIMEDOUT: 'connect timeout',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  ENOTFOUND: 'name not found',
  EAI_AGAIN: 'name not found',
  EMFILE: 'out of descriptors',
  EADDRNOTAVAIL: 'out of ports',
};

/** The word under which an error of a socket is counted. */
export function errorWord(error: unknown): string {
  const { code } = error as { code?: unknown };
  if (typeof code !== 'string') return 'broken';
  return networkErrors[code] ?? (code.startsWith('ERR_') || /CERT|SIGNED|VERIFY/.test(code) ? `tls: ${code}` : code);
}

// Who is using a generation right now. A drain waits for claims and for nothing else.
// Invariant: a claim is counted in the same synchronous step in which its generation was chosen.

export type ClaimKind = 'request' | 'stream' | 'tunnel' | 'flow';
/** Why a claim is being ended from outside. */
export type EndReason = 'drain' | 'shutdown' | 'revoked';

/** One user of a generation, and of one at a time: an exchange, a WebSocket, a TCP tunnel, a UDP flow. */
export interface ClaimHolder {
  /** May change while claimed (a request that turns out to be a stream): read when a drain deadline passes. */
  readonly claimKind: ClaimKind;
  /** Where it stands among the claims of its generation, -1 without one; written by the generation alone. */
  claimPlace: number;
  /** The drain limit passed: end now, visibly, and release. Called at most once. */
  claimEnded(reason: EndReason): void;
}

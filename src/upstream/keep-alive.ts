// How long a backend says it keeps an idle connection. Pure.
// Invariant: our own time is shorter than the one it names, so that a request never meets the close on its way.

/**
 * Milliseconds that a connection may be idle by `Keep-Alive: timeout=5` (RFC 2068 §19.7.1.1, still what servers send):
 * a second less than named, for short ones half of it. Infinite when nothing is named.
 */
export function idleLimit(keepAlive: string): number {
  const seconds = /(?:^|[,;\s])timeout=(\d{1,9})(?:$|[,;\s])/i.exec(keepAlive)?.[1];
  if (seconds === undefined) return Number.POSITIVE_INFINITY;
  const ms = Number(seconds) * 1000;
  return Math.max(ms - 1000, ms / 2);
}

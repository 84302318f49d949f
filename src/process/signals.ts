// The signals that end or change the process, as the operator and the service manager send them.
// Invariant: the first SIGTERM or SIGINT drains, a second one ends at once, whatever state the process is in.

export interface SignalActions {
  reload(): void;
  drain(): void;
  endNow(): void;
}

/** Returns what takes the handlers off again. */
export function onSignals(actions: SignalActions): () => void {
  let draining = false;
  const end = (): void => {
    if (draining) actions.endNow();
    else {
      draining = true;
      actions.drain();
    }
  };
  const hangup = (): void => actions.reload();
  process.on('SIGTERM', end);
  process.on('SIGINT', end);
  process.on('SIGHUP', hangup);
  return () => {
    process.off('SIGTERM', end);
    process.off('SIGINT', end);
    process.off('SIGHUP', hangup);
  };
}

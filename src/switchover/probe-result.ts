// What a look at a backend found.
// Invariant: `detail` says it in words that an operator can act on, also when it is good.

export type ProbeResult =
  | { readonly ok: true; readonly detail: string }
  | { readonly ok: false; readonly detail: string };

export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as { code?: unknown };
  // Several addresses behind one name fail together, without a message of their own.
  if (error instanceof AggregateError && error.errors.length > 0) return describeError(error.errors[0]);
  return error.message === '' ? String(code ?? error.name) : error.message;
}

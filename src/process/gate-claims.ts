// Claims of a token, read without trusting their types. Pure.
// Invariant: what is not of the type asked for is as if it were not there.
export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function textOf(claims: Readonly<Record<string, unknown>>, name: string): string {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  return typeof value === 'string' ? value : '';
}

export function textsOf(claims: Readonly<Record<string, unknown>>, name: string): readonly string[] {
  const value = Object.hasOwn(claims, name) ? claims[name] : undefined;
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}

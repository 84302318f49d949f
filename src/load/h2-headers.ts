// The header block of a request over HTTP/2 (RFC 9113 §8.3.1).
// Invariant: no connection field is in it.
import type { LoadPlan } from './plan.ts';

export function fieldsToHeaders(plan: LoadPlan): Record<string, string> {
  const headers: Record<string, string> = {
    ':method': plan.method,
    ':scheme': plan.tls === null ? 'http' : 'https',
    ':authority': plan.authority,
    ':path': plan.target,
  };
  for (const [name, value] of plan.fields.entries()) headers[name.toLowerCase()] = value;
  if (plan.body.length > 0) headers['content-length'] = String(plan.body.length);
  return headers;
}

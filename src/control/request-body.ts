// Bodies of control requests: read with a bound, checked member by member.
// Invariant: an unknown member or a wrong type is an error that names the member, never a default.
import type { IncomingMessage } from 'node:http';
import type { ExplainBody, SwitchBody } from './api.ts';

/** The request is wrong, not the state of the process. */
export class UsageError extends Error {}

const maxBody = 65_536;

/** The JSON object in the body. A content type other than JSON is refused: a browser form cannot send one unasked. */
export async function readJson(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  if (request.headers['content-type'] !== 'application/json') throw new UsageError('content-type: application/json');
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBody) throw new UsageError(`a body of at most ${maxBody} bytes is accepted`);
    chunks.push(chunk);
  }
  let value: unknown;
  try {
    value = JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    throw new UsageError('the body is not JSON');
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) {
    throw new UsageError('the body must be a JSON object');
  }
  return value as Record<string, unknown>;
}

export function parseSwitchBody(body: Readonly<Record<string, unknown>>): SwitchBody {
  const { to, drainMs, probe, ...rest } = body;
  refuseUnknown(rest);
  if (to !== 'config' && !isStringList(to)) throw new UsageError('to: a list of host:port, or "config"');
  if (drainMs !== null && !(typeof drainMs === 'number' && Number.isSafeInteger(drainMs) && drainMs >= 0)) {
    throw new UsageError('drainMs: milliseconds, or null');
  }
  if (typeof probe !== 'boolean') throw new UsageError('probe: true or false');
  return { to, drainMs, probe };
}

export function parseExplainBody(body: Readonly<Record<string, unknown>>): ExplainBody {
  const { url, method, from, sni, entrypoint, ...rest } = body;
  refuseUnknown(rest);
  if (typeof url !== 'string') throw new UsageError('url: a string');
  if (typeof method !== 'string') throw new UsageError('method: a string');
  return {
    url,
    method,
    from: textOrNull('from', from),
    sni: textOrNull('sni', sni),
    entrypoint: textOrNull('entrypoint', entrypoint),
  };
}

function refuseUnknown(rest: Readonly<Record<string, unknown>>): void {
  const [first] = Object.keys(rest);
  if (first !== undefined) throw new UsageError(`unknown member ${first}`);
}

function isStringList(value: unknown): value is string[] {
  return Array.isArray(value) && value.length > 0 && value.every((each) => typeof each === 'string');
}

function textOrNull(name: string, value: unknown): string | null {
  if (value !== null && typeof value !== 'string') throw new UsageError(`${name}: a string or null`);
  return value;
}

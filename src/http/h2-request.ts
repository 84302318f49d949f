// The head of a request from the header list that node:http2 gives (RFC 9113 §8.3). Pure.
// Invariant: what nghttp2 lets through and HTTP/1.1 cannot carry, or two parties could read in two ways, is refused here.
import { Fault } from '../base/fault.ts';
import { isTargetCode, isTokenCode } from '../http1/characters.ts';
import { FieldId, fieldIdOf } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import { type RequestHead, unknownLength } from '../message/head.ts';
import type { EntrypointLimits } from '../model/snapshot.ts';

export interface H2Request {
  readonly head: RequestHead;
  /** Set: the request is answered with it. */
  readonly problem: Fault | null;
}

/** @param ended  END_STREAM came with the header block: there is no body */
export function readRequest(
  raw: readonly string[],
  ended: boolean,
  limits: Pick<EntrypointLimits, 'headerSize' | 'headerCount' | 'targetSize'>,
): H2Request {
  const fields = new Fields();
  let method = '';
  let target = '';
  let authority: string | null = null;
  let protocol: string | null = null;
  let host: string | null = null;
  let length: number = ended ? 0 : unknownLength;
  let expectContinue = false;
  let size = 0;
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!;
    const value = raw[i + 1]!;
    // RFC 9113 §6.5.2: the size of a field counts 32 bytes of overhead.
    size += name.length + value.length + 32;
    if (name.charCodeAt(0) === 0x3a) {
      if (name === ':method') method = value;
      else if (name === ':path') target = value;
      else if (name === ':authority') authority = value;
      else if (name === ':protocol') protocol = value;
      continue;
    }
    const id = fieldIdOf(name);
    if (id === FieldId.Host) {
      host = value;
      continue;
    }
    if (id === FieldId.ContentLength && !ended) length = Number(value);
    else if (id === FieldId.Expect && value.toLowerCase() === '100-continue') expectContinue = true;
    fields.push(name, value, id);
  }
  const head: RequestHead = {
    method,
    target,
    version: 20,
    authority: authority ?? host,
    otherAuthority: authority === null ? null : host,
    fields,
    bodyLength: length,
    upgrade: protocol === 'websocket' ? 'websocket' : '',
    expectContinue: expectContinue && !ended,
    acceptsTrailers: true,
  };
  // The body of an extended CONNECT is the tunnel.
  if (method === 'CONNECT') head.bodyLength = 0;
  return { head, problem: problemOf(head, protocol, size, limits) };
}

function problemOf(
  { method, target, fields, bodyLength }: RequestHead,
  protocol: string | null,
  size: number,
  limits: Pick<EntrypointLimits, 'headerSize' | 'headerCount' | 'targetSize'>,
): Fault | null {
  if (fields.length > limits.headerCount) return new Fault('head-too-large', `${fields.length} fields`);
  if (target.length > limits.targetSize) return new Fault('target-too-long', `${target.length} bytes`);
  if (size > limits.headerSize + target.length) return new Fault('head-too-large', `${size} bytes`);
  if (!consistsOf(method, isTokenCode)) return new Fault('bad-request', 'method');
  if (method === 'CONNECT') {
    // RFC 8441 §4 and RFC 9220: other protocols exist, and none of them is ours to speak.
    if (protocol === null) return new Fault('method-refused', 'CONNECT');
    if (protocol !== 'websocket') return new Fault('not-implemented', 'extended CONNECT for another protocol');
  } else if (protocol !== null) return new Fault('bad-request', ':protocol without CONNECT');
  if (!(target.charCodeAt(0) === 0x2f || (target === '*' && method === 'OPTIONS'))) {
    return new Fault('bad-request', ':path');
  }
  if (!consistsOf(target, isTargetCode)) return new Fault('bad-request', ':path');
  if (bodyLength !== unknownLength && !Number.isSafeInteger(bodyLength)) return new Fault('bad-request', 'length');
  return null;
}

function consistsOf(text: string, table: Uint8Array): boolean {
  for (let i = 0; i < text.length; i++) if (table[text.charCodeAt(i)] !== 1) return false;
  return text.length > 0;
}

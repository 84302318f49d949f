// Which host a request is for. Pure.
// Invariant: one canonical host or a fault; a request that names two different hosts is refused, never routed by either.
import { Fault } from '../base/fault.ts';
import type { RequestHead } from '../message/head.ts';
import { type Authority, canonicalAuthority } from '../model/host.ts';

/** What an HTTP/1.0 request without Host asks for: only a catch-all route can match it. */
const noAuthority: Authority = { host: '', port: null };

/** RFC 9112 §3.2, RFC 9113 §8.3.1: absolute-form and Host, `:authority` and `host`, must agree in host and port. */
export function authorityOf(head: Pick<RequestHead, 'authority' | 'otherAuthority' | 'version'>): Authority | Fault {
  const { authority, otherAuthority } = head;
  if (authority === null) {
    if (otherAuthority !== null) return judged(otherAuthority);
    return head.version === 10 ? noAuthority : new Fault('bad-host', 'no host');
  }
  const first = judged(authority);
  if (otherAuthority === null || otherAuthority === authority || first instanceof Fault) return first;
  const second = judged(otherAuthority);
  if (second instanceof Fault) return second;
  // `a.test` and `a.test:80` are told apart on purpose: which port is the default depends on a scheme we do not trust.
  if (first.host !== second.host || first.port !== second.port) return new Fault('host-mismatch', 'two hosts named');
  return first;
}

function judged(text: string): Authority | Fault {
  return canonicalAuthority(text) ?? new Fault('bad-host', 'not a host');
}

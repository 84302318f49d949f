// Answers a CA that looks over HTTP whether a name is ours (RFC 8555 §8.3): before redirect, gate, limits and app.
// Invariant: exactly the published host and path, by GET or HEAD; everything else goes on as if nothing were published.
import { FieldId } from '../message/field-id.ts';
import { Fields } from '../message/fields.ts';
import type { RequestHead } from '../message/head.ts';
import type { ChallengesPart, PartName } from '../model/snapshot.ts';
import type { Compiled, Participant } from '../traffic/traffic.ts';
import { type Answer, withBody } from './answer.ts';

export const challengePrefix = '/.well-known/acme-challenge/';

/** Host → target → the key authorization. */
type Answers = ReadonlyMap<string, ReadonlyMap<string, Buffer>>;

const none: Answers = new Map();

export class ChallengeAnswers implements Participant<Answers | null> {
  #answers: Answers = none;

  prepare({ snapshot }: Compiled, current: Compiled | null, changed: ReadonlySet<PartName>): Answers | null {
    if (current !== null && !changed.has('challenges')) return null;
    return compileAnswers(snapshot.parts.challenges);
  }

  commit(answers: Answers | null): void {
    if (answers !== null) this.#answers = answers;
  }

  abort(): void {}

  /** @param host  canonical; '' when the request names none */
  answerTo(head: RequestHead, host: string): Answer | null {
    return this.#answers.size === 0 ? null : challengeAnswer(this.#answers, head, host);
  }
}

export function compileAnswers({ http }: ChallengesPart): Answers {
  const answers = new Map<string, Map<string, Buffer>>();
  for (const { host, token, answer } of http) {
    const targets = answers.get(host) ?? new Map<string, Buffer>();
    answers.set(host, targets.set(challengePrefix + token, Buffer.from(answer, 'latin1')));
  }
  return answers;
}

export function challengeAnswer(answers: Answers, head: RequestHead, host: string): Answer | null {
  const { method, target } = head;
  if (!target.startsWith(challengePrefix) || (method !== 'GET' && method !== 'HEAD')) return null;
  const body = answers.get(host)?.get(target);
  if (body === undefined) return null;
  const fields = new Fields();
  fields.push('Content-Type', 'application/octet-stream', FieldId.ContentType);
  fields.push('Cache-Control', 'no-store', FieldId.CacheControl);
  return withBody(200, fields, body, head);
}

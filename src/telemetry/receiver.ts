// The receiver of what is exported: one POST at a time a signal, over undici, on connections of our own.
// Invariant: no proxy of the environment is asked, certificates are verified, no redirect is followed, every call ends within
// its time and its answer is read to a bound; headers of the operator are never logged.
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Agent } from 'undici';
import { version } from '../base/version.ts';

const compressed = promisify(gzip);
const postMs = 10_000;
const largestAnswer = 64 * 1024;

export interface Delivery {
  readonly status: number;
  /** As the answer has it: seconds or a date. */
  readonly retryAfter: string | null;
  readonly text: string;
}

export type Deliver = (path: string, body: string, signal: AbortSignal) => Promise<Delivery>;

export class Receiver {
  readonly #base: URL;
  readonly #headers: Readonly<Record<string, string>>;
  #agent: Promise<Agent> | null = null;

  constructor(endpoint: string, headers: Readonly<Record<string, string>>) {
    this.#base = new URL(endpoint);
    this.#headers = headers;
  }

  deliver: Deliver = async (path, body, signal) => {
    this.#agent ??= makeAgent();
    const agent = await this.#agent;
    const { origin, pathname, search } = this.#base;
    const answer = await agent.request({
      origin,
      path: `${pathname.replace(/\/$/, '')}${path}${search}`,
      method: 'POST',
      headers: {
        'user-agent': `turnpike/${version}`,
        ...this.#headers,
        'content-type': 'application/json',
        'content-encoding': 'gzip',
      },
      body: await compressed(body),
      signal: AbortSignal.any([signal, AbortSignal.timeout(postMs)]),
    });
    const chunks: Buffer[] = [];
    let length = 0;
    // Leaving the loop early destroys the body, and its connection.
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      length += chunk.length;
      if (length > largestAnswer) break;
      chunks.push(chunk);
    }
    const { 'retry-after': after } = answer.headers;
    return {
      status: answer.statusCode,
      retryAfter: typeof after === 'string' ? after : null,
      text: Buffer.concat(chunks).toString('utf8'),
    };
  };

  async close(): Promise<void> {
    const agent = await this.#agent?.catch(() => null);
    await agent?.destroy();
  }
}

async function makeAgent(): Promise<Agent> {
  // Loaded with the first export: most runs have none.
  const { Agent } = await import('undici');
  return new Agent({ connect: { timeout: postMs }, allowH2: false, connections: 4, headersTimeout: 0, bodyTimeout: 0 });
}

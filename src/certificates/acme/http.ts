// HTTP as a certificate authority is spoken to: undici with every bound that a long-lived process needs.
// Invariant: an exchange settles within its time however slowly the bytes drip, follows no redirect, reads no more than its
// limit, uses no proxy from the environment, and trusts the given roots or the system's, nothing else.
import type { Agent, Dispatcher } from 'undici';
import type { Clock } from '../../base/clock.ts';
import { version } from '../../base/version.ts';
import { AcmeFailure } from './failure.ts';

export interface HttpOptions {
  readonly clock: Clock;
  /** From connecting to the last byte. */
  readonly timeoutMs: number;
  /** PEM; null: the system's roots. */
  readonly caPem: string | null;
  readonly maxBytes?: number;
  /** Keep connections for a while (default). False: nobody has to call `close`. */
  readonly keepAlive?: boolean;
}

export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface HttpAnswer {
  readonly status: number;
  /** The first value of a field; null: absent. Lower-case names. */
  header(name: string): string | null;
  /** All values of a field. */
  headers(name: string): readonly string[];
  readonly text: string;
}

/** More than any directory, order or chain takes. */
const defaultMaxBytes = 1024 * 1024;
const idleConnectionMs = 10_000;
const userAgent = `turnpike/${version} (ACME; undici)`;

export class HttpClient {
  readonly #options: HttpOptions;
  #agent: Promise<Agent> | null = null;

  constructor(options: HttpOptions) {
    this.#options = options;
  }

  /** Rejects with an AcmeFailure: `network`, `timeout`, `server` (too large) or `aborted`. */
  async ask({ method, url, headers = {}, body }: HttpRequest, signal: AbortSignal): Promise<HttpAnswer> {
    const { clock, timeoutMs, maxBytes = defaultMaxBytes } = this.#options;
    if (signal.aborted) throw aborted(signal);
    const late = new AbortController();
    const timer = clock.after(timeoutMs, () => late.abort());
    const onAbort = (): void => late.abort();
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      this.#agent ??= this.#makeAgent();
      const agent = await this.#agent;
      const { origin, pathname, search } = new URL(url);
      const answer = await agent.request({
        origin,
        path: pathname + search,
        method,
        headers: { 'user-agent': userAgent, 'accept-language': 'en', ...headers },
        body: body ?? null,
        signal: late.signal,
      });
      return new Answer(answer, await readAll(answer.body, maxBytes));
    } catch (error) {
      if (error instanceof AcmeFailure) throw error;
      if (signal.aborted) throw aborted(signal);
      if (late.signal.aborted) throw new AcmeFailure('timeout', `${hostOf(url)} did not answer within ${timeoutMs} ms`);
      throw new AcmeFailure('network', `${hostOf(url)}: ${causeOf(error)}`, { cause: error });
    } finally {
      timer.cancel();
      signal.removeEventListener('abort', onAbort);
    }
  }

  async close(): Promise<void> {
    const agent = await this.#agent?.catch(() => null);
    this.#agent = null;
    await agent?.destroy();
  }

  async #makeAgent(): Promise<Agent> {
    // Loaded with the first request: most of a process's life there is none.
    const { Agent } = await import('undici');
    const { caPem, timeoutMs, keepAlive = true } = this.#options;
    // Our own timer bounds the whole; undici's would only be a second opinion.
    return new Agent({
      connect: { timeout: timeoutMs, ...(caPem === null ? {} : { ca: caPem }) },
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: idleConnectionMs,
      keepAliveMaxTimeout: idleConnectionMs,
      allowH2: false,
      // 0: a connection for each request.
      pipelining: keepAlive ? 1 : 0,
      connections: 8,
    });
  }
}

class Answer implements HttpAnswer {
  readonly status: number;
  readonly text: string;
  readonly #headers: Dispatcher.ResponseData['headers'];

  constructor({ statusCode, headers }: Dispatcher.ResponseData, text: string) {
    this.status = statusCode;
    this.text = text;
    this.#headers = headers;
  }

  header(name: string): string | null {
    return this.headers(name)[0] ?? null;
  }

  headers(name: string): readonly string[] {
    const value = this.#headers[name];
    return value === undefined ? [] : typeof value === 'string' ? [value] : value;
  }
}

async function readAll(body: Dispatcher.ResponseData['body'], maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  // Leaving the loop destroys the body, and with it the connection.
  for await (const chunk of body as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBytes) throw new AcmeFailure('server', `an answer of more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function aborted(signal: AbortSignal): AcmeFailure {
  return new AcmeFailure('aborted', 'stopped', { cause: signal.reason });
}

export function hostOf(url: string): string {
  return URL.parse(url)?.host ?? 'the certificate authority';
}

/** Several addresses behind one name fail together, without a message of their own. */
function causeOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return causeOf(error.errors[0]);
  if (!(error instanceof Error)) return String(error);
  return error.message === '' ? String((error as NodeJS.ErrnoException).code ?? error.name) : error.message;
}

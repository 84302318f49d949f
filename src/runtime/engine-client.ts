// The engine's HTTP API on its unix socket: requests as JSON, answers as JSON or as a stream.
// Invariant: every call ends, by an answer, an EngineError or its time limit; nothing but the socket is ever dialled.
import type { Readable } from 'node:stream';
import type { Client, Dispatcher, Pool } from 'undici';
import { lazyModule } from '../base/lazy-module.ts';

const undici = lazyModule<typeof import('undici')>('undici');

/** The engine said no, or could not be asked (`status` 0). */
export class EngineError extends Error {
  /** HTTP status of the engine's answer; 0: there was none. */
  readonly status: number;

  constructor(status: number, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'EngineError';
    this.status = status;
  }
}

export interface Call {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'HEAD';
  /** Without the version, such as `/containers/json`. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly json?: unknown;
  readonly body?: Buffer | Readable;
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Until the head of the answer; what follows may take as long as it takes. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

const defaultTimeoutMs = 30_000;
const answerLimit = 64 * 1024 * 1024;

export class EngineClient {
  readonly socketPath: string;
  readonly #pool: Pool;
  readonly #version: string;
  readonly #streams = new Set<Client>();

  /** @param version  the API version asked for, such as `v1.41` */
  constructor(socketPath: string, version: string) {
    this.socketPath = socketPath;
    this.#version = version;
    this.#pool = new (undici().Pool)('http://engine', {
      socketPath,
      pipelining: 1,
      connections: 32,
      keepAliveTimeout: 1000,
    });
  }

  /** The parsed answer; null for an empty one. */
  async json<T>(call: Call): Promise<T> {
    const { body, statusCode } = await this.#request(this.#pool, call);
    const text = await bounded(body);
    if (statusCode >= 400) throw refusal(statusCode, text);
    return (text === '' ? null : JSON.parse(text)) as T;
  }

  /** For calls whose answer says nothing beyond its status; Podman puts words there. */
  async done(call: Call): Promise<void> {
    const { body, statusCode } = await this.#request(this.#pool, call);
    const text = await bounded(body);
    if (statusCode >= 400) throw refusal(statusCode, text);
  }

  /** The answer as it comes. The caller reads it to its end or destroys it. */
  async stream(call: Call): Promise<Readable> {
    // A connection of its own: streams last, and others must not wait for them.
    const client = new (undici().Client)('http://engine', { socketPath: this.socketPath });
    this.#streams.add(client);
    const end = (): void => {
      this.#streams.delete(client);
      void client.destroy();
    };
    try {
      const { body, statusCode } = await this.#request(client, call);
      if (statusCode >= 400) throw refusal(statusCode, await bounded(body));
      body.once('close', end);
      return body;
    } catch (error) {
      end();
      throw error;
    }
  }

  /** Ends what is under way, streams too. */
  close(): void {
    void this.#pool.destroy();
    for (const client of this.#streams) void client.destroy();
  }

  async #request(client: Dispatcher, call: Call): Promise<Dispatcher.ResponseData> {
    const { method, path, query, json, body, contentType, headers, timeoutMs = defaultTimeoutMs, signal } = call;
    const search = new URLSearchParams();
    for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) search.set(name, String(value));
    try {
      return await client.request({
        method,
        path: `/${this.#version}${path}${search.size > 0 ? `?${search}` : ''}`,
        headersTimeout: timeoutMs,
        bodyTimeout: 0,
        ...(signal === undefined ? {} : { signal }),
        ...(json === undefined ? {} : { body: JSON.stringify(json) }),
        ...(body === undefined ? {} : { body }),
        headers: {
          ...(json === undefined ? {} : { 'content-type': 'application/json' }),
          ...(contentType === undefined ? {} : { 'content-type': contentType }),
          ...headers,
        },
      });
    } catch (error) {
      signal?.throwIfAborted();
      throw new EngineError(0, `the container engine at ${this.socketPath} does not answer: ${wordsOf(error)}`, {
        cause: error,
      });
    }
  }
}

async function bounded(body: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > answerLimit) throw new EngineError(0, 'the container engine sent an answer without end');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Docker says `{ message }`, Podman `{ cause, message }`. */
function refusal(status: number, text: string): EngineError {
  let message = text.trim();
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null && 'message' in parsed) message = String(parsed.message);
  } catch {
    // Not JSON: as it is.
  }
  return new EngineError(status, message === '' ? `the container engine answered ${status}` : message);
}

function wordsOf(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  if (code === 'ENOENT' || code === 'ECONNREFUSED') return 'nothing listens there';
  if (code === 'EACCES') return 'no permission; its group, or root, may use it';
  return String(message ?? error);
}

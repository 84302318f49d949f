// Stands in front of Pebble, writes down what it is asked, and does what Pebble cannot: renewal information, profiles, limits,
// errors, answers that come late, never, broken or too large.
// Invariant: what no fault touches passes unchanged; the CA believes to be spoken to directly (same Host, HTTPS).
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer, request, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { mintCa } from '../../certs/make-certs.ts';
import type { Pebble } from './pebble.ts';

/** What a request of a kind is called, by the paths that Pebble uses. */
export type Endpoint =
  | 'directory'
  | 'new-nonce'
  | 'new-account'
  | 'new-order'
  | 'order'
  | 'authorization'
  | 'challenge'
  | 'finalize'
  | 'certificate'
  | 'key-change'
  | 'revoke'
  | 'renewal-info'
  | 'other';

export interface ShimRequest {
  readonly endpoint: Endpoint;
  readonly method: string;
  readonly path: string;
  /** When it came, milliseconds. */
  readonly at: number;
  /** Of the JWS; empty objects where there is none. */
  readonly header: Readonly<Record<string, unknown>>;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly headers: IncomingHttpHeaders;
  /** How many of this endpoint came before. */
  readonly before: number;
  /** Asks the CA, once. */
  pass(): Promise<ShimReply>;
}

export interface ShimReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly body: string;
}

/** `cut`: the connection ends without an answer. `drip`: the head, and then a byte now and then, for ever. */
export type Fault = (
  request: ShimRequest,
) => ShimReply | 'cut' | 'drip' | null | Promise<ShimReply | 'cut' | 'drip' | null>;

const paths: readonly (readonly [string, Endpoint])[] = [
  ['/dir', 'directory'],
  ['/nonce-plz', 'new-nonce'],
  ['/sign-me-up', 'new-account'],
  ['/order-plz', 'new-order'],
  ['/my-order/', 'order'],
  ['/authZ/', 'authorization'],
  ['/chalZ/', 'challenge'],
  ['/finalize-order/', 'finalize'],
  ['/certZ/', 'certificate'],
  ['/rollover-account-key', 'key-change'],
  ['/revoke-cert', 'revoke'],
  ['/renewal-info/', 'renewal-info'],
];

export class AcmeShim {
  readonly caPem: string;
  readonly requests: ShimRequest[] = [];
  /** Asked in order; the first answer that is not null is given. */
  faults: Fault[] = [];
  /** Members that the directory gets besides its own. */
  directory: Record<string, unknown> = {};
  readonly #pebble: Pebble;
  readonly #server: Server;
  readonly #drips = new Set<NodeJS.Timeout>();

  private constructor(pebble: Pebble) {
    this.#pebble = pebble;
    const ca = mintCa('ACME shim');
    this.caPem = ca.cert;
    const pair = ca.leaf({ names: ['localhost', '127.0.0.1'] });
    this.#server = createServer({ cert: pair.cert, key: pair.key }, (incoming, response) => {
      this.#take(incoming, response).catch(() => response.destroy());
    });
  }

  static async start(pebble: Pebble): Promise<AcmeShim> {
    const shim = new AcmeShim(pebble);
    await new Promise<void>((resolve) => shim.#server.listen(0, '127.0.0.1', resolve));
    return shim;
  }

  get directoryUrl(): string {
    return `${this.origin}/dir`;
  }

  get origin(): string {
    return `https://localhost:${(this.#server.address() as AddressInfo).port}`;
  }

  /** A good one, from the CA itself. */
  nonce(): Promise<string> {
    const target = new URL('/nonce-plz', this.#pebble.directoryUrl);
    return new Promise((resolve, reject) => {
      const asked = request(target, { method: 'HEAD', ca: this.#pebble.caPem, agent: false, family: 4 }, (answer) => {
        answer.resume();
        resolve(String(answer.headers['replay-nonce']));
      });
      asked.on('error', reject);
      asked.end();
    });
  }

  count(endpoint: Endpoint): number {
    return this.requests.filter((each) => each.endpoint === endpoint).length;
  }

  of(endpoint: Endpoint): readonly ShimRequest[] {
    return this.requests.filter((each) => each.endpoint === endpoint);
  }

  reset(): void {
    this.requests.length = 0;
    this.faults = [];
    this.directory = {};
  }

  async close(): Promise<void> {
    for (const drip of this.#drips) clearInterval(drip);
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  async #take(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks).toString();
    const path = incoming.url ?? '';
    const endpoint = paths.find(([prefix]) => path.startsWith(prefix))?.[1] ?? 'other';
    let passed: Promise<ShimReply> | null = null;
    const asked: ShimRequest = {
      endpoint,
      method: incoming.method ?? '',
      path,
      at: performance.now(),
      ...readJws(body),
      headers: incoming.headers,
      before: this.count(endpoint),
      pass: () => (passed ??= this.#pass(incoming, body)),
    };
    this.requests.push(asked);
    for (const fault of this.faults) {
      const reply = await fault(asked);
      if (reply === null) continue;
      if (reply === 'cut') incoming.socket.destroy();
      else if (reply === 'drip') this.#drip(response);
      else send(response, reply);
      return;
    }
    send(response, await asked.pass());
  }

  #pass(incoming: IncomingMessage, body: string): Promise<ShimReply> {
    const target = new URL(incoming.url ?? '', this.#pebble.directoryUrl);
    const { method = 'GET' } = incoming;
    const headers = { ...incoming.headers };
    return new Promise((resolve, reject) => {
      const asked = request(target, { method, headers, ca: this.#pebble.caPem, agent: false, family: 4 }, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
        });
        answer.on('end', () => {
          const isDirectory = incoming.url === '/dir';
          const reply = isDirectory ? JSON.stringify(merge(JSON.parse(text), this.directory)) : text;
          resolve({ status: answer.statusCode ?? 0, headers: kept(answer.headers), body: reply });
        });
      });
      asked.on('error', reject);
      asked.end(body);
    });
  }

  #drip(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'application/json' });
    const drip = setInterval(() => response.write(' '), 20);
    this.#drips.add(drip);
    response.on('close', () => {
      clearInterval(drip);
      this.#drips.delete(drip);
    });
  }
}

export function problem(status: number, type: string, detail: string, headers: Record<string, string> = {}): ShimReply {
  return {
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
    body: JSON.stringify({ type: `urn:ietf:params:acme:error:${type}`, detail, status }),
  };
}

export function json(value: unknown, headers: Record<string, string> = {}): ShimReply {
  return { status: 200, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(value) };
}

/** The CA's own answer with some members of its JSON set to something else. */
export async function changed(
  asked: ShimRequest,
  members: Record<string, unknown>,
  headers: Record<string, string> = {},
): Promise<ShimReply> {
  const reply = await asked.pass();
  if (reply.status >= 300) return reply;
  const body = JSON.stringify({ ...(JSON.parse(reply.body) as object), ...members });
  return { status: reply.status, headers: { ...reply.headers, ...headers }, body };
}

function send(response: ServerResponse, { status, headers, body }: ShimReply): void {
  response.writeHead(status, headers as Record<string, string | string[]>);
  response.end(body);
}

/** Length and framing are the sender's. */
function kept(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const names = ['content-type', 'location', 'link', 'replay-nonce', 'retry-after', 'date', 'cache-control'];
  return Object.fromEntries(names.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])));
}

function merge(directory: Record<string, unknown>, more: Record<string, unknown>): unknown {
  const { meta, ...others } = more;
  return { ...directory, ...others, meta: { ...(directory['meta'] as object), ...(meta as object | undefined) } };
}

function readJws(body: string): Pick<ShimRequest, 'header' | 'payload'> {
  try {
    const jws = JSON.parse(body) as { protected: string; payload: string };
    const decode = (text: string) => JSON.parse(Buffer.from(text, 'base64url').toString() || '{}');
    return { header: decode(jws.protected), payload: decode(jws.payload) };
  } catch {
    return { header: {}, payload: {} };
  }
}

// The Prometheus endpoint on an address of its own, never through an app's host.
// Invariant: answers GET /metrics and nothing else; an unchanged address is never rebound; the old address is served until
// the new one is adopted.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import { createServer } from '../base/node-http.ts';

export interface MetricsAddress {
  /** '' for every address. */
  readonly host: string;
  readonly port: number;
}

/** A bound address that is not in use yet. Exactly one of the two is called. */
export interface MetricsMove {
  adopt(): void;
  abandon(): void;
}

export class MetricsServer {
  readonly #text: () => Promise<string>;
  readonly #log: Log;
  #server: Server | null = null;
  #bound = '';

  constructor(text: () => Promise<string>, log: Log) {
    this.#text = text;
    this.#log = log;
  }

  /** Binds the address (null: none). Throws `bind-failed` and keeps what there is. */
  async move(address: MetricsAddress | null): Promise<MetricsMove> {
    const wanted = address === null ? '' : `${address.host}|${address.port}`;
    if (wanted === this.#bound) return { adopt() {}, abandon() {} };
    const server = address === null ? null : await this.#listen(address);
    return {
      adopt: () => {
        this.close();
        this.#server = server;
        this.#bound = wanted;
      },
      abandon: () => end(server),
    };
  }

  close(): void {
    end(this.#server);
    this.#server = null;
    this.#bound = '';
  }

  async #listen({ host, port }: MetricsAddress): Promise<Server> {
    const server = createServer((request, response) => this.#answer(request, response));
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen({ port, ...(host === '' ? {} : { host }) }, resolve);
      });
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      throw new Fault('bind-failed', `metrics.address: ${detail}`, { cause: error });
    }
    return server;
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    if (request.url !== '/metrics' || (request.method !== 'GET' && request.method !== 'HEAD')) {
      response.writeHead(404).end();
      return;
    }
    this.#text().then(
      (text) => response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }).end(text),
      (error: unknown) => {
        if (error instanceof Fault && error.code === 'not-running') {
          response.writeHead(503).end();
          return;
        }
        this.#log.error('metrics-failed', { err: error });
        response.writeHead(500).end();
      },
    );
  }
}

function end(server: Server | null): void {
  server?.close();
  server?.closeAllConnections();
}

// Administration over TCP: the verbs of the control socket for whoever brings the token.
// Invariant: nothing of a request is looked at before its token was; an unchanged address is never rebound, and the old one
// answers until the new one is adopted.
import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import { createServer as createNetServer, type Server as NetServer, type Socket } from 'node:net';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import { createServer, createTlsServer } from '../base/node-http.ts';
import type { DeclaredControl } from '../config/declaration.ts';

/** A bound address that is not in use yet. Exactly one of the two is called. */
export interface ControlMove {
  adopt(): void;
  abandon(): void;
}

interface Secrets {
  /** SHA-256: equal lengths, whatever a client sends. */
  readonly token: Buffer;
  readonly pair: { readonly cert: string; readonly key: string } | null;
}

const mostConnections = 64;

export class ControlAddress {
  readonly #handler: RequestListener;
  readonly #log: Log;
  readonly #sockets = new Set<Socket>();
  #listener: NetServer | null = null;
  #bound = '';
  /** Never listens: it gets the accepted sockets, so that a port may change from plaintext to TLS. */
  #front: Server | TlsServer | null = null;
  #token: Buffer | null = null;

  constructor(handler: RequestListener, log: Log) {
    this.#handler = handler;
    this.#log = log;
  }

  /** Binds the address (null: none) and reads the files again. Throws a Fault and keeps what there is. */
  async move(declared: DeclaredControl | null): Promise<ControlMove> {
    const secrets = declared === null ? null : await readSecrets(declared);
    const wanted = declared === null ? '' : `${declared.address.host}|${declared.address.port}`;
    const moves = wanted !== this.#bound;
    const listener = moves && declared !== null ? await this.#listen(declared.address) : null;
    return {
      adopt: () => {
        if (moves) {
          this.close();
          this.#listener = listener;
          this.#bound = wanted;
        }
        this.#front = secrets === null ? null : this.#frontOf(secrets);
        this.#token = secrets?.token ?? null;
      },
      abandon: () => listener?.close(),
    };
  }

  close(): void {
    this.#listener?.close();
    for (const socket of this.#sockets) socket.destroy();
    this.#listener = null;
    this.#bound = '';
    this.#front = null;
    this.#token = null;
  }

  #frontOf({ pair }: Secrets): Server | TlsServer {
    // A command may wait for a drain of ten minutes and more.
    const options = { requestTimeout: 0, headersTimeout: 10_000, keepAliveTimeout: 1000 };
    const answer: RequestListener = (request, response) => this.#answer(request, response);
    return pair === null
      ? createServer(options, answer)
      : createTlsServer({ ...options, ...pair, minVersion: 'TLSv1.2', handshakeTimeout: 10_000 }, answer);
  }

  async #listen({ host, port }: DeclaredControl['address']): Promise<NetServer> {
    const listener = createNetServer((socket) => this.#accept(socket));
    listener.maxConnections = mostConnections;
    try {
      await new Promise<void>((resolve, reject) => {
        listener.once('error', reject);
        listener.listen({ port, ...(host === '' ? {} : { host }) }, resolve);
      });
    } catch (error) {
      const detail = error instanceof Error ? error.message : String(error);
      throw new Fault('bind-failed', `control.address: ${detail}`, { cause: error });
    }
    return listener;
  }

  #accept(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    if (this.#front === null) socket.destroy();
    else this.#front.emit('connection', socket);
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    if (this.#token !== null && bringsToken(request, this.#token)) {
      this.#handler(request, response);
      return;
    }
    this.#log.warn('control-denied', { client: request.socket.remoteAddress });
    // The body is not read.
    response.writeHead(401, {
      'content-type': 'application/json',
      'www-authenticate': 'Bearer',
      'cache-control': 'no-store',
      connection: 'close',
    });
    const message = 'this address takes the token of control.token_file, as Authorization: Bearer';
    response.end(`${JSON.stringify({ error: { code: 'usage', message } })}\n`, () => request.socket.destroySoon());
  }
}

function bringsToken({ headers, rawHeaders }: IncomingMessage, token: Buffer): boolean {
  const lines = rawHeaders.filter((name, i) => i % 2 === 0 && name.toLowerCase() === 'authorization').length;
  const [, brought] = /^Bearer +([\x21-\x7e]+)$/i.exec(headers.authorization ?? '') ?? [];
  return lines === 1 && brought !== undefined && timingSafeEqual(digest(brought), token);
}

async function readSecrets({ tokenFile, tls }: DeclaredControl): Promise<Secrets> {
  try {
    const [line = ''] = (await readFile(tokenFile, 'utf8')).split(/\r?\n/, 1);
    const pair =
      tls === null ? null : { cert: await readFile(tls.certFile, 'utf8'), key: await readFile(tls.keyFile, 'utf8') };
    return { token: digest(line), pair };
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    throw new Fault('config-invalid', `control: ${detail}`, { cause: error });
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

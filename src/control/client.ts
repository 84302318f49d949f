// The command line's end of the control socket.
// Invariant: every failure becomes a CommandError whose text says what to do next.
import type { IncomingMessage } from 'node:http';
import { createInterface } from 'node:readline';
import { request as httpRequest } from '../base/node-http.ts';
import { type ErrorBody, paths, type RpcAnswer, rpcErrors, type SwitchLine } from './api.ts';
import type { SocketPlace } from './socket-path.ts';

/** A command that failed for a known reason: printed without a stack, exit code 1 (or 2 for wrong usage). */
export class CommandError extends Error {
  readonly exitCode: 1 | 2;

  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

export class ControlClient {
  readonly #place: SocketPlace;

  constructor(place: SocketPlace) {
    this.#place = place;
  }

  get<T>(path: string): Promise<T> {
    return this.#call<T>('GET', path, null);
  }

  post<T>(path: string, body: object | null = null): Promise<T> {
    return this.#call<T>('POST', path, body);
  }

  /** One JSON-RPC call. */
  async call<T>(method: string, params: object): Promise<T> {
    const answer = await this.post<RpcAnswer>(paths.rpc, { jsonrpc: '2.0', id: 1, method, params });
    if ('result' in answer) return answer.result as T;
    const { code, message, data } = answer.error;
    throw commandErrorOf({
      error: { code: data?.fault ?? (code === rpcErrors.failed ? 'internal' : 'usage'), message },
    });
  }

  /** Each line of an NDJSON answer. */
  async *lines<T = SwitchLine>(path: string, body: object): AsyncGenerator<T> {
    const response = await this.#send('POST', path, body);
    if (response.statusCode !== 200) throw errorOf(await readAll(response));
    try {
      for await (const line of createInterface({ input: response })) yield JSON.parse(line) as T;
    } catch (error) {
      throw new CommandError(`Turnpike broke off its answer (${(error as Error).message}).\nSee: turnpike status`);
    }
  }

  /** An answer as it comes. */
  async *bytes(path: string): AsyncGenerator<Buffer> {
    const response = await this.#send('GET', path, null);
    if (response.statusCode !== 200) throw errorOf(await readAll(response));
    try {
      for await (const chunk of response) yield chunk as Buffer;
    } catch (error) {
      throw new CommandError(`Turnpike broke off its answer (${(error as Error).message}).\nSee: turnpike status`);
    }
  }

  async #call<T>(method: string, path: string, body: object | null): Promise<T> {
    const response = await this.#send(method, path, body);
    const text = await readAll(response);
    if (response.statusCode !== 200) throw errorOf(text);
    return JSON.parse(text) as T;
  }

  #send(method: string, path: string, body: object | null): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const request = httpRequest({ socketPath: this.#place.path, method, path, agent: false }, resolve);
      request.on('error', (error: NodeJS.ErrnoException) => reject(this.#unreachable(error)));
      if (body !== null) request.setHeader('content-type', 'application/json');
      request.end(body === null ? undefined : JSON.stringify(body));
    });
  }

  #unreachable(error: NodeJS.ErrnoException): CommandError {
    const { path, configFile } = this.#place;
    const config = configFile === null ? '' : ` --config ${configFile}`;
    switch (error.code) {
      case 'ENOENT':
      case 'ECONNREFUSED':
        return new CommandError(
          `Turnpike is not running: nobody answers at ${path}.\n` +
            `Start it with:  turnpike serve${config}\n` +
            'If it runs with another configuration, name that one with --config FILE or its socket with --socket PATH.',
        );
      case 'EACCES':
      case 'EPERM':
        return new CommandError(
          `No permission to use ${path}.\nRun this command as the user that runs Turnpike, or with sudo.`,
        );
      default:
        return new CommandError(`Cannot talk to Turnpike at ${path}: ${error.message}.`);
    }
  }
}

function errorOf(text: string): CommandError {
  try {
    return commandErrorOf(JSON.parse(text) as ErrorBody);
  } catch {
    return new CommandError('Turnpike gave an answer that this command does not understand: are both of one version?');
  }
}

const nextSteps: Readonly<Partial<Record<ErrorBody['error']['code'], string>>> = {
  'unknown-service': 'See the names with:  turnpike status',
  'gate-refused': 'Nothing was changed. See what there is with:  turnpike gate status',
  'unknown-app': 'See the names with:  turnpike apps list',
  'reservation-conflict': 'Nothing was changed. Give it up there first, or choose another.',
  'deploy-failed': 'See what serves now with:  turnpike apps status APP',
  'deploy-superseded': 'See which one won with:  turnpike apps status APP',
  'stop-failed': 'Stop it by hand, then deploy again; the log of Turnpike names it.',
  'probe-failed': 'Nothing was changed. Is the new backend up? `--no-probe` switches without asking it.',
  'publish-refused': 'Nothing was changed; the log of Turnpike names the worker that refused.',
  'publish-timeout': 'Nothing was changed; a worker did not answer in time. Try again, and see the log of Turnpike.',
  'bind-failed': 'Nothing was changed. See who has the port with:  ss -ltnp',
  'acme-unknown-name': 'See the names with:  turnpike tls plan',
  'acme-failed': 'What is served now stays. See what was tried, and when it is tried again, with:  turnpike tls plan',
  'config-invalid': 'Nothing was changed. See every problem with:  turnpike check',
};

/** The error of an answer, with what to do next. */
export function commandErrorOf({ error }: ErrorBody): CommandError {
  const next = nextSteps[error.code];
  const text = error.message === error.code ? error.code : `${error.message} (${error.code})`;
  return new CommandError(next === undefined ? text : `${text}\n${next}`, error.code === 'usage' ? 2 : 1);
}

async function readAll(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

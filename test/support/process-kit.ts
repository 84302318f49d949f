// What the process tests share: a running Turnpike with one host on generation backends, closed after each test.
// Invariant: nothing survives a test: processes, backends and clients are ended even when it fails.
import { afterEach } from 'vitest';
import { type Pair, TestCa } from './certificates.ts';
import { GenerationBackend } from './generations.ts';
import { closeH2Connections, H2Connection } from './h2-frames.ts';
import { freePorts } from './ports.ts';
import { closeRawClients, RawClient } from './raw-client.ts';
import type { Target } from './transports.ts';
import { Turnpike, type TurnpikeOptions } from './turnpike.ts';

export interface Scene {
  readonly p: Turnpike;
  readonly config: string;
  readonly target: Target;
  readonly first: GenerationBackend;
}

export interface SceneOptions extends Partial<TurnpikeOptions> {
  readonly workers?: number;
  /** Keys under `[limits]`. */
  readonly limits?: string;
  /** Keys of app.test. */
  readonly route?: string;
  /** More tables. */
  readonly more?: string;
}

export class ProcessKit {
  readonly ca: TestCa;
  readonly pair: Pair;
  readonly #backends: GenerationBackend[] = [];
  readonly #running: Turnpike[] = [];

  constructor(name: string) {
    this.ca = new TestCa(name);
    this.pair = this.ca.leaf(['app.test', 'still.test', 'more.test']);
    afterEach(() => this.clear());
  }

  async backend(number: number): Promise<GenerationBackend> {
    const backend = await GenerationBackend.start(number);
    this.#backends.push(backend);
    return backend;
  }

  /** Ends with the test, too. */
  track(turnpike: Turnpike): Turnpike {
    this.#running.push(turnpike);
    return turnpike;
  }

  async scene(options: SceneOptions = {}): Promise<Scene> {
    const first = await this.backend(1);
    const [web, secure] = (await freePorts(2)) as [number, number];
    const config = `
workers = ${options.workers ?? 2}
[entrypoints.web]
address = "127.0.0.1:${web}"
protocol = "http"
[entrypoints.websecure]
address = "127.0.0.1:${secure}"
protocol = "https"
[tls]
redirect = false
[[tls.certificate]]
cert_file = "${this.pair.certFile}"
key_file = "${this.pair.keyFile}"
[log]
access = false
format = "json"
[limits]
${options.limits ?? ''}
[external_routes."app.test"]
to = ["${first.address}"]
${options.route ?? ''}
${options.more ?? ''}
`;
    const p = this.track(await Turnpike.start({ config, ...options }));
    return { p, config, target: { plainPort: web, tlsPort: secure, ca: this.ca.pem }, first };
  }

  async clear(): Promise<void> {
    closeRawClients();
    closeH2Connections();
    for (const turnpike of this.#running.splice(0)) {
      await turnpike.kill();
      turnpike.forget();
    }
    for (const backend of this.#backends.splice(0)) backend.stop();
  }
}

/** One request on a connection of its own; its body. */
export async function askOnce(port: number, host = 'app.test', path = '/'): Promise<string> {
  const client = await RawClient.connect({ port });
  const answer = await client.ask(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
  client.destroy();
  return answer.status === 200 ? answer.body.toString() : `status ${answer.status}`;
}

export function h2To(target: Target, servername = 'app.test'): Promise<H2Connection> {
  return H2Connection.connect({ port: target.tlsPort, tls: { servername, ca: target.ca } });
}

// One running Turnpike for a test file, with two recorder backends behind app1.test and app2.test, and the check that
// follows every test: it still answers, its log shows no bug, no backend socket is left hanging.
// Invariant: a test that damages the proxy fails itself, not the one after it.
import { afterAll, afterEach, beforeAll, expect } from 'vitest';
import { type Pair, TestCa } from './certificates.ts';
import { closeH2Connections } from './h2-frames.ts';
import { freePorts } from './ports.ts';
import { closeRawClients, RawClient } from './raw-client.ts';
import { Recorder } from './recorder.ts';
import { Requester, type Target, type Transport } from './transports.ts';
import { Turnpike } from './turnpike.ts';

export interface Setup {
  readonly app1: Recorder;
  readonly app2: Recorder;
  readonly webPort: number;
  readonly securePort: number;
}

export interface ProxyOptions {
  /** Names that the one static certificate covers, besides the usual ones. */
  readonly names?: readonly string[];
  /** Top-level keys. */
  readonly top?: string;
  /** Keys of the two HTTP entrypoints. */
  readonly entrypoint?: string;
  /** Keys under `[limits]`. */
  readonly limits?: string;
  /** Keys under `[external_routes."app1.test"]`. */
  readonly app1?: string;
  /** More tables: routes, entrypoints. */
  readonly more?: (setup: Setup) => string | Promise<string>;
  readonly workers?: number;
  /** As many descriptors as each process may have. */
  readonly descriptors?: number;
}

export class ProxyFixture {
  p!: Turnpike;
  app1!: Recorder;
  app2!: Recorder;
  webPort = 0;
  securePort = 0;
  ca!: TestCa;
  pair!: Pair;
  config = '';
  /** More recorders whose sockets must be idle after each test. */
  readonly recorders: Recorder[] = [];
  #requesters: Requester[] = [];

  get target(): Target {
    return { plainPort: this.webPort, tlsPort: this.securePort, ca: this.ca.pem };
  }

  /** A client that is closed after the test. */
  requester(transport: Transport, options: { localAddress?: string } = {}): Requester {
    const requester = new Requester(transport, this.target, options);
    this.#requesters.push(requester);
    return requester;
  }

  /** A raw connection to the plaintext entrypoint. */
  plain(): Promise<RawClient> {
    return RawClient.connect({ port: this.webPort });
  }

  /** A raw HTTP/1.1 connection over TLS. */
  secure(servername = 'app1.test'): Promise<RawClient> {
    return RawClient.connect({ port: this.securePort, tls: { servername, ca: this.ca.pem } });
  }

  raw(transport: Transport, servername = 'app1.test'): Promise<RawClient> {
    return transport === 'h1+tls' ? this.secure(servername) : this.plain();
  }

  async start(options: ProxyOptions): Promise<void> {
    [this.webPort, this.securePort] = (await freePorts(2)) as [number, number];
    this.app1 = await Recorder.start({ name: 'app1' });
    this.app2 = await Recorder.start({ name: 'app2' });
    this.recorders.push(this.app1, this.app2);
    this.ca = new TestCa('Turnpike wire tests');
    this.pair = this.ca.leaf(['app1.test', 'app2.test', 'alive.test', ...(options.names ?? [])]);
    this.config = `
workers = ${options.workers ?? 2}
${options.top ?? ''}
[entrypoints.web]
address = "127.0.0.1:${this.webPort}"
protocol = "http"
${options.entrypoint ?? ''}
[entrypoints.websecure]
address = "127.0.0.1:${this.securePort}"
protocol = "https"
${options.entrypoint ?? ''}
[tls]
redirect = false
[[tls.certificate]]
cert_file = "${this.pair.certFile}"
key_file = "${this.pair.keyFile}"
default = true
[tls.internal_ca]
enabled = false
[log]
access = true
format = "json"
[limits]
${options.limits ?? ''}
[external_routes."app1.test"]
to = ["${this.app1.address}"]
${options.app1 ?? ''}
[external_routes."app2.test"]
to = ["${this.app2.address}"]
[external_routes."alive.test"]
respond = { status = 200, body = "alive" }
${(await options.more?.(this)) ?? ''}
`;
    const { descriptors } = options;
    this.p = await Turnpike.start({ config: this.config, ...(descriptors === undefined ? {} : { descriptors }) });
  }

  async checkAfterTest(): Promise<void> {
    for (const requester of this.#requesters.splice(0)) requester.close();
    closeRawClients();
    closeH2Connections();
    for (const recorder of this.recorders) await recorder.backToIdle();
    for (const recorder of this.recorders) recorder.reset();
    const client = await this.plain();
    const answer = await client.ask('GET / HTTP/1.1\r\nHost: app1.test\r\n\r\n');
    client.destroy();
    expect(answer.status, 'app1.test answers after the test').toBe(200);
    expect(this.p.bugs, 'bugs in the log').toEqual([]);
    this.app1.reset();
  }

  async stop(): Promise<void> {
    await this.p?.stop();
    for (const recorder of this.recorders) await recorder.close();
  }
}

/** Starts a proxy for this file (or group) and hangs the checks on its hooks. */
export function useProxy(options: ProxyOptions = {}): ProxyFixture {
  const fixture = new ProxyFixture();
  beforeAll(() => fixture.start(options));
  afterEach(async ({ task }) => {
    // What the proxy said is what one wants to see beside a failure.
    if (task.result?.state === 'fail') console.error(`${task.name}:\n${fixture.p.output.slice(-1500)}`);
    await fixture.checkAfterTest();
  });
  afterAll(() => fixture.stop());
  return fixture;
}

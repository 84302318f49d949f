// A set-up of docs/examples as it is driven: the documented text on ports of its own, with a stub behind every address.
// Invariant: only addresses and networks are replaced, and what reaches out of this machine (ACME) is off; every other
// line is the one that people copy.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { paths } from '../../src/control/api.ts';
import type { TestCa } from './certificates.ts';
import { placeExample } from './examples.ts';
import { freePort } from './ports.ts';
import { type Answer, closeRawClients, RawClient, requestHead } from './raw-client.ts';
import { type Exchange, type Line, Recorder } from './recorder.ts';
import { Turnpike } from './turnpike.ts';
import { closeUdp, isUdpPortFree, UdpBackend, UdpClient } from './udp.ts';
import { echoScript, H1Tunnel, handshake } from './websocket-frames.ts';

export interface StageOptions {
  /** Documented networks → those that the test connects from. */
  readonly networks?: Readonly<Record<string, string>>;
  /** Documented addresses of backends that speak TLS → the names in their certificates. */
  readonly tls?: Readonly<Record<string, readonly string[]>>;
}

export interface Ask {
  readonly host: string;
  readonly path?: string;
  readonly method?: string;
  readonly lines?: readonly Line[];
  /** Local address to ask from. */
  readonly from?: string;
  readonly tls?: ConnectionOptions;
}

export class Stage {
  readonly directory = mkdtempSync(join(tmpdir(), 'turnpike-stage-'));
  p!: Turnpike;
  /** Issuer of the certificates that the operator brings along. */
  ca!: TestCa;
  /** Documented port → port. */
  readonly #ports = new Map<string, number>();
  /** Documented address → its stub. */
  readonly #stubs = new Map<string, Recorder>();
  readonly #datagrams = new Map<string, UdpBackend>();
  #trusted: readonly string[] = [];
  #text = '';

  static async set(name: string, options: StageOptions = {}): Promise<Stage> {
    const stage = new Stage();
    const { ca } = placeExample(name, stage.directory);
    stage.ca = ca;
    stage.#text = await stage.#rewrite(readFileSync(join(stage.directory, 'config.toml'), 'utf8'), options);
    stage.p = await Turnpike.start({ config: stage.#text, directory: stage.directory });
    const { pem } = await stage.p.control.get<{ pem: string | null }>(paths.ca);
    stage.#trusted = [ca.pem, ...(pem === null ? [] : [pem])];
    return stage;
  }

  /** The text that is served, for a reload with more in it. */
  get text(): string {
    return this.#text;
  }

  /** The stub at a documented address. */
  at(address: string): Recorder {
    const stub = this.#stubs.get(address);
    if (stub === undefined) throw new Error(`no backend ${address} in this set-up`);
    return stub;
  }

  /** The stub for datagrams at a documented address. */
  datagramsAt(address: string): UdpBackend {
    const stub = this.#datagrams.get(address);
    if (stub === undefined) throw new Error(`no UDP backend ${address} in this set-up`);
    return stub;
  }

  port(documented: number): number {
    return this.#ports.get(String(documented))!;
  }

  /** Over plaintext, at a documented port. */
  async plain(port: number, ask: Ask): Promise<Answer> {
    const client = await RawClient.connect({ port: this.port(port), ...from(ask) });
    return this.#ask(client, ask);
  }

  /** Over TLS, with a certificate that must fit. */
  async secure(port: number, ask: Ask): Promise<Answer> {
    return this.#ask(await this.tls(port, ask), ask);
  }

  tls(port: number, ask: Ask): Promise<RawClient> {
    const tls = { servername: ask.host, ca: [...this.#trusted], ...ask.tls };
    return RawClient.connect({ port: this.port(port), tls, ...from(ask) });
  }

  /** A WebSocket over TLS. */
  async webSocket(port: number, ask: Ask): Promise<{ answer: Answer; tunnel: H1Tunnel }> {
    const client = await this.tls(port, ask);
    client.write(handshake(ask.host, ask.path ?? '/ws', ask.lines ?? []));
    return { answer: await client.readAnswer(), tunnel: new H1Tunnel(client) };
  }

  /** What a TCP port answers to a line; '' when it closes instead. */
  async tcp(port: number, line: string, local?: string): Promise<string> {
    const client = await RawClient.connect({
      port: this.port(port),
      ...(local === undefined ? {} : { localAddress: local }),
    });
    client.write(line);
    client.fin();
    await client.waitForEnd();
    return client.text;
  }

  udp(port: number, message: string): Promise<string> {
    return UdpClient.to(this.port(port)).askUntilAnswered(message);
  }

  /** A clean end, and nothing left. */
  async strike(): Promise<void> {
    closeRawClients();
    closeUdp();
    await this.p.stop();
    await Promise.all([...this.#stubs.values()].map((stub) => stub.close()));
    rmSync(this.directory, { recursive: true, force: true });
  }

  async #ask(client: RawClient, { host, path = '/', method = 'GET', lines = [] }: Ask): Promise<Answer> {
    const answer = await client.ask(requestHead(method, path, [['Host', host], ...lines]), { method });
    client.destroy();
    return answer;
  }

  async #rewrite(text: string, { networks = {}, tls = {} }: StageOptions): Promise<string> {
    let rewritten = text;
    for (const [, port] of text.matchAll(/^address = ":(\d+)"/gm)) {
      if (!this.#ports.has(port!)) this.#ports.set(port!, await freeBoth());
    }
    rewritten = rewritten.replace(
      /^address = ":(\d+)"/gm,
      (_, port) => `address = "127.0.0.1:${this.#ports.get(port)}"`,
    );
    const raw = new Set([...text.matchAll(/\btcp = "([\d.]+:\d+)"/g)].map(([, address]) => address!));
    for (const [, address] of text.matchAll(/"(?:https:\/\/)?((?:\d+\.){3}\d+:\d+)"/g)) {
      if (this.#stubs.has(address!)) continue;
      const names = tls[address!];
      const pair = names === undefined ? null : this.ca.leaf(names);
      const stub = await Recorder.start({
        name: address!,
        parse: !raw.has(address!),
        ...(pair === null ? {} : { tls: { key: pair.key, cert: pair.cert } }),
      });
      stub.script = answer;
      stub.onRaw = (connection, chunk) => {
        if (raw.has(address!)) connection.send(`${address} heard ${chunk.toString('latin1')}`);
      };
      this.#stubs.set(address!, stub);
    }
    for (const [, address] of text.matchAll(/\budp = "([\d.]+:\d+)"/g)) {
      const stub = await UdpBackend.start(
        (message) => Buffer.from(`${address} heard ${message}`),
        this.#stubs.get(address!)!.port,
      );
      this.#datagrams.set(address!, stub);
    }
    for (const [address, stub] of this.#stubs) {
      rewritten = rewritten.replaceAll(
        new RegExp(`(["/])${address.replaceAll('.', '\\.')}"`, 'g'),
        `$1${stub.address}"`,
      );
    }
    for (const [documented, used] of Object.entries(networks)) rewritten = rewritten.replaceAll(documented, used);
    rewritten = rewritten.replace(/^\[gate\]$/m, `[gate]\nport = ${await freePort()}`);
    // No certificate authority is asked for anything here; the internal one signs instead.
    if (/^\[tls\.acme\]\nenabled = true/m.test(rewritten)) {
      rewritten = rewritten.replace(/^\[tls\.acme\]\nenabled = true/m, '[tls.acme]\nenabled = false');
      if (!rewritten.includes('[tls.internal_ca]')) rewritten += '\n[tls.internal_ca]\nenabled = true\n';
    }
    return `workers = 1\n${rewritten}`;
  }
}

function from({ from: local }: Ask): { localAddress?: string } {
  return local === undefined ? {} : { localAddress: local };
}

function answer(exchange: Exchange): void {
  if (exchange.values('upgrade').length > 0) echoScript(exchange);
  else Recorder.plain(exchange);
}

/** Free for TCP and for UDP. */
async function freeBoth(): Promise<number> {
  for (;;) {
    const port = await freePort();
    if (await isUdpPortFree(port)) return port;
  }
}

// Clients that keep asking which generation answers.
// Invariant: a backend's number rises with the switches, so that an answer's age can be told from its body alone.
import type { ClientLog } from './client-log.ts';
import { H2Connection } from './h2-frames.ts';
import { type Answer, RawClient } from './raw-client.ts';
import type { Target } from './transports.ts';
import { sleep } from './wait.ts';
import { encodeWsFrame, H1Tunnel, handshake, Opcode } from './websocket-frames.ts';

export { GenerationBackend } from './generation-backend.ts';

export interface LoadOptions {
  readonly target: Target;
  readonly host: string;
  readonly log: ClientLog;
  readonly h1Clients: number;
  /** Over TLS. */
  readonly h2Connections: number;
  readonly h2Streams: number;
  /** Each opens a WebSocket, asks once, closes, and begins again. */
  readonly wsClients: number;
}

/** Keeps asking until `stop` is called. */
export class Load {
  readonly #options: LoadOptions;
  #running = true;
  readonly #lanes: Promise<void>[] = [];

  constructor(options: LoadOptions) {
    this.#options = options;
    for (let i = 0; i < options.h1Clients; i++) this.#lanes.push(this.#h1(i));
    for (let i = 0; i < options.h2Connections; i++) this.#lanes.push(this.#h2(i));
    for (let i = 0; i < options.wsClients; i++) this.#lanes.push(this.#ws());
  }

  /** Lets every request in work end. */
  async stop(): Promise<void> {
    this.#running = false;
    await Promise.all(this.#lanes);
  }

  async #h1(lane: number): Promise<void> {
    const { target, host, log } = this.#options;
    let client: RawClient | null = null;
    for (let n = 0; this.#running; n++) {
      const entry = log.begin('h1');
      try {
        if (client === null || client.ended) client = await RawClient.connect({ port: target.plainPort });
        const slow = (n + lane) % 25 === 0;
        const post = n % 3 === 0;
        const head = `${post ? 'POST' : 'GET'} /${slow ? 'slow' : 'fast'} HTTP/1.1\r\nHost: ${host}\r\n`;
        client.write(post ? `${head}Content-Length: 4\r\n\r\nbody` : `${head}\r\n`);
        const answer = await client.readAnswer();
        if (answer.status === 200 && answer.complete) log.answered(entry, Number(answer.body.toString()));
        else log.failed(entry, `status ${answer.status}`);
        if (answer.lines.some(([name, value]) => /^connection$/i.test(name) && /close/i.test(value))) {
          client.destroy();
          client = null;
        }
      } catch (error) {
        log.failed(entry, (error as Error).message);
        client?.destroy();
        client = null;
      }
      await sleep(1);
    }
    client?.destroy();
  }

  async #h2(lane: number): Promise<void> {
    const { target, host, log, h2Streams } = this.#options;
    let connection: H2Connection | null = null;
    const connect = async (): Promise<H2Connection> => {
      if (connection === null || connection.closed || connection.goaway !== null) {
        connection = await H2Connection.connect({
          port: target.tlsPort,
          tls: { servername: host, ca: target.ca },
        });
      }
      return connection;
    };
    await connect();
    await Promise.all(
      Array.from({ length: h2Streams }, async (_each, stream) => {
        for (let n = 0; this.#running; n++) {
          const entry = log.begin('h2');
          const path = (n + stream + lane) % 25 === 0 ? '/slow' : '/fast';
          try {
            const answer = await this.#h2Ask(connect, path);
            if (answer.status === 200 && answer.complete) log.answered(entry, Number(answer.body.toString()));
            else log.failed(entry, `status ${answer.status}, reset ${answer.resetCode}`);
          } catch (error) {
            log.failed(entry, (error as Error).message);
            await sleep(5);
          }
          await sleep(1);
        }
      }),
    );
    (connection as H2Connection | null)?.destroy();
  }

  /** As HTTP/2 clients do: a stream above the last one of a GOAWAY was not processed and is sent anew (RFC 9113 §6.8). */
  async #h2Ask(connect: () => Promise<H2Connection>, path: string): Promise<Answer> {
    for (let tries = 0; ; tries++) {
      const connection = await connect();
      const stream = connection.open(H2Connection.request('GET', this.#options.host, path));
      try {
        return await stream.answer();
      } catch (error) {
        const { goaway } = connection;
        if (goaway === null || stream.id <= goaway.lastStreamId || tries === 3) throw error;
      }
    }
  }

  async #ws(): Promise<void> {
    const { target, host, log } = this.#options;
    while (this.#running) {
      const entry = log.begin('ws');
      try {
        const client = await RawClient.connect({ port: target.plainPort });
        client.write(handshake(host));
        const answer = await client.readAnswer();
        if (answer.status !== 101) throw new Error(`handshake ${answer.status}`);
        client.write(encodeWsFrame(Opcode.Text, 'who', { mask: true }));
        const tunnel = new H1Tunnel(client);
        const [frame] = await tunnel.waitForFrames(1);
        if (frame!.opcode !== Opcode.Text) throw new Error(`first frame is of type ${frame!.opcode}`);
        log.answered(entry, Number(frame!.payload.toString()));
        client.write(encodeWsFrame(Opcode.Close, Buffer.of(0x03, 0xe8), { mask: true }));
        await tunnel.waitForEnd();
        client.destroy();
      } catch (error) {
        log.failed(entry, (error as Error).message);
        await sleep(5);
      }
    }
  }
}

/** A WebSocket that stays open and asks now and then; tells how it ended. */
export class LastingWebSocket {
  readonly client: RawClient;
  readonly #tunnel: H1Tunnel;
  #asked = 0;

  private constructor(client: RawClient) {
    this.client = client;
    this.#tunnel = new H1Tunnel(client);
  }

  static async open(port: number, host: string): Promise<LastingWebSocket> {
    const client = await RawClient.connect({ port });
    client.write(handshake(host));
    const answer = await client.readAnswer();
    if (answer.status !== 101) throw new Error(`handshake ${answer.status}`);
    return new LastingWebSocket(client);
  }

  get open(): boolean {
    return !this.client.ended;
  }

  /** Close code of the frame that ended it; null when there was none. */
  get closeCode(): number | null {
    return this.#tunnel.frames.find((frame) => frame.opcode === Opcode.Close)?.code ?? null;
  }

  /** Sends a frame and waits for its answer: the backend's number. */
  async ask(): Promise<number> {
    this.client.write(encodeWsFrame(Opcode.Text, 'who', { mask: true }));
    this.#asked++;
    const frames = await this.#tunnel.waitForFrames(this.#asked);
    return Number(frames[this.#asked - 1]!.payload.toString());
  }

  close(): void {
    this.client.destroy();
  }
}

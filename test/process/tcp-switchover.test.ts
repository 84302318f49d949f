// The guarantees of a switch for TCP: new connections, tunnels that live on, pauses, reloads, workers that leave.
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { paths } from '../../src/control/api.ts';
import { freePorts } from '../support/ports.ts';
import { Turnpike } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

/** Greets every connection with its number, and then says everything back. */
class Greeter {
  readonly number: number;
  readonly sockets = new Set<Socket>();
  greeted = 0;
  readonly #server: Server;

  private constructor(number: number) {
    this.number = number;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      this.greeted++;
      this.sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.sockets.delete(socket));
      socket.write(`${number}\n`);
      socket.pipe(socket);
    });
  }

  static async start(number: number): Promise<Greeter> {
    const greeter = new Greeter(number);
    greeters.push(greeter);
    greeter.#server.listen(0, '127.0.0.1');
    await once(greeter.#server, 'listening');
    return greeter;
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  stop(): void {
    this.#server.close();
    for (const socket of this.sockets) socket.destroy();
  }
}

const greeters: Greeter[] = [];
const clients = new Set<Client>();
let turnpike: Turnpike | null = null;

afterEach(async () => {
  for (const client of clients) client.socket.destroy();
  for (const greeter of greeters.splice(0)) greeter.stop();
  await turnpike?.stop();
  turnpike = null;
});

/** One connection, and what came of it. */
class Client {
  readonly socket: Socket;
  readonly begunAt = performance.now();
  text = '';
  error: string | null = null;
  ended = false;

  constructor(port: number, localAddress = '127.0.0.1') {
    clients.add(this);
    this.socket = connect({ port, host: '127.0.0.1', localAddress, noDelay: true });
    this.socket.on('data', (chunk: Buffer) => {
      this.text += chunk.toString('latin1');
    });
    this.socket.on('error', (error: NodeJS.ErrnoException) => {
      this.error = error.code ?? error.message;
    });
    this.socket.on('close', () => {
      this.ended = true;
      clients.delete(this);
    });
  }

  /** The number of the generation that greets; fails when the connection breaks first. */
  async greeting(): Promise<number> {
    await until('a greeting', () => this.text.includes('\n') || this.ended, { everyMs: 2, timeoutMs: 10_000 });
    if (!this.text.includes('\n')) throw new Error(this.error ?? 'closed without a greeting');
    return Number(this.text.slice(0, this.text.indexOf('\n')));
  }

  async says(text: string): Promise<void> {
    this.text = '';
    this.socket.write(text);
    await until(`${text} to come back`, () => this.text === text || this.ended);
    expect(this.text).toBe(text);
  }
}

interface Ports {
  readonly p: Turnpike;
  readonly port: number;
  readonly config: (more?: string) => string;
}

async function start(first: Greeter, workers: number, keys = ''): Promise<Ports> {
  const [port = 0] = await freePorts(1);
  const config = (more = ''): string => `
workers = ${workers}
[entrypoints.db]
address = "127.0.0.1:${port}"
protocol = "tcp"
${more}
[network_services.db]
tcp = "${first.address}"
${keys}
[[routers.tcp]]
entrypoint = "db"
service = "db"
[log]
access = true
format = "json"
`;
  const p = await Turnpike.start({ config: config() });
  turnpike = p;
  return { p, port, config };
}

describe('50 switches under constant new connections', () => {
  it.each([1, 2])(
    'with %i workers: none refused, none to the old one after the acknowledgement',
    { timeout: 120_000 },
    async (workers) => {
      const first = await Greeter.start(0);
      const { p, port } = await start(first, workers, 'stream_drain = "500ms"');
      const acknowledged: { readonly at: number; readonly number: number }[] = [];
      const greeted: { readonly begunAt: number; readonly seenAt: number; readonly number: number }[] = [];
      const failures: string[] = [];
      let running = true;
      const lane = async (): Promise<void> => {
        while (running) {
          const client = new Client(port);
          try {
            const number = await client.greeting();
            greeted.push({ begunAt: client.begunAt, seenAt: performance.now(), number });
          } catch (error) {
            failures.push((error as Error).message);
          }
          client.socket.end();
          await sleep(2);
        }
      };
      const lanes = Array.from({ length: 8 }, lane);
      await until('connections', () => greeted.length > 50);
      let old = first;
      const reports: Promise<unknown>[] = [];
      for (let number = 1; number <= 50; number++) {
        const next = await Greeter.start(number);
        const stopped = old;
        await new Promise<void>((resolve, reject) => {
          const done = p
            .switchService('db', [next.address], {
              probe: number % 10 === 0,
              acknowledged: (at) => {
                acknowledged.push({ at, number });
                resolve();
              },
            })
            // Drained means that the old backend may be stopped.
            .then(() => stopped.stop());
          done.catch(reject);
          reports.push(done);
        });
        old = next;
      }
      await sleep(200);
      running = false;
      await Promise.all([...lanes, ...reports]);
      expect(failures).toEqual([]);
      expect(acknowledged).toHaveLength(50);
      expect(greeted.length).toBeGreaterThan(500);
      const stale = greeted.filter(({ begunAt, number }) =>
        acknowledged.some((each) => each.at < begunAt && each.number > number),
      );
      expect(stale, 'begun after an acknowledgement, greeted by an older generation').toEqual([]);
      const seen = greeted.toSorted((a, b) => a.seenAt - b.seenAt);
      let newest = { number: 0, seenAt: 0 };
      const back = [];
      for (const each of seen) {
        if (each.begunAt > newest.seenAt && each.number < newest.number) back.push(each);
        if (each.number > newest.number) newest = each;
      }
      expect(back, 'begun after somebody saw a newer one').toEqual([]);
    },
  );
});

describe('a tunnel', () => {
  it('lives on the old generation until stream_drain, and is then ended', async () => {
    const first = await Greeter.start(1);
    const second = await Greeter.start(2);
    const { p, port } = await start(first, 2, 'stream_drain = "1s"');
    const old = new Client(port);
    expect(await old.greeting()).toBe(1);
    let acknowledged = false;
    const switched = p.switchService('db', [second.address], {
      acknowledged: () => {
        acknowledged = true;
      },
    });
    await until('the acknowledgement', () => acknowledged);
    expect(await new Client(port).greeting()).toBe(2);
    await old.says('still here');
    const { report } = await switched;
    await until('the end of the old one', () => old.ended);
    expect(old.error).toBe('ECONNRESET');
    expect(report).toMatchObject({ service: 'db', requestsOld: 1, inFlightAtFlip: 1, forcedCloses: 1, errors: 0 });
    expect(first.sockets.size).toBe(0);
    const line = await until('its line', () => p.log.find((each) => each['reason'] === 'drained'));
    expect(line).toMatchObject({ service: 'db', generation: 1, backend: first.address });
  });

  it('outlives 20 reloads that concern it not, and no newcomer is refused meanwhile', async () => {
    const first = await Greeter.start(1);
    const { p, port, config } = await start(first, 2);
    const client = new Client(port);
    await client.greeting();
    let running = true;
    const outcomes: unknown[] = [];
    const newcomers = Array.from({ length: 4 }, async () => {
      while (running) {
        const newcomer = new Client(port);
        outcomes.push(await newcomer.greeting().catch((error: Error) => error.message));
        newcomer.socket.end();
        await sleep(2);
      }
    });
    for (let i = 0; i < 20; i++) {
      const result = await p.reload(config(`max_connections = ${100 + i}\n`));
      expect(result.outcome).toBe('applied');
      await client.says(`reload ${i}`);
    }
    running = false;
    await Promise.all(newcomers);
    expect(outcomes.length).toBeGreaterThan(50);
    expect(outcomes.filter((outcome) => outcome !== 1)).toEqual([]);
  });

  it('is closed at once when trusted_cidrs leave its peer out, and no other is', async () => {
    const first = await Greeter.start(1);
    const { p, port, config } = await start(first, 2);
    const stays = new Client(port);
    const goes = new Client(port, '127.0.0.9');
    await stays.greeting();
    await goes.greeting();
    await p.reload(config('trusted_cidrs = ["127.0.0.1/32"]'));
    await until('the other one to end', () => goes.ended);
    await stays.says('here');
    const late = new Client(port, '127.0.0.9');
    await until('a refusal', () => late.ended);
    expect(late.text).toBe('');
  });

  it('goes on while a worker is replaced', async () => {
    const first = await Greeter.start(1);
    const { p, port } = await start(first, 1);
    const client = new Client(port);
    await client.greeting();
    expect(await p.control.post(paths.replaceWorkers)).toMatchObject({ replaced: 1 });
    await client.says('on the old worker');
    expect(await new Client(port).greeting()).toBe(1);
  });
});

describe('a reload', () => {
  it('that cannot be served changes nothing, and says why until one can', async () => {
    const first = await Greeter.start(1);
    const second = await Greeter.start(2);
    const { p, port, config } = await start(first, 2);
    const client = new Client(port);
    await client.greeting();
    const taken = second.address.split(':')[1];
    const refusals = [
      [config('max_connections = "lots"'), 'entrypoints.db.max_connections'],
      ...['bogus', '0s', '-1s'].map((text) => [
        config().replace('[[routers', `tcp_idle_timeout = "${text}"\n[[routers`),
        'network_services.db.tcp_idle_timeout',
      ]),
      [config().replace('service = "db"', 'service = "dba"'), 'there is no network service "dba"; did you mean "db"?'],
      [
        `${config()}[entrypoints.second]\naddress = "127.0.0.1:${taken}"\nprotocol = "tcp"\n` +
          '[[routers.tcp]]\nentrypoint = "second"\nservice = "db"\n',
        'another socket holds the port',
      ],
      [config().replace('"127.0.0.1:', '":'), `this program listens on 127.0.0.1:${port}, and no reload can do both`],
    ] as const;
    for (const [text, why] of refusals) {
      const result = await p.reload(text);
      expect(result.outcome).toBe('refused');
      expect(JSON.stringify(result)).toContain(JSON.stringify(why).slice(1, -1));
      expect((await p.status()).lastReload).toMatchObject({ outcome: 'refused' });
      await client.says('still here');
      expect(await new Client(port).greeting()).toBe(1);
    }
    expect((await p.reload(config('max_connections = 99'))).outcome).toBe('applied');
    expect((await p.status()).lastReload).toMatchObject({ outcome: 'applied' });
    await client.says('and still');
  });

  it('that removes an entrypoint accepts nothing more there, and leaves its tunnels their time', async () => {
    const first = await Greeter.start(1);
    const { p, port, config } = await start(first, 2, 'stream_drain = "1s"');
    const client = new Client(port);
    await client.greeting();
    const without = config().replace(/\[entrypoints\.db\][\s\S]*?(?=\[log\])/, '');
    expect((await p.reload(without)).outcome).toBe('applied');
    await client.says('still here');
    const late = new Client(port);
    await until('a refusal', () => late.ended);
    expect(late.error).toBe('ECONNREFUSED');
    await until('the end', () => client.ended);
    expect(client.error).toBe('ECONNRESET');
  });

  it('that ends its router leaves the tunnels of the service their time', async () => {
    const first = await Greeter.start(1);
    const { p, port, config } = await start(first, 2, 'stream_drain = "1s"');
    const client = new Client(port);
    await client.greeting();
    const without = config().replace(/\[\[routers\.tcp\]\][\s\S]*?(?=\[log\])/, '');
    expect((await p.reload(without)).outcome).toBe('applied');
    await client.says('still here');
    const late = new Client(port);
    await until('a close', () => late.ended);
    expect(late.text).toBe('');
    await until('the end', () => client.ended);
    expect(client.error).toBe('ECONNRESET');
  });
});

describe('a worker that dies', () => {
  it('takes its tunnels along and nothing else: the next connection is served', async () => {
    const first = await Greeter.start(1);
    const { p, port } = await start(first, 1);
    const client = new Client(port);
    await client.greeting();
    const [pid] = await p.workerPids();
    process.kill(pid!, 'SIGKILL');
    await until('its end', () => client.ended);
    expect(await new Client(port).greeting()).toBe(1);
  });
});

describe('a paused service', () => {
  it('keeps connections, undialled, and lets them go on when it runs again', async () => {
    const first = await Greeter.start(1);
    const { p, port } = await start(first, 2);
    await p.service('db', 'pause');
    const waiting = Array.from({ length: 5 }, () => new Client(port));
    for (const client of waiting) client.socket.write('early');
    await sleep(300);
    expect(first.greeted).toBe(0);
    expect(waiting.map((client) => [client.text, client.ended])).toEqual(waiting.map(() => ['', false]));
    expect((await p.status()).services[0]).toMatchObject({ name: 'db', state: 'paused', waiting: 5 });
    const gone = waiting[0]!;
    gone.socket.resetAndDestroy();
    await until('one to be dropped', async () => (await p.status()).services[0]!.waiting === 4);
    await p.service('db', 'resume');
    for (const client of waiting.slice(1)) {
      await until('what was sent early', () => client.text === '1\nearly');
    }
    expect(first.greeted).toBe(4);
  });

  it('goes to the new backends when it was switched meanwhile', async () => {
    const first = await Greeter.start(1);
    const second = await Greeter.start(2);
    const { p, port } = await start(first, 2);
    await p.service('db', 'pause');
    const client = new Client(port);
    await sleep(100);
    await p.switchService('db', [second.address]);
    await p.service('db', 'resume');
    expect(await client.greeting()).toBe(2);
    expect(first.greeted).toBe(0);
  });

  it('closes who waited for max_hold, and a stopped one closes at once', async () => {
    const first = await Greeter.start(1);
    const { p, port } = await start(first, 1, 'max_hold = "300ms"');
    await p.service('db', 'pause');
    const client = new Client(port);
    await until('the end', () => client.ended);
    expect(client.text).toBe('');
    await p.service('db', 'stop');
    const next = new Client(port);
    await until('the end', () => next.ended);
    await p.service('db', 'start');
    expect(await new Client(port).greeting()).toBe(1);
    const reasons = (): unknown[] => p.log.map((line) => line['reason']);
    await until('their lines', () => reasons().includes('hold-timeout') && reasons().includes('stopped'), {
      seen: reasons,
    });
  });
});

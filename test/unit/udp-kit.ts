// A relay without its listening socket: datagrams are handed in, replies are written down, time moves by hand. Backends
// and the sockets towards them are real.
import { Deadlines } from '../../src/base/deadlines.ts';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import type { Service } from '../../src/model/snapshot.ts';
import type { Drained } from '../../src/traffic/live-service.ts';
import { Traffic } from '../../src/traffic/traffic.ts';
import { type Drop, type FlowCells, type FlowEnd, FlowMetrics } from '../../src/udp/flow-cells.ts';
import { FlowLog } from '../../src/udp/flow-log.ts';
import { FlowRelay, type RelaySettings } from '../../src/udp/flow-relay.ts';
import { Backends } from '../../src/upstream/backends.ts';
import { HandClock } from '../support/hand-clock.ts';
import { limits, networkService, routing, snapshot, wholeDelta } from '../support/routing.ts';
import { until } from '../support/wait.ts';

export function udpService(number: number, addresses: readonly string[], over: Partial<Service> = {}): Service {
  return networkService('game', number, addresses, { protocol: 'udp', ...over });
}

export interface Reply {
  readonly text: string;
  readonly port: number;
  readonly address: string;
}

export class RelayKit {
  readonly clock = new HandClock();
  readonly deadlines = new Deadlines(this.clock);
  readonly replies: Reply[] = [];
  readonly lines: Record<string, unknown>[] = [];
  readonly drained: Drained[] = [];
  readonly traffic: Traffic<Backends>;
  readonly cells: FlowCells;
  relay: FlowRelay;
  #revision = 0;
  #service: Service;
  #down: readonly string[] = [];

  constructor(service: Service, over: Partial<RelaySettings> = {}) {
    const { clock, deadlines } = this;
    const metrics = new Metrics();
    this.#service = service;
    this.traffic = new Traffic<Backends>(
      clock,
      (of, down) =>
        new Backends(of, down, {
          clock,
          deadlines,
          log: silentLog,
          metrics,
          limits: () => limits,
          cookieKey: () => Buffer.alloc(32),
        }),
      (drained) => this.drained.push(drained),
    );
    this.publish(service);
    const cell = () => ({ value: 0 });
    this.cells = new FlowMetrics(metrics).cells('games', {
      active: cell(),
      accepted: cell(),
      received: cell(),
      sent: cell(),
      sourceRefused: cell(),
    });
    const log = new FlowLog({ wanted: 'json', write: (line) => this.lines.push(JSON.parse(line)) });
    this.relay = new FlowRelay(
      { traffic: this.traffic, clock, deadlines, log },
      { ...this.settings, ...over },
      (message, port, address) => this.replies.push({ text: message.toString(), port, address }),
    );
  }

  get settings(): RelaySettings {
    return {
      entrypoint: 'games',
      service: 'game',
      maxFlows: 4096,
      idleMs: 120_000,
      drainMs: 600_000,
      cells: this.cells,
      admit: (address) => address,
    };
  }

  /** Makes this the service that is served. */
  publish(service: Service, down: readonly string[] = [], more: readonly Service[] = []): void {
    this.#service = service;
    this.#down = down;
    const part = routing({ services: [service, ...more] });
    const whole = snapshot(++this.#revision, part, { health: { down: { game: [...down] } } });
    this.traffic.commit(this.traffic.prepare(wholeDelta(whole)));
  }

  hold(): void {
    this.traffic.hold(['game']);
  }

  /** Ends a hold with nothing changed. */
  unhold(): void {
    this.publish(this.#service, this.#down);
  }

  send(port: number, text: string | Buffer, address = '10.0.0.1'): void {
    this.relay.received(Buffer.from(text), address, port);
  }

  repliesTo(port: number): string[] {
    return this.replies.filter((reply) => reply.port === port).map(({ text }) => text);
  }

  /** Sends and waits for the reply. */
  async ask(port: number, text: string, address = '10.0.0.1'): Promise<string> {
    const before = this.repliesTo(port).length;
    this.send(port, text, address);
    await this.replied(port, before + 1);
    return this.repliesTo(port)[before]!;
  }

  replied(port: number, count: number): Promise<unknown> {
    return until(`${count} replies to ${port}`, () => this.repliesTo(port).length >= count, {
      seen: () => this.replies,
    });
  }

  /** Reasons of the flows that ended, in order. */
  get ends(): unknown[] {
    return this.lines.map((line) => line['reason']);
  }

  dropped(why: Drop): number {
    return this.cells.dropped(why).value;
  }

  ended(why: FlowEnd): number {
    return this.cells.ended(why).value;
  }

  close(): void {
    this.relay.close();
    this.deadlines.close();
  }
}

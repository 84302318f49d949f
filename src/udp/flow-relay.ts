// The flows of one UDP entrypoint: datagrams from its listening socket to the right flow, and what ends a flow.
// Invariant: at most `maxFlows` flows, each in the table from its first datagram to its end; a datagram that belongs to a
// flow costs no promise, no closure and no search.
import type { Clock, Timer } from '../base/clock.ts';
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';
import type { LiveService } from '../traffic/live-service.ts';
import type { Traffic } from '../traffic/traffic.ts';
import { Flow, type FlowBackends, type FlowHost } from './flow.ts';
import type { Drop, FlowCells, FlowEnd } from './flow-cells.ts';
import type { FlowLog } from './flow-log.ts';
import { FlowTable } from './flow-table.ts';
import { Resolver } from './resolver.ts';

/** What holds for an entrypoint's flows now. */
export interface RelaySettings {
  readonly entrypoint: string;
  /** Name of the service that its router leads to; null: it has none. */
  readonly service: string | null;
  readonly maxFlows: number;
  /** A flow that is silent in both directions for this long is over. */
  readonly idleMs: number;
  /** How long flows may go on that the router no longer leads to. */
  readonly drainMs: number;
  readonly cells: FlowCells;
  /** A client's address without an IPv4 prefix or a zone; null: it may not use the entrypoint. */
  admit(address: string): string | null;
}

export interface RelayDeps {
  readonly traffic: Traffic<FlowBackends>;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly log: FlowLog;
}

/** The listening socket, as far as it answers clients. */
export type SendReply = (message: Buffer, port: number, address: string) => void;

/** While it drains, a flow that is silent for this long has nothing to finish any more. */
const quietMs = 1000;

export class FlowRelay implements DeadlineHolder, FlowHost {
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly resolver: Resolver;
  readonly #deps: RelayDeps;
  readonly #deadlines: Deadlines;
  readonly #send: SendReply;
  readonly #table = new FlowTable<Flow>();
  /** Services that the router does not lead to any more, with the end of their flows' time. */
  readonly #stranded = new Map<string, Timer>();
  #settings: RelaySettings;
  #draining = false;
  #onEmpty: (() => void) | null = null;

  constructor(deps: RelayDeps, settings: RelaySettings, send: SendReply) {
    this.#deps = deps;
    this.#deadlines = deps.deadlines;
    this.#settings = settings;
    this.#send = send;
    this.resolver = new Resolver(deps.clock);
    deps.deadlines.add(this);
  }

  get settings(): RelaySettings {
    return this.#settings;
  }

  get flows(): number {
    return this.#table.size;
  }

  /** A datagram from a client, addressed as the listening socket gives it. */
  received(message: Buffer, address: string, port: number): void {
    const { cells } = this.#settings;
    const key = `${address} ${port}`;
    const flow = this.#table.get(key);
    if (flow === undefined) {
      const client = this.#settings.admit(address);
      if (client === null) {
        // Silently: an answer would tell a scanner that somebody is here, and a forged sender's victim would get it.
        cells.sourceRefused.value++;
        return;
      }
      cells.datagramsIn.value++;
      cells.received.value += message.length;
      const drop = this.#begin(key, address, port, client, null, message);
      if (drop !== null) cells.dropped(drop).value++;
      return;
    }
    cells.datagramsIn.value++;
    cells.received.value += message.length;
    if (flow.stranded && this.#move(flow)) {
      const moved = this.#table.get(key);
      if (moved === undefined) cells.dropped('no-live-backend').value++;
      else moved.forward(message);
      return;
    }
    this.#table.touch(flow, this.#deadlines.now);
    flow.forward(message);
  }

  /** Follows the snapshot. Flows of clients that may no longer be here end at once. */
  configure(settings: RelaySettings): void {
    const before = this.#settings;
    this.#settings = settings;
    // The entrypoint may have another name now: its flows are counted where they will end.
    before.cells.active.value -= this.#table.size;
    settings.cells.active.value += this.#table.size;
    this.review();
    if (settings.service !== before.service) this.#strand(before, settings.service);
    this.#arm();
  }

  /** Ends flows of clients that may be here no longer. */
  review(): void {
    for (const flow of this.#table.all()) if (this.#settings.admit(flow.address) === null) flow.end('not-admitted');
  }

  /** Takes no new flows. `onEmpty` is called when the last one has ended: by its drain, or because nothing moves. */
  drain(onEmpty: () => void): void {
    this.#draining = true;
    this.#onEmpty = onEmpty;
    this.#arm();
    this.#checkEmpty();
  }

  /** Takes new flows again: the entrypoint came back before the last one was gone. */
  resume(): void {
    this.#draining = false;
    this.#onEmpty = null;
  }

  /** Ends every flow now. */
  close(): void {
    this.#draining = true;
    for (const flow of this.#table.all()) flow.end('drained');
    for (const timer of this.#stranded.values()) timer.cancel();
    this.#stranded.clear();
    this.#deadlines.remove(this);
  }

  // ---- DeadlineHolder --------------------------------------------------------------------------------------------

  deadlineReached(): void {
    const silentSince = this.#deadlines.now - this.#idleMs;
    for (let flow = this.#table.oldest; flow !== null && flow.lastAt <= silentSince; flow = this.#table.oldest) {
      flow.end(this.#draining ? 'drained' : 'idle');
    }
    this.#arm();
  }

  // ---- FlowHost --------------------------------------------------------------------------------------------------

  get cells(): FlowCells {
    return this.#settings.cells;
  }

  get now(): number {
    return this.#deadlines.now;
  }

  get service(): LiveService<FlowBackends> | undefined {
    const { service } = this.#settings;
    return service === null ? undefined : this.#deps.traffic.service(service);
  }

  reply(flow: Flow, message: Buffer): void {
    const { cells } = this.#settings;
    cells.datagramsOut.value++;
    cells.sent.value += message.length;
    this.#table.touch(flow, this.#deadlines.now);
    this.#send(message, flow.port, flow.address);
  }

  failed(flow: Flow): void {
    // What refuses an old generation is on its way out: the client's next datagram arrives at the new one.
    if (flow.retired) flow.end('upstream-failed');
    else this.#move(flow);
  }

  ended(flow: Flow, why: FlowEnd): void {
    const { cells, entrypoint } = this.#settings;
    this.#table.remove(flow);
    cells.active.value--;
    cells.ended(why).value++;
    this.#deps.log.flowEnded(flow, entrypoint, why, this.#deps.clock.monotonic());
    this.#checkEmpty();
  }

  // ---- inside ----------------------------------------------------------------------------------------------------

  #begin(
    key: string,
    address: string,
    port: number,
    client: string,
    avoid: string | null,
    message: Buffer | null,
  ): Drop | null {
    if (this.#draining) return 'draining';
    // A flow that moves to another backend is not new.
    if (message !== null && this.#deps.traffic.overload.sheds('flow')) return 'overload';
    const flow = new Flow(this, key, address, port, client, this.#deps.clock);
    const drop = flow.arrive(avoid);
    if (drop !== null) return drop;
    const { cells, maxFlows } = this.#settings;
    while (this.#table.size >= maxFlows) this.#table.oldest!.end('evicted');
    this.#table.add(flow, this.#deadlines.now);
    cells.active.value++;
    cells.accepted.value++;
    if (this.#table.size === 1) this.#arm();
    if (message !== null) flow.forward(message);
    return null;
  }

  /** Ends a flow whose backend fails for one on another backend, if there is one. */
  #move(flow: Flow): boolean {
    const live = this.service;
    if (live === undefined || live.blocked || live.service.state === 'stopped' || this.#draining) return false;
    const other = live.current.resource.pick(flow.client, flow.backend);
    if (other === null || other.address === flow.backend) return false;
    const { key, address, port, client, backend } = flow;
    flow.end('upstream-failed');
    this.#begin(key, address, port, client, backend, null);
    return true;
  }

  /** Flows of a service that the router leads to no more have their drain; it may go on elsewhere, and would never end them. */
  #strand({ service: left, drainMs }: RelaySettings, now: string | null): void {
    if (now !== null) {
      this.#stranded.get(now)?.cancel();
      this.#stranded.delete(now);
    }
    if (left === null) return;
    const timer = this.#deps.clock.after(drainMs, () => {
      this.#stranded.delete(left);
      for (const flow of this.#table.all()) if (flow.serviceName === left) flow.end('drained');
    });
    this.#stranded.set(left, timer);
  }

  get #idleMs(): number {
    const { idleMs } = this.#settings;
    return this.#draining ? Math.min(idleMs, quietMs) : idleMs;
  }

  #arm(): void {
    const { oldest } = this.#table;
    this.deadlineAt = oldest === null ? 0 : oldest.lastAt + this.#idleMs;
  }

  #checkEmpty(): void {
    if (this.#table.size > 0 || this.#onEmpty === null) return;
    const onEmpty = this.#onEmpty;
    this.#onEmpty = null;
    onEmpty();
  }
}

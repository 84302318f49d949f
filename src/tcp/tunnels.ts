// The tunnels of one worker: what they share, what they count, and which of them the configuration has left behind.
// Invariant: a tunnel whose way leads to another service since a reload ends within that service's `stream_drain`, as one
// does whose backends were replaced.
import type { Clock, Timer } from '../base/clock.ts';
import type { Deadlines } from '../base/deadlines.ts';
import type { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { Family, Metrics } from '../base/metrics.ts';
import type { AccessLog } from '../http/access-log.ts';
import type { Participant, Traffic } from '../traffic/traffic.ts';
import type { Backends } from '../upstream/backends.ts';
import { Tunnel, type TunnelCells, type TunnelClient, type TunnelHost } from './tunnel.ts';
import { jsonTunnel, prettyTunnel } from './tunnel-record.ts';
import { serviceBehind, type Way } from './way.ts';

export interface TunnelsDeps {
  readonly traffic: Traffic<Backends>;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly accessLog: AccessLog;
}

export class Tunnels implements Participant<null>, TunnelHost {
  readonly traffic: Traffic<Backends>;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly log: Log;
  readonly #accessLog: AccessLog;
  readonly #families: Families;
  readonly #tunnels = new Set<Tunnel>();
  /** Those that the configuration has left behind, with the end of their time. */
  readonly #stranded = new Map<Tunnel, Timer>();

  /** Registers with `traffic`: must be made before the first commit. */
  constructor(deps: TunnelsDeps) {
    this.traffic = deps.traffic;
    this.clock = deps.clock;
    this.deadlines = deps.deadlines;
    this.log = deps.log;
    this.#accessLog = deps.accessLog;
    this.#families = familiesOf(deps.metrics);
    deps.traffic.register(this);
  }

  /** The machine has too much to do for another one. */
  get overloaded(): boolean {
    return this.traffic.overload.sheds('tunnel');
  }

  /** Takes a client over; the tunnel is to be started. */
  open(client: TunnelClient, way: Way): Tunnel {
    const tunnel = new Tunnel(this, client, way);
    this.#tunnels.add(tunnel);
    return tunnel;
  }

  // ---- Participant -----------------------------------------------------------------------------------------------

  prepare(): null {
    return null;
  }

  commit(): void {
    const { table } = this.traffic;
    for (const tunnel of this.#tunnels) {
      const { service } = tunnel.record;
      const behind = serviceBehind(table, tunnel.client.entrypoint, tunnel.way);
      // Who waits finds out when it arrives; what belongs to a service that is gone drains with it.
      if (!tunnel.isOpen || behind === service) this.#keep(tunnel);
      else this.#strand(tunnel, table.services.get(service)?.streamDrainMs);
    }
  }

  abort(): void {
    // `prepare` did nothing.
  }

  #strand(tunnel: Tunnel, withinMs: number | undefined): void {
    if (withinMs === undefined || this.#stranded.has(tunnel)) return;
    this.#stranded.set(
      tunnel,
      this.clock.after(withinMs, () => tunnel.claimEnded('drain')),
    );
  }

  #keep(tunnel: Tunnel): void {
    this.#stranded.get(tunnel)?.cancel();
    this.#stranded.delete(tunnel);
  }

  // ---- TunnelHost ------------------------------------------------------------------------------------------------

  opened(tunnel: Tunnel): TunnelCells {
    const { active, bytes } = this.#families;
    const { service } = tunnel.record;
    const cells = {
      active: active.cell(service),
      received: bytes.cell(service, 'received'),
      sent: bytes.cell(service, 'sent'),
    };
    cells.active.value++;
    return cells;
  }

  failed({ record, client }: Tunnel, fault: Fault): void {
    const { service } = record;
    this.#families.failures.cell(service).value++;
    this.log.debug('tunnel-refused', {
      entrypoint: client.entrypoint,
      service,
      fault: fault.code,
      detail: fault.message,
    });
  }

  ended(tunnel: Tunnel, cells: TunnelCells | null): void {
    this.#tunnels.delete(tunnel);
    this.#keep(tunnel);
    const { record } = tunnel;
    if (cells !== null) cells.active.value--;
    this.#families.ended.cell(record.service, record.reason).value++;
    const { wanted } = this.#accessLog;
    if (wanted === null) return;
    const now = this.clock.monotonic();
    this.#accessLog.write(wanted === 'json' ? jsonTunnel(record, now) : prettyTunnel(record, now));
  }
}

interface Families {
  readonly active: Family;
  readonly ended: Family;
  readonly failures: Family;
  readonly bytes: Family;
}

function familiesOf(metrics: Metrics): Families {
  return {
    active: metrics.gauge('tcp_tunnels', 'TCP tunnels that are open.', ['service']),
    ended: metrics.counter('tcp_tunnels_ended_total', 'TCP tunnels that have ended, by reason.', ['service', 'reason']),
    failures: metrics.counter('tcp_failures_total', 'TCP connections that no backend took.', ['service']),
    bytes: metrics.counter('tcp_bytes_total', 'Bytes through TCP tunnels, as they pass.', ['service', 'direction']),
  };
}

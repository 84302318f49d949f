// One TCP connection of a client on its way to a backend of a network service, from arrival to log line.
// Invariant: ends exactly once, in `#finish`, with its claim released, its backend's ledger closed and one log line
// written; until a backend is connected nothing is read from the client.
import type { Socket } from 'node:net';
import type { BulkReads } from '../base/bulk-reads.ts';
import type { Clock } from '../base/clock.ts';
import type { DeadlineHolder, Deadlines } from '../base/deadlines.ts';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { Cell } from '../base/metrics.ts';
import { reasonOf } from '../http/fault-text.ts';
import type { ConnectionFacts } from '../message/stream.ts';
import type { Reason } from '../model/reason.ts';
import type { ClaimHolder, EndReason } from '../traffic/claim.ts';
import type { LiveGeneration, LiveService, Waiter } from '../traffic/live-service.ts';
import type { Traffic } from '../traffic/traffic.ts';
import type { LiveBackend } from '../upstream/backend.ts';
import type { Backends } from '../upstream/backends.ts';
import type { Attempt, ConnectListener } from '../upstream/connect.ts';
import { BytePipe, type PipeOwner, resetSocket, type Side } from './byte-pipe.ts';
import { proxyHeader } from './proxy-header.ts';
import { TunnelRecord } from './tunnel-record.ts';
import { serviceBehind, type Way } from './way.ts';

/** A client as its entrypoint hands it over. */
export interface TunnelClient {
  /** Half-open, not flowing. Where TLS was ended here: what is inside. */
  readonly socket: Socket;
  /** What was read of it already and could not be put back. */
  readonly early: Buffer | null;
  readonly facts: ConnectionFacts;
  /** Whose socket it is; differs from the client's address behind a PROXY header. */
  readonly socketPeer: string;
  /** Asked for in a ClientHello; '' for none. */
  readonly serverName: string;
  /** Name of the entrypoint by the configuration that holds now. */
  readonly entrypoint: string;
  /** A backend took it. Called once, or never. */
  accepted(): void;
  /** No backend took it. Called once, or never. */
  failed(): void;
}

/** What every tunnel has of its surroundings. */
export interface TunnelHost {
  readonly traffic: Traffic<Backends>;
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly log: Log;
  /** A backend is connected. */
  opened(tunnel: Tunnel): TunnelCells;
  /** No backend took it. */
  failed(tunnel: Tunnel, fault: Fault): void;
  /** @param cells  null when it was never opened */
  ended(tunnel: Tunnel, cells: TunnelCells | null): void;
}

export interface TunnelCells {
  readonly active: Cell;
  readonly received: Cell;
  readonly sent: Cell;
}

type Phase = 'arriving' | 'waiting' | 'dialling' | 'open' | 'done';

/** What a held connection may keep in memory: the kernel goes on filling the socket's buffer up to this. */
const heldSize = 64 * 1024;
/** How long what one side has said may take to reach the other after the first one broke off. */
const lingerMs = 30_000;
/** Probes of a peer that may have vanished start after this much silence. */
const keepAliveMs = 60_000;

export class Tunnel implements ClaimHolder, Waiter, DeadlineHolder, ConnectListener<BulkReads>, PipeOwner {
  readonly claimKind = 'tunnel';
  claimPlace = -1;
  /** A tunnel cannot tell its client to go: it ends with its claim. */
  readonly idle = false;
  readonly heldSize = heldSize;
  deadlineAt = 0;
  deadlinePlace = -1;
  readonly way: Way;
  readonly client: TunnelClient;
  readonly record: TunnelRecord;
  readonly #host: TunnelHost;
  #phase: Phase = 'arriving';
  #waitingFor: LiveService<Backends> | null = null;
  #waitingSince = 0;
  #generation: LiveGeneration<Backends> | null = null;
  #backend: LiveBackend | null = null;
  #attempt: Attempt<BulkReads> | null = null;
  #dialledAt = 0;
  #pipe: BytePipe | null = null;
  #cells: TunnelCells | null = null;
  #idleMs = 0;

  constructor(host: TunnelHost, client: TunnelClient, way: Way) {
    this.#host = host;
    this.client = client;
    this.way = way;
    const { clock } = host;
    const { entrypoint, peerAddress, tls } = client.facts;
    this.record = new TunnelRecord(
      clock.now(),
      clock.monotonic(),
      entrypoint,
      peerAddress,
      client.socketPeer,
      tls?.version ?? '',
      client.serverName,
    );
  }

  /** A backend has it. */
  get isOpen(): boolean {
    return this.#phase === 'open';
  }

  start(): void {
    const { socket } = this.client;
    socket.on('error', ignore);
    socket.on('close', this.#onClientClose);
    socket.setKeepAlive(true, keepAliveMs);
    this.#host.deadlines.add(this);
    if (socket.destroyed) this.#abandon('client-gone');
    else this.#arrive(null);
  }

  // ---- arrival ---------------------------------------------------------------------------------------------------

  /** Asks where the way leads, claims and chooses a backend in one synchronous step; or waits. */
  #arrive(avoid: string | null): void {
    const { traffic } = this.#host;
    const { record } = this;
    const name = serviceBehind(traffic.table, this.client.entrypoint, this.way);
    const live = name === null ? undefined : traffic.service(name);
    if (live === undefined) {
      this.#refuse(new Fault('no-route', 'no router leads anywhere'));
      return;
    }
    record.service = live.service.name;
    if (live.service.state === 'stopped') this.#refuse(new Fault('service-stopped', record.service));
    else if (live.blocked) this.#wait(live);
    else {
      const generation = live.current;
      generation.claim(this);
      this.#generation = generation;
      record.generation = generation.generation.number;
      this.#idleMs = live.service.network?.tcpIdleTimeoutMs ?? Number.POSITIVE_INFINITY;
      this.#dial(generation, live.service.network?.sendProxyProtocol ?? null, avoid);
    }
  }

  #wait(live: LiveService<Backends>): void {
    const fault = live.wait(this);
    if (fault !== null) {
      this.#refuse(fault);
      return;
    }
    this.#phase = 'waiting';
    this.#waitingFor = live;
    this.#waitingSince = this.#host.clock.monotonic();
  }

  holdReleased(): void {
    this.#waited();
    this.#phase = 'arriving';
    this.#arrive(null);
  }

  holdFailed(fault: Fault): void {
    this.#waited();
    this.#refuse(fault);
  }

  #waited(): void {
    this.#waitingFor = null;
    this.record.heldMs += this.#host.clock.monotonic() - this.#waitingSince;
  }

  // ---- the backend -----------------------------------------------------------------------------------------------

  #dial(generation: LiveGeneration<Backends>, proxyVersion: 1 | 2 | null, avoid: string | null): void {
    const { record } = this;
    const backend = generation.resource.pick(record.client, avoid);
    // A second try at the same one would only take its client's time.
    if (backend === null || backend.address === avoid) {
      this.#refuse(
        new Fault('no-live-backend', `no ${avoid === null ? '' : 'other '}backend of ${record.service} is live`),
      );
      return;
    }
    this.#phase = 'dialling';
    this.#backend = backend;
    backend.began();
    record.backend = backend.address;
    if (this.#dialledAt === 0) this.#dialledAt = this.#host.clock.monotonic();
    this.#attempt = backend.connect(this, proxyVersion === null ? null : this.#proxyHeader(proxyVersion));
  }

  #proxyHeader(version: 1 | 2): Buffer {
    const { peerAddress, peerPort, localAddress, localPort } = this.client.facts;
    return proxyHeader(version, {
      sourceAddress: peerAddress,
      sourcePort: peerPort,
      destinationAddress: localAddress,
      destinationPort: localPort,
    });
  }

  connected(socket: Socket, reads: BulkReads | null): void {
    const { client, record } = this;
    this.#attempt = null;
    this.#backend!.succeeded();
    this.#phase = 'open';
    record.connectMs = this.#host.clock.monotonic() - this.#dialledAt;
    client.socket.off('close', this.#onClientClose);
    client.accepted();
    this.#cells = this.#host.opened(this);
    this.deadlineAt = this.#host.deadlines.in(this.#idleMs);
    this.#pipe = new BytePipe(client.socket, socket, reads, this);
    this.#pipe.start(client.early);
  }

  connectFailed(fault: Fault): void {
    const { record } = this;
    this.#attempt = null;
    const { address } = this.#backend!;
    this.#backend!.failed(fault);
    this.#leave();
    // Nothing of the client has been sent anywhere yet.
    if (record.retries === 0 && fault.side === 'upstream' && this.#hasOther(address)) {
      record.retries++;
      this.#phase = 'arriving';
      this.#arrive(address);
    } else this.#refuse(fault);
  }

  #hasOther(address: string): boolean {
    const live = this.#host.traffic.service(this.record.service);
    return live?.service.generation.backends.some((backend) => backend.address !== address) ?? false;
  }

  // ---- the pipe --------------------------------------------------------------------------------------------------

  moved(from: Side, bytes: number): void {
    const { record } = this;
    const cells = this.#cells!;
    if (from === 'client') {
      record.bytesIn += bytes;
      cells.received.value += bytes;
    } else {
      record.bytesOut += bytes;
      cells.sent.value += bytes;
    }
    this.deadlineAt = this.#host.deadlines.in(this.#idleMs);
  }

  broke(side: Side, error: Error | null): void {
    // The first one to break off is the reason; the other one follows because of it.
    if (this.record.reason === 'ended') {
      this.record.reason = side === 'client' ? 'client-gone' : 'upstream-failed';
      this.record.detail = error === null ? '' : ((error as NodeJS.ErrnoException).code ?? error.message);
    }
    this.deadlineAt = this.#host.deadlines.in(Math.min(lingerMs, this.#idleMs));
  }

  pipeClosed(): void {
    this.#finish();
  }

  // ---- ends from outside -----------------------------------------------------------------------------------------

  deadlineReached(): void {
    if (this.record.reason === 'ended') this.record.reason = 'idle';
    this.#pipe?.reset();
  }

  claimEnded(_reason: EndReason): void {
    this.#abandon('drained');
  }

  /** Its entrypoint takes nothing more. What runs, runs on until its claim is ended. */
  drain(): void {
    if (this.#phase === 'waiting') this.#abandon('drained');
  }

  destroy(reason: Reason): void {
    this.#abandon(reason);
  }

  readonly #onClientClose = (): void => {
    this.#abandon('client-gone');
  };

  /** No backend will have it. */
  #refuse(fault: Fault): void {
    if (fault.code === 'internal') this.#host.log.error('tunnel-failed', { message: fault.message });
    this.record.detail = fault.message;
    this.client.failed();
    this.#host.failed(this, fault);
    this.#abandon(reasonOf(fault.code));
  }

  /** Ends it now, whatever it is doing. */
  #abandon(reason: Reason): void {
    if (this.#phase === 'done') return;
    if (this.record.reason === 'ended') this.record.reason = reason;
    if (this.#pipe !== null) {
      this.#pipe.reset();
      return;
    }
    this.#finish();
    resetSocket(this.client.socket);
  }

  /** Gives up what it holds of a service. */
  #leave(): void {
    this.#waitingFor?.leave(this);
    this.#waitingFor = null;
    this.#attempt?.destroy();
    this.#attempt = null;
    this.#backend?.ended();
    this.#backend = null;
    this.#generation?.release(this);
    this.#generation = null;
  }

  #finish(): void {
    if (this.#phase === 'done') return;
    this.#phase = 'done';
    this.client.socket.off('close', this.#onClientClose);
    this.#host.deadlines.remove(this);
    this.#leave();
    this.#host.ended(this, this.#cells);
  }
}

const ignore = (): void => {};

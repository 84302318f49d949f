// One UDP flow: a client address and port with a connected socket of its own towards one backend.
// Invariant: ends exactly once, in `end`, with its socket closed, its claim and its place in a hold given back; datagrams
// go on in the order in which they came, also those that were kept while it waited.
import { createSocket, type Socket } from 'node:dgram';
import { isIP } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import type { ClaimHolder, EndReason } from '../traffic/claim.ts';
import type { GenerationResource, LiveGeneration, LiveService, Waiter } from '../traffic/live-service.ts';
import { Standing } from '../upstream/balance.ts';
import type { Drop, FlowCells, FlowEnd } from './flow-cells.ts';
import { TableEntry } from './flow-table.ts';
import type { Resolver } from './resolver.ts';

/** A backend as flows see it. */
export interface FlowBackend {
  readonly address: string;
  readonly backend: { readonly host: string; readonly port: number };
  standing(now: number): Standing;
  began(): void;
  succeeded(): void;
  failed(fault: Fault): void;
  ended(): void;
}

/** The backends of one generation. */
export interface FlowBackends extends GenerationResource {
  pick(clientAddress: string, avoid: string | null): FlowBackend | null;
}

/** The entrypoint that the flow belongs to. */
export interface FlowHost {
  readonly cells: FlowCells;
  readonly resolver: Resolver;
  /** Coarse monotonic milliseconds. */
  readonly now: number;
  /** The service that flows are for now. */
  readonly service: LiveService<FlowBackends> | undefined;
  /** A datagram for the client. */
  reply(flow: Flow, message: Buffer): void;
  /** The backend sent a datagram back, or there is no way to it. */
  failed(flow: Flow): void;
  ended(flow: Flow, why: FlowEnd): void;
}

/** What one flow may keep while it waits. The bytes are reserved of the service's hold as a whole, for every flow alike. */
const heldDatagrams = 64;
const heldSize = 64 * 1024;
/** Asked of the kernel, which grants what net.core.rmem_max allows. */
export const receiveBuffer = 4 * 1024 * 1024;
/** Bytes in our own queue when the network does not take them: more is lost, as on any router. */
export const sendQueue = 1024 * 1024;
/** A datagram that has to be cut into packets may be refused for its size. */
const unfragmented = 1400;

export class Flow extends TableEntry<Flow> implements ClaimHolder, Waiter {
  readonly claimKind = 'flow';
  claimPlace = -1;
  readonly heldSize = heldSize;
  /** As the listening socket gives it, and takes it for replies. */
  readonly address: string;
  readonly port: number;
  /** The same address without an IPv4 prefix or a zone. */
  readonly client: string;
  /** Wall clock and monotonic milliseconds of its beginning. */
  readonly startedAt: number;
  readonly started: number;
  datagramsIn = 0;
  datagramsOut = 0;
  bytesIn = 0;
  bytesOut = 0;
  refusals = 0;
  serviceName = '';
  generation = 0;
  readonly #host: FlowHost;
  #waiting: LiveService<FlowBackends> | null = null;
  #claimed: LiveGeneration<FlowBackends> | null = null;
  #backend: FlowBackend | null = null;
  #socket: Socket | null = null;
  #kept: Buffer[] = [];
  #keptSize = 0;
  /** Datagrams sent since the backend was last heard of. */
  #unanswered = 0;
  #ended = false;

  constructor(host: FlowHost, key: string, address: string, port: number, client: string, clock: Clock) {
    super(key);
    this.#host = host;
    this.address = address;
    this.port = port;
    this.client = client;
    this.startedAt = clock.now();
    this.started = clock.monotonic();
  }

  /** `host:port` as configured; '' before one was chosen. */
  get backend(): string {
    return this.#backend?.address ?? '';
  }

  /** Its generation takes no new flows any more. */
  get retired(): boolean {
    return this.#claimed?.retired ?? false;
  }

  /**
   * Chooses a backend, or waits for the end of a hold. Returns why neither is possible: then nothing was begun.
   * @param avoid  address of a backend that just failed this client
   */
  arrive(avoid: string | null): Drop | null {
    const live = this.#host.service;
    if (live === undefined) return 'no-router';
    this.serviceName = live.service.name;
    if (live.service.state === 'stopped') return 'stopped';
    if (live.blocked) {
      if (live.wait(this) !== null) return 'hold-full';
      this.#waiting = live;
      return null;
    }
    // Chosen and claimed in one step: a switch comes before both or after both.
    const generation = live.current;
    const backend = generation.resource.pick(this.client, avoid);
    if (backend === null) return 'no-live-backend';
    generation.claim(this);
    backend.began();
    this.#claimed = generation;
    this.#backend = backend;
    this.generation = generation.generation.number;
    const drop = this.#open(backend);
    // No way to this one from here; perhaps there is one to another.
    return drop === 'no-live-backend' && avoid === null ? this.arrive(backend.address) : drop;
  }

  /** A datagram from the client. */
  forward(message: Buffer): void {
    this.datagramsIn++;
    this.bytesIn += message.length;
    if (this.#socket === null) this.#keep(message);
    else this.#send(this.#socket, message);
  }

  /** The backend is down and the flow should go where another one is. */
  get stranded(): boolean {
    return this.#backend !== null && this.#backend.standing(this.#host.now) === Standing.out;
  }

  end(why: FlowEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#waiting?.leave(this);
    if (this.#kept.length > 0) this.#host.cells.dropped('given-up').value += this.#kept.length;
    this.#kept = [];
    this.#socket?.close();
    this.#socket = null;
    const backend = this.#backend;
    if (backend !== null) {
      // Who only ever listens proves nothing else than that it is there.
      if (this.refusals === 0 && why !== 'upstream-failed') backend.succeeded();
      backend.ended();
    }
    this.#host.ended(this, why);
    this.#claimed?.release(this);
  }

  // ---- ClaimHolder and Waiter ------------------------------------------------------------------------------------

  claimEnded(_reason: EndReason): void {
    this.end('drained');
  }

  holdReleased(): void {
    this.#waiting = null;
    const drop = this.arrive(null);
    if (drop !== null) this.end(endOf(drop));
  }

  holdFailed(_fault: Fault): void {
    this.#waiting = null;
    this.end('hold-timeout');
  }

  // ---- the backend's socket --------------------------------------------------------------------------------------

  #open(backend: FlowBackend): Drop | null {
    const address = this.#host.resolver.resolve(backend.backend.host, (found) => this.#resolved(backend, found));
    return address === null ? null : this.#connect(backend, address);
  }

  #resolved(backend: FlowBackend, address: string | null): void {
    if (this.#ended) return;
    if (address === null) {
      backend.failed(new Fault('upstream-refused', `${backend.backend.host} has no address`));
      this.#host.cells.errors.value++;
      this.end('upstream-failed');
    } else if (this.#connect(backend, address) !== null) {
      this.end('upstream-failed');
    }
  }

  /** Binding and connecting a UDP socket sends nothing and waits for nobody. */
  #connect(backend: FlowBackend, address: string): Drop | null {
    const socket = createSocket({ type: isIP(address) === 6 ? 'udp6' : 'udp4', recvBufferSize: receiveBuffer });
    try {
      socket.connectSync(backend.backend.port, address);
    } catch (error) {
      socket.close();
      this.#host.cells.errors.value++;
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'EMFILE' || code === 'ENFILE' || code === 'ENOBUFS' || code === 'ENOMEM') {
        this.#giveBack();
        return 'no-socket';
      }
      backend.failed(new Fault('upstream-refused', message));
      this.#giveBack();
      return 'no-live-backend';
    }
    socket.on('message', this.#reply);
    socket.on('error', this.#failed);
    this.#socket = socket;
    const kept = this.#kept;
    this.#kept = [];
    this.#keptSize = 0;
    for (let i = 0; i < kept.length; i++) this.#send(socket, kept[i]!);
    return null;
  }

  /** The flow did not come about. */
  #giveBack(): void {
    this.#backend?.ended();
    this.#backend = null;
    this.#claimed?.release(this);
    this.#claimed = null;
  }

  #keep(message: Buffer): void {
    if (this.#kept.length >= heldDatagrams || this.#keptSize + message.length > heldSize) {
      this.#host.cells.dropped('hold-full').value++;
      return;
    }
    this.#kept.push(message);
    this.#keptSize += message.length;
  }

  #send(socket: Socket, message: Buffer): void {
    if (socket.getSendQueueSize() > sendQueue) {
      this.#host.cells.dropped('queue-full').value++;
      return;
    }
    const unanswered = ++this.#unanswered;
    // The kernel tells of a refusal once, to whoever asks first: us when we read, or the next send, whose outcome costs a
    // fifth of a datagram to learn. So it is learned twice in sixteen datagrams that nothing answers, twice because every
    // other one may be the one that is told.
    if ((unanswered & 15) >= 14 || message.length > unfragmented) socket.send(message, this.#sent);
    else socket.send(message);
  }

  readonly #sent = (error: Error | null): void => {
    if (error !== null) this.#failed(error);
  };

  readonly #reply = (message: Buffer): void => {
    if (this.#ended) return;
    this.#unanswered = 0;
    this.#backend!.succeeded();
    this.datagramsOut++;
    this.bytesOut += message.length;
    this.#host.reply(this, message);
  };

  readonly #failed = (error: NodeJS.ErrnoException): void => {
    if (this.#ended) return;
    const { cells } = this.#host;
    if (error.code === 'EMSGSIZE') {
      cells.errors.value++;
      return;
    }
    if (error.code === 'ECONNREFUSED') {
      this.refusals++;
      cells.refused.value++;
    } else {
      cells.errors.value++;
    }
    this.#backend!.failed(new Fault('upstream-refused', error.message));
    this.#host.failed(this);
  };
}

/** What the flow's end is called when it cannot go on after a hold. */
function endOf(drop: Drop): FlowEnd {
  switch (drop) {
    case 'hold-full':
    case 'stopped':
    case 'no-live-backend':
      return drop;
    case 'no-router':
      return 'drained';
    default:
      return 'upstream-failed';
  }
}

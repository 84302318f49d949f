// The listening sockets, held by the supervisor and lent to workers. A worker that dies or leaves takes nothing along:
// connections wait in the backlog of the held socket for the next one.
// Invariant: one held socket per address; a socket is held from before the first worker listens on it until no committed
// snapshot names it.
import type { SendHandle } from 'node:child_process';
import { BoundSocket, Socket } from 'node:net';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import { type Bind, bindFault, isUnknownFamily } from '../entrypoint/bind-fault.ts';
import { formatBind } from '../model/changes.ts';
import type { Entrypoint } from '../model/snapshot.ts';
import { listenerKey } from './listener-key.ts';

export interface HeldListener {
  readonly key: string;
  /** What travels to workers. */
  readonly handle: SendHandle;
}

/** What came of binding many, each for itself. */
export interface Taken {
  readonly bound: readonly Entrypoint[];
  /** Of those the ones that were not held before. */
  readonly opened: readonly HeldListener[];
  /** By name of the entrypoint. */
  readonly faults: ReadonlyMap<string, Fault>;
}

interface Held extends HeldListener, Bind {
  readonly socket: Socket;
  /** Null for a socket of our own making. */
  readonly inherited: Inherited | null;
}

export class Listeners {
  readonly #held = new Map<string, Held>();
  readonly #inherited: Inherited[];
  readonly #log: Log;

  /** `inherited`: sockets passed by the service manager, used instead of binding where the address matches. */
  constructor(log: Log, inherited: readonly Socket[] = []) {
    this.#log = log;
    this.#inherited = inherited.map((socket) => ({ socket, ...addressOf(socket) }));
  }

  /** What is held now, for a worker that starts. */
  held(): readonly HeldListener[] {
    return [...this.#held.values()];
  }

  /** Binds what is new among these entrypoints, all or nothing. Throws `bind-failed`. */
  open(entrypoints: readonly Entrypoint[]): readonly HeldListener[] {
    const opened: HeldListener[] = [];
    try {
      for (const entrypoint of entrypoints) {
        if (entrypoint.protocol === 'udp') continue;
        const key = listenerKey(entrypoint);
        if (this.#held.has(key)) continue;
        const inherited = this.#inherit(entrypoint);
        const socket = inherited?.socket ?? bind(entrypoint, this.#held.values());
        // Nobody reads or writes a listening socket; an error here would only be about that.
        socket.on('error', (error) => this.#log.warn('listener-error', { key, error: error.message }));
        const { host, port } = entrypoint;
        const listener = { key, host, port, socket, inherited, handle: handleOf(socket) };
        this.#held.set(key, listener);
        opened.push(listener);
      }
    } catch (error) {
      this.close(opened.map(({ key }) => key));
      throw error;
    }
    return opened;
  }

  /** Binds what can be had of these entrypoints, each for itself. */
  take(entrypoints: readonly Entrypoint[]): Taken {
    const bound: Entrypoint[] = [];
    const opened: HeldListener[] = [];
    const faults = new Map<string, Fault>();
    for (const entrypoint of entrypoints) {
      try {
        opened.push(...this.open([entrypoint]));
        bound.push(entrypoint);
      } catch (error) {
        if (!(error instanceof Fault)) throw error;
        faults.set(entrypoint.name, error);
      }
    }
    return { bound, opened, faults };
  }

  /** Keys that none of these entrypoints uses. */
  unusedBy(entrypoints: readonly Entrypoint[]): readonly string[] {
    const used = new Set(entrypoints.map(listenerKey));
    return [...this.#held.keys()].filter((key) => !used.has(key));
  }

  close(keys: readonly string[]): void {
    for (const key of keys) {
      const held = this.#held.get(key);
      if (held === undefined) continue;
      this.#held.delete(key);
      // The service manager has the port either way: a later configuration may want it back.
      if (held.inherited !== null) this.#inherited.push(held.inherited);
      else held.socket.destroy();
    }
  }

  closeAll(): void {
    this.close([...this.#held.keys()]);
    for (const { socket } of this.#inherited.splice(0)) socket.destroy();
  }

  /** Addresses that the service manager passed and no entrypoint uses. */
  get idle(): readonly string[] {
    return this.#inherited.map(({ host, port }) => formatBind(host, port));
  }

  #inherit(entrypoint: Entrypoint): Inherited | null {
    const index = this.#inherited.findIndex(({ host, port }) => port === entrypoint.port && host === entrypoint.host);
    return index < 0 ? null : this.#inherited.splice(index, 1)[0]!;
  }
}

interface Inherited extends Bind {
  readonly socket: Socket;
}

function bind(entrypoint: Entrypoint, ours: Iterable<Bind>): Socket {
  const { host, port } = entrypoint;
  if (host !== '') return hold(boundSocket(entrypoint, host, ours));
  // The wildcard means both families; a machine without IPv6 has only one.
  try {
    return hold(new BoundSocket({ host: '::', port }));
  } catch (error) {
    if (!isUnknownFamily(error)) throw bindFault(entrypoint, error, ours);
    return hold(boundSocket(entrypoint, '0.0.0.0', ours));
  }
}

function boundSocket(entrypoint: Entrypoint, host: string, ours: Iterable<Bind>): BoundSocket {
  try {
    return new BoundSocket({ host, port: entrypoint.port });
  } catch (error) {
    throw bindFault(entrypoint, error, ours);
  }
}

/** Put together from documented pieces (BoundSocket, Socket({ handle }), send with keepOpen, listen(handle)). */
function hold(bound: BoundSocket): Socket {
  return new Socket({ handle: bound, readable: false, writable: false });
}

/**
 * The handle travels instead of its net.Socket: at the other end a socket would begin to read at once, which a socket that
 * listens cannot do. node:cluster shares its handles the same way.
 */
function handleOf(socket: Socket): SendHandle {
  return (socket as unknown as { readonly _handle: SendHandle })._handle;
}

/**
 * The sockets that the service manager passed (sd_listen_fds(3)): descriptors from 3 on, when LISTEN_PID is this process.
 * The variables are removed so that no child takes them for its own. Throws `bind-failed` for what is no stream socket.
 */
export function inheritedSockets(environment: NodeJS.ProcessEnv, pid: number): readonly Socket[] {
  const { LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES = '' } = environment;
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete environment[name];
  if (LISTEN_FDS === undefined || Number(LISTEN_PID) !== pid) return [];
  const count = Number(LISTEN_FDS);
  const names = LISTEN_FDNAMES.split(':');
  return Array.from({ length: count }, (_, i) => inheritedSocket(3 + i, names[i] ?? ''));
}

function inheritedSocket(fd: number, name: string): Socket {
  try {
    return new Socket({ fd, readable: false, writable: false });
  } catch (error) {
    // A UDP socket is bound by the worker that owns it: its successor could not get this one from a worker that died.
    const which = `descriptor ${fd}${name === '' ? '' : ` (${name})`} of the service manager`;
    const what = error instanceof Error ? error.message : String(error);
    const way = 'only ListenStream= can be used; UDP ports are bound by this program, leave ListenDatagram= out';
    throw new Fault('bind-failed', `${which} is no TCP socket: ${way} (${what})`, { cause: error });
  }
}

function addressOf(socket: Socket): { readonly host: string; readonly port: number } {
  const { address = '', port = 0 } = socket.address() as { address?: string; port?: number };
  return { host: address === '::' || address === '0.0.0.0' ? '' : address, port };
}

// One UDP entrypoint in its owning worker: the bound socket and the flows behind it.
// Invariant: replies leave from the bound socket; what happens to one flow, or an error of the socket, never closes it.
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { isIPv6 } from 'node:net';
import type { Log } from '../base/log.ts';
import type { Entrypoint } from '../model/snapshot.ts';
import { receiveBuffer, sendQueue } from '../udp/flow.ts';
import { FlowRelay, type RelayDeps, type RelaySettings } from '../udp/flow-relay.ts';
import { type Bind, bindFault, isUnknownFamily } from './bind-fault.ts';

/**
 * Throws `bind-failed`. What arrives before a listener takes the socket over is dropped.
 * @param ours  addresses that this program's UDP entrypoints listen on
 */
export function bindUdp(entrypoint: Entrypoint, ours: Iterable<Bind>): Socket {
  const { host } = entrypoint;
  if (host !== '') return bindTo(entrypoint, host, ours);
  // The wildcard means both families; a machine without IPv6 has only one.
  const socket = makeSocket('::');
  try {
    socket.bindSync({ address: '::', port: entrypoint.port });
    return socket;
  } catch (error) {
    socket.close();
    if (!isUnknownFamily(error)) throw bindFault(entrypoint, error, ours);
    return bindTo(entrypoint, '0.0.0.0', ours);
  }
}

function bindTo(entrypoint: Entrypoint, address: string, ours: Iterable<Bind>): Socket {
  const socket = makeSocket(address);
  try {
    socket.bindSync({ address, port: entrypoint.port });
    return socket;
  } catch (error) {
    socket.close();
    throw bindFault(entrypoint, error, ours);
  }
}

function makeSocket(address: string): Socket {
  const family = isIPv6(address) ? 6 : 4;
  const socket = createSocket({
    type: `udp${family}`,
    recvBufferSize: receiveBuffer,
    // Replies go to numeric addresses, as they came: nothing is looked up, and nothing waits for a turn.
    lookup: (host, _options, callback) => callback(null, host, family),
  });
  // Nobody listens on it yet; an error that nobody hears would end the process.
  socket.on('error', () => {});
  return socket;
}

export class UdpListener {
  entrypoint: Entrypoint;
  readonly relay: FlowRelay;
  readonly #socket: Socket;
  #closed = false;

  /** The socket is this listener's from now on. */
  constructor(entrypoint: Entrypoint, socket: Socket, settings: RelaySettings, deps: RelayDeps, log: Log) {
    this.entrypoint = entrypoint;
    this.#socket = socket;
    this.relay = new FlowRelay(deps, settings, this.#send);
    socket.on('message', this.#received);
    socket.on('error', (error) => {
      this.relay.settings.cells.errors.value++;
      log.debug('udp-listener-error', { entrypoint: entrypoint.name, error: error.message });
    });
  }

  configure(entrypoint: Entrypoint, settings: RelaySettings): void {
    this.entrypoint = entrypoint;
    this.relay.configure(settings);
  }

  /** Ends every flow and gives the port back. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.relay.close();
    this.#socket.close();
  }

  readonly #received = (message: Buffer, from: RemoteInfo): void => {
    this.relay.received(message, from.address, from.port);
  };

  readonly #send = (message: Buffer, port: number, address: string): void => {
    if (this.#closed) return;
    if (this.#socket.getSendQueueSize() > sendQueue) this.relay.settings.cells.dropped('queue-full').value++;
    else this.#socket.send(message, port, address);
  };
}

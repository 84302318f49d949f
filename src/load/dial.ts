// Connections to the target.
// Invariant: calls back exactly once; a socket that failed is destroyed.
import { isIP, Socket, connect as tcpConnect } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import { BulkReads } from '../base/bulk-reads.ts';
import { ClientConnection } from '../http1/client-connection.ts';
import { errorWord, type Lane, type LaneHost } from './lane.ts';
import type { LoadPlan } from './plan.ts';

export type Dialled = (error: Error | null, socket: Socket, reads: BulkReads | null) => void;

export function dial(plan: LoadPlan, alpn: string, done: Dialled): void {
  let over = false;
  const { host, port, tls } = plan;
  let socket: Socket;
  let reads: BulkReads | null = null;
  const finish = (error: Error | null): void => {
    if (over) return;
    over = true;
    socket.off('error', finish);
    if (error !== null) {
      socket.on('error', () => {});
      socket.destroy();
    }
    done(error, socket, reads);
  };
  if (tls === null) {
    if (isIP(host) === 0) socket = tcpConnect({ host, port, noDelay: true });
    else {
      reads = new BulkReads();
      socket = new Socket({ onread: reads.onread }).connect({ host, port });
      socket.setNoDelay(true);
    }
    socket.once('connect', () => finish(null));
  } else {
    const secure = tlsConnect({
      host,
      port,
      servername: tls.serverName,
      ALPNProtocols: [alpn],
      rejectUnauthorized: tls.verify,
      ...(tls.ca === '' ? {} : { ca: tls.ca }),
    });
    secure.setNoDelay(true);
    secure.once('secureConnect', () => {
      const agreed = secure.alpnProtocol;
      // No ALPN at all means HTTP/1.1 (RFC 9112); HTTP/2 must be agreed to (RFC 9113 §3.2).
      if (alpn === 'h2' && agreed !== 'h2') finish(Object.assign(new Error('no HTTP/2'), { code: 'no HTTP/2' }));
      else finish(null);
    });
    socket = secure;
  }
  socket.on('error', finish);
}

const headLimits = { headerSize: 256 * 1024, headerCount: 1000, targetSize: 64 * 1024 };

export interface Http1Dialling {
  /** The request for which it is dialled still waits. */
  wanted(): boolean;
  opened(connection: ClientConnection): void;
  closed(connection: ClientConnection): void;
}

/** A connection that speaks HTTP/1.1. When there is none, the host hears why. */
export function dialHttp1(host: LaneHost, lane: Lane, dialling: Http1Dialling): void {
  dial(host.plan, 'http/1.1', (error, socket, reads) => {
    if (!dialling.wanted()) socket.destroy();
    else if (error !== null) host.failed(lane, errorWord(error));
    else {
      host.connected();
      dialling.opened(
        new ClientConnection(socket, {
          address: host.plan.authority,
          reads,
          limits: () => headLimits,
          onIdle: () => {},
          onClose: (connection) => dialling.closed(connection),
        }),
      );
    }
  });
}

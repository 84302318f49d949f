// Does a backend take connections? It must accept, and then say something or stay.
// Invariant: what a backend of tunnels requires first of them it gets of the probe as well, its PROXY header and TLS; a probe
// settles within its timeout and leaves no connection behind.
import { connect, isIPv6, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Clock } from '../base/clock.ts';
import type { Backend, Service } from '../model/snapshot.ts';
import { expectedTls } from './expected-tls.ts';
import { describeError, type ProbeResult } from './probe-result.ts';

/** An open port proves little: forwarders accept and close when nothing is behind them. So it must stay open this long. */
const settleMs = 300;

/** LOCAL: a connection of the proxy itself, on behalf of nobody (PROXY protocol specification, section 2.2). */
const localHeader = Buffer.from('\r\n\r\n\0\r\nQUIT\n\x20\0\0\0', 'latin1');

export function probeConnection(
  { protocol, network, upstreamTls }: Service,
  backend: Backend,
  timeoutMs: number,
  clock: Clock,
): Promise<ProbeResult> {
  const version = network?.sendProxyProtocol ?? null;
  const tls = protocol === 'tls' ? expectedTls(upstreamTls, backend.host) : null;
  return new Promise((resolve) => {
    const socket = connect({ host: backend.host, port: backend.port });
    /** What tunnels would use. */
    let stream: Socket = socket;
    let closedWhen = 'closed before it was connected';
    const finish = (result: ProbeResult): void => {
      limit.cancel();
      settled.cancel();
      stream.destroy();
      socket.destroy();
      resolve(result);
    };
    const failed = (detail: string) => (): void => finish({ ok: false, detail });
    const accepts = (): void => finish({ ok: true, detail: 'accepts connections' });
    const ready = (): void => {
      closedWhen = 'accepted and closed at once';
      settled.cancel();
      settled = clock.after(settleMs, accepts);
      stream.on('data', accepts);
    };
    const watch = (watched: Socket): void => {
      watched.on('error', (error) => finish({ ok: false, detail: describeError(error) }));
      watched.on('close', () => finish({ ok: false, detail: closedWhen }));
    };
    const wanted = tls === null ? 'connection' : 'TLS connection';
    let settled = clock.after(timeoutMs, failed(`no ${wanted} within ${timeoutMs} ms`));
    const limit = clock.after(timeoutMs + settleMs, failed(`no ${wanted} in time`));
    watch(socket);
    socket.on('connect', () => {
      if (version !== null) socket.write(version === 1 ? ownHeader(socket) : localHeader);
      if (tls === null) {
        ready();
        return;
      }
      closedWhen = 'accepted and closed before TLS was agreed on';
      stream = connectTls({ ...tls, socket, host: backend.host, minVersion: 'TLSv1.2' });
      watch(stream);
      stream.on('secureConnect', ready);
    });
  });
}

/** Version 1 has no LOCAL that everyone understands (UNKNOWN is refused by some): it tells the probe's own two ends. */
function ownHeader({ localAddress = '', localPort, remoteAddress = '', remotePort }: Socket): string {
  return `PROXY TCP${isIPv6(remoteAddress) ? 6 : 4} ${localAddress} ${remoteAddress} ${localPort} ${remotePort}\r\n`;
}

// `[network_services.NAME]` → its service, `[[routers.*]]` → what leads there.
// Invariant: pure; a service has one list of backends, whatever transports they take.
import type { BackendProtocol, Routers, Transport } from '../model/snapshot.ts';
import type { DeclaredService } from './declaration.ts';
import { limitsWithin } from './limit-keys.ts';
import type { NetworkServiceWritten } from './network-keys.ts';
import { resolveUpstreamTls } from './resolve-host.ts';
import type { Config } from './schema.ts';
import { originOf, type Surroundings } from './surroundings.ts';
import type { Path } from './syntax.ts';

export function resolveNetworkService(
  name: string,
  written: NetworkServiceWritten,
  surroundings: Surroundings,
): DeclaredService {
  const path: Path = ['network_services', name];
  const limits = limitsWithin(surroundings.settings.limits, written);
  const { tls, health } = written;
  const protocol: BackendProtocol = written.tcp === null ? 'udp' : tls === false ? 'tcp' : 'tls';
  return {
    name,
    origin: originOf(surroundings, path),
    backends: written.tcp ?? written.udp ?? [],
    backendsOrigin: originOf(surroundings, [...path, written.tcp === null ? 'udp' : 'tcp']),
    balance: written.balance,
    balanceKey: '',
    stickyCookie: '',
    protocol,
    upstreamTls: protocol === 'tls' ? resolveUpstreamTls(typeof tls === 'boolean' ? null : tls, surroundings) : null,
    network: {
      transports: transportsOf(written),
      sendProxyProtocol: written.send_proxy_protocol === false ? null : written.send_proxy_protocol,
      tcpIdleTimeoutMs: limits.tcpIdleTimeoutMs,
      udpIdleTimeoutMs: limits.udpIdleTimeoutMs,
    },
    health:
      health === false
        ? null
        : {
            type: 'tcp',
            path: '',
            host: '',
            intervalMs: health.interval,
            timeoutMs: health.timeout,
            healthyAfter: health.healthy_after,
            unhealthyAfter: health.unhealthy_after,
          },
    passive: { failures: written.passive_health.failures, ejectMs: written.passive_health.eject },
    backendLimits: {
      backendConnections: limits.backendConnections,
      backendConnectTimeoutMs: limits.dialTimeoutMs,
      backendKeepAliveTimeoutMs: limits.backendKeepAliveTimeoutMs,
    },
    // Tunnels and flows are streams, all of them: there is nothing that a shorter limit could hold for.
    drainMs: limits.streamDrainMs,
    streamDrainMs: limits.streamDrainMs,
    maxHoldMs: limits.maxHoldMs,
  };
}

export function transportsOf(written: NetworkServiceWritten): readonly Transport[] {
  return (['tcp', 'udp'] as const).filter((transport) => written[transport] !== null);
}

export function resolveRouters({ routers }: Config, surroundings: Surroundings): Routers {
  const origin = (kind: keyof Routers, index: number): string => originOf(surroundings, ['routers', kind, index]);
  return {
    tcp: routers.tcp.map(({ index, value: { entrypoint, service, tls, sni } }) => ({
      entrypoint,
      service,
      terminate: tls ? { names: sni ?? [] } : null,
      origin: origin('tcp', index),
    })),
    udp: routers.udp.map(({ index, value: { entrypoint, service } }) => ({
      entrypoint,
      service,
      origin: origin('udp', index),
    })),
    tls: routers.tls.map(({ index, value: { entrypoint, service, sni } }) => ({
      entrypoint,
      service,
      names: sni,
      origin: origin('tls', index),
    })),
  };
}

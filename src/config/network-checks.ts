// Checks of `[network_services]`: what one service says about itself, and about the rest of the file.
// Invariant: a service that passes has backends for every transport that leads to it, and one set of them.

import { transportOf } from '../model/entrypoint-protocol.ts';
import type { NetworkServiceWritten } from './network-keys.ts';
import type { Findings } from './problem.ts';
import { transportsOf } from './resolve-network.ts';
import { checkPair } from './route-checks.ts';
import type { Config } from './schema.ts';
import { formatPath, type Path } from './syntax.ts';
import { parsePattern } from './values.ts';

export function checkNetworkServices(config: Config, findings: Findings): void {
  const hosts = hostServices(config);
  const used = usedServices(config);
  for (const [name, service] of config.network_services) {
    const path: Path = ['network_services', name];
    const rival = hosts.get(name);
    if (rival !== undefined) {
      const { line } = findings.document.locate(rival).key;
      const owner = formatPath(rival);
      findings.error(path, `is the name of the service of ${owner} (line ${line})`, 'a name of its own', 'key');
    }
    checkBackends(service, path, findings);
    if (service.tcp === null) refuseTcpKeys(path, findings);
    checkLoops(service, path, config, findings);
    if (typeof service.tls !== 'boolean') checkPair(service.tls, [...path, 'tls'], findings);
    if (!used.has(name) && !findings.failed(['routers']) && !findings.failed(['entrypoints'])) {
      findings.warn(
        path,
        'nothing leads here',
        `a router with service = "${name}", or raw_fallback = "${name}"`,
        'key',
      );
    }
  }
}

/** A route's service is called like its host and path. */
function hostServices(config: Config): ReadonlyMap<string, Path> {
  const services = new Map<string, Path>();
  for (const key of config.external_routes.keys()) {
    const pattern = parsePattern(key);
    if (typeof pattern === 'string') services.set(pattern, ['external_routes', key]);
  }
  return services;
}

function usedServices({ routers, entrypoints }: Config): ReadonlySet<string> {
  const used = new Set<string>();
  for (const items of [routers.tcp, routers.udp, routers.tls]) for (const { value } of items) used.add(value.service);
  for (const { raw_fallback: fallback } of entrypoints.values()) if (fallback !== null) used.add(fallback);
  return used;
}

function checkBackends(service: NetworkServiceWritten, path: Path, findings: Findings): void {
  const { tcp, udp } = service;
  if (tcp === null && udp === null) {
    if (!findings.failed(path)) findings.error(path, 'has no backends', 'tcp or udp, or both', 'key');
    return;
  }
  if (tcp === null || udp === null) return;
  // A switch moves a service as a whole; two lists would have to be switched one by one.
  const addresses = (list: typeof tcp): string =>
    list
      .map(({ address }) => address)
      .toSorted()
      .join();
  if (addresses(tcp) === addresses(udp)) return;
  findings.error(
    [...path, 'udp'],
    'a service with tcp and udp has the same addresses for both',
    'the addresses of tcp, or a network service of its own',
  );
}

/** Keys that only mean something for TCP backends. */
const tcpKeys = ['tls', 'send_proxy_protocol', 'health', 'dial_timeout', 'tcp_idle_timeout'];

function refuseTcpKeys(path: Path, findings: Findings): void {
  for (const key of tcpKeys) {
    if (!findings.document.has([...path, key])) continue;
    findings.error([...path, key], `${key} is about TCP, and there is no tcp here`, 'tcp beside it', 'key');
  }
}

/** A backend that is an entrypoint of ours asks us again, and again. */
function checkLoops(service: NetworkServiceWritten, path: Path, config: Config, findings: Findings): void {
  for (const transport of transportsOf(service)) {
    for (const backend of service[transport] ?? []) {
      for (const [name, { address, protocol }] of config.entrypoints) {
        if (transportOf(protocol) !== transport || address.port !== backend.port) continue;
        const loopback = backend.host === 'localhost' || backend.host === '::1' || backend.host.startsWith('127.');
        if (address.host === '' ? !loopback : address.host !== backend.host) continue;
        const why = `${backend.address} is the entrypoint ${name}: it would go in circles`;
        findings.warn([...path, transport], why, 'another address');
      }
    }
  }
}

// A TOML manifest as read and checked → the App model. Pure.
// Invariant: every list whose order means nothing is sorted, every default is filled in.
import type { Item } from '../config/form.ts';
import type { App, AppService, HttpInterface, PortInterface, Publication, Readiness } from './app.ts';
import { formatListener } from './listener.ts';
import { sorted, sortedBy } from './order.ts';
import { isInternal } from './toml-interface-checks.ts';
import type { TomlManifest, TomlService } from './toml-keys.ts';

export function appOfToml(manifest: TomlManifest): App {
  const services = [...(manifest.services ?? [])].map(([name, service]) => serviceOf(name, service));
  const shared = manifest.network.shared.map(({ value }) => ({
    network: value.network,
    services: sorted(value.services),
  }));
  return {
    name: manifest.name,
    kind: 'toml',
    display: { title: manifest.name, version: null, description: null, upstream: null, launch: [], extensions: {} },
    env: sortedBy(manifest.env, (each) => each.name),
    services: sortedBy(services, (each) => each.name),
    sharedNetworks: sortedBy(shared, (each) => each.network),
    telemetryLogs: manifest.telemetry?.logs ?? true,
    ports: [],
    external: false,
    dependencies: [],
  };
}

function serviceOf(name: string, written: TomlService): AppService {
  const http = written.http.map(({ value }) => httpOf(value));
  const tcp = portsOf(written.tcp);
  const udp = portsOf(written.udp);
  return {
    name,
    source: { kind: 'image', image: written.image, pull: 'if-not-present' },
    entrypoint: null,
    command: written.command,
    stopGraceMs: written.stop_grace,
    env: sortedBy(written.env, (each) => each.name),
    secrets: sortedBy(written.secrets, (each) => each.env),
    devices: sorted(written.devices),
    volumes: mountsOf(written.volume),
    binds: mountsOf(written.bind),
    databases: sortedBy(
      written.database.map(({ value }) => value),
      (each) => each.name,
    ),
    backup: { postgres: sorted(written.backup.postgres), volume: sorted(written.backup.volume) },
    readiness: written.readiness === null ? null : readinessOf(written.readiness),
    http: sortedBy(
      http,
      (each) => (each.visibility === 'public' ? 0 : 1),
      (each) => (each.visibility === 'public' ? each.host : each.port),
    ),
    tcp,
    udp,
    publications: publicationsOf(http, tcp, udp),
    telemetryLogs: written.telemetry?.logs ?? null,
    shape: null,
  };
}

function httpOf(written: TomlService['http'][number]['value']): HttpInterface {
  const { host, port, tls } = written;
  return isInternal(written)
    ? { visibility: 'internal', port }
    : { visibility: 'public', host: host ?? '', port, tls: tls ?? 'auto' };
}

function portsOf(written: TomlService['tcp']): readonly PortInterface[] {
  const ports = written.map(({ value: { entrypoint, port, publish } }) => ({
    entrypoint,
    port,
    publish: publish === null ? null : formatListener(publish),
  }));
  return sortedBy(
    ports,
    (each) => each.port,
    (each) => each.entrypoint,
  );
}

function mountsOf<T extends { readonly name: string; readonly path: string; readonly readonly: boolean }>(
  written: readonly Item<T>[],
): readonly { readonly name: string; readonly path: string; readonly readonly: boolean }[] {
  const mounts = written.map(({ value: { name, path, readonly } }) => ({ name, path, readonly }));
  return sortedBy(mounts, (each) => each.path);
}

function readinessOf(written: NonNullable<TomlService['readiness']>): Readiness {
  const { type, port, timeout: timeoutMs, consecutive } = written;
  if (type === 'http') return { type, path: written.path ?? '/', port, timeoutMs, consecutive };
  if (type === 'tcp') return { type, port, timeoutMs, consecutive };
  return type === 'log' ? { type, contains: written.contains ?? '', timeoutMs } : { type };
}

/** On the loopback address, at any free port: what is reachable from outside goes through the entrypoints. */
function publicationsOf(
  http: readonly HttpInterface[],
  tcp: readonly PortInterface[],
  udp: readonly PortInterface[],
): readonly Publication[] {
  const streams = [...http.filter((each) => each.visibility === 'public'), ...tcp].map((each) => each.port);
  const loopback = (protocol: 'tcp' | 'udp') => (container: number) =>
    ({ container, protocol, address: '127.0.0.1', hostPort: null }) as const;
  return sortedBy(
    [...[...new Set(streams)].map(loopback('tcp')), ...[...new Set(udp.map((each) => each.port))].map(loopback('udp'))],
    (each) => each.container,
    (each) => each.protocol,
  );
}

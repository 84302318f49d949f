// The file as read → what it declares. Pure: files are already read, everything was checked.
// Invariant: the nearest value wins (path, host, entrypoint, file), and nothing is left to be looked up later.

import { takesHttp } from '../model/entrypoint-protocol.ts';
import type { Entrypoint, Limits, RawFallback, Settings } from '../model/snapshot.ts';
import type { Declaration, DeclaredCertificate, DeclaredControl } from './declaration.ts';
import type { FileContents } from './files.ts';
import { defaultLimits, writtenLimits } from './limit-keys.ts';
import { resolveAcme } from './resolve-acme.ts';
import { resolveAppPolicies } from './resolve-apps.ts';
import { gateHosts, hostGates, resolveGate } from './resolve-gate.ts';
import { resolveHost } from './resolve-host.ts';
import { resolveNetworkService, resolveRouters } from './resolve-network.ts';
import type { CertificateWritten, Config, EntrypointWritten } from './schema.ts';
import { fileAt, optionalFileAt, originOf, placeOf, type Surroundings } from './surroundings.ts';
import type { Document, Path } from './syntax.ts';

export function resolveConfig(
  config: Config,
  document: Document,
  file: string,
  contents: FileContents,
  onTerminal: boolean,
): Declaration {
  const limits: Limits = { ...defaultLimits, ...writtenLimits(config.limits) };
  const { log, tls } = config;
  const settings: Settings = {
    trustedProxies: config.trusted_proxies,
    redirect: tls.redirect,
    minVersion: tls.min_version ?? (tls.profile === 'modern' ? '1.3' : '1.2'),
    accessLog: log.access,
    accessLogFormat: log.format === 'auto' ? (onTerminal ? 'pretty' : 'json') : log.format,
    forwardedField: config.forwarded_header,
    limits,
  };
  const surroundings: Surroundings = {
    document,
    file,
    contents,
    settings,
    httpEntrypoints: [...config.entrypoints].filter(([, each]) => takesHttp(each.protocol)).map(([name]) => name),
    gates: hostGates(config),
  };
  const routes = [...config.external_routes].map(([name, host]) => resolveHost(name, host, surroundings));
  return {
    file,
    stateDir: fileAt(surroundings, config.state_dir),
    workers: config.workers,
    settings,
    entrypoints: [...config.entrypoints].map(([name, each]) => resolveEntrypoint(name, each, surroundings)),
    hosts: [...routes.flatMap((each) => each.hosts), ...gateHosts(config, surroundings)],
    services: [
      ...routes.flatMap((each) => each.services),
      ...[...config.network_services].map(([name, each]) => resolveNetworkService(name, each, surroundings)),
    ],
    routers: resolveRouters(config, surroundings),
    tls: {
      certificates: config.tls.certificate.map(({ index, value }) => resolveCertificate(value, index, surroundings)),
      defaultName: tls.default_certificate,
      internalCa: tls.internal_ca.enabled,
      acme: tls.acme.enabled ? resolveAcme(config, surroundings) : null,
    },
    log,
    metrics: config.metrics.address,
    runtime: config.runtime,
    ...resolveAppPolicies(config, surroundings),
    gate: resolveGate(config, surroundings),
    control: resolveControl(config, surroundings),
  };
}

function resolveEntrypoint(name: string, written: EntrypointWritten, surroundings: Surroundings): Entrypoint {
  const limits: Limits = { ...surroundings.settings.limits, ...writtenLimits(written) };
  return {
    name,
    host: written.address.host,
    port: written.address.port,
    protocol: written.protocol,
    publicPort: written.public_port,
    trustedCidrs: written.trusted_cidrs,
    trustedProxies: written.trusted_proxies,
    proxyProtocolFrom: written.proxy_protocol_from,
    rawFallback: resolveRawFallback(written),
    maxConnections:
      written.max_connections ?? (written.protocol === 'tcp' ? limits.tcpConnections : limits.connections),
    requiresSession: written.requires_session,
    clientsAs: null,
    limits: {
      headerTimeoutMs: limits.headerTimeoutMs,
      tlsHandshakeTimeoutMs: limits.tlsHandshakeTimeoutMs,
      keepAliveTimeoutMs: limits.keepAliveTimeoutMs,
      headerSize: limits.headerSize,
      headerCount: limits.headerCount,
      targetSize: limits.targetSize,
      connectionsPerPeer: limits.connectionsPerPeer,
      h2Streams: limits.h2Streams,
      udpSessions: limits.udpSessions,
    },
    origin: originOf(surroundings, ['entrypoints', name]),
  };
}

function resolveRawFallback(written: EntrypointWritten): RawFallback | null {
  if (written.raw_fallback === null) return null;
  const trustedCidrs = written.allow_public_raw_fallback ? null : (written.raw_fallback_trusted_cidrs ?? []);
  return { service: written.raw_fallback, trustedCidrs };
}

function resolveCertificate(
  written: CertificateWritten,
  index: number,
  surroundings: Surroundings,
): DeclaredCertificate {
  const path: Path = ['tls', 'certificate', index];
  return {
    certFile: optionalFileAt(surroundings, written.cert_file),
    keyFile: optionalFileAt(surroundings, written.key_file),
    pkcs12File: optionalFileAt(surroundings, written.pkcs12_file),
    passphraseFile: optionalFileAt(surroundings, written.passphrase_file),
    isDefault: written.default,
    origin: originOf(surroundings, path),
    place: placeOf(surroundings, path),
  };
}

function resolveControl({ control }: Config, surroundings: Surroundings): DeclaredControl | null {
  const { address, token_file: token, cert_file: cert, key_file: key } = control;
  if (address === null || token === null) return null;
  return {
    address,
    tokenFile: fileAt(surroundings, token),
    tls:
      cert === null || key === null
        ? null
        : { certFile: fileAt(surroundings, cert), keyFile: fileAt(surroundings, key) },
  };
}

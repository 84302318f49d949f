// Checks of what leads to network services: `[[routers.*]]` and `raw_fallback`, against entrypoints, services and hosts.
// Invariant: whatever a client sends, at most one thing takes it: one router a tcp or udp entrypoint, one owner a name.

import { endsTls, passesTls, takesHttp } from '../model/entrypoint-protocol.ts';
import type { Transport } from '../model/snapshot.ts';
import { quote } from './form.ts';
import type { Findings } from './problem.ts';
import { transportsOf } from './resolve-network.ts';
import type { Config, EntrypointWritten } from './schema.ts';
import { nearest } from './suggest.ts';
import { formatPath, type Path } from './syntax.ts';
import { parsePattern } from './values.ts';

type Kind = 'tcp' | 'udp' | 'tls';

const kinds = ['tcp', 'udp', 'tls'] as const;

/** Where a service waits for the client to speak first, there is nothing to tell it by. */
const speaksFirst = 'a service that speaks first (SMTP, FTP, MySQL) needs a tcp entrypoint of its own';

export function checkRouters(config: Config, findings: Findings): void {
  const taken = new Map<string, Path>();
  for (const kind of kinds) {
    for (const { index, value: router } of config.routers[kind]) {
      const path: Path = ['routers', kind, index];
      const entrypoint = checkEntrypoint(kind, router.entrypoint, router.service, path, config, findings);
      checkService(router.service, kind === 'udp' ? 'udp' : 'tcp', [...path, 'service'], config, findings);
      if (kind === 'tls' || entrypoint === null) continue;
      const rival = taken.get(router.entrypoint);
      if (rival === undefined) taken.set(router.entrypoint, path);
      else {
        const { line } = findings.document.locate(rival).key;
        const why = `${router.entrypoint} has a router: ${formatPath(rival)} (line ${line})`;
        findings.error([...path, 'entrypoint'], why, 'one router for each tcp or udp entrypoint');
      }
    }
  }
  checkTermination(config, findings);
  checkNames(config, findings);
  for (const [name, entrypoint] of config.entrypoints) checkRawFallback(name, entrypoint, config, findings);
}

function checkEntrypoint(
  kind: Kind,
  name: string,
  service: string,
  path: Path,
  config: Config,
  findings: Findings,
): EntrypointWritten | null {
  const at = [...path, 'entrypoint'];
  const entrypoint = config.entrypoints.get(name);
  if (entrypoint === undefined) {
    if (!findings.failed(['entrypoints', name])) refuseUnknown('entrypoint', name, config.entrypoints, at, findings);
    return null;
  }
  const { protocol } = entrypoint;
  const fits = kind === 'tls' ? passesTls(protocol) : protocol === kind;
  if (fits) return entrypoint;
  findings.error(
    at,
    `${name} has protocol = "${protocol}"${whyNot(kind, protocol)}`,
    insteadOf(kind, entrypoint, service),
  );
  return null;
}

function whyNot(kind: Kind, protocol: EntrypointWritten['protocol']): string {
  if (kind === 'tcp' && protocol === 'smart_tcp') return `: it finds out by what the client sends; ${speaksFirst}`;
  if (kind === 'tcp' && protocol === 'tls_mux') return ': it takes TLS only';
  if (kind === 'tls' && protocol === 'tcp') return ': it passes everything on, whatever the name';
  if (kind === 'tls' && protocol === 'https') return ': it ends TLS';
  return '';
}

function insteadOf(kind: Kind, { protocol }: EntrypointWritten, service: string): string {
  if (kind === 'tcp' && protocol === 'smart_tcp')
    return `raw_fallback = "${service}" there, or an entrypoint with protocol = "tcp"`;
  if (kind === 'tcp' && protocol === 'tls_mux') return '[[routers.tls]], or an entrypoint with protocol = "tcp"';
  if (kind === 'tls' && protocol === 'tcp') return '[[routers.tcp]], or protocol = "tls_mux"';
  return kind === 'tls'
    ? 'an entrypoint with protocol = "tls_mux" or "smart_tcp"'
    : `an entrypoint with protocol = "${kind}"`;
}

function checkService(name: string, transport: Transport, path: Path, config: Config, findings: Findings): void {
  const service = config.network_services.get(name);
  if (service === undefined) {
    if (findings.failed(['network_services', name])) return;
    const pattern = parsePattern(name);
    if (typeof pattern === 'string' && config.external_routes.has(pattern)) {
      findings.error(path, `${quote(name)} is a host, which entrypoints for HTTP serve`, 'a network service');
    } else refuseUnknown('network service', name, config.network_services, path, findings);
    return;
  }
  if (service[transport] !== null || findings.failed(['network_services', name, transport])) return;
  const [other] = transportsOf(service);
  if (other === undefined) return;
  findings.error(
    path,
    `${name} has no ${transport} backends, only ${other}`,
    `${transport} in [network_services.${name}]`,
  );
}

function refuseUnknown(
  what: string,
  name: string,
  known: ReadonlyMap<string, unknown>,
  path: Path,
  findings: Findings,
): void {
  const names = [...known.keys()];
  const near = nearest(name, names);
  findings.error(
    path,
    `there is no ${what} ${quote(name)}${near === null ? '' : `; did you mean "${near}"?`}`,
    names.map((each) => JSON.stringify(each)).join(', '),
  );
}

function checkTermination(config: Config, findings: Findings): void {
  const { tls } = config;
  const source = tls.certificate.length > 0 || tls.internal_ca.enabled || tls.acme.enabled;
  for (const { index, value: router } of config.routers.tcp) {
    const path: Path = ['routers', 'tcp', index];
    if (!router.tls) {
      if (router.sni === null) continue;
      findings.error(
        [...path, 'sni'],
        'has no effect: the bytes pass unread',
        'tls = true, or [[routers.tls]] on a tls_mux entrypoint',
        'key',
      );
      continue;
    }
    if (findings.failed(['tls'])) continue;
    if (!source) {
      findings.warn(
        [...path, 'tls'],
        'there is no certificate to serve here: every handshake will be refused',
        '[[tls.certificate]], tls.acme.enabled = true or tls.internal_ca.enabled = true',
      );
    } else if (tls.certificate.length === 0 && router.sni === null) {
      findings.warn(
        [...path, 'tls'],
        'certificates are made for declared names only: every handshake will be refused',
        'the names, as sni',
      );
    }
  }
}

// ---- names ---------------------------------------------------------------------------------------------------------

interface Claim {
  readonly name: string;
  readonly path: Path;
}

/**
 * Names that pass unopened, against each other and against the hosts on the same entrypoint. An exact name may stand
 * beside the wildcard around it: the exact one wins.
 */
function checkNames(config: Config, findings: Findings): void {
  const claims = new Map<string, Claim[]>();
  for (const { index, value: router } of config.routers.tls) {
    const written = findings.document.has(['routers', 'tls', index, 'sni', 0]);
    const own = claims.get(router.entrypoint) ?? [];
    claims.set(router.entrypoint, own);
    router.sni.forEach((name, i) => {
      const path: Path = ['routers', 'tls', index, 'sni', ...(written ? [i] : [])];
      const rival = own.find((each) => clash(each.name, name));
      if (rival === undefined) own.push({ name, path });
      else {
        const { line } = findings.document.locate(rival.path).value;
        const how = rival.name === name ? `${name} is taken by` : `${name} overlaps with ${rival.name} of`;
        findings.error(path, `${how} ${formatPath(rival.path.slice(0, 3))} (line ${line})`, 'each name once');
      }
    });
  }
  for (const [entrypoint, own] of claims) {
    for (const [key, host] of config.external_routes) {
      if (!(host.entrypoints?.includes(entrypoint) ?? true)) continue;
      const path: Path = ['external_routes', key];
      refuseHidden(parsePattern(key), path, own, entrypoint, findings);
      host.aliases.forEach((alias, i) => {
        refuseHidden(alias, [...path, 'aliases', i], own, entrypoint, findings);
      });
    }
  }
}

/** The same name, or one wildcard inside the other. */
function clash(a: string, b: string): boolean {
  if (a === b) return true;
  if (!a.startsWith('*.') || !b.startsWith('*.')) return false;
  return a.endsWith(b.slice(1)) || b.endsWith(a.slice(1));
}

/**
 * A host that clients reach by a name whose connections pass unopened would never be served here. Below a wildcard, at
 * any depth, all names belong to one owner: nobody should have to count labels to know whose a name is.
 */
function refuseHidden(
  pattern: ReturnType<typeof parsePattern>,
  path: Path,
  claims: readonly Claim[],
  entrypoint: string,
  findings: Findings,
): void {
  if (typeof pattern !== 'string') return;
  const owner = claims.find(
    ({ name }) => name === pattern || (name.startsWith('*.') && pattern.endsWith(name.slice(1))),
  );
  if (owner === undefined) return;
  const { line } = findings.document.locate(owner.path).value;
  findings.error(
    path,
    `${pattern} is under ${owner.name}, which passes ${entrypoint} unopened (${formatPath(owner.path)}, line ${line})`,
    'another name, or another entrypoint for one of the two',
    'key',
  );
}

// ---- raw fallback --------------------------------------------------------------------------------------------------

function checkRawFallback(name: string, entrypoint: EntrypointWritten, config: Config, findings: Findings): void {
  const path: Path = ['entrypoints', name];
  const { raw_fallback: fallback, raw_fallback_trusted_cidrs: cidrs, allow_public_raw_fallback: open } = entrypoint;
  if (fallback === null) {
    for (const key of ['raw_fallback_trusted_cidrs', 'allow_public_raw_fallback']) {
      if (!findings.document.has([...path, key]) || findings.failed([...path, 'raw_fallback'])) continue;
      findings.error([...path, key], 'there is no raw_fallback here', 'raw_fallback = "SERVICE" beside it', 'key');
    }
    return;
  }
  const { protocol } = entrypoint;
  if (protocol !== 'smart_tcp') {
    const instead = protocol === 'tcp' ? '[[routers.tcp]]' : 'protocol = "smart_tcp"';
    const why =
      protocol === 'tcp' ? 'a tcp entrypoint passes everything on' : `protocol = "${protocol}" takes nothing raw`;
    findings.error([...path, 'raw_fallback'], why, instead, 'key');
    return;
  }
  checkService(fallback, 'tcp', [...path, 'raw_fallback'], config, findings);
  if (cidrs !== null && open) {
    const why = 'everyone, or only some networks: not both';
    findings.error([...path, 'allow_public_raw_fallback'], why, 'one of the two', 'key');
  } else if (cidrs !== null && cidrs.length === 0) {
    findings.error([...path, 'raw_fallback_trusted_cidrs'], 'lets nobody in', 'the networks, or no raw_fallback');
  } else if (cidrs === null && !open && !findings.failed([...path, 'raw_fallback_trusted_cidrs'])) {
    findings.error(
      [...path, 'raw_fallback'],
      `does not say who may reach ${fallback}`,
      'raw_fallback_trusted_cidrs = […], or allow_public_raw_fallback = true',
    );
  }
}

/** Entrypoints that something leads away from. */
export function routedEntrypoints(config: Config): ReadonlySet<string> {
  const routed = new Set<string>();
  for (const kind of kinds) for (const { value } of config.routers[kind]) routed.add(value.entrypoint);
  for (const [name, { protocol, raw_fallback: fallback }] of config.entrypoints) {
    if (fallback !== null) routed.add(name);
    if (!takesHttp(protocol)) continue;
    if ([...config.external_routes.values()].some((host) => host.entrypoints?.includes(name) ?? true)) routed.add(name);
  }
  return routed;
}

/** Entrypoints that serve hosts over TLS, and so need a certificate. */
export function terminatingEntrypoints(config: Config): readonly string[] {
  return [...config.entrypoints]
    .filter(([name, { protocol }]) => {
      if (!endsTls(protocol)) return false;
      // What passes everything on, or serves plaintext hosts only, asks for no certificate.
      return (
        protocol === 'https' ||
        [...config.external_routes.values()].some(
          (host) => host.tls !== 'never' && (host.entrypoints?.includes(name) ?? true),
        )
      );
    })
    .map(([name]) => name);
}

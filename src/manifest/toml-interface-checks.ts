// Interfaces of a TOML manifest: public and internal HTTP, TCP and UDP on the operator's entrypoints.
// Invariant: a container port is either reachable from outside or it is not, and a manifest opens no more than it names.
import type { Findings } from '../config/problem.ts';
import { nearest } from '../config/suggest.ts';
import type { Path } from '../config/syntax.ts';
import { endsTls, takesHttp } from '../model/entrypoint-protocol.ts';
import { formatListener, listensAt } from './listener.ts';
import type { EntrypointFacts, OperatorFacts } from './operator-facts.ts';
import type { TomlManifest, TomlService } from './toml-keys.ts';
import type { WrittenListener } from './values.ts';

type Http = TomlService['http'][number]['value'];

export const isInternal = (http: Http): boolean => http.visibility === 'internal';

/** Hosts and listeners belong to one service each. */
export function checkHosts(manifest: TomlManifest, facts: OperatorFacts | null, findings: Findings): void {
  const owners = new Map<string, Path>();
  const claim = (what: string, at: Path): void => {
    const owner = owners.get(what);
    if (owner === undefined) owners.set(what, at);
    else findings.error(at, `${what} is taken (line ${lineOf(owner, findings)})`, 'each of them once');
  };
  for (const [name, service] of manifest.services ?? []) {
    const path = ['services', name];
    for (const { index, value } of service.http) {
      const at = [...path, 'http', index];
      if (isInternal(value) || value.host === null) continue;
      claim(value.host, [...at, 'host']);
      if (facts !== null) warnUnserved(value, at, facts, findings);
    }
    for (const { index, value } of service.tcp)
      claim(`the entrypoint ${value.entrypoint}`, [...path, 'tcp', index, 'entrypoint']);
    for (const { index, value } of service.udp)
      claim(`the entrypoint ${value.entrypoint}`, [...path, 'udp', index, 'entrypoint']);
  }
}

function warnUnserved(http: Http, at: Path, { entrypoints }: OperatorFacts, findings: Findings): void {
  if (!entrypoints.some(({ protocol }) => takesHttp(protocol))) {
    findings.warn(
      [...at, 'host'],
      'no entrypoint serves hosts: no request will reach it',
      'an http or https entrypoint',
    );
  } else if (http.tls === 'always' && !entrypoints.some(({ protocol }) => endsTls(protocol))) {
    findings.warn([...at, 'tls'], 'there is no https entrypoint: every request will be answered 421', 'tls = "auto"');
  }
}

export function checkInterfaces(
  service: TomlService,
  path: Path,
  facts: OperatorFacts | null,
  findings: Findings,
): void {
  for (const { index, value } of service.http) checkHttp(value, [...path, 'http', index], findings);
  checkInternalPorts(service, path, findings);
  for (const kind of ['tcp', 'udp'] as const) {
    for (const { index, value } of service[kind]) {
      const at = [...path, kind, index];
      if (facts !== null) checkEntrypoint(kind, value.entrypoint, value.publish, at, facts, findings);
    }
  }
}

function checkHttp(http: Http, at: Path, findings: Findings): void {
  const written = (key: string): boolean => findings.document.has([...at, key]);
  if (!isInternal(http)) {
    if (written('host') || findings.failed([...at, 'visibility'])) return;
    findings.error(
      [...at, 'host'],
      'is missing: a public interface is found by its host',
      'host = "blog.example.com"',
      'key',
    );
    return;
  }
  if (written('host') && !findings.failed([...at, 'host'])) {
    findings.error(
      [...at, 'host'],
      'an internal interface has no host name',
      'leave it out, or visibility = "public"',
      'key',
    );
  }
  if (written('tls') && !findings.failed([...at, 'tls'])) {
    findings.error([...at, 'tls'], 'TLS is for public interfaces', 'leave it out', 'key');
  }
}

/** Publication is by socket: a port cannot be published for one interface and kept inside for another. */
function checkInternalPorts(service: TomlService, path: Path, findings: Findings): void {
  const outside = new Map<number, Path>();
  for (const { index, value } of service.http) {
    if (!isInternal(value)) outside.set(value.port, [...path, 'http', index, 'port']);
  }
  for (const { index, value } of service.tcp) outside.set(value.port, [...path, 'tcp', index, 'port']);
  const inside = new Map<number, Path>();
  for (const { index, value } of service.http) {
    if (!isInternal(value)) continue;
    const at = [...path, 'http', index, 'port'];
    const published = outside.get(value.port);
    const twin = inside.get(value.port);
    if (published !== undefined) {
      const why = `port ${value.port} is also reachable from outside (line ${lineOf(published, findings)})`;
      findings.error(at, why, 'a port of its own for the internal interface');
    }
    if (twin !== undefined) {
      findings.error(at, `port ${value.port} is internal already (line ${lineOf(twin, findings)})`, 'each port once');
    }
    inside.set(value.port, at);
  }
}

function checkEntrypoint(
  kind: 'tcp' | 'udp',
  name: string,
  publish: WrittenListener | null,
  at: Path,
  { entrypoints }: OperatorFacts,
  findings: Findings,
): void {
  const entrypoint = entrypoints.find((each) => each.name === name);
  const usable = entrypoints.filter((each) => refuse(kind, each) === null).map((each) => each.name);
  const accepted =
    usable.length === 0
      ? `a ${kind} entrypoint of the configuration`
      : usable.map((each) => JSON.stringify(each)).join(', ');
  if (entrypoint === undefined) {
    const near = nearest(name, usable);
    const hint = near === null ? '' : `; did you mean "${near}"?`;
    findings.error([...at, 'entrypoint'], `there is no entrypoint ${JSON.stringify(name)}${hint}`, accepted);
    return;
  }
  const refusal = refuse(kind, entrypoint);
  if (refusal !== null) {
    findings.error([...at, 'entrypoint'], refusal, accepted);
    return;
  }
  if (publish === null) return;
  const written = publish.everyIPv6 ? `[::]:${publish.port}` : formatListener(publish);
  if (listensAt(entrypoint, written)) return;
  const listener = JSON.stringify(formatListener({ ...entrypoint, host: entrypoint.host || '0.0.0.0' }));
  findings.error(
    [...at, 'publish'],
    `${written} is not where the entrypoint ${name} listens`,
    `${listener}, or leave it out`,
  );
}

/** Why this entrypoint takes no such interface; null when it does. */
function refuse(kind: 'tcp' | 'udp', { name, protocol, rawFallback }: EntrypointFacts): string | null {
  if (protocol === kind) return null;
  if (kind === 'udp') return `${name} is a ${protocol} entrypoint: no datagrams arrive there`;
  if (protocol !== 'smart_tcp') return `${name} is a ${protocol} entrypoint: it passes no plain TCP`;
  return rawFallback === null ? null : `${name} has a raw fallback already: the service ${rawFallback.service}`;
}

function lineOf(path: Path, findings: Findings): number {
  return findings.document.locate(path).key.line;
}

// Readiness of a TOML service: keys that belong to its kind, and a port that is clear.
// Invariant: what passes can be probed without a guess.
import type { Findings } from '../config/problem.ts';
import type { Path } from '../config/syntax.ts';
import { isInternal } from './toml-interface-checks.ts';
import type { TomlService } from './toml-keys.ts';

type Written = NonNullable<TomlService['readiness']>;

/** Which keys say something to which kind. */
const meant: Readonly<Record<'path' | 'port' | 'contains' | 'consecutive' | 'timeout', readonly Written['type'][]>> = {
  path: ['http'],
  port: ['http', 'tcp'],
  contains: ['log'],
  consecutive: ['http', 'tcp'],
  timeout: ['http', 'tcp', 'log'],
};

export function checkReadiness(service: TomlService, path: Path, findings: Findings): void {
  const { readiness } = service;
  const at = [...path, 'readiness'];
  if (readiness === null || findings.failed([...at, 'type'])) return;
  const { type } = readiness;
  const written = (key: string): boolean => findings.document.has([...at, key]);
  for (const [key, kinds] of Object.entries(meant)) {
    if (!written(key) || kinds.includes(type)) continue;
    findings.error(
      [...at, key],
      `says nothing to readiness of type "${type}"`,
      `type ${quoted(kinds)}, or leave it out`,
      'key',
    );
  }
  if (type === 'http' && !written('path')) findings.error([...at, 'path'], 'is missing', 'path = "/healthz"', 'key');
  if (type === 'log' && !written('contains')) {
    findings.error([...at, 'contains'], 'is missing', 'contains = "listening"', 'key');
  }
  if (type === 'http' || type === 'tcp') checkPort(service, readiness, path, findings);
}

function checkPort(service: TomlService, readiness: Written, path: Path, findings: Findings): void {
  const at = [...path, 'readiness'];
  if (findings.failed([...at, 'port']) || findings.failed([...path, 'http']) || findings.failed([...path, 'tcp']))
    return;
  const web = [...new Set(service.http.filter(({ value }) => !isInternal(value)).map(({ value }) => value.port))];
  const all = [...new Set([...service.http, ...service.tcp].map(({ value }) => value.port))];
  const accepted =
    all.length === 0 ? 'type = "log", or an HTTP or TCP interface' : `a declared port: ${all.join(', ')}`;
  if (readiness.port !== null) {
    if (all.includes(readiness.port)) return;
    findings.error([...at, 'port'], `${readiness.port} is not the port of an HTTP or TCP interface`, accepted);
  } else if (all.length === 0) {
    const udp = service.udp.length > 0 ? 'a service with UDP interfaces only' : 'a service without interfaces';
    findings.error([...at, 'type'], `${udp} cannot be asked by ${readiness.type}`, accepted);
  } else if (web.length !== 1 && all.length !== 1) {
    findings.error(
      [...at, 'port'],
      `is missing, and it is not clear which of ${all.join(', ')} is meant`,
      accepted,
      'key',
    );
  }
}

function quoted(words: readonly string[]): string {
  return words.map((word) => JSON.stringify(word)).join(' or ');
}

// Checks of `[tls.acme]`, and of what hosts say about where their certificates come from.
// Invariant: a name that wants a certificate and could never prove itself is told before anything is ordered.
import { endsTls, takesPlainHttp } from '../model/entrypoint-protocol.ts';
import { dnsProviders } from './acme-keys.ts';
import { isAddress, isPublicAddress, type WantedName, wantedNames } from './acme-names.ts';
import { alternatives } from './form.ts';
import type { Findings } from './problem.ts';
import type { HostWritten } from './route-keys.ts';
import type { Config } from './schema.ts';
import type { Path } from './syntax.ts';
import { parsePattern } from './values.ts';

const acmePath: Path = ['tls', 'acme'];

export function checkAcme(config: Config, findings: Findings): void {
  checkDirectories(config, findings);
  checkDns(config, findings);
  for (const [name, host] of config.external_routes) checkSource(name, host, config, findings);
  const { acme } = config.tls;
  if (!acme.enabled || findings.failed(['tls']) || findings.failed(['entrypoints'])) return;
  const wanted = wantedNames(config);
  checkAddresses(wanted, config, findings);
  checkReach(wanted, config, findings);
}

function checkDirectories(config: Config, findings: Findings): void {
  const { directory } = config.tls.acme;
  const path: Path = [...acmePath, 'directory'];
  if (directory.length === 0 && !findings.failed(path)) findings.error(path, 'is empty', 'at least one directory');
  const seen = new Map<string, Path>();
  for (const { index, value } of directory) {
    const at = index === null ? path : [...path, index];
    const twin = seen.get(value.url);
    if (twin === undefined) seen.set(value.url, at);
    else {
      const { line } = findings.document.locate(twin).key;
      findings.error(at, `is the same directory as the one in line ${line}`, 'each directory once');
    }
    if ((value.eab_key_id === null) === (value.eab_hmac_file === null)) continue;
    const missing = [...at, value.eab_key_id === null ? 'eab_key_id' : 'eab_hmac_file'];
    if (!findings.failed(missing))
      findings.error(missing, 'is missing', 'eab_key_id and eab_hmac_file together', 'key');
  }
}

function checkDns(config: Config, findings: Findings): void {
  const { challenge, dns } = config.tls.acme;
  const path: Path = [...acmePath, 'dns'];
  if (challenge === 'dns-01' && dns === null && !findings.failed(path)) {
    findings.error([...acmePath, 'challenge'], 'dns-01 needs somebody who writes records', '[tls.acme.dns] beside it');
  }
  if (dns === null) return;
  const [first, second] = dnsProviders.filter((name) => dns[name] !== null || findings.document.has([...path, name]));
  if (first === undefined) findings.error(path, 'names no provider', alternatives(dnsProviders), 'key');
  if (second !== undefined) findings.error([...path, second], `${first} is there too`, 'one provider', 'key');
  if (challenge === 'http-01' || challenge === 'tls-alpn-01') {
    findings.error(path, `has no effect: challenge = "${challenge}"`, 'challenge = "auto" or "dns-01"', 'key');
  }
}

/** `certificate` of a host. */
function checkSource(name: string, host: HostWritten, config: Config, findings: Findings): void {
  const { acme, internal_ca: internal } = config.tls;
  if (host.certificate === 'auto' || findings.failed(['tls'])) return;
  const path: Path = ['external_routes', name, 'certificate'];
  if (host.tls === 'never') findings.error(path, 'has no effect: tls is "never"', 'leave it out', 'key');
  else if (host.certificate === 'internal' && !internal.enabled) {
    findings.error(path, 'there is no internal CA', 'tls.internal_ca.enabled = true');
  } else if (host.certificate === 'acme' && !acme.enabled) {
    findings.error(path, 'no certificates are ordered', 'tls.acme.enabled = true');
  } else if (host.certificate === 'acme' && parsePattern(name) === '*') {
    findings.error(path, '"*" is no name that a certificate could have', 'certificate at hosts with a name');
  }
}

/** RFC 8738 §7: an address is not proved by DNS. */
function checkAddresses(wanted: readonly WantedName[], config: Config, findings: Findings): void {
  const { challenge, directory } = config.tls.acme;
  for (const { name, path } of wanted) {
    if (!isAddress(name)) continue;
    if (challenge === 'dns-01') {
      findings.error(path, 'dns-01 proves no addresses', 'another challenge, or certificate = "internal"', 'key');
    } else if (!isPublicAddress(name) && directory.every(({ value }) => value.ca_file === null)) {
      findings.error(path, `no authority signs for ${name}`, 'certificate = "internal"', 'key');
    }
  }
}

/** A public authority looks at the ports 80 and 443 and nowhere else (RFC 8555 §8.3, RFC 8737 §3). */
function checkReach(wanted: readonly WantedName[], config: Config, findings: Findings): void {
  const { challenge, directory, dns } = config.tls.acme;
  if (wanted.length === 0 || dns !== null || directory.some(({ value }) => value.ca_file !== null)) return;
  const reached = (port: number, fits: (protocol: Parameters<typeof endsTls>[0]) => boolean): boolean =>
    [...config.entrypoints.values()].some(
      ({ address, public_port: mapped, protocol }) => fits(protocol) && (mapped ?? address.port) === port,
    );
  const http = reached(80, takesPlainHttp);
  const tls = reached(443, endsTls);
  if ((challenge === 'http-01' && !http) || (challenge === 'auto' && !http && !tls)) {
    findings.warn(
      acmePath,
      'the authority asks at port 80, and no http entrypoint is there',
      'an entrypoint at port 80, or public_port = 80 behind a port mapping',
      'key',
    );
  } else if (challenge === 'tls-alpn-01' && !tls) {
    findings.warn(
      acmePath,
      'the authority asks at port 443, and no https entrypoint is there',
      'an entrypoint at port 443, or public_port = 443 behind a port mapping',
      'key',
    );
  }
}

/**
 * Wildcards are proved by DNS only.
 * @param covered  names of the static certificates; null when they cannot be known here (PKCS#12)
 */
export function checkWildcards(config: Config, covered: ReadonlySet<string> | null, findings: Findings): void {
  const { enabled, challenge, dns } = config.tls.acme;
  if (!enabled || findings.failed(['tls', 'acme'])) return;
  if (dns !== null && (challenge === 'auto' || challenge === 'dns-01')) return;
  for (const { name, path } of wantedNames(config)) {
    if (!name.startsWith('*.') || covered?.has(name)) continue;
    const why = `a certificate for ${name} takes dns-01`;
    const instead = '[tls.acme.dns] with challenge = "auto" or "dns-01", or a certificate of your own';
    if (covered === null) findings.warn(path, `${why}, unless one of your own covers it`, instead, 'key');
    else findings.error(path, why, instead, 'key');
  }
}

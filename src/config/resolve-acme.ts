// `[tls.acme]` → whom to ask, how, and for which names.
// Invariant: pure; files with secrets stay files.

import type { AcmeWritten, DirectoryWritten } from './acme-keys.ts';
import { wantedNames } from './acme-names.ts';
import type { DeclaredAcme, DeclaredDirectory, DeclaredDns, DnsProvider } from './declared-acme.ts';
import type { Config } from './schema.ts';
import { contentOf, fileAt, originOf, placeOf, type Surroundings } from './surroundings.ts';

export function resolveAcme(config: Config, surroundings: Surroundings): DeclaredAcme {
  const { acme } = config.tls;
  return {
    directories: acme.directory.map(({ value }) => resolveDirectory(value, surroundings)),
    email: acme.email,
    challenge: acme.challenge,
    keyType: acme.key_type,
    ari: acme.ari,
    resolvers: acme.resolvers,
    dns: resolveDns(acme.dns, surroundings),
    targets: wantedNames(config).map(({ name, path }) => ({
      name,
      origin: originOf(surroundings, path),
      place: placeOf(surroundings, path),
    })),
  };
}

function resolveDirectory(written: DirectoryWritten, surroundings: Surroundings): DeclaredDirectory {
  const { eab_key_id: keyId, eab_hmac_file: hmacFile } = written;
  return {
    url: written.url,
    eab: keyId === null || hmacFile === null ? null : { keyId, hmacFile: fileAt(surroundings, hmacFile) },
    profile: written.profile,
    preferredChain: written.preferred_chain,
    ca: written.ca_file === null ? null : contentOf(surroundings, written.ca_file),
  };
}

function resolveDns(written: AcmeWritten['dns'], surroundings: Surroundings): DeclaredDns | null {
  const provider = written === null ? null : resolveProvider(written, surroundings);
  if (written === null || provider === null) return null;
  return {
    provider,
    propagationTimeoutMs: written.propagation_timeout,
    propagationDelayMs: written.propagation_delay,
  };
}

function resolveProvider(
  { cloudflare, rfc2136, acme_dns: acmeDns, exec }: NonNullable<AcmeWritten['dns']>,
  surroundings: Surroundings,
): DnsProvider | null {
  if (cloudflare !== null) return { kind: 'cloudflare', tokenFile: fileAt(surroundings, cloudflare.token_file) };
  if (rfc2136 !== null) {
    return {
      kind: 'rfc2136',
      server: rfc2136.server,
      keyName: rfc2136.key_name,
      keyFile: fileAt(surroundings, rfc2136.key_file),
      algorithm: rfc2136.algorithm,
    };
  }
  if (acmeDns !== null) {
    return { kind: 'acme-dns', url: acmeDns.url, credentialsFile: fileAt(surroundings, acmeDns.credentials_file) };
  }
  return exec === null ? null : { kind: 'exec', command: exec.command, timeoutMs: exec.timeout };
}

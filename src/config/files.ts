// The files that the configuration names: where they lie, and what is in those that the snapshot carries.
// Invariant: every file is read once, here, so that everything after is pure; one that cannot be used is a problem at its
// key, and its content is never shown.
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { UpstreamTlsWritten } from './backend-keys.ts';
import { parseHeaderFile } from './header-file.ts';
import type { Findings } from './problem.ts';
import type { HostWritten, PathWritten } from './route-keys.ts';
import type { Config } from './schema.ts';
import type { Path } from './syntax.ts';

/** Absolute path → content. */
export type FileContents = ReadonlyMap<string, string>;

type Use = 'certificates' | 'key' | 'text' | 'token' | 'headers' | 'secret' | 'exists';

interface NamedFile {
  readonly path: Path;
  readonly file: string;
  readonly use: Use;
}

/** What nobody but its owner, and a group of the owner's choice, may read. */
const secretUses: ReadonlySet<Use> = new Set(['key', 'token', 'headers', 'secret']);

const largestText = 1024 * 1024;

/** Reads what the snapshot will carry; the pairs of `[[tls.certificate]]` only have to exist, their store reads them. */
export async function readFiles(config: Config, directory: string, findings: Findings): Promise<FileContents> {
  const contents = new Map<string, string>();
  for (const { path, file, use } of namedFiles(config, directory)) {
    if (findings.failed(path)) continue;
    try {
      const found = await stat(file);
      // A pipe or a device would be waited for, or never end.
      if (!found.isFile()) throw new Error(found.isDirectory() ? 'is a directory' : 'is not a file');
      if (secretUses.has(use) && (found.mode & 0o007) !== 0) {
        throw new Error(`is open to every user of this machine: chmod 600 ${file}`);
      }
      if (use === 'exists' || use === 'secret') continue;
      if (found.size > largestText) throw new Error('is larger than 1 MiB');
      const content = contents.get(file) ?? (await readFile(file, 'utf8'));
      judge(content, use);
      contents.set(file, content);
    } catch (error) {
      findings.error(path, `${JSON.stringify(file)} ${reasonOf(error)}`, accepted[use]);
    }
  }
  return contents;
}

const accepted: Readonly<Record<Use, string>> = {
  certificates: 'a PEM file with certificates',
  key: 'a PEM file with a private key without a passphrase',
  text: 'a text file of at most 1 MiB',
  token: 'a file whose first line is 32 characters or more without spaces, such as `openssl rand -hex 32` writes',
  headers: 'a file with one "Name: value" a line',
  secret: 'a file that its owner alone can read',
  exists: 'a file that exists',
};

function judge(content: string, use: Use): void {
  if (use === 'key') createPrivateKey(content);
  if (use === 'token' && !/^[\x21-\x7e]{32,}\r?(\n|$)/.test(content)) throw new Error('holds no token');
  if (use === 'headers') parseHeaderFile(content);
  if (use !== 'certificates') return;
  const blocks = content.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) throw new Error('holds no certificate');
  for (const block of blocks) new X509Certificate(block);
}

function reasonOf(error: unknown): string {
  const { code, message } = error as { code?: string; message: string };
  if (code === 'ENOENT') return 'does not exist';
  if (code === 'EACCES') return 'may not be read';
  return code === undefined || code.startsWith('E') ? message : 'cannot be understood';
}

function namedFiles(config: Config, directory: string): NamedFile[] {
  const files: NamedFile[] = [];
  const add = (file: string | null | undefined, use: Use, ...path: Path): void => {
    if (typeof file === 'string') files.push({ path, file: resolve(directory, file), use });
  };
  for (const { index, value: pair } of config.tls.certificate) {
    add(pair.cert_file, 'exists', 'tls', 'certificate', index, 'cert_file');
    for (const key of ['key_file', 'pkcs12_file', 'passphrase_file'] as const) {
      add(pair[key], 'secret', 'tls', 'certificate', index, key);
    }
  }
  addSecrets(config, add);
  for (const [name, host] of config.external_routes) {
    const path = ['external_routes', name];
    add(host.client_auth?.ca_file, 'certificates', ...path, 'client_auth', 'ca_file');
    addRouteFiles(host, path, add);
    for (const { index, value: route } of host.routes) addRouteFiles(route, [...path, 'routes', index], add);
  }
  for (const [name, { tls }] of config.network_services) {
    if (typeof tls !== 'boolean') addUpstreamFiles(tls, ['network_services', name, 'tls'], add);
  }
  return files;
}

/** Read where they are used. */
function addSecrets({ tls: { acme }, gate: { tor, oidc }, control, telemetry }: Config, add: Add): void {
  const at: Path = ['tls', 'acme'];
  for (const { index, value } of acme.directory) {
    const path = [...at, 'directory', ...(index === null ? [] : [index])];
    add(value.eab_hmac_file, 'secret', ...path, 'eab_hmac_file');
    add(value.ca_file, 'certificates', ...path, 'ca_file');
  }
  add(acme.dns?.cloudflare?.token_file, 'secret', ...at, 'dns', 'cloudflare', 'token_file');
  add(acme.dns?.rfc2136?.key_file, 'secret', ...at, 'dns', 'rfc2136', 'key_file');
  add(acme.dns?.acme_dns?.credentials_file, 'secret', ...at, 'dns', 'acme_dns', 'credentials_file');
  add(tor?.password_file, 'secret', 'gate', 'tor', 'password_file');
  add(oidc?.client_secret_file, 'secret', 'gate', 'oidc', 'client_secret_file');
  add(control.token_file, 'token', 'control', 'token_file');
  add(control.cert_file, 'certificates', 'control', 'cert_file');
  add(control.key_file, 'key', 'control', 'key_file');
  add(telemetry?.headers_file, 'headers', 'telemetry', 'headers_file');
}

type Add = (file: string | null | undefined, use: Use, ...path: Path) => void;

function addUpstreamFiles(tls: UpstreamTlsWritten | null, path: Path, add: Add): void {
  add(tls?.ca_file, 'certificates', ...path, 'ca_file');
  add(tls?.cert_file, 'certificates', ...path, 'cert_file');
  add(tls?.key_file, 'key', ...path, 'key_file');
}

function addRouteFiles(route: HostWritten | PathWritten, path: Path, add: Add): void {
  addUpstreamFiles(route.upstream_tls, [...path, 'upstream_tls'], add);
  add(route.respond?.body_file, 'text', ...path, 'respond', 'body_file');
}

/** DNS names of the PEM certificates of `[[tls.certificate]]`; null when there are others, which are not opened here. */
export async function staticNames(config: Config, directory: string): Promise<ReadonlySet<string> | null> {
  const names = new Set<string>();
  for (const { value } of config.tls.certificate) {
    if (value.cert_file === null) return null;
    try {
      const leaf = new X509Certificate(await readFile(resolve(directory, value.cert_file)));
      for (const [, name] of (leaf.subjectAltName ?? '').matchAll(/DNS:([^,\s"]+)/g)) names.add(name!.toLowerCase());
    } catch {
      // Whoever serves it says what is wrong with it.
      return null;
    }
  }
  return names;
}

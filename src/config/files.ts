// The files that the configuration names: where they lie, and what is in those that the snapshot carries.
// Invariant: every file is read once, here, so that everything after is pure; one that cannot be used is a problem at its
// key, and its content is never shown.
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Findings } from './problem.ts';
import type { HostWritten, PathWritten, UpstreamTlsWritten } from './route-keys.ts';
import type { Config } from './schema.ts';
import type { Path } from './syntax.ts';

/** Absolute path → content. */
export type FileContents = ReadonlyMap<string, string>;

type Use = 'certificates' | 'key' | 'text' | 'exists';

interface NamedFile {
  readonly path: Path;
  readonly file: string;
  readonly use: Use;
}

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
      if (use === 'exists') continue;
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
  exists: 'a file that exists',
};

function judge(content: string, use: Use): void {
  if (use === 'key') createPrivateKey(content);
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
    for (const key of ['cert_file', 'key_file', 'pkcs12_file', 'passphrase_file'] as const) {
      add(pair[key], 'exists', 'tls', 'certificate', index, key);
    }
  }
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

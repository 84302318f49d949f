// The set-ups of docs/examples, placed where a test can load or drive them.
// Invariant: the text is the documented one, except for what the test itself replaces (ports, addresses); the files it
// names exist, made for the names that it serves.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { type Pair, TestCa } from './certificates.ts';

const folder = join(import.meta.dirname, '../../docs/examples');

/** Names without ".toml". */
export const exampleNames: readonly string[] = readdirSync(folder)
  .filter((name) => name.endsWith('.toml'))
  .map((name) => basename(name, '.toml'))
  .sort();

export function exampleText(name: string): string {
  return readFileSync(join(folder, `${name}.toml`), 'utf8');
}

export interface PlacedExample {
  /** `config.toml` in the directory. */
  readonly file: string;
  /** Issuer of every certificate in it. */
  readonly ca: TestCa;
}

/**
 * Writes an example and the files it names into a directory.
 * @param replace  gets the text, gives what is written: other ports, backends of the test
 */
export function placeExample(
  name: string,
  directory: string,
  replace: (text: string) => string = (text) => text,
): PlacedExample {
  const text = exampleText(name);
  const ca = new TestCa(name);
  for (const [heading, body] of certificateTables(text)) placeCertificate(heading, body, text, directory, ca);
  for (const [, file] of text.matchAll(/\bca_file = "([^"]+)"/g)) place(directory, file!, ca.pem);
  for (const [, file] of text.matchAll(/\btoken_file = "([^"]+)"/g)) place(directory, file!, 'an example\n');
  const file = join(directory, 'config.toml');
  writeFileSync(file, replace(text));
  return { file, ca };
}

/** `[[tls.certificate]] # names` and the lines below it. */
function certificateTables(text: string): (readonly [heading: string, body: string])[] {
  return [...text.matchAll(/^\[\[tls\.certificate\]\](.*)\n((?:[a-z0-9_]+ = .*\n)+)/gm)].map(
    ([, heading, body]) => [heading!, body!] as const,
  );
}

function placeCertificate(heading: string, body: string, text: string, directory: string, ca: TestCa): void {
  const named = (key: string): string | undefined => new RegExp(`^${key} = "([^"]+)"`, 'm').exec(body)?.[1];
  const listed = heading.match(/[a-z0-9*.-]+\.[a-z]+/g) ?? hostsOf(text);
  const pair = ca.leaf(listed);
  const bundle = named('pkcs12_file');
  if (bundle === undefined) {
    place(directory, named('cert_file')!, pair.cert);
    place(directory, named('key_file')!, pair.key);
    return;
  }
  place(directory, named('passphrase_file')!, 'an example\n');
  place(directory, bundle, pkcs12(pair, 'an example'));
}

function pkcs12(pair: Pair, passphrase: string): Buffer {
  const args = ['pkcs12', '-export', '-in', pair.certFile, '-inkey', pair.keyFile, '-passout', `pass:${passphrase}`];
  const result = spawnSync('openssl', args);
  if (result.status !== 0) throw new Error(`openssl pkcs12: ${result.stderr}`);
  return result.stdout;
}

/** Hosts that a certificate can name. */
function hostsOf(text: string): string[] {
  const keys = [...text.matchAll(/^(?:\[external_routes\.)?"([^"]+)"(?:\]| = )/gm)].map((match) => match[1]!);
  return keys.filter((host) => host !== '*');
}

function place(directory: string, file: string, content: string | Buffer): void {
  const path = join(directory, file);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content, { mode: 0o600 });
}

// Throwaway certificates for tests, made by the openssl program so that no code under test vouches for itself.
// Invariant: everything lives in a temporary directory that is removed with the end of the test file.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-certs-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
let serial = 0;

function openssl(args: readonly string[]): void {
  const result = spawnSync('openssl', args, { encoding: 'utf8' });
  if (result.status !== 0) throw new Error(`openssl ${args.join(' ')}: ${result.stderr}`);
}

export interface Pair {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
  /** SHA-256 of the leaf as node:tls spells it. */
  readonly fingerprint: string;
}

function read(certFile: string, keyFile: string): Pair {
  const result = spawnSync('openssl', ['x509', '-in', certFile, '-noout', '-fingerprint', '-sha256'], {
    encoding: 'utf8',
  });
  const fingerprint = result.stdout.trim().replace(/^.*=/, '');
  return {
    certFile,
    keyFile,
    cert: readFileSync(certFile, 'utf8'),
    key: readFileSync(keyFile, 'utf8'),
    fingerprint,
  };
}

/** An issuer of its own, with a name that tells it apart. */
export class TestCa {
  readonly pair: Pair;

  constructor(name: string) {
    const base = join(directory, `ca-${serial++}`);
    openssl([
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '30'],
      ...['-subj', `/CN=${name}`, '-keyout', `${base}.key`, '-out', `${base}.pem`],
      ...['-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign,cRLSign'],
    ]);
    this.pair = read(`${base}.pem`, `${base}.key`);
  }

  get pem(): string {
    return this.pair.cert;
  }

  get file(): string {
    return this.pair.certFile;
  }

  /** A leaf for these names; the first is the common name. */
  leaf(names: readonly string[], options: { client?: boolean } = {}): Pair {
    const base = join(directory, `leaf-${serial++}`);
    const san = names.map((name) => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`).join(',');
    writeFileSync(
      `${base}.ext`,
      `subjectAltName=${san}\nbasicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n` +
        `extendedKeyUsage=${options.client === true ? 'clientAuth' : 'serverAuth'}\n`,
    );
    openssl([
      ...['req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
      ...['-subj', `/CN=${names[0]}`, '-keyout', `${base}.key`, '-out', `${base}.csr`],
    ]);
    openssl([
      ...['x509', '-req', '-in', `${base}.csr`, '-CA', this.pair.certFile, '-CAkey', this.pair.keyFile],
      ...['-set_serial', String(Date.now() * 1000 + serial), '-days', '20', '-extfile', `${base}.ext`],
      ...['-out', `${base}.pem`],
    ]);
    return read(`${base}.pem`, `${base}.key`);
  }
}

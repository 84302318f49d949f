// One certificate of the operator's: its files → a certificate for the snapshot, or a sentence about what is wrong.
// Invariant: a certificate that comes out of here has been accepted by OpenSSL together with its key.
import { createPrivateKey, type KeyObject, type X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { DeclaredCertificate } from '../config/declaration.ts';
import type { Certificate } from '../model/snapshot.ts';
import { openPkcs12 } from './pkcs12.ts';
import { fingerprintOf, namesOf, readChain } from './x509.ts';

export interface LoadedPair {
  readonly certificate: Certificate;
  /** What is odd about it and does not keep it from being served. */
  readonly oddities: readonly string[];
}

/** A file that cannot be used. The message names the file, never its content. */
export class UnusablePair extends Error {
  /** What would be right, or ''. */
  readonly accepted: string;

  constructor(message: string, accepted: string) {
    super(message);
    this.name = 'UnusablePair';
    this.accepted = accepted;
  }
}

const largestFile = 1024 * 1024;

/** Throws UnusablePair. */
export async function loadPair(declared: DeclaredCertificate, now: number): Promise<LoadedPair> {
  const { certFile, keyFile, pkcs12File, passphraseFile, origin } = declared;
  const passphrase = passphraseFile === null ? null : firstLine(await readText(passphraseFile));
  let key: KeyObject;
  let chain: readonly X509Certificate[];
  if (pkcs12File !== null) {
    const content = await readSecret(pkcs12File);
    ({ key, chain } = judging(pkcs12File, 'a PKCS#12 file with one key', () => openPkcs12(content, passphrase ?? '')));
  } else {
    if (certFile === null || keyFile === null) throw new UnusablePair('half a pair', 'cert_file and key_file');
    const certificates = await readText(certFile);
    chain = judging(certFile, 'a PEM file with the certificate and its chain', () => readChain(certificates));
    if (chain.length === 0)
      throw new UnusablePair(`${quote(certFile)} holds no certificate`, 'a PEM file, the leaf first');
    key = readKey(keyFile, (await readSecret(keyFile)).toString('utf8'), passphrase);
    if (!chain[0]!.checkPrivateKey(key)) throw mismatch(certFile, keyFile, chain, key);
  }
  const pair = judge(chain, key, origin, pkcs12File ?? certFile!, now);
  if (passphraseFile === null || !isOpen((await look(passphraseFile)).mode)) return pair;
  // The key's own file is not open, so this alone gives nothing away.
  return { ...pair, oddities: [...pair.oddities, `${quote(passphraseFile)} is open to everyone`] };
}

function judge(
  chain: readonly X509Certificate[],
  key: KeyObject,
  origin: string,
  file: string,
  now: number,
): LoadedPair {
  const leaf = chain[0]!;
  const names = namesOf(leaf);
  if (names.length === 0) {
    throw new UnusablePair(
      `the certificate in ${quote(file)} names no host`,
      'a certificate with subjectAltName; clients do not look at the common name',
    );
  }
  const certificate: Certificate = {
    id: fingerprintOf(leaf),
    source: 'static',
    origin,
    names,
    notBefore: leaf.validFromDate.getTime(),
    notAfter: leaf.validToDate.getTime(),
    chain: chain.map((each) => each.toString()).join(''),
    key: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
  judging(file, 'a certificate that OpenSSL accepts', () => {
    createSecureContext({ cert: certificate.chain, key: certificate.key });
  });
  return { certificate, oddities: odditiesOf(chain, file, now) };
}

function odditiesOf(chain: readonly X509Certificate[], file: string, now: number): string[] {
  const oddities: string[] = [];
  const [leaf] = chain;
  if (leaf!.validToDate.getTime() <= now) oddities.push(`the certificate in ${quote(file)} expired ${leaf!.validTo}`);
  if (leaf!.validFromDate.getTime() > now) {
    oddities.push(`the certificate in ${quote(file)} is not valid before ${leaf!.validFrom}`);
  }
  for (let i = 0; i + 1 < chain.length; i++) {
    if (!chain[i]!.checkIssued(chain[i + 1]!)) {
      oddities.push(`certificate ${i + 2} in ${quote(file)} is not the issuer of certificate ${i + 1}`);
    }
  }
  return oddities;
}

function readKey(file: string, text: string, passphrase: string | null): KeyObject {
  try {
    return createPrivateKey(passphrase === null ? text : { key: text, passphrase });
  } catch {
    if (!/ENCRYPTED/.test(text)) {
      throw new UnusablePair(`${quote(file)} holds no private key`, 'a PEM file with a private key');
    }
    throw passphrase === null
      ? new UnusablePair(`${quote(file)} is encrypted`, 'passphrase_file beside it')
      : new UnusablePair(`${quote(file)} does not open with this passphrase`, 'its passphrase in passphrase_file');
  }
}

function mismatch(certFile: string, keyFile: string, chain: readonly X509Certificate[], key: KeyObject): UnusablePair {
  const owner = chain.findIndex((certificate) => certificate.checkPrivateKey(key));
  return owner > 0
    ? new UnusablePair(`the key's certificate is number ${owner + 1} in ${quote(certFile)}`, 'the leaf first')
    : new UnusablePair(`${quote(keyFile)} is not the key of ${quote(certFile)}`, 'a pair that belongs together');
}

/** A file that gives the key away: nobody but owner and group may read it. */
async function readSecret(file: string): Promise<Buffer> {
  const { mode } = await look(file);
  if (isOpen(mode)) {
    const octal = (mode & 0o777).toString(8).padStart(4, '0');
    throw new UnusablePair(`${quote(file)} is open to everyone (mode ${octal})`, `chmod o= ${file}`);
  }
  return read(file);
}

const isOpen = (mode: number): boolean => (mode & 0o007) !== 0;

async function readText(file: string): Promise<string> {
  await look(file);
  return (await read(file)).toString('utf8');
}

async function look(file: string): Promise<{ readonly mode: number }> {
  try {
    const found = await stat(file);
    if (found.size > largestFile) throw new UnusablePair(`${quote(file)} is larger than 1 MiB`, '');
    if (found.size === 0) throw new UnusablePair(`${quote(file)} is empty`, '');
    return found;
  } catch (error) {
    throw error instanceof UnusablePair ? error : new UnusablePair(`${quote(file)} ${reasonOf(error)}`, 'a file');
  }
}

async function read(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new UnusablePair(`${quote(file)} ${reasonOf(error)}`, 'a file that may be read');
  }
}

function judging<T>(file: string, accepted: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new UnusablePair(`${quote(file)} ${error instanceof Error ? error.message : String(error)}`, accepted);
  }
}

function firstLine(content: string): string {
  return content.split(/\r?\n/, 1)[0]!;
}

function reasonOf(error: unknown): string {
  const { code, message } = error as { readonly code?: string; readonly message: string };
  if (code === 'ENOENT') return 'does not exist';
  if (code === 'EACCES') return 'may not be read';
  if (code === 'EISDIR') return 'is a directory';
  return message;
}

const quote = (file: string): string => JSON.stringify(file);

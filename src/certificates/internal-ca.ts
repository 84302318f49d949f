// A certificate authority for machines without a public name: one root (10 years), one intermediate (1 year, renewed at
// two thirds), leaves (7 days) signed on demand.
// Invariant: the root pair is made once, as a whole, and never again: people install it. Half a pair is an error, not a
// reason to make a new one. The intermediate and the leaves are replaceable.
import { createPrivateKey, generateKeyPair, type KeyObject, randomBytes, X509Certificate } from 'node:crypto';
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { syncDirectory, writeFileAtomically } from '../base/atomic-file.ts';
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import { canonicalPattern } from '../model/host.ts';
import type { Certificate } from '../model/snapshot.ts';
import { isDue } from './renewal.ts';
import { fingerprintOf, issueCertificate } from './x509.ts';

const dayMs = 86_400_000;
const rootLifetimeMs = 3650 * dayMs;
const intermediateLifetimeMs = 365 * dayMs;
const leafLifetimeMs = 7 * dayMs;
/** Clients' clocks are late sometimes. */
const backdateMs = 5 * 60_000;

const files = {
  rootCertificate: 'root.pem',
  rootKey: 'root.key',
  intermediateCertificate: 'intermediate.pem',
  intermediateKey: 'intermediate.key',
} as const;

const temporaryPrefix = '.internal-';

interface Pair {
  readonly certificate: X509Certificate;
  readonly pem: string;
  readonly key: KeyObject;
}

export class InternalCa {
  readonly #directory: string;
  readonly #clock: Clock;
  readonly #root: Pair;
  #intermediate: Pair;
  #renewing: Promise<void> | null = null;
  readonly #leaves = new Map<string, Certificate>();
  readonly #signing = new Map<string, Promise<Certificate>>();

  private constructor(directory: string, clock: Clock, root: Pair, intermediate: Pair) {
    this.#directory = directory;
    this.#clock = clock;
    this.#root = root;
    this.#intermediate = intermediate;
  }

  /** Opens the CA in `directory`, or makes it when there is nothing. Throws `certificate-unusable`. */
  static async open(directory: string, clock: Clock): Promise<InternalCa> {
    const present = await namesIn(directory);
    if (present.length === 0) await create(directory, clock);
    const root = await readRoot(directory);
    const intermediate = (await readIntermediate(directory, root)) ?? (await makeIntermediate(directory, root, clock));
    return new InternalCa(directory, clock, root, intermediate);
  }

  /** What people install in their trust stores. */
  get rootPem(): string {
    return this.#root.pem;
  }

  get rootFingerprint(): string {
    return fingerprintOf(this.#root.certificate);
  }

  get rootNotAfter(): number {
    return this.#root.certificate.validToDate.getTime();
  }

  get intermediateNotAfter(): number {
    return this.#intermediate.certificate.validToDate.getTime();
  }

  /**
   * A leaf for a canonical host, one-label wildcard or IP literal, the same one until two thirds of its validity have
   * passed, or the clock was set to before it. The caller asks for configured names only. Throws `certificate-unusable`.
   */
  leafFor(name: string): Promise<Certificate> {
    const leaf = this.#leaves.get(name);
    if (leaf !== undefined && !this.#isDue(leaf.notBefore, leaf.notAfter)) return Promise.resolve(leaf);
    let signing = this.#signing.get(name);
    if (signing === undefined) {
      signing = this.#sign(name).finally(() => this.#signing.delete(name));
      this.#signing.set(name, signing);
    }
    return signing;
  }

  #isDue(notBefore: number, notAfter: number): boolean {
    return isDue(notBefore, notAfter, this.#root.certificate.validFromDate.getTime(), this.#clock.now());
  }

  async #sign(name: string): Promise<Certificate> {
    if (name === '*' || canonicalPattern(name) !== name)
      throw new Fault('certificate-unusable', `the internal CA cannot sign for ${JSON.stringify(name)}`);
    await this.#renewIntermediate();
    const issuer = this.#intermediate;
    const { publicKey, privateKey } = await generateKey();
    const now = this.#clock.now();
    const pem = issue(
      {
        commonName: name,
        organization: null,
        publicKey,
        notBefore: now - backdateMs,
        notAfter: now + leafLifetimeMs,
        names: [name],
        use: 'server',
      },
      issuer,
    );
    const certificate = new X509Certificate(pem);
    const leaf: Certificate = {
      id: fingerprintOf(certificate),
      source: 'internal',
      origin: 'internal CA',
      names: [name],
      notBefore: certificate.validFromDate.getTime(),
      notAfter: certificate.validToDate.getTime(),
      chain: pem + issuer.pem,
      key: exportKey(privateKey),
    };
    this.#leaves.set(name, leaf);
    return leaf;
  }

  /** Leaves of the old intermediate stay good: it is valid for months after its renewal. */
  #renewIntermediate(): Promise<void> {
    if (this.#renewing === null) {
      const { validFromDate, validToDate } = this.#intermediate.certificate;
      if (!this.#isDue(validFromDate.getTime(), validToDate.getTime())) return Promise.resolve();
      this.#renewing = makeIntermediate(this.#directory, this.#root, this.#clock)
        .then((pair) => {
          this.#intermediate = pair;
        })
        .finally(() => {
          this.#renewing = null;
        });
    }
    return this.#renewing;
  }
}

async function create(directory: string, clock: Clock): Promise<void> {
  const parent = dirname(directory);
  await mkdir(parent, { recursive: true, mode: 0o700 });
  // What a crash left of an earlier attempt.
  for (const name of await readdir(parent)) {
    if (name.startsWith(temporaryPrefix)) await rm(join(parent, name), { recursive: true });
  }
  const { publicKey, privateKey } = await generateKey();
  const now = clock.now();
  const pem = issueCertificate(
    {
      // A part by chance: whoever runs two of these must be able to tell their roots apart.
      commonName: `Turnpike internal root ${randomBytes(4).toString('hex')}`,
      organization: 'Turnpike',
      publicKey,
      notBefore: now - backdateMs,
      notAfter: now + rootLifetimeMs,
      names: [],
      use: { pathLength: 1 },
    },
    { certificate: null, key: privateKey },
  );
  // The pair appears as one renamed directory: no crash leaves half of it.
  const temporary = await mkdtemp(join(parent, temporaryPrefix));
  try {
    await chmod(temporary, 0o700);
    await writeFileAtomically(join(temporary, files.rootKey), exportKey(privateKey), 0o600);
    await writeFileAtomically(join(temporary, files.rootCertificate), pem, 0o600);
    await rename(temporary, directory);
  } catch (error) {
    await rm(temporary, { recursive: true, force: true });
    throw error;
  }
  await syncDirectory(parent);
}

async function readRoot(directory: string): Promise<Pair> {
  const pem = await readOrNull(join(directory, files.rootCertificate));
  const key = await readOrNull(join(directory, files.rootKey));
  if (pem === null || key === null) {
    const missing = pem === null ? files.rootCertificate : files.rootKey;
    throw unusable(
      directory,
      `${missing} is missing. The root is never made anew by itself, since clients trust it: restore the file, ` +
        'or remove the directory to begin with a new root',
    );
  }
  const { mode } = await stat(join(directory, files.rootKey));
  if ((mode & 0o077) !== 0) throw unusable(directory, `${files.rootKey} may be read by others: chmod 600 it`);
  let pair: Pair;
  try {
    pair = { certificate: new X509Certificate(pem), pem, key: createPrivateKey(key) };
  } catch (error) {
    throw unusable(directory, `the root pair cannot be read: ${reasonOf(error)}`);
  }
  if (!pair.certificate.checkPrivateKey(pair.key)) throw unusable(directory, 'root.key is not the key of root.pem');
  if (!pair.certificate.ca) throw unusable(directory, 'root.pem is not a CA certificate');
  return pair;
}

/** Null when there is none that can be used: it is replaced then. */
async function readIntermediate(directory: string, root: Pair): Promise<Pair | null> {
  const pem = await readOrNull(join(directory, files.intermediateCertificate));
  const key = await readOrNull(join(directory, files.intermediateKey));
  if (pem === null || key === null) return null;
  try {
    const pair = { certificate: new X509Certificate(pem), pem, key: createPrivateKey(key) };
    const { certificate } = pair;
    const good =
      certificate.checkPrivateKey(pair.key) &&
      certificate.checkIssued(root.certificate) &&
      certificate.verify(root.certificate.publicKey);
    return good ? pair : null;
  } catch {
    return null;
  }
}

async function makeIntermediate(directory: string, root: Pair, clock: Clock): Promise<Pair> {
  const { publicKey, privateKey } = await generateKey();
  const now = clock.now();
  const pem = issue(
    {
      commonName: `Turnpike internal intermediate ${randomBytes(4).toString('hex')}`,
      organization: 'Turnpike',
      publicKey,
      notBefore: now - backdateMs,
      notAfter: now + intermediateLifetimeMs,
      names: [],
      use: { pathLength: 0 },
    },
    root,
  );
  // A crash between the two leaves a pair that does not match, which the next start replaces.
  await writeFileAtomically(join(directory, files.intermediateKey), exportKey(privateKey), 0o600);
  await writeFileAtomically(join(directory, files.intermediateCertificate), pem, 0o600);
  return { certificate: new X509Certificate(pem), pem, key: privateKey };
}

function issue(content: Parameters<typeof issueCertificate>[0], issuer: Pair): string {
  if (content.notBefore + backdateMs >= issuer.certificate.validToDate.getTime()) {
    const { subject, validTo } = issuer.certificate;
    throw new Fault('certificate-unusable', `${subject.replaceAll('\n', ', ')} expired on ${validTo}`);
  }
  return issueCertificate(content, issuer);
}

async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

async function readOrNull(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

const generatePair = promisify(generateKeyPair);

function generateKey(): Promise<{ publicKey: KeyObject; privateKey: KeyObject }> {
  return generatePair('ec', { namedCurve: 'P-256' });
}

function exportKey(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}

function unusable(directory: string, problem: string): Fault {
  return new Fault('certificate-unusable', `internal CA in ${directory}: ${problem}`);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

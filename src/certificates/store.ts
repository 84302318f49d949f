// All certificates that the configuration names, loaded, watched, and told as one part of the snapshot.
// Invariant: a pair that was good once is never lost to a broken file: the one in memory stays, the problem says why, and
// the other pairs are not affected.
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Family, Metrics } from '../base/metrics.ts';
import type { DeclaredCertificate, DeclaredTls } from '../config/declaration.ts';
import type { Problem } from '../config/problem.ts';
import { certificateIndex, chooseCertificate } from '../model/certificate-index.ts';
import { digestOf } from '../model/digest.ts';
import { patternCovers } from '../model/host.ts';
import type { Certificate, CertificatesPart } from '../model/snapshot.ts';
import { PathWatch, signatureOf } from './path-watch.ts';
import { renewalTime } from './renewal.ts';

export interface StoreDeps {
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** How long files must be quiet before they are read again. */
  readonly quietMs?: number;
}

export interface StoreResult {
  readonly part: CertificatesPart;
  /** Pairs that cannot be served at all. */
  readonly problems: readonly Problem[];
  /** Pairs whose files are broken while the ones in memory go on being served; expired certificates; odd chains. */
  readonly warnings: readonly Problem[];
}

/** Signs a leaf of the internal CA; null when it is off. */
export type SignLeaf = ((name: string) => Promise<Certificate>) | null;

/** Certificates that come from CAs beside these of the operator's own, and hosts that wait for their first one. */
export type Acquire = (own: readonly Certificate[]) => {
  readonly certificates: readonly Certificate[];
  readonly pending: readonly string[];
};

/** Where certificates come from, besides files. */
export interface Sources {
  readonly signLeaf: SignLeaf;
  readonly acquire: Acquire;
}

const noSources: Sources = { signLeaf: null, acquire: () => ({ certificates: [], pending: [] }) };

interface Pair {
  readonly declared: DeclaredCertificate;
  /** Of the files, when they were last looked at. */
  signature: string;
  certificate: Certificate | null;
  problem: Problem | null;
  oddities: readonly string[];
}

const defaultQuietMs = 500;

export class CertificateStore {
  readonly #deps: StoreDeps;
  readonly #failures: Family;
  readonly #expiry: Family;
  readonly #watch: PathWatch;
  #tls: DeclaredTls = { certificates: [], defaultName: null, internalCa: false, acme: null };
  #sources: Sources = noSources;
  /** By the files of the pair: a reload finds what is in memory by these. */
  #pairs = new Map<string, Pair>();
  #result: StoreResult = {
    part: { certificates: [], defaultId: null, internalCa: false, pending: [] },
    problems: [],
    warnings: [],
  };
  #onChange: ((part: CertificatesPart) => void) | null = null;
  #renewal: Timer | null = null;
  /** Loads run one after the other. */
  #work: Promise<unknown> = Promise.resolve();

  constructor(deps: StoreDeps) {
    this.#deps = deps;
    this.#failures = deps.metrics.counter(
      'certificate_load_failures_total',
      'Certificate files that could not be used when they were read.',
      ['origin'],
    );
    this.#expiry = deps.metrics.gauge('certificate_expiry_seconds', 'End of validity, seconds since the epoch.', [
      'origin',
      'source',
    ]);
    this.#watch = new PathWatch({
      clock: deps.clock,
      log: deps.log,
      quietMs: deps.quietMs ?? defaultQuietMs,
      onChange: () => void this.#reread(),
    });
  }

  /** As of the last load or change of a file. */
  get result(): StoreResult {
    return this.#result;
  }

  /**
   * Loads what this configuration names. Nothing is forgotten before `adopt`: a configuration that is refused in the end
   * must not cost the pairs of the one that goes on.
   */
  load(tls: DeclaredTls, sources: Partial<Sources> = {}): Promise<StoreResult & { adopt(): Promise<void> }> {
    const whole = { ...noSources, ...sources };
    return this.#inTurn(async () => {
      const pairs = new Map<string, Pair>();
      for (const declared of tls.certificates) {
        const key = keyOf(declared);
        pairs.set(key, await this.#readPair(declared, this.#pairs.get(key) ?? null));
      }
      const result = await this.#assemble(tls, pairs, whole);
      return { ...result, adopt: () => this.#adopt(tls, pairs, whole, result) };
    });
  }

  /** Certificates of CAs, or hosts that wait for one, may have changed. */
  look(): Promise<void> {
    return this.#reread();
  }

  /** Calls back with a new part whenever a watched file, or an internal default leaf, gave another certificate. */
  watch(onChange: (part: CertificatesPart) => void): void {
    this.#onChange = onChange;
  }

  close(): void {
    this.#onChange = null;
    this.#renewal?.cancel();
    this.#watch.close();
  }

  async #adopt(tls: DeclaredTls, pairs: Map<string, Pair>, sources: Sources, result: StoreResult): Promise<void> {
    for (const { declared } of this.#pairs.values()) {
      this.#failures.drop('origin', declared.origin);
      this.#expiry.drop('origin', declared.origin);
    }
    this.#tls = tls;
    this.#sources = sources;
    this.#pairs = pairs;
    this.#settle(result);
    await this.#watch.set([...new Set(tls.certificates.flatMap(filesOf))]);
    // What changed between the reading and the watching.
    await this.#reread();
  }

  /** Reads one pair unless its files are as they were. */
  async #readPair(declared: DeclaredCertificate, known: Pair | null): Promise<Pair> {
    const signature = await signatureOf(filesOf(declared));
    if (known !== null && known.signature === signature) {
      const certificate = known.certificate === null ? null : { ...known.certificate, origin: declared.origin };
      const problem = known.problem === null ? null : { ...known.problem, ...declared.place };
      return { ...known, declared, certificate, problem };
    }
    // Reading certificates is a lot of code that a configuration without any never needs.
    const { loadPair, UnusablePair } = await import('./static-pairs.ts');
    try {
      const { certificate, oddities } = await loadPair(declared, this.#deps.clock.now());
      return { declared, signature, certificate, problem: null, oddities };
    } catch (error) {
      if (!(error instanceof UnusablePair)) throw error;
      this.#failures.cell(declared.origin).value++;
      const kept = known?.certificate ?? null;
      const fate = kept === null ? '' : '; the certificate in memory stays in use';
      const problem: Problem = { ...declared.place, message: error.message + fate, accepted: error.accepted };
      return { declared, signature, certificate: kept, problem, oddities: [] };
    }
  }

  /** Files have changed, or may have. */
  #reread(): Promise<void> {
    return this.#inTurn(async () => {
      const pairs = new Map<string, Pair>();
      for (const [key, known] of this.#pairs) {
        const pair = await this.#readPair(known.declared, known);
        pairs.set(key, pair);
        if (pair.problem !== null) {
          if (pair.problem.message !== known.problem?.message) {
            this.#deps.log.error('certificate-unusable', { ...pair.problem });
          }
        } else if (pair.certificate?.id !== known.certificate?.id) {
          const { names = [], notAfter = 0 } = pair.certificate ?? {};
          this.#deps.log.info('certificate-reloaded', {
            origin: pair.declared.origin,
            names,
            notAfter: new Date(notAfter).toISOString(),
          });
        }
      }
      this.#pairs = pairs;
      const before = this.#result.part;
      this.#settle(await this.#assemble(this.#tls, pairs, this.#sources));
      if (digestOf(before) !== digestOf(this.#result.part)) this.#onChange?.(this.#result.part);
    });
  }

  async #assemble(tls: DeclaredTls, pairs: ReadonlyMap<string, Pair>, sources: Sources): Promise<StoreResult> {
    const problems: Problem[] = [];
    const warnings: Problem[] = [];
    const byId = new Map<string, Certificate>();
    let defaultId: string | null = null;
    for (const { declared, certificate, problem, oddities } of pairs.values()) {
      if (problem !== null) (certificate === null ? problems : warnings).push(problem);
      for (const oddity of oddities) warnings.push({ ...declared.place, message: oddity, accepted: '' });
      if (certificate === null) continue;
      if (!byId.has(certificate.id)) byId.set(certificate.id, certificate);
      if (declared.isDefault) defaultId = certificate.id;
    }
    const acquired = sources.acquire([...byId.values()]);
    for (const certificate of acquired.certificates) byId.set(certificate.id, certificate);
    const { pending } = acquired;
    if (tls.defaultName !== null) {
      const chosen = await defaultFor(tls, [...byId.values()], sources.signLeaf);
      if (chosen === null) {
        // One that is being ordered will do when it is there.
        if (!pending.some((pattern) => patternCovers(pattern, tls.defaultName!))) problems.push(noDefault(tls));
      } else byId.set(chosen.id, chosen);
      defaultId = chosen?.id ?? null;
    }
    return {
      part: { certificates: [...byId.values()], defaultId, internalCa: tls.internalCa, pending },
      problems,
      warnings,
    };
  }

  #settle(result: StoreResult): void {
    const origins = new Set(result.part.certificates.map(({ origin }) => origin));
    for (const { origin } of this.#result.part.certificates) {
      if (!origins.has(origin)) this.#expiry.drop('origin', origin);
    }
    this.#result = result;
    let renewAt = Number.POSITIVE_INFINITY;
    for (const { origin, source, notBefore, notAfter } of result.part.certificates) {
      this.#expiry.cell(origin, source).value = notAfter / 1000;
      if (source === 'internal') renewAt = Math.min(renewAt, renewalTime(notBefore, notAfter));
    }
    this.#renewal?.cancel();
    this.#renewal = null;
    if (renewAt === Number.POSITIVE_INFINITY) return;
    // A minute at least: a CA near its end signs leaves that are due at once.
    const delay = Math.max(60_000, renewAt - this.#deps.clock.now());
    this.#renewal = this.#deps.clock.after(delay, () => void this.#reread());
  }

  #inTurn<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#work.then(task);
    this.#work = result.catch(() => undefined);
    return result;
  }
}

function filesOf({ certFile, keyFile, pkcs12File, passphraseFile }: DeclaredCertificate): readonly string[] {
  return [certFile, keyFile, pkcs12File, passphraseFile].filter((file) => file !== null);
}

function keyOf(declared: DeclaredCertificate): string {
  return JSON.stringify([declared.certFile, declared.keyFile, declared.pkcs12File, declared.passphraseFile]);
}

/** The certificate that `tls.default_certificate` means, as that host's own clients would get it. */
async function defaultFor(
  { defaultName, internalCa }: DeclaredTls,
  certificates: readonly Certificate[],
  signLeaf: SignLeaf,
): Promise<Certificate | null> {
  const index = certificateIndex({ certificates, defaultId: null, internalCa, pending: [] });
  const choice = chooseCertificate(index, defaultName!, defaultName);
  if (choice.kind === 'certificate') return choice.certificate;
  return choice.kind === 'internal' && signLeaf !== null ? signLeaf(choice.name) : null;
}

function noDefault(tls: DeclaredTls): Problem {
  return {
    file: tls.certificates[0]?.place.file ?? '',
    line: 0,
    column: 0,
    key: 'tls.default_certificate',
    message: `no certificate covers ${JSON.stringify(tls.defaultName)}`,
    accepted: 'a host that a [[tls.certificate]] covers, or tls.internal_ca.enabled = true',
  };
}

// CertificatesPart → the index that names are looked up in, and the one rule by which a certificate is chosen.
// Invariant: pure and deterministic: equal parts give equal choices in every process. Static before ACME before internal;
// within a source exact before wildcard; within a name the longest validity.
import { isAddressLiteral } from './host.ts';
import type { Certificate, CertificatesPart } from './snapshot.ts';

export interface CertificateIndex {
  /** In order of preference: static, acme, internal. */
  readonly sources: readonly SourceIndex[];
  readonly byId: ReadonlyMap<string, Certificate>;
  /** For clients without a (known) name. */
  readonly fallback: Certificate | null;
  readonly internalCa: boolean;
  readonly pending: ReadonlySet<string>;
}

interface SourceIndex {
  readonly exact: ReadonlyMap<string, Certificate>;
  /** Keyed by what follows the first label, dot included: ".wild.test". */
  readonly wildcard: ReadonlyMap<string, Certificate>;
}

export type CertificateChoice =
  | {
      readonly kind: 'certificate';
      readonly certificate: Certificate;
      /** `default`: the certificate need not cover the name. */
      readonly why: 'exact' | 'wildcard' | 'default';
    }
  /** The internal CA signs a leaf for `name` (an exact host or a one-label wildcard), once. */
  | { readonly kind: 'internal'; readonly name: string }
  | { readonly kind: 'none' };

const none: CertificateChoice = { kind: 'none' };
const sourceOrder: readonly Certificate['source'][] = ['static', 'acme', 'internal'];
const built = new WeakMap<CertificatesPart, CertificateIndex>();

/** The index of a part; built once for each part object. */
export function certificateIndex(part: CertificatesPart): CertificateIndex {
  let index = built.get(part);
  if (index === undefined) {
    index = build(part);
    built.set(part, index);
  }
  return index;
}

function build(part: CertificatesPart): CertificateIndex {
  const byId = new Map(part.certificates.map((certificate) => [certificate.id, certificate]));
  return {
    sources: sourceOrder.map((source) => indexSource(part.certificates.filter((each) => each.source === source))),
    byId,
    fallback: part.defaultId === null ? null : (byId.get(part.defaultId) ?? null),
    internalCa: part.internalCa,
    pending: new Set(part.pending),
  };
}

function indexSource(certificates: readonly Certificate[]): SourceIndex {
  const exact = new Map<string, Certificate>();
  const wildcard = new Map<string, Certificate>();
  for (const certificate of certificates) {
    for (const name of certificate.names) {
      const [map, key] = name.startsWith('*.') ? [wildcard, name.slice(1)] : [exact, name];
      const rival = map.get(key);
      if (rival === undefined || outlives(certificate, rival)) map.set(key, certificate);
    }
  }
  return { exact, wildcard };
}

/** Later end first; then the newer one; the id settles what is left, so that the order in the file never matters. */
function outlives(a: Certificate, b: Certificate): boolean {
  if (a.notAfter !== b.notAfter) return a.notAfter > b.notAfter;
  if (a.notBefore !== b.notBefore) return a.notBefore > b.notBefore;
  return a.id < b.id;
}

/**
 * Which certificate a client that asks for canonical `name` is shown.
 * @param pattern  pattern of the host declaration that `name` falls under; null when it is not configured here. Only
 *   configured names are worth a signature, and a catch-all configures no name: random SNI costs nothing.
 */
export function chooseCertificate(index: CertificateIndex, name: string, pattern: string | null): CertificateChoice {
  const covering = coveringCertificate(index, name);
  if (covering !== null) return covering;
  if (index.internalCa && pattern !== null && pattern !== '*') return { kind: 'internal', name: pattern };
  return fallbackCertificate(index);
}

/** What a client without SNI is shown. */
export function fallbackCertificate(index: CertificateIndex): CertificateChoice {
  return index.fallback === null ? none : { kind: 'certificate', certificate: index.fallback, why: 'default' };
}

/**
 * Whether "an HTTPS endpoint exists": a certificate that covers `name` is there or can be signed at once (`now`), or a CA has
 * been, or will be, asked for the first one (`soon`, also when the internal CA stands in meanwhile).
 */
export function certificateFor(index: CertificateIndex, name: string, pattern: string | null): 'now' | 'soon' | null {
  const choice = chooseCertificate(index, name, pattern);
  if (choice.kind === 'certificate' && choice.why !== 'default') return 'now';
  if (pattern !== null && index.pending.has(pattern)) return 'soon';
  return choice.kind === 'internal' ? 'now' : null;
}

function coveringCertificate(index: CertificateIndex, name: string): CertificateChoice | null {
  // A wildcard stands for exactly one label (RFC 9525 §6.3), so at most one suffix can match; addresses have no labels.
  const dot = isAddressLiteral(name) ? -1 : name.indexOf('.');
  const suffix = dot > 0 ? name.slice(dot) : null;
  for (const source of index.sources) {
    const exact = source.exact.get(name);
    if (exact !== undefined) return { kind: 'certificate', certificate: exact, why: 'exact' };
    const wild = suffix === null ? undefined : source.wildcard.get(suffix);
    if (wild !== undefined) return { kind: 'certificate', certificate: wild, why: 'wildcard' };
  }
  return null;
}

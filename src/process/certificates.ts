// The certificates of this process: the operator's pairs and the internal CA, as the part of the snapshot that carries them.
// Invariant: the CA is opened once, and only when a configuration wants it; it signs for configured hosts only.
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { InternalCa } from '../certificates/internal-ca.ts';
import { CertificateStore } from '../certificates/store.ts';
import type { DeclaredTls } from '../config/declaration.ts';
import type { Problem } from '../config/problem.ts';
import type { Certificate, CertificatesPart, RoutingPart } from '../model/snapshot.ts';

/** A configuration whose certificates cannot be used. */
export class CertificateProblems extends Error {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems.map((problem) => problem.message).join('; '));
    this.name = 'CertificateProblems';
    this.problems = problems;
  }
}

export interface LoadedCertificates {
  readonly part: CertificatesPart;
  readonly warnings: readonly Problem[];
  /** These are served now: watch their files, forget the others. */
  adopt(): Promise<void>;
}

export class Certificates {
  readonly #directory: string;
  readonly #clock: Clock;
  readonly #store: CertificateStore;
  #ca: Promise<InternalCa> | null = null;
  #openCa: InternalCa | null = null;

  /** `onChange`: watched files or an internal leaf gave another certificate. */
  constructor(stateDir: string, clock: Clock, log: Log, metrics: Metrics, onChange: (part: CertificatesPart) => void) {
    this.#directory = join(stateDir, 'certs', 'internal-ca');
    this.#clock = clock;
    this.#store = new CertificateStore({ clock, log, metrics });
    this.#store.watch(onChange);
  }

  /** Pairs that are broken, or soon will be, right now. */
  get problems(): readonly Problem[] {
    return [...this.#store.result.problems, ...this.#store.result.warnings];
  }

  /** Null when the configuration that is served has none. */
  get ca(): InternalCa | null {
    return this.#store.result.part.internalCa ? this.#openCa : null;
  }

  /** Throws CertificateProblems, or a Fault `certificate-unusable` when it is the CA. */
  async load(tls: DeclaredTls): Promise<LoadedCertificates> {
    const ca = tls.internalCa ? await this.#opened() : null;
    const loaded = await this.#store.load(tls, ca === null ? null : (name) => ca.leafFor(name));
    if (loaded.problems.length > 0) throw new CertificateProblems(loaded.problems);
    return loaded;
  }

  /** A leaf for a host pattern of this routing, or a name whose TLS a router ends; null for anything else, or without a CA. */
  async leafFor(name: string, routing: RoutingPart): Promise<Certificate | null> {
    const { ca } = this;
    const isHost = routing.hosts.some((host) => host.pattern === name);
    const isName = routing.routers.tcp.some((router) => router.terminate?.names.includes(name));
    if (ca === null || !(isHost || isName)) return null;
    return await ca.leafFor(name);
  }

  close(): void {
    this.#store.close();
  }

  async #opened(): Promise<InternalCa> {
    // Certificate signing is a lot of code that most configurations never need.
    this.#ca ??= import('../certificates/internal-ca.ts').then((module) =>
      module.InternalCa.open(this.#directory, this.#clock),
    );
    try {
      this.#openCa = await this.#ca;
      return this.#openCa;
    } catch (error) {
      this.#ca = null;
      throw error;
    }
  }
}

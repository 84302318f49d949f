// The certificates of this process: the operator's pairs and the internal CA, as the part of the snapshot that carries them.
// Invariant: the CA is opened once, and only when a configuration wants it; it signs for configured hosts only.
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import type { InternalCa } from '../certificates/internal-ca.ts';
import { CertificateStore } from '../certificates/store.ts';
import type { Declaration } from '../config/declaration.ts';
import type { DeclaredAcme } from '../config/declared-acme.ts';
import type { Problem } from '../config/problem.ts';
import type { Certificate, CertificatesPart, ChallengesPart, RoutingPart } from '../model/snapshot.ts';
import type { Acme } from './acme.ts';

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

export interface CertificatesOptions {
  readonly stateDir: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Watched files, an internal leaf or a CA gave another certificate. */
  readonly onChange: (part: CertificatesPart) => void;
  readonly publishChallenges: (challenges: ChallengesPart) => Promise<unknown>;
}

type Served = Pick<RoutingPart, 'hosts' | 'entrypoints'>;

export class Certificates {
  readonly #options: CertificatesOptions;
  readonly #directory: string;
  readonly #store: CertificateStore;
  #ca: Promise<InternalCa> | null = null;
  #openCa: InternalCa | null = null;
  #opening: Promise<Acme> | null = null;
  #acme: Acme | null = null;
  /** Of the configuration that was adopted last. */
  #declared: DeclaredAcme | null = null;
  /** What workers serve, apps included, and which of these hosts the file has. */
  #served: Served = { hosts: [], entrypoints: [] };
  #hostsOfFile: ReadonlySet<string> = new Set();
  #closed = false;
  #ending: Promise<void> = Promise.resolve();

  constructor(options: CertificatesOptions) {
    const { clock, log, metrics, stateDir } = options;
    this.#options = options;
    this.#directory = join(stateDir, 'certs');
    this.#store = new CertificateStore({ clock, log, metrics });
    this.#store.watch((part) => {
      options.onChange(part);
      // A pair of the operator's own may have come for a name that was ordered, or gone.
      void this.#follow();
    });
  }

  /** Pairs that are broken, or soon will be, right now. */
  get problems(): readonly Problem[] {
    return [...this.#store.result.problems, ...this.#store.result.warnings];
  }

  /** Null when the configuration that is served has none. */
  get ca(): InternalCa | null {
    return this.#store.result.part.internalCa ? this.#openCa : null;
  }

  /** Null: no configuration of this process has ever named a CA to order from. */
  get acme(): Acme | null {
    return this.#acme;
  }

  /** Throws CertificateProblems, or a Fault `certificate-unusable` when it is the CA. */
  async load(declaration: Declaration): Promise<LoadedCertificates> {
    const { tls, hosts, entrypoints } = declaration;
    const ca = tls.internalCa ? await this.#opened() : null;
    const acme = tls.acme === null ? null : await this.#openedAcme();
    if (acme !== null) await refuseExposed(acme, declaration);
    // Before it is adopted, as what the file says and apps bring along; afterwards, as it is served.
    const ofApps = this.#served.hosts.filter(({ pattern }) => !this.#hostsOfFile.has(pattern));
    let served: Served | null = { hosts: [...hosts, ...ofApps], entrypoints };
    const hostsOfFile = patternsOf(hosts);
    const loaded = await this.#store.load(tls, {
      signLeaf: ca === null ? null : (name) => ca.leafFor(name),
      acquire: (own) => {
        if (acme === null || tls.acme === null) return { certificates: [], pending: [] };
        const wish = { declared: tls.acme, hostsOfFile: served === null ? this.#hostsOfFile : hostsOfFile };
        return acme.acquired(acme.targets(wish, served ?? this.#served, own));
      },
    });
    if (loaded.problems.length > 0) throw new CertificateProblems(loaded.problems);
    return {
      part: loaded.part,
      warnings: loaded.warnings,
      adopt: async () => {
        this.#declared = tls.acme;
        served = null;
        await loaded.adopt();
        await this.#follow();
      },
    };
  }

  /** Every worker serves this routing: what `ofFile` does not have was brought along by apps. */
  routingServed(routing: Served, ofFile: Pick<RoutingPart, 'hosts'>): void {
    this.#served = routing;
    this.#hostsOfFile = patternsOf(ofFile.hosts);
    if (this.#acme !== null) void this.#follow().then(() => this.#store.look());
  }

  /** A leaf for a host pattern of this routing, or a name whose TLS a router ends; null for anything else, or without a CA. */
  async leafFor(name: string, routing: RoutingPart): Promise<Certificate | null> {
    const { ca } = this;
    const isHost = routing.hosts.some((host) => host.pattern === name);
    const isName = routing.routers.tcp.some((router) => router.terminate?.names.includes(name));
    if (ca === null || !(isHost || isName)) return null;
    return await ca.leafFor(name);
  }

  /** No more changes. What is under way at a CA is broken off; `ended` tells when its traces are in order. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#store.close();
    this.#ending = this.#acme?.close() ?? Promise.resolve();
    this.#ending.catch((error: unknown) => this.#options.log.warn('acme-not-ended', { err: error }));
  }

  /** Waits for the end of `close`, at most `ms`: a lease that is given back need not run out. */
  async ended(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const late = this.#options.clock.after(ms, resolve);
      const over = (): void => {
        late.cancel();
        resolve();
      };
      this.#ending.then(over, over);
    });
  }

  /** Tells the life cycle what is to have a certificate by now. */
  async #follow(): Promise<void> {
    const acme = this.#acme;
    if (acme === null || this.#closed) return;
    const own = this.#store.result.part.certificates.filter(({ source }) => source === 'static');
    try {
      const declared = this.#declared;
      const wish = declared === null ? null : { declared, hostsOfFile: this.#hostsOfFile };
      await acme.follow(wish, wish === null ? [] : acme.targets(wish, this.#served, own));
    } catch (error) {
      this.#options.log.error('acme-not-followed', { err: error });
    }
  }

  async #openedAcme(): Promise<Acme> {
    // As with the internal CA: a lot of code that most never need.
    const { clock, log, metrics, publishChallenges } = this.#options;
    this.#opening ??= import('./acme.ts').then(({ Acme }) =>
      Acme.open({
        directory: this.#directory,
        clock,
        log,
        metrics,
        publishChallenges,
        onChange: () => this.#store.look(),
      }),
    );
    this.#acme = await this.#opening;
    return this.#acme;
  }

  async #opened(): Promise<InternalCa> {
    // Certificate signing is a lot of code that most configurations never need.
    this.#ca ??= import('../certificates/internal-ca.ts').then((module) =>
      module.InternalCa.open(join(this.#directory, 'internal-ca'), this.#options.clock),
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

/** Keys that others can read are not secret: nothing is served from such a store. */
async function refuseExposed(acme: Acme, { file }: Declaration): Promise<void> {
  const exposed = await acme.exposed();
  if (exposed.length === 0) return;
  const place = { file, line: 0, column: 0, key: 'tls.acme' };
  const problems = exposed.map((message) => ({ ...place, message, accepted: 'files that only Turnpike may read' }));
  throw new CertificateProblems(problems);
}

const patternsOf = (hosts: RoutingPart['hosts']): ReadonlySet<string> => new Set(hosts.map(({ pattern }) => pattern));

// Certificates of CAs in this process: the life cycle, driven by the configuration, the routing that is served and the
// operator's own certificates.
// Invariant: exists only while a configuration names a CA, or did; what it has served it goes on serving.
import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { Metrics } from '../base/metrics.ts';
import { acmeIssuer } from '../certificates/acme/acme-issuer.ts';
import { dnsPresenter } from '../certificates/acme/dns/dns-provider.ts';
import { readSecret } from '../certificates/acme/dns/secret-file.ts';
import { FileStore } from '../certificates/acme/file-store.ts';
import type { ChallengePresenter, Issuer } from '../certificates/acme/issuer.ts';
import { lookFirst } from '../certificates/acme/look-first.ts';
import { ChallengeBoard, type DnsPresenter } from '../certificates/acme/presenters.ts';
import { RenewalMetrics } from '../certificates/acme/renewal-metrics.ts';
import { Renewals } from '../certificates/acme/renewals.ts';
import type { RenewalDirectory, RenewalSettings, RenewalTarget } from '../certificates/acme/settings.ts';
import { SharedChallenges } from '../certificates/acme/shared-challenges.ts';
import { StoredAccounts } from '../certificates/acme/stored-accounts.ts';
import { targetsOf } from '../certificates/acme/targets.ts';
import type { DeclaredAcme, DeclaredDirectory } from '../config/declared-acme.ts';
import type { Certificate, ChallengesPart, RoutingPart } from '../model/snapshot.ts';

export interface AcmeOptions {
  /** `<state_dir>/certs` */
  readonly directory: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Every worker answers these when it resolves. */
  readonly publishChallenges: (challenges: ChallengesPart) => Promise<unknown>;
  /** Other certificates, or other names without one. Resolves when every worker has them. */
  readonly onChange: () => Promise<void>;
}

/** What the configuration says, as far as it concerns CAs. */
export interface AcmeWish {
  readonly declared: DeclaredAcme;
  /** Patterns of the hosts in the file. */
  readonly hostsOfFile: ReadonlySet<string>;
}

/** Certificates of CAs as the snapshot carries them. */
export interface Acquired {
  readonly certificates: readonly Certificate[];
  readonly pending: readonly string[];
}

export class Acme {
  readonly renewals: Renewals;
  readonly #options: AcmeOptions;
  readonly #store: FileStore;
  readonly #accounts: StoredAccounts;
  readonly #shared: SharedChallenges;
  readonly #presenter: ChallengePresenter;
  readonly #issuers = new Map<string, Issuer>();
  #dns: { readonly key: string; readonly presenter: DnsPresenter } | null = null;
  #resolvers: readonly string[] = [];
  #publicCa = true;
  #started = false;

  /** A store that cannot be used keeps nobody from serving what else there is; it is tried again and again. */
  static async open(options: AcmeOptions): Promise<Acme> {
    const acme = new Acme(options);
    const told = (error: unknown): void => options.log.error('acme-store-unusable', { err: error });
    await acme.#store.open().catch(told);
    await acme.renewals.load().catch(told);
    return acme;
  }

  private constructor(options: AcmeOptions) {
    const { clock, log, metrics, directory, publishChallenges, onChange } = options;
    const holder = `${hostname()}-${process.pid}-${randomBytes(4).toString('hex')}`;
    this.#options = options;
    this.#store = new FileStore(join(directory, 'acme'));
    this.#accounts = new StoredAccounts(this.#store);
    this.#shared = new SharedChallenges({ store: this.#store, clock, log, holder, publish: publishChallenges });
    this.#presenter = new ChallengeBoard({
      publish: (challenges) => this.#shared.publish(challenges),
      dns: () => this.#dns?.presenter ?? null,
    });
    this.renewals = new Renewals({
      clock,
      log,
      metrics: new RenewalMetrics(metrics),
      store: this.#store,
      holder,
      preflight: (target, signal) =>
        lookFirst({ resolvers: this.#resolvers, presenter: this.#presenter, clock, publicCa: this.#publicCa })(
          target,
          signal,
        ),
      onChange,
      onLease: (term) => this.#shared.leads(term),
    });
  }

  /** Files that others may read, each with what to do about it. */
  exposed(): Promise<readonly string[]> {
    return this.#store.exposed().catch(() => []);
  }

  /** What would be served for these targets: the last good certificate of each. */
  acquired(targets: readonly RenewalTarget[]): Acquired {
    return this.renewals.acquired(targets);
  }

  targets(
    { declared, hostsOfFile }: AcmeWish,
    routing: Pick<RoutingPart, 'hosts' | 'entrypoints'>,
    own: readonly Certificate[],
  ): readonly RenewalTarget[] {
    return targetsOf(declared, routing, hostsOfFile, own);
  }

  /** These are the targets and CAs from now on. The first call begins to order. */
  async follow(wish: AcmeWish | null, targets: readonly RenewalTarget[]): Promise<void> {
    this.renewals.follow(wish === null ? null : await this.#settings(wish.declared, targets));
    if (this.#started) return;
    this.#started = true;
    this.#shared.start();
    this.renewals.start();
  }

  async close(): Promise<void> {
    await this.renewals.close();
    await this.#shared.close();
    for (const issuer of this.#issuers.values()) await issuer.close();
  }

  async #settings(declared: DeclaredAcme, targets: readonly RenewalTarget[]): Promise<RenewalSettings> {
    const { clock, log } = this.#options;
    const { dns, resolvers, keyType, ari } = declared;
    this.#resolvers = resolvers;
    this.#publicCa = declared.directories.some(({ ca }) => ca === null);
    const key = JSON.stringify([dns, resolvers]);
    if (dns === null) this.#dns = null;
    else if (this.#dns?.key !== key) this.#dns = { key, presenter: dnsPresenter(dns, { clock, log, resolvers }) };
    const directories: RenewalDirectory[] = [];
    for (const each of declared.directories) {
      const { url, profile, preferredChain } = each;
      directories.push({ url, profile, preferredChain, issuer: await this.#issuer(each, declared.email) });
    }
    return { targets, directories, keyType, announcements: ari };
  }

  /** The same one as long as nothing that it was made of changes: it knows its account, and nonces. */
  async #issuer({ url, eab, ca }: DeclaredDirectory, email: string | null): Promise<Issuer> {
    const externalAccount = eab === null ? null : { keyId: eab.keyId, hmacKey: await readSecret(eab.hmacFile) };
    const key = JSON.stringify([url, externalAccount, ca, email]);
    let issuer = this.#issuers.get(key);
    if (issuer === undefined) {
      issuer = acmeIssuer({
        directoryUrl: url,
        contacts: email === null ? [] : [email],
        caPem: ca,
        externalAccount,
        accounts: this.#accounts,
        presenter: this.#presenter,
        clock: this.#options.clock,
      });
      this.#issuers.set(key, issuer);
    }
    return issuer;
  }
}

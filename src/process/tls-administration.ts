// Answers about certificates, and the verbs that change them.
// Invariant: no key leaves the process; a name that nobody configured is refused before a CA hears of it.
import { X509Certificate } from 'node:crypto';
import { Fault } from '../base/fault.ts';
import { commonName } from '../certificates/acme/chain.ts';
import type { RevocationReason } from '../certificates/acme/issuer.ts';
import { authorityState, pauseAt, targetState } from '../certificates/acme/journal.ts';
import { leftOf } from '../certificates/acme/ledger.ts';
import type { PlanRow } from '../certificates/acme/planner.ts';
import type { Renewals } from '../certificates/acme/renewals.ts';
import { certificateIndex, chooseCertificate } from '../model/certificate-index.ts';
import { canonicalPattern } from '../model/host.ts';
import type { Snapshot, SnapshotParts } from '../model/snapshot.ts';
import type {
  RenewedCertificate,
  RevokedCertificate,
  TlsNameStatus,
  TlsOperations,
  TlsPlan,
} from './tls-operations.ts';

export interface TlsGround {
  /** Null: no CA is configured. */
  readonly renewals: () => Renewals | null;
  readonly snapshot: () => Snapshot;
  readonly now: () => number;
}

export class TlsAdministration implements TlsOperations {
  readonly #ground: TlsGround;

  constructor(ground: TlsGround) {
    this.#ground = ground;
  }

  names(): readonly TlsNameStatus[] {
    const { parts } = this.#ground.snapshot();
    const renewals = this.#ground.renewals();
    const rows = new Map(renewals?.plan.rows.flatMap((row) => row.names.map((name) => [name, row] as const)) ?? []);
    const names = new Set([...servedNames(parts), ...rows.keys()]);
    return [...names].map((name) => this.#name(name, parts, renewals, rows.get(name) ?? null));
  }

  plan(): TlsPlan | null {
    const renewals = this.#ground.renewals();
    if (renewals === null) return null;
    const now = this.#ground.now();
    const { plan, journal, storeTrouble, settings } = renewals;
    return {
      now,
      storeTrouble,
      rows: plan.rows.map(({ id, names, urgency, at, directory, why }) => ({
        names,
        urgency,
        at,
        directory,
        why,
        challenge: settings?.targets.find((target) => target.id === id)?.challenge ?? '',
        failures: targetState(journal, id).failures,
      })),
      authorities: (settings?.directories ?? []).map(({ url }) => {
        const state = authorityState(journal, url);
        const pause = pauseAt(state, now);
        return {
          directory: url,
          failures: state.failures,
          pausedUntil: pause?.until ?? null,
          pausedWhy: pause?.why ?? null,
          ordersLeft: leftOf(journal, url, now).orders,
        };
      }),
    };
  }

  async renew(name: string): Promise<RenewedCertificate> {
    const { certificate, issuer } = await this.#renewals().renew(canonical(name));
    const { names, notAfter } = certificate;
    return { names, issuer, notAfter };
  }

  async revoke(name: string, reason: RevocationReason): Promise<RevokedCertificate> {
    const { certificate } = await this.#renewals().revoke(canonical(name), reason);
    return { names: certificate.names, id: certificate.id };
  }

  async rollover(): Promise<{ readonly directories: readonly string[] }> {
    return { directories: await this.#renewals().rollover() };
  }

  #renewals(): Renewals {
    const renewals = this.#ground.renewals();
    if (renewals === null || renewals.settings === null) {
      throw new Fault('acme-unknown-name', 'nothing is ordered from anybody: the configuration has no [tls.acme]');
    }
    return renewals;
  }

  #name(name: string, parts: SnapshotParts, renewals: Renewals | null, row: PlanRow | null): TlsNameStatus {
    const index = certificateIndex(parts.certificates);
    const choice = chooseCertificate(index, name, name);
    const isPending = index.pending.has(name);
    const target = renewals?.settings?.targets.find((each) => each.names.includes(name)) ?? null;
    const lastError = row === null || renewals === null ? null : targetState(renewals.journal, row.id).lastError;
    const base = {
      name,
      nextAttempt: row?.at ?? null,
      lastError: lastError === null ? null : { at: lastError.at, kind: lastError.kind, detail: lastError.detail },
      challenge: target === null ? null : { kind: target.challenge, why: target.challengeWhy },
    };
    if (choice.kind === 'certificate' && choice.why !== 'default') {
      const { source, chain, notAfter, origin } = choice.certificate;
      const why = row?.at == null ? `${choice.why} match, ${origin}` : `${choice.why} match, ${row.why}`;
      return { ...base, source, issuer: commonName(new X509Certificate(chain).issuer), notAfter, why };
    }
    const none = { ...base, issuer: null, notAfter: null };
    if (isPending) return { ...none, source: 'pending', why: row?.why ?? 'it is to be ordered' };
    if (choice.kind === 'internal') {
      return { ...none, source: 'internal', why: row?.why ?? 'the internal CA signs it when it is asked for' };
    }
    return { ...none, source: 'none', why: row?.why ?? 'no certificate covers it' };
  }
}

/** Names of hosts that take TLS, and of routers that end it. */
function servedNames({ routing }: SnapshotParts): readonly string[] {
  return [
    ...routing.hosts
      .filter(({ tls, pattern }) => (tls === 'auto' || tls === 'always') && pattern !== '*')
      .map(({ pattern }) => pattern),
    ...routing.routers.tcp.flatMap(({ terminate }) => terminate?.names ?? []),
  ];
}

function canonical(name: string): string {
  const pattern = canonicalPattern(name);
  if (pattern === null) throw new Fault('acme-unknown-name', `${JSON.stringify(name)} is not a host name`);
  return pattern;
}

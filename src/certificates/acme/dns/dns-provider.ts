// The declared DNS provider, made ready to show dns-01 proofs.
// Invariant: makes no connection and reads no secret before the first proof.
import type { Clock } from '../../../base/clock.ts';
import type { Log } from '../../../base/log.ts';
import type { DeclaredDns } from '../../../config/declared-acme.ts';
import { HttpClient } from '../http.ts';
import { AcmeDnsKeeper } from './acme-dns.ts';
import { CloudflareKeeper } from './cloudflare.ts';
import { DnsChallenges } from './dns-challenges.ts';
import { ExecKeeper } from './exec.ts';
import { LookUp } from './look-up.ts';
import { Rfc2136Keeper } from './rfc2136.ts';
import type { TxtKeeper } from './txt-keeper.ts';

export interface DnsPresenterDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** `host:port`; empty: the system's. */
  readonly resolvers: readonly string[];
}

const lookUpMs = 3000;
const requestMs = 30_000;

export function dnsPresenter(declared: DeclaredDns, { clock, log, resolvers }: DnsPresenterDeps): DnsChallenges {
  const { provider, propagationTimeoutMs, propagationDelayMs } = declared;
  return new DnsChallenges({
    keeper: keeperFor(provider, clock),
    lookUp: new LookUp({ resolvers, timeoutMs: lookUpMs, authorityPort: 53 }),
    clock,
    log,
    propagationTimeoutMs,
    propagationDelayMs,
  });
}

function keeperFor(provider: DeclaredDns['provider'], clock: Clock): TxtKeeper {
  const http = (): HttpClient => new HttpClient({ clock, timeoutMs: requestMs, caPem: null, keepAlive: false });
  switch (provider.kind) {
    case 'cloudflare':
      return new CloudflareKeeper({ tokenFile: provider.tokenFile, http: http() });
    case 'rfc2136':
      return new Rfc2136Keeper({ ...provider, clock });
    case 'acme-dns':
      return new AcmeDnsKeeper({ url: provider.url, credentialsFile: provider.credentialsFile, http: http() });
    case 'exec':
      return new ExecKeeper({ command: provider.command, timeoutMs: provider.timeoutMs, clock });
  }
}

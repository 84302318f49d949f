// dns-01 from the order to the record and back: a real CA, a real name server that takes dynamic updates, a program.
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { acmeIssuer } from '../../src/certificates/acme/acme-issuer.ts';
import { DnsChallenges } from '../../src/certificates/acme/dns/dns-challenges.ts';
import { ExecKeeper } from '../../src/certificates/acme/dns/exec.ts';
import { LookUp } from '../../src/certificates/acme/dns/look-up.ts';
import { Rfc2136Keeper } from '../../src/certificates/acme/dns/rfc2136.ts';
import type { TxtKeeper } from '../../src/certificates/acme/dns/txt-keeper.ts';
import type { Issuer, OrderWish } from '../../src/certificates/acme/issuer.ts';
import { ChallengeBoard } from '../../src/certificates/acme/presenters.ts';
import { namesOf } from '../../src/certificates/x509.ts';
import { failureOf, MemoryAccounts, unhurried, wish } from '../support/acme.ts';
import { Named } from '../support/named.ts';
import { fastClock, Pebble, patientTimings } from '../support/pebble.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-dns-'));
const issuers: Issuer[] = [];
let named: Named;
/** Looks at the real name server. */
let pebble: Pebble;
/** Looks at its own. */
let other: Pebble;

beforeAll(async () => {
  named = await Named.start({
    'zone.test': [],
    'static.test': ['_acme-challenge CNAME proofs', '_acme-challenge.loop CNAME _acme-challenge.loop'],
  });
  [pebble, other] = await Promise.all([Pebble.start({ dnsServer: named.address }), Pebble.start()]);
});

afterAll(async () => {
  for (const issuer of issuers) await issuer.close();
  await Promise.all([pebble?.stop(), other?.stop(), named?.stop()]);
  rmSync(directory, { recursive: true, force: true });
});

const byDns: Pick<OrderWish, 'challengeFor'> = { challengeFor: () => 'dns-01' };

function updates(over: Partial<ConstructorParameters<typeof Rfc2136Keeper>[0]> = {}): Rfc2136Keeper {
  const { address: server, keyName, keyFile } = named;
  return new Rfc2136Keeper({ server, keyName, keyFile, algorithm: 'hmac-sha256', clock: systemClock, ...over });
}

/** @param authorityPort  where the zone's own servers, as its NS records name them, listen */
function challenges(
  keeper: TxtKeeper,
  resolver: string,
  authorityPort: number,
  propagationTimeoutMs = 10_000,
): DnsChallenges {
  return new DnsChallenges({
    keeper,
    lookUp: new LookUp({ resolvers: [resolver], timeoutMs: 500, authorityPort }),
    clock: systemClock,
    log: silentLog,
    propagationTimeoutMs,
    propagationDelayMs: 0,
    pollMs: 50,
  });
}

function issuerWith(ca: Pebble, dns: DnsChallenges): Issuer {
  const issuer = acmeIssuer({
    directoryUrl: ca.directoryUrl,
    contacts: [],
    caPem: ca.caPem,
    externalAccount: null,
    accounts: new MemoryAccounts(),
    presenter: new ChallengeBoard({ publish: async () => {}, dns: () => dns }),
    clock: fastClock(30),
    timings: patientTimings,
  });
  issuers.push(issuer);
  return issuer;
}

/** A program that keeps a list of how it was called, and does what the script says. */
function program(name: string, script: string): { command: string[]; calls(): string[] } {
  const file = join(directory, name);
  const log = `${file}.log`;
  writeFileSync(log, '');
  writeFileSync(file, `#!/bin/sh\necho "$@" >> ${log}\n${script}\n`, { mode: 0o755 });
  return {
    command: [file, 'first argument'],
    calls: () => readFileSync(log, 'utf8').split('\n').slice(0, -1),
  };
}

describe('dynamic updates at a real name server', () => {
  it('bring a certificate for an apex and its wildcard, and leave nothing behind', async () => {
    const issuer = issuerWith(pebble, challenges(updates(), named.address, named.port));
    const issued = await issuer.issue(wish(['zone.test', '*.zone.test'], byDns), unhurried);
    expect(namesOf(new X509Certificate(issued.chain)).toSorted()).toEqual(['*.zone.test', 'zone.test']);
    expect(await named.txt('_acme-challenge.zone.test')).toEqual([]);
  });

  it('go where the name is delegated to', async () => {
    const issuer = issuerWith(pebble, challenges(updates(), named.address, named.port));
    const issued = await issuer.issue(wish(['static.test'], byDns), unhurried);
    expect(namesOf(new X509Certificate(issued.chain))).toEqual(['static.test']);
    expect(await named.txt('proofs.static.test')).toEqual([]);
  });

  it('leave values of the same name alone that others put there', async () => {
    const keeper = updates();
    const [ours, theirs] = ['ours', 'theirs'].map((value) => ({ name: 'shared.zone.test', value }));
    await keeper.add([theirs!], unhurried);
    await keeper.add([ours!], unhurried);
    await keeper.remove([ours!], unhurried);
    await keeper.remove([ours!], unhurried);
    expect(await named.txt('shared.zone.test')).toEqual(['theirs']);
  });

  const record = [{ name: '_acme-challenge.zone.test', value: 'value' }];
  const wrongKey = join(directory, 'wrong-key');
  writeFileSync(wrongKey, Buffer.alloc(32, 1).toString('base64'));
  const hourLate = { ...systemClock, now: () => Date.now() - 3_600_000 };
  const refusals: readonly (readonly [string, Partial<ConstructorParameters<typeof Rfc2136Keeper>[0]>, RegExp])[] = [
    ['a wrong key', { keyFile: wrongKey }, /BADSIG/],
    ['a key that the server does not know', { keyName: 'other-key' }, /BADKEY/],
    ['a clock that is an hour late', { clock: hourLate }, /clocks of both ends differ .*BADTIME/],
    ['an algorithm that the key is not for', { algorithm: 'hmac-sha512' }, /BADKEY/],
    ['a secret that is not there', { keyFile: join(directory, 'nowhere') }, /nowhere: cannot be read \(ENOENT\)/],
  ];
  it.each(refusals)('say what is wrong: %s', async (_what, over, message) => {
    await expect(updates(over).add(record, unhurried)).rejects.toThrow(message);
  });

  it('say that the server has no zone for a name', async () => {
    const stranger = [{ name: '_acme-challenge.stranger.example', value: 'value' }];
    await expect(updates().add(stranger, unhurried)).rejects.toThrow(/no zone for _acme-challenge.stranger.example/);
  });
});

describe('a program of the operator', () => {
  it('sets and clears the records of a wildcard certificate', async () => {
    const { dnsManagementUrl: url } = other;
    const hook = program(
      'hook',
      `case "$2" in
present) curl -s -f -d "{\\"host\\":\\"$3\\",\\"value\\":\\"$4\\"}" ${url}/set-txt ;;
cleanup) curl -s -f -d "{\\"host\\":\\"$3\\"}" ${url}/clear-txt ;;
esac`,
    );
    const keeper = new ExecKeeper({ command: hook.command, timeoutMs: 20_000, clock: systemClock });
    const issuer = issuerWith(other, challenges(keeper, other.dns, 53));
    const issued = await issuer.issue(wish(['exec.test', '*.exec.test'], byDns), unhurried);
    expect(namesOf(new X509Certificate(issued.chain)).toSorted()).toEqual(['*.exec.test', 'exec.test']);
    expect(hook.calls().map((call) => call.replace(/ \S{43}$/, ''))).toEqual([
      'first argument present _acme-challenge.exec.test.',
      'first argument present _acme-challenge.exec.test.',
      'first argument cleanup _acme-challenge.exec.test.',
      'first argument cleanup _acme-challenge.exec.test.',
    ]);
  });

  it('that fails is quoted, and cleans up all the same', async () => {
    const hook = program('failing', 'echo "no such zone" >&2; test "$2" = cleanup');
    const keeper = new ExecKeeper({ command: hook.command, timeoutMs: 20_000, clock: systemClock });
    const issuer = issuerWith(other, challenges(keeper, other.dns, 53));
    const failure = await failureOf(issuer.issue(wish(['exec.test', '*.exec.test'], byDns), unhurried));
    expect([failure.kind, failure.detail]).toEqual([
      'presentation',
      expect.stringMatching(/failing: present ended with 1: no such zone$/),
    ]);
    expect(hook.calls().map((call) => call.split(' ')[2])).toEqual(['present', 'cleanup', 'cleanup']);
  });

  it('that does not end is killed with what it started', async () => {
    const pidFile = join(directory, 'pid');
    const hook = program('endless', `sleep 600 & echo $! > ${pidFile}; wait`);
    const keeper = new ExecKeeper({ command: hook.command, timeoutMs: 300, clock: systemClock });
    await expect(keeper.add([{ name: 'a.test', value: 'v' }], unhurried)).rejects.toThrow(/did not end within/);
    const child = Number(readFileSync(pidFile, 'utf8'));
    const state = (): string => {
      try {
        return readFileSync(`/proc/${child}/stat`, 'utf8').split(' ')[2] ?? '';
      } catch {
        return 'gone';
      }
    };
    await expect.poll(state).toMatch(/gone|Z/);
  });

  it('that cannot be run is named', async () => {
    const keeper = new ExecKeeper({ command: ['/no/such/program'], timeoutMs: 300, clock: systemClock });
    const adding = keeper.add([{ name: 'a.test', value: 'v' }], unhurried);
    await expect(adding).rejects.toThrow(/cannot be run: .*ENOENT/);
  });
});

describe('what is seen of a record', () => {
  it('is asked of the servers in charge, not of a resolver that may remember its absence', async () => {
    const lookUp = new LookUp({ resolvers: [named.address], timeoutMs: 500, authorityPort: named.port });
    expect(await lookUp.authorities('_acme-challenge.deep.below.zone.test')).toEqual([named.address]);
    expect(await lookUp.sees('seen.zone.test', 'value', named.address)).toBe('missing');
    await updates().add([{ name: 'seen.zone.test', value: 'value' }], unhurried);
    expect(await lookUp.sees('seen.zone.test', 'value', named.address)).toBe('shown');
    expect(await lookUp.sees('seen.zone.test', 'other value', named.address)).toBe('missing');
    expect(await lookUp.sees('seen.zone.test', 'value', '127.0.0.1:1')).toBe('unreachable');
  });

  it('stops at a CNAME that leads in a circle', async () => {
    const lookUp = new LookUp({ resolvers: [named.address], timeoutMs: 500, authorityPort: named.port });
    await expect(lookUp.delegated('_acme-challenge.loop.static.test')).rejects.toThrow(/leads on/);
    expect(await lookUp.delegated('_acme-challenge.static.test')).toBe('proofs.static.test');
  });

  it('times out with the name of the record, which is removed', async () => {
    const kept: string[] = [];
    const keeper: TxtKeeper = {
      label: 'a zone that nobody sees',
      add: async (records) => void kept.push(...records.map(({ name }) => `+${name}`)),
      remove: async (records) => void kept.push(...records.map(({ name }) => `-${name}`)),
    };
    const issuer = issuerWith(pebble, challenges(keeper, named.address, named.port, 1000));
    const failure = await failureOf(issuer.issue(wish(['zone.test'], byDns), unhurried));
    expect([failure.kind, failure.detail]).toEqual([
      'presentation',
      'the TXT record did not become visible within 1 s: _acme-challenge.zone.test',
    ]);
    expect(kept).toEqual(['+_acme-challenge.zone.test', '-_acme-challenge.zone.test']);
  });
});

// The whole product with a real CA (Pebble, strict, half of all nonces refused): certificates come by themselves, are renewed,
// revoked, and ordered for configured names only.
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type PeerCertificate } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { TlsStatus } from '../../src/process/operations.ts';
import type { RenewedCertificate, TlsNameStatus, TlsPlan } from '../../src/process/tls-operations.ts';
import { AcmeShim } from '../support/acme-shim.ts';
import { Pebble } from '../support/pebble.ts';
import { freePorts } from '../support/ports.ts';
import { closeRawClients, RawClient } from '../support/raw-client.ts';
import { Turnpike } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

let pebble: Pebble;
let ca: AcmeShim;
let web = 0;
let secure = 0;
const directory = mkdtempSync(join(tmpdir(), 'turnpike-cycle-'));
const running: Turnpike[] = [];

beforeAll(async () => {
  [web, secure] = (await freePorts(2)) as [number, number];
  pebble = await Pebble.start({ httpPort: web, tlsPort: secure });
  ca = await AcmeShim.start(pebble);
  writeFileSync(join(directory, 'ca.pem'), ca.caPem);
});

afterEach(async () => {
  closeRawClients();
  ca.faults = [];
  for (const turnpike of running.splice(0)) {
    await turnpike.kill();
    turnpike.forget();
  }
});

afterAll(async () => {
  await ca?.close();
  await pebble?.stop();
  rmSync(directory, { recursive: true, force: true });
});

interface ConfigOptions {
  readonly hosts: Readonly<Record<string, string>>;
  readonly ports?: readonly [number, number];
  readonly internalCa?: boolean;
}

function configOf({ hosts, ports = [web, secure], internalCa = false }: ConfigOptions): string {
  const routes = Object.entries(hosts).map(
    ([host, keys]) => `[external_routes."${host}"]\nrespond = { status = 200, body = "${host}" }\n${keys}\n`,
  );
  return `
workers = 2
[entrypoints.web]
address = "127.0.0.1:${ports[0]}"
protocol = "http"
public_port = 80
[entrypoints.websecure]
address = "127.0.0.1:${ports[1]}"
protocol = "https"
[tls.acme]
enabled = true
email = "ops@example.org"
resolvers = ["${pebble.dns}"]
[[tls.acme.directory]]
url = "${ca.directoryUrl}"
ca_file = "${join(directory, 'ca.pem')}"
[tls.internal_ca]
enabled = ${internalCa}
[log]
access = false
format = "json"
${routes.join('')}
`;
}

async function start(config: string, options: { directory?: string } = {}): Promise<Turnpike> {
  const turnpike = await Turnpike.start({ config, ...options });
  running.push(turnpike);
  return turnpike;
}

function shown(name: string, port = secure): Promise<PeerCertificate | string> {
  return new Promise((resolve) => {
    const socket = connect({
      port,
      host: '127.0.0.1',
      servername: isIP(name) === 0 ? name : '',
      rejectUnauthorized: false,
    });
    socket.once('secureConnect', () => {
      resolve(socket.getPeerCertificate());
      socket.destroy();
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  });
}

/** Another certificate than `before`. */
async function servedAfter(turnpike: Turnpike, name: string, before: PeerCertificate): Promise<PeerCertificate> {
  return until(
    `another certificate for ${name}`,
    async () => {
      const certificate = await served(turnpike, name);
      return certificate.fingerprint256 === before.fingerprint256 ? null : certificate;
    },
    { timeoutMs: 25_000, everyMs: 100, seen: () => turnpike.output.slice(-3000) },
  );
}

async function served(turnpike: Turnpike, name: string, port = secure): Promise<PeerCertificate> {
  return until(
    `a certificate for ${name}`,
    async () => {
      const certificate = await shown(name, port);
      return typeof certificate === 'string' ? null : certificate;
    },
    { timeoutMs: 25_000, everyMs: 100, seen: () => turnpike.output.slice(-3000) },
  );
}

/** Orders wait until the gate is opened. */
function holdOrders(): { readonly held: number; open(): void } {
  let held = 0;
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  ca.faults.push(async ({ endpoint }) => {
    if (endpoint !== 'new-order') return null;
    held++;
    await opened;
    return null;
  });
  return {
    get held() {
      return held;
    },
    open: () => {
      ca.faults = [];
      open();
    },
  };
}

async function statusOf(host: string): Promise<number> {
  const client = await RawClient.connect({ port: web });
  const { status } = await client.ask(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  client.destroy();
  return status;
}

/** Resident bytes of all workers. */
async function memoryOf(p: Turnpike): Promise<number> {
  const pids = await p.workerPids();
  const pages = pids.map((pid) => Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]));
  return pages.reduce((sum, each) => sum + each * 4096, 0);
}

const nameStatus = async (turnpike: Turnpike, name: string): Promise<TlsNameStatus> => {
  const { names } = await turnpike.control.get<TlsStatus>('/v1/tls');
  return names.find((each) => each.name === name)!;
};

describe('a configuration that names a CA', () => {
  it('gets certificates by itself, serves them, renews and revokes them, and keeps them over a restart', async () => {
    const config = configOf({ hosts: { 'one.test': '', 'two.test': 'tls = "always"', 'plain.test': 'tls = "never"' } });
    const p = await start(config);
    const first = await served(p, 'one.test');
    expect(first.subjectaltname).toBe('DNS:one.test');
    expect((await served(p, 'two.test')).subjectaltname).toBe('DNS:two.test');
    expect(await shown('plain.test')).toBe('ERR_SSL_TLSV1_UNRECOGNIZED_NAME');

    const status = await nameStatus(p, 'one.test');
    expect(status).toMatchObject({ source: 'acme', lastError: null, challenge: { kind: 'http-01' } });
    expect(status.issuer).toMatch(/^Pebble Intermediate/);
    expect(status.nextAttempt).toBeGreaterThan(Date.now());
    const plan = await p.control.call<TlsPlan>('tls.plan', {});
    expect(plan.rows.map(({ names }) => names[0])).toEqual(['one.test', 'two.test']);
    expect(plan.authorities).toMatchObject([{ failures: 0, pausedUntil: null }]);

    const store = join(p.directory, '.turnpike/certs/acme/certificates/one.test/current');
    const checked = spawnSync('openssl', [
      'x509',
      '-in',
      join(store, 'fullchain.pem'),
      '-noout',
      '-ext',
      'subjectAltName',
    ]);
    expect(checked.stdout.toString()).toContain('DNS:one.test');
    expect(statSync(join(store, 'privkey.pem')).mode & 0o777).toBe(0o600);

    const renewed = await p.control.call<RenewedCertificate>('tls.renew', { name: 'One.test.' });
    expect(renewed.names).toEqual(['one.test']);
    const second = await servedAfter(p, 'one.test', first);

    await p.control.call('tls.account.rollover', {});
    await p.control.call('tls.revoke', { name: 'one.test', reason: 'superseded' });
    expect(await pebble.statusOf(second.serialNumber)).toBe('Revoked');
    const third = await servedAfter(p, 'one.test', second);
    // A clean end that leaves its directory to the next one.
    p.child.kill('SIGTERM');
    await p.exited;
    expect(p.exitCode).toBe(0);
    running.length = 0;

    const asked = ca.requests.length;
    const again = await start(config, { directory: p.directory });
    expect((await served(again, 'one.test')).fingerprint256).toBe(third.fingerprint256);
    expect(ca.requests.slice(asked).filter(({ endpoint }) => endpoint === 'new-order')).toEqual([]);
    p.forget();
  });

  it('serves auto hosts in plaintext and sends always hosts to https while the first order is pending', async () => {
    const gate = holdOrders();
    const p = await start(configOf({ hosts: { 'one.test': '', 'two.test': 'tls = "always"' } }));
    await until('the order', () => gate.held > 0, { timeoutMs: 20_000 });
    expect(await statusOf('one.test')).toBe(200);
    expect(await statusOf('two.test')).toBe(308);
    expect(await shown('one.test')).toBe('ERR_SSL_TLSV1_UNRECOGNIZED_NAME');
    expect(await nameStatus(p, 'one.test')).toMatchObject({ source: 'pending', notAfter: null });
    gate.open();
    await served(p, 'one.test');
    await until('the redirect', async () => (await statusOf('one.test')) === 308, {
      timeoutMs: 20_000,
    });
  });

  // firezone/firezone#1720, caddyserver/caddy#5008, #4014: whoever asked for a name made the server order it.
  it('orders nothing for names that clients make up, and remembers none of them', async () => {
    const hosts = { 'one.test': '', '*': '', '*.wild.test': 'certificate = "internal"' };
    const p = await start(configOf({ hosts, internalCa: true }));
    await until('the certificate', async () => (await nameStatus(p, 'one.test')).source === 'acme', {
      timeoutMs: 20_000,
    });
    const asked = ca.requests.filter(({ endpoint }) => endpoint === 'new-order').length;
    const names = (i: number): string =>
      [
        `x${i}.evil.test`,
        `y${i}.wild.test`,
        `10.0.${i >> 8}.${i & 255}`,
        'www.bank.test',
        `${'a'.repeat(60)}.${i}.test`,
      ][i % 5]!;
    const ask = async (from: number, count: number): Promise<void> => {
      for (let i = from; i < from + count; i += 20) {
        const batch = Array.from({ length: 20 }, (_, k) => names(i + k));
        await Promise.all(batch.flatMap((name) => [shown(name), statusOf(name)]));
      }
    };
    await ask(0, 100);
    const lines = p.log.length;
    const sizes: number[] = [];
    for (let batch = 1; batch <= 8; batch++) {
      await ask(batch * 100, 100);
      sizes.push(await memoryOf(p));
    }
    expect(ca.requests.filter(({ endpoint }) => endpoint === 'new-order')).toHaveLength(asked);
    const { rows } = await p.control.call<TlsPlan>('tls.plan', {});
    expect(rows.map((row) => row.names)).toEqual([['one.test']]);
    expect(p.log.length - lines).toBeLessThan(5);
    // A certificate and its context for each name would be more than 3 MiB a batch, and every batch would show it.
    const growth = sizes.slice(1).map((size, i) => size - sizes[i]!);
    expect(Math.min(...growth)).toBeLessThan(3 * 1024 * 1024);
    expect(await p.metrics()).not.toMatch(/evil|bank/);
  });

  it('does not start on keys that others can read, and says how to mend that', async () => {
    const config = configOf({ hosts: { 'one.test': '' } });
    const p = await start(config);
    await served(p, 'one.test');
    await p.kill();
    running.length = 0;
    chmodSync(join(p.directory, '.turnpike/certs/acme/certificates/one.test/current/privkey.pem'), 0o644);
    const again = await Turnpike.start({ config, directory: p.directory, wait: false });
    await again.exited;
    expect(again.exitCode).toBe(1);
    expect(again.output).toMatch(/privkey\.pem may be read by others \(mode 0644\): chmod go= /);
    p.forget();
  });

  it('killed in the middle of renewals, shows the old or the new certificate at every handshake', async () => {
    const config = configOf({ hosts: { 'one.test': '' } });
    let p = await start(config);
    await served(p, 'one.test');
    const seen: string[] = [];
    let over = false;
    const watching = (async () => {
      while (!over) {
        const certificate = await shown('one.test');
        if (typeof certificate === 'string') expect(certificate).toMatch(/ECONNREFUSED|ECONNRESET/);
        else if (seen.at(-1) !== certificate.fingerprint256) seen.push(certificate.fingerprint256);
        await sleep(50);
      }
    })();
    for (const delay of [20, 150, 400]) {
      void p.control.call('tls.renew', { name: 'one.test' }).catch(() => {});
      await sleep(delay);
      await p.kill();
      running.length = 0;
      p = await start(config, { directory: p.directory });
      await served(p, 'one.test');
    }
    over = true;
    await watching;
    // Never one that was replaced before.
    expect(new Set(seen).size).toBe(seen.length);
    p.forget();
  });
});

describe('two processes on one store', () => {
  it('make one order, and the one that the CA happens to ask answers for the other', async () => {
    const shared = join(directory, 'shared');
    const homes = ['leader', 'asked'].map((name) => {
      const home = join(directory, name);
      mkdirSync(join(home, '.turnpike/certs'), { recursive: true, mode: 0o700 });
      symlinkSync(shared, join(home, '.turnpike/certs/acme'));
      return home;
    });
    mkdirSync(shared, { mode: 0o700 });
    const ports = (await freePorts(2)) as [number, number];
    const hosts = { 'one.test': '' };
    const before = ca.requests.length;
    const gate = holdOrders();
    // The CA looks at the ports of the other one.
    const leader = await start(configOf({ hosts, ports }), { directory: homes[0]! });
    await until('the order', () => gate.held > 0, { timeoutMs: 20_000 });
    const asked = await start(configOf({ hosts }), { directory: homes[1]! });
    gate.open();
    const first = await served(leader, 'one.test', ports[1]);
    const second = await served(asked, 'one.test');
    expect(second.fingerprint256).toBe(first.fingerprint256);
    // A refused nonce brings the same request again; orders are told by where they are finalised.
    const finalised = ca.requests.slice(before).filter(({ endpoint }) => endpoint === 'finalize');
    expect(new Set(finalised.map(({ path }) => path)).size).toBe(1);
  });
});

// The whole product with a real CA (Pebble, strict, half of all nonces refused): certificates come by themselves, are renewed,
// revoked, and ordered for configured names only.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionOptions, connect, type PeerCertificate } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { TlsStatus } from '../../src/process/operations.ts';
import type { RenewedCertificate, TlsNameStatus, TlsPlan } from '../../src/process/tls-operations.ts';
import { AcmeShim } from '../support/acme-shim.ts';
import { Pebble } from '../support/pebble.ts';
import { freePorts } from '../support/ports.ts';
import { Turnpike } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';

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
  readonly acme?: string;
  readonly workers?: number;
}

function configOf({ hosts, acme = '', workers = 2 }: ConfigOptions): string {
  const routes = Object.entries(hosts).map(
    ([host, keys]) => `[external_routes."${host}"]\nrespond = { status = 200, body = "${host}" }\n${keys}\n`,
  );
  return `
workers = ${workers}
[entrypoints.web]
address = "127.0.0.1:${web}"
protocol = "http"
public_port = 80
[entrypoints.websecure]
address = "127.0.0.1:${secure}"
protocol = "https"
[tls.acme]
enabled = true
email = "ops@example.org"
resolvers = ["${pebble.dns}"]
${acme}
[[tls.acme.directory]]
url = "${ca.directoryUrl}"
ca_file = "${join(directory, 'ca.pem')}"
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

function shown(name: string, options: ConnectionOptions = {}): Promise<PeerCertificate | string> {
  return new Promise((resolve) => {
    const socket = connect({
      port: secure,
      host: '127.0.0.1',
      servername: name,
      rejectUnauthorized: false,
      ...options,
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

async function served(turnpike: Turnpike, name: string): Promise<PeerCertificate> {
  return until(
    `a certificate for ${name}`,
    async () => {
      const certificate = await shown(name);
      return typeof certificate === 'string' ? null : certificate;
    },
    { timeoutMs: 25_000, everyMs: 100, seen: () => turnpike.output.slice(-3000) },
  );
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
});

// A real certificate authority from Debian (pebble, strict) with a name server that says what a test wants
// (pebble-challtestsrv).
// Invariant: both listen on free loopback ports, and end with `stop`.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mintCa } from '../../certs/make-certs.ts';
import type { Clock } from '../../src/base/clock.ts';
import { systemClock } from '../../src/base/clock.ts';
import { freePorts } from './ports.ts';
import { until } from './wait.ts';

export interface PebbleOptions {
  /** Where the CA looks for http-01 and tls-alpn-01; 0: nowhere. */
  readonly httpPort?: number;
  readonly tlsPort?: number;
  /** Per cent of the good nonces that it refuses. */
  readonly nonceReject?: number;
  readonly alternateRoots?: number;
  /** Per cent of the valid authorizations that it takes again. */
  readonly authzReuse?: number;
  /** Key id → HMAC key, base64url; set: nobody gets an account without one. */
  readonly externalAccounts?: Readonly<Record<string, string>>;
  /** A name server other than its own, `host:port`. */
  readonly dnsServer?: string;
}

export interface Reply {
  readonly status: number;
  readonly text: string;
}

/** Signs for the CA's own HTTPS. */
const webCa = mintCa('Pebble web');

export class Pebble {
  readonly directoryUrl: string;
  /** Trusted for the CA's HTTPS. */
  readonly caPem = webCa.cert;
  /** `host:port` of its name server. */
  readonly dns: string;
  readonly #managementPort: number;
  readonly #dnsManagementPort: number;
  readonly #directory: string;
  readonly #children: readonly ChildProcess[];
  #output = '';

  private constructor(ports: readonly number[], directory: string, children: readonly ChildProcess[]) {
    const [port = 0, managementPort = 0, dnsPort = 0, dnsManagementPort = 0] = ports;
    this.directoryUrl = `https://localhost:${port}/dir`;
    this.dns = `127.0.0.1:${dnsPort}`;
    this.#managementPort = managementPort;
    this.#dnsManagementPort = dnsManagementPort;
    this.#directory = directory;
    this.#children = children;
    for (const child of children) {
      child.stdout?.on('data', (chunk: Buffer) => {
        this.#output = (this.#output + chunk.toString()).slice(-20_000);
      });
      child.stderr?.on('data', (chunk: Buffer) => {
        this.#output = (this.#output + chunk.toString()).slice(-20_000);
      });
    }
  }

  static async start(options: PebbleOptions = {}): Promise<Pebble> {
    const ports = await freePorts(4);
    const [port = 0, managementPort = 0, dnsPort = 0, dnsManagementPort = 0] = ports;
    const directory = mkdtempSync(join(tmpdir(), 'turnpike-pebble-'));
    const web = webCa.leaf({ names: ['localhost', '127.0.0.1'] });
    const file = (name: string, content: string): string => {
      writeFileSync(join(directory, name), content, { mode: 0o600 });
      return join(directory, name);
    };
    const pebble = {
      listenAddress: `127.0.0.1:${port}`,
      managementListenAddress: `127.0.0.1:${managementPort}`,
      certificate: file('cert.pem', web.cert),
      privateKey: file('key.pem', web.key),
      httpPort: options.httpPort ?? 1,
      tlsPort: options.tlsPort ?? 1,
      ocspResponderURL: '',
      externalAccountBindingRequired: options.externalAccounts !== undefined,
      externalAccountMACKeys: options.externalAccounts ?? {},
    };
    const config = file('config.json', JSON.stringify({ pebble }));
    const env = {
      ...process.env,
      PEBBLE_VA_NOSLEEP: '1',
      PEBBLE_WFE_NONCEREJECT: String(options.nonceReject ?? 50),
      PEBBLE_AUTHZREUSE: String(options.authzReuse ?? 0),
      PEBBLE_ALTERNATE_ROOTS: String(options.alternateRoots ?? 0),
    };
    const dnsArgs = ['-dns01', `127.0.0.1:${dnsPort}`, '-management', `127.0.0.1:${dnsManagementPort}`];
    const silent = ['-http01', '', '-https01', '', '-tlsalpn01', '', '-defaultIPv6', ''];
    const stdio = ['ignore', 'pipe', 'pipe'] as const;
    const dnsServer = options.dnsServer ?? `127.0.0.1:${dnsPort}`;
    const children = [
      spawn('pebble', ['-config', config, '-strict', '-dnsserver', dnsServer], { env, stdio: [...stdio] }),
      spawn('pebble-challtestsrv', [...dnsArgs, ...silent], { stdio: [...stdio] }),
    ];
    const running = new Pebble(ports, directory, children);
    for (const child of children) {
      child.on('error', (error) => {
        running.#output += `${error.message}: node scripts/prepare-tests.ts\n`;
      });
    }
    const answers = async (): Promise<boolean> => {
      const reply = await running.get(running.directoryUrl).catch(() => null);
      const records = await running.#dnsAsk('clear-txt', { host: 'start.test.' }).catch(() => false);
      return reply?.status === 200 && records !== false;
    };
    await until('pebble', answers, { timeoutMs: 30_000, everyMs: 30, seen: () => running.#output });
    return running;
  }

  get output(): string {
    return this.#output;
  }

  /** Roots that it signs with, PEM; each under another name. */
  async root(index = 0): Promise<string> {
    return (await this.get(`https://localhost:${this.#managementPort}/roots/${index}`)).text;
  }

  /** What it says of a certificate: `Valid` or `Revoked`. */
  async statusOf(serialHex: string): Promise<string> {
    const url = `https://localhost:${this.#managementPort}/cert-status-by-serial/${serialHex.toLowerCase()}`;
    const { text } = await this.get(url);
    return (JSON.parse(text) as { Status: string }).Status;
  }

  setTxt(record: string, value: string): Promise<void> {
    return this.#dnsAsk('set-txt', { host: `${record}.`, value });
  }

  clearTxt(record: string): Promise<void> {
    return this.#dnsAsk('clear-txt', { host: `${record}.` });
  }

  setCname(record: string, target: string): Promise<void> {
    return this.#dnsAsk('set-cname', { host: `${record}.`, target: `${target}.` });
  }

  /** URL to set TXT records by. */
  get dnsManagementUrl(): string {
    return `http://127.0.0.1:${this.#dnsManagementPort}`;
  }

  get(url: string): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const asked = request(url, { ca: webCa.cert, agent: false, family: 4 }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      });
      asked.on('error', reject);
      asked.end();
    });
  }

  async stop(): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.pid === undefined) continue;
      const ended = new Promise((resolve) => child.once('close', resolve));
      child.kill('SIGKILL');
      await ended;
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }

  async #dnsAsk(what: string, body: object): Promise<void> {
    const url = `http://127.0.0.1:${this.#dnsManagementPort}/${what}`;
    const reply = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
    await reply.arrayBuffer();
    if (reply.status !== 200) throw new Error(`${what}: ${reply.status}`);
  }
}

/** For {@link fastClock}: nothing ends because the machine is busy. */
export const patientTimings = { requestMs: 900_000, validationMs: 900_000, issuanceMs: 900_000 } as const;

/** A clock that runs so many times faster, for what waits as long as a CA asks for. */
export function fastClock(times: number): Clock {
  const start = systemClock.monotonic();
  return {
    now: () => systemClock.now(),
    monotonic: () => start + (systemClock.monotonic() - start) * times,
    after: (ms, fn) => systemClock.after(ms / times, fn),
    every: (ms, fn) => systemClock.every(ms / times, fn),
  };
}

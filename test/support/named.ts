// BIND on a free loopback port with zones that a key may change: the server that dynamic updates are tested against.
// Invariant: runs out of a directory of its own, and ends with `stop`.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { Resolver } from 'node:dns/promises';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './ports.ts';
import { until } from './wait.ts';

export class Named {
  readonly port: number;
  readonly keyName = 'turnpike-key';
  /** Holds the secret of the key. */
  readonly keyFile: string;
  readonly #directory: string;
  readonly #child: ChildProcess;

  private constructor(port: number, directory: string, child: ChildProcess) {
    this.port = port;
    this.#directory = directory;
    this.#child = child;
    this.keyFile = join(directory, 'secret');
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** @param zones  zone → records, one a line; SOA and NS are added, the name server is ns.ZONE at 127.0.0.1 */
  static async start(zones: Readonly<Record<string, readonly string[]>>): Promise<Named> {
    const port = await freePort();
    const directory = mkdtempSync(join(tmpdir(), 'turnpike-named-'));
    chmodSync(directory, 0o755);
    const secret = randomBytes(32).toString('base64');
    writeFileSync(join(directory, 'secret'), `${secret}\n`, { mode: 0o600 });
    const parts = [
      `options { directory "${directory}"; listen-on port ${port} { 127.0.0.1; }; listen-on-v6 { none; };`,
      'recursion no; dnssec-validation no; pid-file none; session-keyfile none; notify no; };',
      'controls { };',
      `key "turnpike-key" { algorithm hmac-sha256; secret "${secret}"; };`,
    ];
    for (const [zone, records] of Object.entries(zones)) {
      const lines = [
        '$TTL 1',
        `@ SOA ns.${zone}. hostmaster.${zone}. 1 3600 600 86400 1`,
        `@ NS ns.${zone}.`,
        'ns A 127.0.0.1',
        ...records,
      ];
      writeFileSync(join(directory, `${zone}.zone`), `${lines.join('\n')}\n`);
      parts.push(
        `zone "${zone}" { type primary; file "${zone}.zone"; update-policy { grant turnpike-key zonesub TXT; }; };`,
      );
    }
    writeFileSync(join(directory, 'named.conf'), `${parts.join('\n')}\n`);
    let output = '';
    const child = spawn('/usr/sbin/named', ['-g', '-n', '1', '-c', join(directory, 'named.conf')], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child.on('error', (error) => {
      output += error.message;
    });
    child.stderr.on('data', (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-5000);
    });
    const named = new Named(port, directory, child);
    const [first = ''] = Object.keys(zones);
    const isUp = async (): Promise<boolean> => (await named.txt(first)) !== null;
    await until('named', isUp, { timeoutMs: 30_000, everyMs: 50, seen: () => output });
    return named;
  }

  /** Values of a TXT record as the server has them now; null: it does not answer. */
  async txt(name: string): Promise<readonly string[] | null> {
    const resolver = new Resolver({ timeout: 500, tries: 1 });
    resolver.setServers([this.address]);
    try {
      return (await resolver.resolveTxt(name)).map((strings) => strings.join(''));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      return code === 'ENODATA' || code === 'ENOTFOUND' ? [] : null;
    }
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode === null) {
      const ended = new Promise((resolve) => this.#child.once('close', resolve));
      this.#child.kill('SIGKILL');
      await ended;
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

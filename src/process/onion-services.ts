// Onion services of ports: made through Tor's control port, made again whenever Tor comes back.
// Invariant: a port keeps its address for as long as its key file is there; keys are on disk before anybody is told of an
// address, and only this user can read them.
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomically } from '../base/atomic-file.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import type { DeclaredTor } from '../config/declared-gate.ts';
import { TorControl } from './tor-control.ts';

export interface WantedOnion {
  readonly app: string;
  readonly port: number;
  /** Where Tor leads its clients, "127.0.77.1:3001". */
  readonly target: string;
}

export interface OnionStatus {
  readonly address: string | null;
  /** Why it has none; null: it has one, or will in a moment. */
  readonly fault: string | null;
}

const firstRetryMs = 2000;
const longestRetryMs = 60_000;

export class OnionServices {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #directory: string;
  #declared: DeclaredTor | null = null;
  #wanted: readonly WantedOnion[] = [];
  #control: TorControl | null = null;
  /** Id by port of an app, on this connection. */
  readonly #served = new Map<string, string>();
  #fault: string | null = null;
  #work: Promise<void> = Promise.resolve();
  #retry: Timer | null = null;
  #retryMs = firstRetryMs;
  #closed = false;

  constructor(clock: Clock, log: Log, stateDir: string) {
    this.#clock = clock;
    this.#log = log;
    this.#directory = join(stateDir, 'onion');
  }

  /** These ports are to have an onion service from now on. */
  follow(declared: DeclaredTor | null, wanted: readonly WantedOnion[]): void {
    const same = JSON.stringify(declared) === JSON.stringify(this.#declared);
    if (same && JSON.stringify(wanted) === JSON.stringify(this.#wanted)) return;
    this.#declared = declared;
    this.#wanted = wanted;
    if (!same) this.#hangUp();
    this.#settleSoon();
  }

  statusOf(app: string, port: number): OnionStatus {
    const id = this.#served.get(keyOf({ app, port }));
    return { address: id === undefined ? null : `${id}.onion`, fault: id === undefined ? this.#fault : null };
  }

  close(): void {
    this.#closed = true;
    this.#hangUp();
    this.#retry?.cancel();
  }

  #hangUp(): void {
    const control = this.#control;
    this.#control = null;
    this.#served.clear();
    control?.close();
  }

  #settleSoon(): void {
    this.#retry?.cancel();
    this.#retry = null;
    this.#work = this.#work.then(() => this.#settle());
  }

  async #settle(): Promise<void> {
    try {
      await this.#serve();
      this.#fault = null;
      this.#retryMs = firstRetryMs;
    } catch (error) {
      this.#hangUp();
      const why = error instanceof Error ? error.message : String(error);
      if (this.#fault !== why) this.#log.warn('onion-services-failed', { why });
      this.#fault = why;
      this.#again();
    }
  }

  async #serve(): Promise<void> {
    if (this.#declared === null || this.#wanted.length === 0 || this.#closed) {
      this.#hangUp();
      return;
    }
    const control = this.#control ?? (await this.#open(this.#declared));
    const wanted = new Map(this.#wanted.map((each) => [keyOf(each), each]));
    for (const [key, id] of this.#served) {
      if (wanted.has(key)) continue;
      await control.removeOnion(id);
      this.#served.delete(key);
    }
    for (const [key, { target, app, port }] of wanted) {
      if (this.#served.has(key)) continue;
      const file = join(this.#directory, `${encodeURIComponent(app)}-${port}.key`);
      const known = await readKey(file);
      const { id, key: made } = await control.addOnion(known, target);
      if (known === null && made !== null) {
        await mkdir(this.#directory, { recursive: true, mode: 0o700 });
        await writeFileAtomically(file, `${made}\n`, 0o600);
      }
      this.#served.set(key, id);
      this.#log.info('onion-service', { app, port, address: `${id}.onion` });
    }
  }

  async #open(declared: DeclaredTor): Promise<TorControl> {
    const control = await TorControl.open(declared, () => {
      if (this.#control !== control) return;
      this.#control = null;
      this.#served.clear();
      this.#fault = 'Tor closed the control connection';
      this.#again();
    });
    this.#control = control;
    return control;
  }

  #again(): void {
    if (this.#closed || this.#retry !== null) return;
    this.#retry = this.#clock.after(this.#retryMs, () => {
      this.#retry = null;
      this.#settleSoon();
    });
    this.#retryMs = Math.min(this.#retryMs * 2, longestRetryMs);
  }
}

const keyOf = ({ app, port }: Pick<WantedOnion, 'app' | 'port'>): string => `${app} ${port}`;

/** Null: there is none yet. A file that holds something else is not overwritten: it was somebody's address. */
async function readKey(file: string): Promise<string | null> {
  let text: string;
  try {
    text = (await readFile(file, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  if (!/^ED25519-V3:[A-Za-z0-9+/=]{86,90}$/.test(text)) {
    throw new Error(`${file} holds no key of an onion service: restore it, or remove it for a new address`);
  }
  return text;
}

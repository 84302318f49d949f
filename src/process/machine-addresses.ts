// The addresses by which others reach this machine, followed as interfaces come and go, and who listens on a port.
// Invariant: loopback and link-local addresses are never among them, nor those of interfaces that the operator skips.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import type { Clock, Timer } from '../base/clock.ts';
import { canonicalHost } from '../model/host.ts';
import type { Surroundings } from './gate-ports.ts';

const pollMs = 2000;

/** @param skip  names of interfaces, or beginnings of names with a star at the end */
export function surroundings(skip: readonly string[], interfaces = networkInterfaces()): Surroundings {
  const addresses = new Set<string>();
  for (const [name, rows = []] of Object.entries(interfaces)) {
    if (skip.some((pattern) => covers(pattern, name))) continue;
    for (const { address, internal } of rows) if (!internal && !isLinkLocal(address)) addresses.add(address);
  }
  const own = canonicalHost(hostname());
  const names = own === null || own === 'localhost' ? ['localhost'] : ['localhost', own];
  if (own !== null && own !== 'localhost' && !own.includes('.')) names.push(`${own}.local`);
  return { addresses: [...addresses].sort(), names };
}

function covers(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

/** RFC 4291 §2.5.6 and RFC 3927: they mean something on one link only. */
function isLinkLocal(address: string): boolean {
  return /^fe[89ab]/i.test(address) || address.startsWith('169.254.');
}

/** Calls when the addresses are others than before, or when `retry` asks for another try. */
export class AddressWatch {
  readonly #timer: Timer;
  #last = '';

  constructor(clock: Clock, look: () => Surroundings, retry: () => boolean, onChange: () => void) {
    this.#last = JSON.stringify(look());
    this.#timer = clock.every(pollMs, () => {
      const now = JSON.stringify(look());
      if (now === this.#last && !retry()) return;
      this.#last = now;
      onChange();
    });
  }

  close(): void {
    this.#timer.cancel();
  }
}

export interface PortListener {
  /** '' is every address. */
  readonly address: string;
  readonly inode: string;
}

/** Sockets of this machine that listen on a TCP port. Empty where /proc does not tell. */
export function listenersOf(port: number, proc = '/proc'): readonly PortListener[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return ['tcp', 'tcp6'].flatMap((table) => {
    const lines = readText(`${proc}/net/${table}`).split('\n').slice(1);
    return lines.flatMap((line): PortListener[] => {
      const cells = line.trim().split(/\s+/);
      const [, local = '', , state] = cells;
      if (state !== '0A' || !local.endsWith(suffix)) return [];
      return [{ address: addressOf(local.slice(0, -suffix.length)), inode: cells[9] ?? '' }];
    });
  });
}

/** "nginx (pid 812)" for the sockets with these inodes, as far as this process may look. */
export function holdersOf(inodes: ReadonlySet<string>, proc = '/proc'): readonly string[] {
  const holders = new Set<string>();
  for (const pid of names(proc)) {
    if (!/^\d+$/.test(pid)) continue;
    for (const fd of names(`${proc}/${pid}/fd`)) {
      const inode = /^socket:\[(\d+)\]$/.exec(linkOf(`${proc}/${pid}/fd/${fd}`))?.[1];
      if (inode === undefined || !inodes.has(inode)) continue;
      holders.add(`${readText(`${proc}/${pid}/comm`).trim()} (pid ${pid})`);
      break;
    }
  }
  return [...holders].sort();
}

/** As the kernel prints it: words of the machine's own byte order. */
function addressOf(hex: string): string {
  const bytes = (hex.match(/.{8}/g) ?? []).flatMap((word) => [...Buffer.from(word, 'hex')].reverse());
  if (bytes.every((byte) => byte === 0)) return '';
  if (bytes.length === 4) return bytes.join('.');
  const mapped = bytes.slice(0, 12).join() === '0,0,0,0,0,0,0,0,0,0,255,255';
  if (mapped) return bytes.slice(12).join('.');
  const groups = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i]! << 8) | bytes[2 * i + 1]!).toString(16));
  return canonicalHost(`[${groups.join(':')}]`)?.slice(1, -1) ?? groups.join(':');
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function names(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function linkOf(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    return '';
  }
}

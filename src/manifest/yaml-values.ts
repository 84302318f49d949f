// Values that only YAML manifests have: plain numbers, memory sizes, KEY=value, templates, mounts, host addresses.
// Invariant: what is read is canonical; a number is spelled in one way only, so that no two readers see different ones.
import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { parseDuration, parseSize } from '../base/units.ts';
import { either, type Form, quote, Refusal, text } from '../config/form.ts';
import { count } from '../config/values.ts';
import type { Variable } from './app.ts';
import { judgeVariable } from './names.ts';
import { refuseAbsolutePath } from './values.ts';

// ---- numbers ---------------------------------------------------------------------------------------------------

/** Decimal, without a sign, leading zeros, `0o` or `0x`: YAML 1.1 reads 010 as 8, YAML 1.2 as 10. */
export function whole(least: number, most: number): Form<number> {
  const form = count(least, most);
  return {
    ...form,
    read(node, path, findings) {
      if (node.kind === 'integer' && !/^-?(?:0|[1-9][0-9]*)$/.test(node.raw)) {
        findings.error(path, `${quote(node.raw)} is read as different numbers by different programs`, form.accepts);
        return undefined;
      }
      return form.read(node, path, findings);
    },
  };
}

export const hostPort: Form<number> = whole(1, 65535);

const memoryUnits: Readonly<Record<string, number>> = { b: 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4 };

/** Container engines write "512m" for 512 MiB. */
export const memory: Form<number> = text('a size like "512m", "2g" or "512MiB"', (value) => {
  const short = /^(\d{1,15})([bkmgt])$/i.exec(value);
  const bytes = short === null ? parseSize(value) : Number(short[1]) * memoryUnits[short[2]!.toLowerCase()]!;
  if (bytes === null || !Number.isSafeInteger(bytes)) return new Refusal(`${quote(value)} is not a size with a unit`);
  return bytes < 1 ? new Refusal(`${quote(value)} is nothing`) : bytes;
});

export const span: Form<number> = text('a duration like "30s"', (value) => {
  const ms = parseDuration(value);
  if (ms === null) return new Refusal(`${quote(value)} is not a duration with a unit`);
  return ms < 100 || ms > 86_400_000 ? new Refusal(`${quote(value)} is not from 100ms to 1d`) : ms;
});

// ---- environment -----------------------------------------------------------------------------------------------

/** `KEY=value`; the value may be empty. It is not repeated. */
export const assignment: Form<Variable> = text(
  'KEY=value',
  (value) => {
    const equals = value.indexOf('=');
    if (equals < 0) return new Refusal('has no "="', 'KEY=value; for a secret, container.secret_env');
    const refusal = judgeVariable(value.slice(0, equals));
    if (refusal !== null) return refusal;
    if (/[\r\n\0]/.test(value)) return new Refusal('has a line break or a NUL character', 'text on one line');
    return { name: value.slice(0, equals), value: value.slice(equals + 1) };
  },
  { pattern: '^[A-Za-z_][A-Za-z0-9_]*=' },
);

export const placeholders = ['HOST_IP', 'HOST_MDNS', 'DISK_GB', 'BITCOIN_HOST'] as const;

const templateAccepts = `text with ${placeholders.map((each) => `{{${each}}}`).join(', ')}`;

/** Every `{{` has its `}}`, and between them stands one of the placeholders and nothing else. */
export const template: Form<string> = text(templateAccepts, (value) => {
  if (value.length > 4096) return new Refusal('is longer than 4096 characters');
  if (/[\r\n\0]/.test(value)) return new Refusal('has a line break or a NUL character');
  const rest = value.replaceAll(/\{\{(.*?)\}\}/g, (written, name: string) =>
    (placeholders as readonly string[]).includes(name) ? '' : written,
  );
  const unknown = /\{\{(.*?)\}\}/.exec(rest);
  if (unknown !== null) return new Refusal(`${quote(unknown[0])} is not a placeholder`);
  return /\{\{|\}\}/.test(rest) ? new Refusal('has braces without their counterpart') : value;
});

// ---- ports -----------------------------------------------------------------------------------------------------

/** `` is every address; IPv6 is compressed (RFC 5952). */
export const bindAddress: Form<string> = text(
  '"127.0.0.1", "192.0.2.7", "::1", or empty for every address',
  (value) => {
    if (value === '' || value === '0.0.0.0') return '';
    const bare = value.replace(/^\[(.*)\]$/, '$1');
    if (isIPv4(bare)) return bare;
    if (isIPv6(bare) && !bare.includes('%')) return ipaddr.process(bare).toString();
    const hint = value === 'localhost' ? '"127.0.0.1"' : null;
    return new Refusal(`${quote(value)} is not an IP address`, hint);
  },
);

export function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}

// ---- files and mounts ------------------------------------------------------------------------------------------

export const devicePath: Form<string> = text(
  'the path of a device, like "/dev/ttyUSB0"',
  (value) => {
    const refusal = refuseAbsolutePath(value);
    if (refusal !== null) return refusal;
    return value.startsWith('/dev/') ? value : new Refusal(`${quote(value)} is not under /dev/`);
  },
  { pattern: '^/dev/.' },
);

/** Below a root that is not named; no way out of it. */
export const relativePath: Form<string> = text(
  'a relative path without "..", like "web-ui/app.js"',
  (value) => {
    if (value === '') return new Refusal('is empty');
    if (value.startsWith('/')) return new Refusal(`${quote(value)} is absolute`);
    if (/[\x00-\x1f\x7f\\:]/.test(value)) return new Refusal(`${quote(value)} has characters that no path here has`);
    const parts = value.split('/');
    if (parts.includes('..')) return new Refusal(`${quote(value)} leads upwards`);
    return parts.includes('') || parts.includes('.') ? new Refusal(`${quote(value)} is not normalised`) : value;
  },
  { minLength: 1, pattern: '^(?!/)(?!.*(?:^|/)\\.\\.(?:/|$)).*$' },
);

/** What Docker and Podman both understand in "source:target:options", and exclude each other in a row. */
const bindOptions: readonly (readonly string[])[] = [
  ['rw', 'ro'],
  ['z', 'Z'],
  ['shared', 'rshared', 'slave', 'rslave', 'private', 'rprivate'],
];

export const bindOption: Form<string> = text(
  bindOptions.flat().join(', '),
  (value) => (bindOptions.flat().includes(value) ? value : new Refusal(`${quote(value)} is not a mount option`)),
  { enum: bindOptions.flat() },
);

/** Two options that cannot both hold, or null. */
export function contradiction(options: readonly string[]): readonly string[] | null {
  for (const group of bindOptions) {
    const chosen = options.filter((each) => group.includes(each));
    if (chosen.length > 1) return chosen;
  }
  return null;
}

const tmpfsWords = ['rw', 'ro', 'exec', 'noexec', 'suid', 'nosuid', 'dev', 'nodev'];

/** `rw,noexec,nosuid,size=256m` */
export const tmpfsOptions: Form<readonly string[]> = text(
  `words with commas between them: ${tmpfsWords.join(', ')}, size=256m, mode=1777, uid=0, gid=0`,
  (value) => {
    const options = value.split(',');
    const wrong = options.find(
      (each) => !tmpfsWords.includes(each) && !/^(?:size=\d+[kmg%]?|mode=[0-7]{3,4}|[ug]id=\d+)$/i.test(each),
    );
    return wrong === undefined ? options : new Refusal(`${quote(wrong)} is not an option of a tmpfs`);
  },
);

/** A name of a network, or a mode of the engine without options. */
export const networkName: Form<string> = text('the name of a network, or "host"', (value) => {
  if (/^(?:container|ns):/.test(value)) {
    return new Refusal(`${quote(value)} joins a network that belongs to something else`);
  }
  if (value.includes(':')) return new Refusal(`${quote(value)} has options, which are not supported`);
  return /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/.test(value) ? value : new Refusal(`${quote(value)} is not a network`);
});

export const networkAlias: Form<string> = text('a DNS name like "api"', (value) =>
  /^[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?)*$/i.test(value.slice(0, 256))
    ? value.toLowerCase()
    : new Refusal(`${quote(value)} is not a DNS name`),
);

/** Null is written out as null. */
export function nullable<T>(form: Form<T>): Form<T | null> {
  return either<T | null>(`${form.accepts}, or null`, {
    string: form,
    null: { accepts: 'null', keys: null, members: null, json: { type: 'null' }, read: () => null },
  });
}

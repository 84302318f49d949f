// The other values of manifests, both formats: paths in containers, variables, readiness, listeners, images.
// Invariant: what is read is canonical, and a refusal never repeats what may be a secret.
import { isIPv4 } from 'node:net';
import { type Form, list, quote, Refusal, text } from '../config/form.ts';
import { duration, type ListenAddress, listenAddress } from '../config/values.ts';
import { canonicalHost, isAddressLiteral } from '../model/host.ts';
import { type ImageReference, imageForm, parseImage } from './image.ts';
import { unrepeated } from './unrepeated.ts';

// ---- paths -----------------------------------------------------------------------------------------------------

/** Absolute, without empty, `.` and `..` parts, and without a slash at the end. */
export function refuseAbsolutePath(value: string): Refusal | null {
  if (!value.startsWith('/')) return new Refusal(`${quote(value)} is not absolute`, 'a path that begins with "/"');
  if (value.length > 4096) return new Refusal('is longer than 4096 characters');
  if (/[\x00-\x1f\x7f]/.test(value)) return new Refusal('has control characters');
  // Engines take "source:target:options" apart at the colons.
  if (/[:,]/.test(value)) return new Refusal(`${quote(value)} has a colon or a comma`, 'a path without them');
  if (/\/\/|\/\.{1,2}(?:\/|$)/.test(value) || (value !== '/' && value.endsWith('/'))) {
    return new Refusal(
      `${quote(value)} is not normalised`,
      'a path without "//", "/./", "/../" and a slash at the end',
    );
  }
  return null;
}

const absolutePattern = '^/(?!.*//)(?!.*/\\.{1,2}(?:/|$))[^:,]*$';

export const absolutePath: Form<string> = text(
  'an absolute, normalised path like "/data"',
  (value) => refuseAbsolutePath(value) ?? value,
  { pattern: absolutePattern },
);

/** The container needs these for itself. */
const reservedTargets = ['/proc', '/sys', '/dev', '/boot'];

export function isAtOrUnder(path: string, directory: string): boolean {
  return path === directory || path.startsWith(directory === '/' ? '/' : `${directory}/`);
}

export const mountTarget: Form<string> = text(
  'an absolute, normalised path in the container like "/data", not at "/" and not at or under /proc, /sys, /dev or /boot',
  (value) => {
    const refusal = refuseAbsolutePath(value);
    if (refusal !== null) return refusal;
    if (value === '/') return new Refusal('"/" is the container itself');
    const reserved = reservedTargets.find((each) => isAtOrUnder(value, each));
    return reserved === undefined ? value : new Refusal(`${quote(value)} is reserved: ${reserved}`);
  },
  { pattern: absolutePattern, not: { pattern: '^/(?:(?:proc|sys|dev|boot)(?:/.*)?)?$' } },
);

// ---- environment -----------------------------------------------------------------------------------------------

const largestValue = 64 * 1024;

const variableValueAccepts = 'text of 1 byte to 64 KiB on one line; for anything confidential, a secret';

/** Values are public, and still not repeated: somebody may have put a password there. */
export const variableValue: Form<string> = unrepeated(
  text(
    variableValueAccepts,
    (value) => {
      if (value === '') return new Refusal('is empty');
      if (Buffer.byteLength(value) > largestValue) return new Refusal('is larger than 64 KiB');
      if (/[\r\n]/.test(value)) return new Refusal('has a line break');
      if (value.includes('\0')) return new Refusal('has a NUL character');
      const reference = /\$\{(?:pass|secrets?|sops|vault|op|bw|env|file):/i.exec(value);
      return reference === null ? value : new Refusal('refers to a secret', 'the secret under [services.NAME.secrets]');
    },
    { minLength: 1, pattern: '^[^\\r\\n]*$' },
  ),
  ['string'],
  'is not text',
);

/** Arguments of a program. */
export const commandLine: Form<readonly string[]> = list(
  'a list of the program and its arguments, like ["node", "server.js"]',
  text('text without NUL characters', (value) => (value.includes('\0') ? new Refusal('has a NUL character') : value)),
  { least: 1 },
);

// ---- readiness -------------------------------------------------------------------------------------------------

const probeAccepts = 'a path that begins with a single "/", like "/healthz?probe=1"';

/** Origin-form (RFC 9112 §3.2.1): what could name another server is refused. */
export function refuseProbePath(value: string): Refusal | null {
  if (value === '') return new Refusal('is empty');
  if (/[\x00-\x1f\x7f]/.test(value)) return new Refusal('has control characters');
  if (/^[a-z][a-z0-9+.-]*:/i.test(value)) return new Refusal(`${quote(value)} is a URL`, probeAccepts);
  if (value.startsWith('//')) return new Refusal(`${quote(value)} names a server`, probeAccepts);
  if (!value.startsWith('/')) return new Refusal(`${quote(value)} does not begin with "/"`);
  if (value.includes('#')) return new Refusal(`${quote(value)} has a fragment`);
  if (value.includes('\\')) return new Refusal(`${quote(value)} has a backslash`);
  if (/^[\x21-\x7e]+$/.test(value)) return null;
  return new Refusal(`${quote(value)} has characters that a request cannot carry`, 'them percent-encoded');
}

export const probePath: Form<string> = text(probeAccepts, (value) => refuseProbePath(value) ?? value, {
  pattern: '^/(?!/)[!-"$-\\[\\]-~]*$',
});

export const readinessTimeout: Form<number> = duration({ least: 1000, most: 600_000 });
export const stopGrace: Form<number> = duration({ least: 1, most: 300_000 });

// ---- interfaces ------------------------------------------------------------------------------------------------

const hostAccepts = 'a public host name like "blog.example.com"';

/** Endings that never lead to this machine from outside. */
const privateEndings = ['.local', '.internal', '.localhost'];

export const publicHost: Form<string> = text(hostAccepts, (value) => {
  if (value === '') return new Refusal('is empty');
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(value)) return new Refusal(`${quote(value)} is a URL`, 'only the host');
  if (/[,\s]/.test(value)) return new Refusal(`${quote(value)} is not one host`, 'one [[…http]] table for each host');
  if (value.includes('/')) return new Refusal(`${quote(value)} has a path`, 'only the host');
  if (value.includes('*')) return new Refusal(`${quote(value)} is a pattern`);
  const host = canonicalHost(value);
  if (host === null) {
    return /:\d*$/.test(value)
      ? new Refusal(`${quote(value)} has a port`, 'only the host; the entrypoints decide the port')
      : new Refusal(`${quote(value)} is not a host name`);
  }
  if (isAddressLiteral(host) || isIPv4(host) || /^[\d.]+$/.test(host)) {
    return new Refusal(`${quote(value)} is an address`);
  }
  if (host.includes('_')) return new Refusal(`${quote(value)} has an underscore`);
  if (!host.includes('.') || host.startsWith('localhost.')) return new Refusal(`${quote(value)} is no public host`);
  const ending = privateEndings.find((each) => host.endsWith(each));
  return ending === undefined ? host : new Refusal(`${quote(value)} is no public host: ${ending} is private`);
});

/** `25565`, `0.0.0.0:25565`, `127.0.0.1:25565`, `[::1]:25565`; `::` is told from `0.0.0.0` by whoever compares. */
export interface WrittenListener extends ListenAddress {
  readonly everyIPv6: boolean;
}

const listenerAccepts = '"0.0.0.0:25565" or "25565" for every address, "127.0.0.1:25565", "[::1]:25565"';

/** The same grammar as an entrypoint's address, and a bare port. */
export const listener: Form<WrittenListener> = {
  accepts: listenerAccepts,
  keys: null,
  members: null,
  json: { type: 'string' },
  read(node, path, findings) {
    const written = node.kind === 'string' && /^\d+$/.test(node.value) ? `:${node.value}` : null;
    const full = written === null ? node : ({ kind: 'string', value: written, raw: written } as const);
    const address = listenAddress.read(full, path, findings);
    if (address === undefined) return undefined;
    return { ...address, everyIPv6: address.host === '' && node.kind === 'string' && node.value.startsWith('[') };
  },
};

export const image: Form<ImageReference> = text(
  imageForm,
  (value) => {
    const parsed = parseImage(value);
    return parsed.ok ? parsed.image : new Refusal(`${quote(value)} ${parsed.why}`, parsed.accepted);
  },
  { minLength: 1, pattern: '^(?!.*://).*$' },
);

/** Any text on one line, for showing. */
export const oneLine: Form<string> = text(
  'text on one line, at most 256 characters',
  (value) => {
    if (value === '') return new Refusal('is empty');
    return value.length > 256 || /[\x00-\x1f\x7f]/.test(value) ? new Refusal('is not text on one line') : value;
  },
  { minLength: 1, maxLength: 256 },
);

/** For showing: nothing that a terminal would take for a command. */
export const anyText: Form<string> = text('text, line breaks and tabs included', (value) =>
  /[\x00-\x08\x0b-\x1f\x7f]/.test(value) ? new Refusal('has control characters') : value,
);

/** Text that is judged elsewhere, but has to be there. */
export function someText(accepts: string): Form<string> {
  return text(accepts, (value) => (value === '' ? new Refusal('is empty') : value), { minLength: 1 });
}

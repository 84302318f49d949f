// Scalar forms of what lies outside this program: URLs, origins, name servers, programs, files with secrets.
// Invariant: what is read is canonical; nothing is looked up or opened here.
import { isIP, isIPv6 } from 'node:net';
import { type Form, list, quote, Refusal, text } from './form.ts';
import { filePath } from './values.ts';

/** Read by its owner only (files.ts sees to that). */
export const secretFile: Form<string> = filePath;

/** Plain http only where nobody is in between. */
export const httpUrl: Form<string> = text('a URL like "https://ca.example.com/directory"', (value) => {
  const url = URL.parse(value);
  if (url === null || !/^https?:$/.test(url.protocol)) return new Refusal(`${quote(value)} is not a URL`);
  if (url.username !== '' || url.password !== '') return new Refusal('the URL holds a password', 'a URL without one');
  if (url.hash !== '') return new Refusal(`${quote(value)} has a fragment`);
  return url.protocol === 'https:' || isLoopbackHost(url.hostname)
    ? url.href
    : new Refusal(`${quote(value)} is not protected on its way`, 'https://, or http:// to a loopback address');
});

export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1');
  return bare === 'localhost' || bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'));
}

/** An origin as browsers send it (RFC 6454 §6.2). */
export const webOrigin: Form<string> = text('an origin like "https://home.example.com"', (value) => {
  const url = URL.parse(value);
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname.includes('*')) {
    return new Refusal(`${quote(value)} is not an origin`);
  }
  return value.replace(/\/$/, '').toLowerCase() === url.origin
    ? url.origin
    : new Refusal(`${quote(value)} is not spelled as browsers send it`, `"${url.origin}"`);
});

/** `host:port`; the port is 53 when left out. A name would need a name server to be found. */
export const nameServer: Form<string> = text(
  'an address like "1.1.1.1", "9.9.9.9:53" or "[2620:fe::fe]:53"',
  (value) => {
    const [, bracketed, plain, port = '53'] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(value) ?? [];
    const host = bracketed ?? plain ?? '';
    if (isIPv6(value)) return new Refusal('an IPv6 address needs brackets', `"[${value}]"`);
    const right = bracketed === undefined ? isIP(host) === 4 : isIP(host) === 6 && !host.includes('%');
    if (!right || Number(port) < 1 || Number(port) > 65535) return new Refusal(`${quote(value)} is not a name server`);
    return bracketed === undefined ? `${host}:${Number(port)}` : `[${host.toLowerCase()}]:${Number(port)}`;
  },
);

/** Program and arguments: no shell takes part, so nothing in them has a meaning of its own. */
export const command: Form<readonly string[]> = list(
  'a list of a program and its arguments, like ["/usr/bin/systemctl", "start", "blog"]',
  text('text', (value) => (value.includes('\0') ? new Refusal('holds a NUL') : value)),
  { least: 1 },
);

// Which names are to have a certificate from an authority.
// Invariant: pure, and only names that are configured: what a client asks for never causes an order.
import { isIP, isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';
import { endsTls } from '../model/entrypoint-protocol.ts';
import type { DeclaredAcme } from './declared-acme.ts';
import type { Config } from './schema.ts';
import type { Path } from './syntax.ts';
import { parsePattern } from './values.ts';

/** Names that no public authority signs for: special use (RFC 6761, RFC 6762, RFC 8375, RFC 9476) and home-grown. */
const privateSuffixes = 'localhost local internal home.arpa onion alt test example invalid lan home corp'.split(' ');

/**
 * Whether an authority could know this name: "*" is none, and an authority without a root of its own signs for public
 * names only. Public addresses are signed for by some, so a host must ask for it (`certificate = "acme"`).
 */
export function isOrderable(name: string, acme: Pick<DeclaredAcme, 'directories'>): boolean {
  return couldBeOrdered(
    name,
    acme.directories.some(({ ca }) => ca !== null),
  );
}

function couldBeOrdered(name: string, privateAuthority: boolean): boolean {
  if (name === '*') return false;
  if (privateAuthority) return true;
  const bare = name.replace(/^\*\./, '');
  if (isAddress(bare) || !bare.includes('.')) return false;
  return !privateSuffixes.some((suffix) => bare === suffix || bare.endsWith(`.${suffix}`));
}

export function isAddress(name: string): boolean {
  return addressIn(name) !== null;
}

function addressIn(name: string): string | null {
  const bare = name.replace(/^\[(.*)\]$/, '$1');
  return isIP(bare) === 0 ? null : bare;
}

/** True for an address that means the same machine everywhere. */
export function isPublicAddress(name: string): boolean {
  const address = addressIn(name);
  if (address === null) return false;
  const parsed = isIPv4(address) ? ipaddr.IPv4.parse(address) : ipaddr.IPv6.parse(address);
  return parsed.range() === 'unicast';
}

export interface WantedName {
  readonly name: string;
  readonly path: Path;
}

/** Names of the file that want a certificate by ACME, each once, in its order. */
export function wantedNames(config: Config): readonly WantedName[] {
  const wanted = new Map<string, Path>();
  const privateAuthority = config.tls.acme.directory.some(({ value }) => value.ca_file !== null);
  const add = (name: string, path: Path, asked: boolean): void => {
    if (wanted.has(name) || name === '*') return;
    if (asked || couldBeOrdered(name, privateAuthority)) wanted.set(name, path);
  };
  const secure = new Set([...config.entrypoints].filter(([, each]) => endsTls(each.protocol)).map(([name]) => name));
  for (const [key, host] of config.external_routes) {
    const reached = host.entrypoints?.some((name) => secure.has(name)) ?? secure.size > 0;
    if (host.tls === 'never' || host.certificate === 'internal' || !reached) continue;
    const path: Path = ['external_routes', key];
    const asked = host.certificate === 'acme';
    const pattern = parsePattern(key);
    if (typeof pattern === 'string') add(pattern, path, asked);
    host.aliases.forEach((alias, i) => {
      add(alias, [...path, 'aliases', i], asked);
    });
  }
  if (config.gate.host !== null && secure.size > 0) add(config.gate.host, ['gate', 'host'], false);
  for (const { index, value } of config.routers.tcp) {
    if (!value.tls) continue;
    const path: Path = ['routers', 'tcp', index];
    for (const name of value.sni ?? []) add(name, path, false);
  }
  return [...wanted].map(([name, path]) => ({ name, path }));
}

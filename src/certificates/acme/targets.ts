// Which names get a certificate from a CA, proven how, signed by whom.
// Invariant: pure; names come from the configuration and from installed apps, never from a client; what the operator has a
// certificate for is left alone.
import { isOrderable } from '../../config/acme-names.ts';
import type { DeclaredAcme } from '../../config/declared-acme.ts';
import { endsTls } from '../../model/entrypoint-protocol.ts';
import { patternCovers } from '../../model/host.ts';
import type { Certificate, RoutingPart } from '../../model/snapshot.ts';
import { chooseChallenge } from './choose-challenge.ts';
import type { RenewalTarget } from './settings.ts';
import { entryId } from './store.ts';

/**
 * @param ofFile  patterns of the hosts in the configuration file: it has said itself which of them want a certificate, so
 *   the other hosts of `routing` are those of apps
 */
export function targetsOf(
  declared: DeclaredAcme,
  routing: Pick<RoutingPart, 'hosts' | 'entrypoints'>,
  ofFile: ReadonlySet<string>,
  ownCertificates: readonly Certificate[],
): readonly RenewalTarget[] {
  const secure = new Set(routing.entrypoints.filter(({ protocol }) => endsTls(protocol)).map(({ name }) => name));
  const ofApps = routing.hosts.filter(
    ({ pattern, tls, entrypoints }) =>
      !ofFile.has(pattern) &&
      (tls === 'auto' || tls === 'always') &&
      entrypoints.some((name) => secure.has(name)) &&
      isOrderable(pattern, declared),
  );
  const wanted = new Set([...declared.targets.map(({ name }) => name), ...ofApps.map(({ pattern }) => pattern)]);
  const names = [...wanted].filter((name) => !ownCertificates.some((own) => covers(own, name)));
  const known = new Set(names);
  const facts = { entrypoints: routing.entrypoints, dnsProvider: declared.dns?.provider.kind ?? null };
  return names.map((name): RenewalTarget => {
    const choice = chooseChallenge(name, declared.challenge, facts);
    const wildcard = name.startsWith('*.') ? null : `*${name.slice(name.indexOf('.'))}`;
    const signing = declared.directories.filter((each) => isOrderable(name, { directories: [each] }));
    // A host that asks for a certificate in so many words is believed.
    const directories = signing.length > 0 ? signing : declared.directories;
    return {
      id: entryId([name]),
      names: [name],
      coveredBy: wildcard !== null && known.has(wildcard) ? entryId([wildcard]) : null,
      directories: directories.map(({ url }) => url),
      impossible: choice.kind === null ? choice.why : null,
      challenge: choice.kind ?? 'http-01',
      challengeWhy: choice.why,
    };
  });
}

function covers({ names }: Certificate, name: string): boolean {
  return names.some((each) => each === name || patternCovers(each, name));
}

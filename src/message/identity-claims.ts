// The names by which fields tell an app who asks. Pure.
// Invariant: a name counts in every spelling that CGI-like servers make one of it: any case, `_` or `.` for `-`.

/** Names by which other gates tell apps who asks. */
const claims: ReadonlySet<string> = new Set([
  'remote-user',
  'remote-name',
  'remote-email',
  'remote-groups',
  'x-remote-user',
  'x-forwarded-user',
  'x-forwarded-email',
  'x-forwarded-groups',
  'x-forwarded-preferred-username',
  'x-webauth-user',
]);
const ownFamily = 'x-turnpike-';
const claimFamilies = [ownFamily, 'x-auth-request-'];

/** Ours, or another gate's. */
export function isClaim(name: string): boolean {
  const lower = spelled(name);
  return lower !== '' && (claims.has(lower) || claimFamilies.some((family) => lower.startsWith(family)));
}

export function isOwnClaim(name: string): boolean {
  return spelled(name).startsWith(ownFamily);
}

/** In the one spelling of the lists; '' for a name that begins like none of them. */
function spelled(name: string): string {
  const first = name.charCodeAt(0) | 0x20;
  if (first !== 0x78 && first !== 0x72) return '';
  return name.toLowerCase().replace(/[_.]/g, '-');
}

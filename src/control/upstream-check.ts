// Has the project behind an app shipped something newer than the version in its manifest?
// Invariant: what cannot be told is said to be unknown, never to be up to date; an app without a source is UNTRACKED.
import type { UpstreamRow } from '../process/apps-operations.ts';

export interface UpstreamVerdict extends UpstreamRow {
  readonly verdict: 'current' | 'behind' | 'untracked' | 'internal' | 'manual' | 'unknown';
  /** The newest version that was found; null: none was looked for, or found. */
  readonly newest: string | null;
  readonly detail: string | null;
}

/** The JSON at a URL. Throws what to say. */
export type FetchJson = (url: string) => Promise<unknown>;

export async function checkUpstream(row: UpstreamRow, fetchJson: FetchJson): Promise<UpstreamVerdict> {
  const { upstream, version } = row;
  const plain = (verdict: UpstreamVerdict['verdict'], detail: string | null = null): UpstreamVerdict => ({
    ...row,
    verdict,
    newest: null,
    detail,
  });
  if (upstream === null) return plain('untracked');
  if (upstream.kind === 'internal') return plain('internal');
  if (upstream.kind === 'manual') return plain('manual', upstream.url);
  const { repo } = upstream;
  if (repo === null || version === null) return plain('unknown', 'no repository or no version in the manifest');
  try {
    const names =
      upstream.kind === 'github' ? await githubVersions(repo, fetchJson) : await hubVersions(repo, fetchJson);
    const newest = newestOf(names);
    if (newest === null) return plain('unknown', `no version among the tags of ${repo}`);
    const behind = compareVersions(newest, version) > 0;
    return { ...row, verdict: behind ? 'behind' : 'current', newest, detail: null };
  } catch (error) {
    return plain('unknown', error instanceof Error ? error.message : String(error));
  }
}

/** Releases first; a project without any has tags. */
async function githubVersions(repo: string, fetchJson: FetchJson): Promise<readonly string[]> {
  const base = `https://api.github.com/repos/${repo}`;
  const releases = namesIn(
    await fetchJson(`${base}/releases?per_page=50`),
    'tag_name',
    (each) => each['prerelease'] !== true,
  );
  return releases.length > 0 ? releases : namesIn(await fetchJson(`${base}/tags?per_page=100`), 'name');
}

async function hubVersions(repo: string, fetchJson: FetchJson): Promise<readonly string[]> {
  const answer = await fetchJson(`https://hub.docker.com/v2/repositories/${repo}/tags?page_size=100`);
  return namesIn((answer as { readonly results?: unknown } | null)?.results, 'name');
}

type Entry = Readonly<Record<string, unknown>>;

function namesIn(list: unknown, member: string, wanted: (entry: Entry) => boolean = () => true): readonly string[] {
  if (!Array.isArray(list)) return [];
  return list
    .filter((each): each is Entry => typeof each === 'object' && each !== null)
    .filter(wanted)
    .map((each) => each[member])
    .filter((name) => typeof name === 'string');
}

/** Numbers and dots, with a `v` or not; what has more to it (a flavour, a candidate) is not compared. */
const plainVersion = /^v?(\d+(?:\.\d+)*)$/;

export function newestOf(names: readonly string[]): string | null {
  const versions = names.filter((name) => plainVersion.test(name));
  return versions.reduce<string | null>(
    (best, each) => (best === null || compareVersions(each, best) > 0 ? each : best),
    null,
  );
}

/** Positive: `a` is newer. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [numbersOf(a), numbersOf(b)];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const difference = (left[i] ?? 0) - (right[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

const numbersOf = (version: string): readonly number[] => (version.match(/\d+/g) ?? []).map(Number);

// What CAs announce about the renewal of certificates (RFC 9773), asked for as often as they like.
// Invariant: a CA that does not answer, or answers nonsense, changes nothing: what it said last holds until it says something
// else.
import type { Clock } from '../../base/clock.ts';
import type { Log } from '../../base/log.ts';
import type { Holdings } from './holdings.ts';
import { type Announcement, authorityState, type Journal, pauseAt, targetState, withTarget } from './journal.ts';
import type { RenewalDirectory, RenewalSettings } from './settings.ts';
import type { StoredCertificate } from './store.ts';

const hourMs = 3_600_000;
/** RFC 9773 §4.3.2: six hours when the CA does not say. */
const usualMs = 6 * hourMs;
const shortestMs = 60_000;
const longestMs = 24 * hourMs;
/** After a question without an answer. */
const failedMs = hourMs;
const sideBySide = 4;

export interface Questions {
  readonly settings: RenewalSettings;
  readonly holdings: Holdings;
  readonly journal: Journal;
  readonly clock: Clock;
  readonly log: Log;
}

interface Question {
  readonly id: string;
  readonly stored: StoredCertificate;
  readonly directory: RenewalDirectory;
  /** When it is to be asked. */
  readonly at: number;
}

/** Asks what is to be asked now. @returns the answers as a change of the journal; null: nothing was to be asked */
export async function askAnnouncements(
  { settings, holdings, journal, clock, log }: Questions,
  signal: AbortSignal,
): Promise<((journal: Journal) => Journal) | null> {
  const now = clock.now();
  const due = questions(settings, holdings, journal).filter(
    ({ at, directory }) => at <= now && pauseAt(authorityState(journal, directory.url), now) === null,
  );
  if (due.length === 0) return null;
  const answers = new Map<string, Announcement>();
  const queue = due.values();
  const ask = async (): Promise<void> => {
    for (const { id, stored, directory } of queue) {
      const before = targetState(journal, id).announced;
      const known = before?.certificate === stored.certificate.id ? before : null;
      const answer = await answerOf(stored, directory, known, now, signal);
      if (known?.window?.start !== answer.window?.start && answer.window !== null && known !== null) {
        const { start, end } = answer.window;
        const window = [start, end].map((time) => new Date(time).toISOString());
        log.info('acme-renewal-moved', { entry: id, window, explanation: answer.explanationUrl });
      }
      answers.set(id, answer);
    }
  };
  await Promise.all(Array.from({ length: sideBySide }, ask));
  return (later) => {
    let next = later;
    for (const [id, announced] of answers) next = withTarget(next, id, { announced });
    return next;
  };
}

/** When the next question is due, at the earliest; Infinity: never. */
export function nextAnnouncement(settings: RenewalSettings, holdings: Holdings, journal: Journal): number {
  return Math.min(
    ...questions(settings, holdings, journal).map(({ at, directory }) =>
      Math.max(at, authorityState(journal, directory.url).pause?.until ?? 0),
    ),
  );
}

function questions(settings: RenewalSettings, holdings: Holdings, journal: Journal): readonly Question[] {
  return settings.targets.flatMap(({ id }) => {
    const stored = holdings.get(id);
    const directory = settings.directories.find(({ url }) => url === stored?.directory);
    if (stored === null || directory === undefined) return [];
    const { announced } = targetState(journal, id);
    const known = announced?.certificate === stored.certificate.id ? announced : null;
    return [{ id, stored, directory, at: known?.askAgainAt ?? 0 }];
  });
}

async function answerOf(
  { certificate }: StoredCertificate,
  { issuer }: RenewalDirectory,
  known: Announcement | null,
  now: number,
  signal: AbortSignal,
): Promise<Announcement> {
  const base = { certificate: certificate.id, checkedAt: now };
  try {
    const said = await issuer.renewalInfo(certificate.chain, signal);
    if (said === null) return { ...base, window: null, explanationUrl: null, askAgainAt: together(now, longestMs) };
    const wait = Math.min(longestMs, Math.max(shortestMs, said.retryAfterMs ?? usualMs));
    const { start, end, explanationUrl } = said;
    const window = end > start ? { start, end } : (known?.window ?? null);
    return { ...base, window, explanationUrl, askAgainAt: together(now, wait) };
  } catch {
    const { window = null, explanationUrl = null } = known ?? {};
    return { ...base, window, explanationUrl, askAgainAt: together(now, failedMs) };
  }
}

/** Not before `wait` is over, and with others that wait as long. */
const together = (now: number, wait: number): number => Math.ceil((now + wait) / (wait / 2)) * (wait / 2);

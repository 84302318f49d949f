// Durations and sizes as operators write them: "30s", "5m", "512MB", "32KiB".
// Invariant: a number without a unit is refused; the result is a whole number of milliseconds or bytes.

const durationUnits: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const sizeUnits: Record<string, number> = {
  B: 1,
  kB: 1000,
  KB: 1000,
  MB: 1000 ** 2,
  GB: 1000 ** 3,
  TB: 1000 ** 4,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
};

/** What stands for "no limit" in the snapshot: a number, so that comparisons need no special case. */
export const unlimited = Number.MAX_SAFE_INTEGER;

/** Milliseconds, or null. Accepts "500ms", "30s", "5m", "1h", "7d", "1h30m", "1.5s". */
export function parseDuration(text: string): number | null {
  if (!/^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/.test(text)) return null;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g))
    total += Number(amount) * durationUnits[unit!]!;
  return Number.isSafeInteger(Math.round(total)) ? Math.round(total) : null;
}

/** Bytes, or null. Accepts "512B", "32KiB", "1MB", "1.5GiB". */
export function parseSize(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?) ?([KMGT]i?B|kB|B)$/.exec(text);
  if (match === null) return null;
  const size = Math.round(Number(match[1]) * sizeUnits[match[2]!]!);
  return Number.isSafeInteger(size) ? size : null;
}

/** The shortest exact spelling: 90000 → "1m30s", 500 → "500ms". */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s';
  let rest = ms;
  let text = '';
  for (const unit of ['d', 'h', 'm', 's', 'ms']) {
    const amount = Math.floor(rest / durationUnits[unit]!);
    if (amount > 0) text += `${amount}${unit}`;
    rest -= amount * durationUnits[unit]!;
  }
  return text;
}

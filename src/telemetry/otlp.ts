// What is exported in the JSON form of OTLP 1: a fixed mapping of its messages, enums as numbers, 64-bit numbers as text.
// Invariant: pure; every time is nanoseconds since the epoch as decimal text, every attribute has a value.
import { version } from '../base/version.ts';

export type Attributes = Readonly<Record<string, string | number | boolean>>;

/** Milliseconds since the epoch. */
export const nanosOf = (ms: number): string => `${BigInt(Math.trunc(ms)) * 1_000_000n}`;

export function keyValues(attributes: Attributes): readonly object[] {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: encodedValue(value) }));
}

function encodedValue(value: string | number | boolean): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** What a record is about, encoded once for many records. */
export const resourceOf = (attributes: Attributes): string => JSON.stringify({ attributes: keyValues(attributes) });

const scope = JSON.stringify({ name: 'turnpike', version });

/** One record, encoded when it was taken: its size is known, and nothing else of it is kept. */
export interface Encoded {
  readonly resource: string;
  readonly text: string;
}

/** Records of one resource go together. */
function grouped(items: readonly Encoded[], outer: string, inner: string, records: string): string {
  const byResource = new Map<string, string[]>();
  for (const { resource, text } of items) {
    const found = byResource.get(resource);
    if (found === undefined) byResource.set(resource, [text]);
    else found.push(text);
  }
  const groups = [...byResource].map(
    ([resource, texts]) => `{"resource":${resource},"${inner}":[{"scope":${scope},"${records}":[${texts.join(',')}]}]}`,
  );
  return `{"${outer}":[${groups.join(',')}]}`;
}

export const logsBody = (items: readonly Encoded[]): string =>
  grouped(items, 'resourceLogs', 'scopeLogs', 'logRecords');

export const metricsBody = (items: readonly Encoded[]): string =>
  grouped(items, 'resourceMetrics', 'scopeMetrics', 'metrics');

export interface LogLine {
  /** When the engine took it. */
  readonly nanos: string;
  readonly observedMs: number;
  readonly stream: 'stdout' | 'stderr';
  readonly text: string;
  /** It was longer than what is kept of a line. */
  readonly cut: boolean;
}

/** Severity by stream: what a program says of itself is not guessed from its words. */
export function logRecord({ nanos, observedMs, stream, text, cut }: LogLine): string {
  const [severityNumber, severityText] = stream === 'stdout' ? [9, 'INFO'] : [17, 'ERROR'];
  return JSON.stringify({
    timeUnixNano: nanos,
    observedTimeUnixNano: nanosOf(observedMs),
    severityNumber,
    severityText,
    body: { stringValue: text },
    attributes: keyValues({ 'log.iostream': stream, ...(cut ? { 'turnpike.log.cut': true } : {}) }),
  });
}

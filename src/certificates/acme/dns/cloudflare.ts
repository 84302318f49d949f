// TXT records at Cloudflare, by an API token that may read zones and edit their DNS.
// Invariant: only records that were made here, or are equal to one of ours, are removed; the token is in no message.
import { AcmeFailure } from '../failure.ts';
import type { HttpAnswer, HttpClient, HttpRequest } from '../http.ts';
import { printable, retryAfter } from '../problem.ts';
import { readSecret } from './secret-file.ts';
import type { TxtKeeper, TxtRecord } from './txt-keeper.ts';

export interface CloudflareOptions {
  readonly tokenFile: string;
  readonly http: HttpClient;
  /** Of the API; tests have their own. */
  readonly base?: string;
}

interface ApiAnswer {
  readonly success: boolean;
  readonly result: unknown;
  readonly errors: readonly { readonly code: number; readonly message: string }[];
}

const defaultBase = 'https://api.cloudflare.com/client/v4';
/** As short as it takes: it is gone in a minute. */
const ttlSeconds = 60;
const identicalRecordExists = 81058;

export class CloudflareKeeper implements TxtKeeper {
  readonly label = 'Cloudflare';
  readonly #options: CloudflareOptions;
  readonly #base: string;
  /** Zone ids by record name. Not by zone: a name may lie in a zone below one that is known. */
  readonly #zones = new Map<string, string>();

  constructor(options: CloudflareOptions) {
    this.#options = options;
    this.#base = options.base ?? defaultBase;
  }

  async add(records: readonly TxtRecord[], signal: AbortSignal): Promise<void> {
    for (const { name, value } of records) {
      const zone = await this.#zoneOf(name, signal);
      const body = JSON.stringify({ type: 'TXT', name, content: quoted(value), ttl: ttlSeconds });
      await this.#ask({ method: 'POST', url: `${this.#base}/zones/${zone}/dns_records`, body }, signal, [
        identicalRecordExists,
      ]);
    }
  }

  async remove(records: readonly TxtRecord[], signal: AbortSignal): Promise<void> {
    for (const { name, value } of records) {
      const zone = await this.#zoneOf(name, signal);
      const url = `${this.#base}/zones/${zone}/dns_records`;
      const query = new URLSearchParams({ type: 'TXT', name, per_page: '100' });
      const { result } = await this.#ask({ method: 'GET', url: `${url}?${query}` }, signal);
      for (const { id, content } of list<{ id?: unknown; content?: unknown }>(result)) {
        if (typeof id !== 'string' || (content !== value && content !== quoted(value))) continue;
        await this.#ask({ method: 'DELETE', url: `${url}/${encodeURIComponent(id)}` }, signal);
      }
    }
  }

  /** The longest suffix of the name that is a zone of this account. */
  async #zoneOf(name: string, signal: AbortSignal): Promise<string> {
    const known = this.#zones.get(name);
    if (known !== undefined) return known;
    const labels = name.split('.');
    for (let i = 0; i < labels.length - 1; i++) {
      const suffix = labels.slice(i).join('.');
      const query = new URLSearchParams({ name: suffix, per_page: '1' });
      const { result } = await this.#ask({ method: 'GET', url: `${this.#base}/zones?${query}` }, signal);
      const [zone] = list<{ id?: unknown }>(result);
      if (typeof zone?.id !== 'string') continue;
      const id = encodeURIComponent(zone.id);
      this.#zones.set(name, id);
      return id;
    }
    throw new AcmeFailure('presentation', `Cloudflare: no zone for ${name} is within reach of this token`);
  }

  async #ask(request: HttpRequest, signal: AbortSignal, tolerated: readonly number[] = []): Promise<ApiAnswer> {
    const token = await readSecret(this.#options.tokenFile);
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await this.#options.http.ask({ ...request, headers }, signal);
    const read = readAnswer(answer);
    if (read?.success === true || read?.errors.some(({ code }) => tolerated.includes(code)) === true) return read;
    const why = read?.errors.map(({ code, message }) => `${message} (${code})`).join('; ') ?? '';
    const { status } = answer;
    const detail = printable(why.replaceAll(token, '…')) || `answered ${status}`;
    throw new AcmeFailure('presentation', `Cloudflare: ${detail}`, { retryAfterMs: retryAfter(answer, Date.now()) });
  }
}

/** Null: not what this API answers. */
function readAnswer({ text }: HttpAnswer): ApiAnswer | null {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null) return null;
    const { success, result, errors } = value as Partial<ApiAnswer>;
    return { success: success === true, result, errors: list(errors) };
  } catch {
    return null;
  }
}

function list<T>(value: unknown): readonly T[] {
  return Array.isArray(value) ? (value as readonly T[]) : [];
}

/** RFC 1035 §5.1: the form that the API wants. Our values have nothing to escape. */
function quoted(value: string): string {
  return `"${value}"`;
}

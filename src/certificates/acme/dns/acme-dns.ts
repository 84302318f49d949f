// TXT records at an acme-dns server: a name server for nothing but challenges, that others are delegated to by CNAME.
// Invariant: it keeps the last two values of a subdomain by itself, so there is nothing to remove, and never more than two
// are put there at once.
import { AcmeFailure } from '../failure.ts';
import type { HttpClient } from '../http.ts';
import { printable, retryAfter } from '../problem.ts';
import { readSecretText } from './secret-file.ts';
import type { TxtKeeper, TxtRecord } from './txt-keeper.ts';

export interface AcmeDnsOptions {
  /** Of the server. */
  readonly url: string;
  /** JSON: what `/register` answered, or an object of such answers by domain. */
  readonly credentialsFile: string;
  readonly http: HttpClient;
}

interface Registration {
  readonly username: string;
  readonly password: string;
  readonly subdomain: string;
  /** Canonical: where the CNAME of a domain has to lead. */
  readonly fulldomain: string;
}

const keptValues = 2;

export class AcmeDnsKeeper implements TxtKeeper {
  readonly label = 'acme-dns';
  readonly #options: AcmeDnsOptions;

  constructor(options: AcmeDnsOptions) {
    this.#options = options;
  }

  async add(records: readonly TxtRecord[], signal: AbortSignal): Promise<void> {
    const { credentialsFile, http, url } = this.#options;
    const registrations = readRegistrations(await readSecretText(credentialsFile), credentialsFile);
    const counts = new Map<string, number>();
    for (const { name } of records) {
      const count = (counts.get(name) ?? 0) + 1;
      counts.set(name, count);
      if (count > keptValues) throw failure(`more than ${keptValues} values at once for ${name}`);
    }
    for (const { name, value } of records) {
      const registration = registrations.find(({ fulldomain }) => fulldomain === name);
      if (registration === undefined) {
        const known = registrations.map(({ fulldomain }) => fulldomain).join(', ');
        throw failure(`${name} must be a CNAME to a registered subdomain: ${known}`);
      }
      const { username, password, subdomain } = registration;
      const headers = { 'x-api-user': username, 'x-api-key': password, 'content-type': 'application/json' };
      const body = JSON.stringify({ subdomain, txt: value });
      const answer = await http.ask({ method: 'POST', url: `${url.replace(/\/$/, '')}/update`, headers, body }, signal);
      if (answer.status === 200) continue;
      const why = printable(answer.text.slice(0, 300).replaceAll(password, '…'));
      throw failure(`answered ${answer.status}: ${why}`, retryAfter(answer, Date.now()));
    }
  }

  async remove(): Promise<void> {}
}

function readRegistrations(text: string, file: string): readonly Registration[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = null;
  }
  const candidates = typeof value === 'object' && value !== null ? [value, ...Object.values(value)] : [];
  const registrations = candidates.flatMap((each) => readRegistration(each) ?? []);
  if (registrations.length === 0) {
    throw new AcmeFailure('presentation', `${file}: no registration in it (username, password, subdomain, fulldomain)`);
  }
  return registrations;
}

function readRegistration(value: unknown): Registration | null {
  const { username, password, subdomain, fulldomain } = (value ?? {}) as Record<string, unknown>;
  if (typeof username !== 'string' || typeof password !== 'string') return null;
  if (typeof subdomain !== 'string' || typeof fulldomain !== 'string') return null;
  return { username, password, subdomain, fulldomain: fulldomain.toLowerCase().replace(/\.$/, '') };
}

function failure(why: string, retryAfterMs: number | null = null): AcmeFailure {
  return new AcmeFailure('presentation', `acme-dns: ${why}`, { retryAfterMs });
}

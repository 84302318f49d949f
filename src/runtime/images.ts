// Images: what is on the engine, and pulling what is not.
// Invariant: pulls are anonymous, and happen only for references that the caller has just checked.
import type { Readable } from 'node:stream';
import { type EngineClient, EngineError } from './engine-client.ts';
import { Lines } from './log-frames.ts';

export interface Image {
  /** Content id of the image on this engine. */
  readonly id: string;
  /** `name@sha256:…` as registries know it; null for an image that never met one. */
  readonly digest: string | null;
}

/** `layer`: "a1b2c3"; `fraction`: 0–1, null when the engine does not say. */
export interface PullProgress {
  readonly layer: string;
  readonly status: string;
  readonly fraction: number | null;
}

interface InspectAnswer {
  readonly Id: string;
  readonly RepoDigests: readonly string[] | null;
}

interface PullLine {
  readonly id?: string;
  readonly status?: string;
  readonly error?: string;
  readonly progressDetail?: { readonly current?: number; readonly total?: number };
}

/** A pull that says nothing for this long has died. */
const pullIdleMs = 120_000;

export class Images {
  readonly #client: EngineClient;

  constructor(client: EngineClient) {
    this.#client = client;
  }

  /** Null: not on this engine. */
  async find(reference: string): Promise<Image | null> {
    try {
      const path = `/images/${encodeURIComponent(reference)}/json`;
      const { Id, RepoDigests } = await this.#client.json<InspectAnswer>({ method: 'GET', path });
      return { id: Id, digest: RepoDigests?.[0] ?? null };
    } catch (error) {
      if (error instanceof EngineError && error.status === 404) return null;
      throw error;
    }
  }

  async pull(reference: string, progress: (progress: PullProgress) => void, signal: AbortSignal): Promise<Image> {
    const stream = await this.#beginPull(reference, signal);
    const idle = setTimeout(() => stream.destroy(new EngineError(0, `the pull of ${reference} stalled`)), pullIdleMs);
    try {
      const lines = new Lines();
      for await (const chunk of stream as AsyncIterable<Buffer>) {
        idle.refresh();
        for (const line of lines.read(chunk.toString('utf8'))) follow(line, reference, progress);
      }
      follow(lines.end(), reference, progress);
    } finally {
      clearTimeout(idle);
      stream.destroy();
    }
    const image = await this.find(reference);
    if (image === null) throw new EngineError(0, `${reference} was pulled and is not there`);
    return image;
  }

  async #beginPull(reference: string, signal: AbortSignal): Promise<Readable> {
    const query = { fromImage: reference };
    try {
      return await this.#client.stream({
        method: 'POST',
        path: '/images/create',
        query,
        timeoutMs: pullIdleMs,
        signal,
      });
    } catch (error) {
      if (error instanceof EngineError) throw notPulled(reference, error.status, error.message);
      throw error;
    }
  }
}

const notPulled = (reference: string, status: number, why: string): EngineError =>
  new EngineError(status, `${reference} was not pulled: ${why}`);

function follow(line: string, reference: string, progress: (progress: PullProgress) => void): void {
  if (line.trim() === '') return;
  const { id = '', status = '', error, progressDetail } = JSON.parse(line) as PullLine;
  // The head said 200 before anything was known.
  if (error !== undefined) throw notPulled(reference, 502, error);
  const { current, total } = progressDetail ?? {};
  const fraction = current === undefined || total === undefined || total === 0 ? null : Math.min(1, current / total);
  progress({ layer: id, status, fraction });
}

// A response body that is compressed on its way to the client.
// Invariant: every chunk that goes in comes out without waiting for the next one; a client that does not read stops the
// source, so at most one stream's buffers are kept.
import {
  type BrotliCompress,
  constants,
  createBrotliCompress,
  createGzip,
  createZstdCompress,
  type Gzip,
  type ZstdCompress,
} from 'node:zlib';
import type { Fields } from '../message/fields.ts';
import type { ClientStream } from '../message/stream.ts';
import type { Encoding } from './compression.ts';

export interface CompressedBodyOwner {
  /** More can be written. */
  bodyWritable(): void;
  bodySent(size: number): void;
  bodyFailed(error: Error): void;
}

export class CompressedBody {
  readonly #stream: Gzip | BrotliCompress | ZstdCompress;
  readonly #client: ClientStream;
  readonly #owner: CompressedBodyOwner;
  #trailers: Fields | null = null;
  #done = false;

  constructor(encoding: Encoding, client: ClientStream, owner: CompressedBodyOwner) {
    this.#client = client;
    this.#owner = owner;
    this.#stream = create(encoding);
    this.#stream.on('data', (chunk: Buffer) => this.#send(chunk));
    this.#stream.on('drain', () => {
      if (!this.#done) owner.bodyWritable();
    });
    this.#stream.on('end', () => {
      if (this.#done) return;
      this.#done = true;
      client.sendEnd(this.#trailers);
    });
    this.#stream.on('error', (error) => {
      if (this.#done) return;
      this.#done = true;
      owner.bodyFailed(error);
    });
  }

  /** False: stop until `bodyWritable`. */
  sendData(chunk: Buffer): boolean {
    return this.#stream.write(chunk);
  }

  sendEnd(trailers: Fields | null): void {
    this.#trailers = trailers;
    this.#stream.end();
  }

  clientWritable(): void {
    this.#stream.resume();
  }

  destroy(): void {
    this.#done = true;
    this.#stream.destroy();
  }

  #send(chunk: Buffer): void {
    if (this.#done) return;
    this.#owner.bodySent(chunk.length);
    if (!this.#client.sendData(chunk)) this.#stream.pause();
    this.#client.flush();
  }
}

/** Levels at which a proxy gains more than it spends. Every write is flushed by the stream itself. */
function create(encoding: Encoding): Gzip | BrotliCompress | ZstdCompress {
  switch (encoding) {
    case 'gzip':
      return createGzip({ level: 5, flush: constants.Z_SYNC_FLUSH });
    case 'br':
      return createBrotliCompress({
        flush: constants.BROTLI_OPERATION_FLUSH,
        params: { [constants.BROTLI_PARAM_QUALITY]: 4, [constants.BROTLI_PARAM_LGWIN]: 19 },
      });
    case 'zstd':
      return createZstdCompress({
        flush: constants.ZSTD_e_flush,
        params: { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_windowLog]: 19 },
      });
  }
}

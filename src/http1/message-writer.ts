// Writes the messages of one direction of a connection, one after the other: head and first data in one write.
// Invariant: a message is exactly as long as its framing says, or `end` says that it is not; what is kept back goes out
// with `end`, with `flush`, or by the end of the current turn of the event loop once data was added to it.
import type { Socket } from 'node:net';
import type { Fields } from '../message/fields.ts';
import { type AnswerFraming, chunkStart, lastChunk } from './serialise.ts';

/** Up to here data joins the text before it in one string write; above, copying costs more than a vectored write. */
const joinSize = 8 * 1024;
/** Text that is kept back grows no larger than this. */
const keepSize = 16 * 1024;
/**
 * Bytes that may be queued in the socket before its peer counts as slow. The socket's own mark would say so of every whole
 * read, which it still counts as queued after the kernel has taken it, and stop the other side for nothing.
 */
const queueSize = 256 * 1024;

export class MessageWriter {
  readonly #socket: Socket;
  /** Latin-1 text that waits to be written. */
  #kept = '';
  #framing: AnswerFraming = 'none';
  /** Body bytes that the framing `length` still promises. */
  #left = 0;
  #flushDue = false;
  /** `data` has said to wait. */
  #full = false;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Begins a message with its serialised head; `length` counts with framing `length` only. */
  begin(head: string, framing: AnswerFraming, length: number): void {
    this.#kept += head;
    this.#framing = framing;
    this.#left = framing === 'length' ? length : 0;
    this.#full = false;
  }

  /** False: wait for a `drain` of the socket for which `drained` is true. */
  data(chunk: Buffer): boolean {
    switch (this.#framing) {
      case 'none':
        return true;
      case 'length':
        this.#left -= chunk.length;
        // More than was promised would be read as the next message. It is not sent, and `end` reports it.
        return this.#left < 0 ? true : this.#write(chunk);
      case 'close':
        return this.#write(chunk);
      case 'chunked':
        // An empty chunk would be the last one.
        return chunk.length === 0 ? true : this.#writeChunk(chunk);
    }
  }

  /** Ends the message. False when its body is not as long as promised: the connection must be broken, visibly. */
  end(trailers: Fields | null): boolean {
    const whole = this.#left === 0;
    if (this.#framing === 'chunked') this.#kept += lastChunk(trailers);
    this.#framing = 'none';
    this.#left = 0;
    this.flush();
    return whole;
  }

  flush(): void {
    if (this.#kept === '') return;
    const text = this.#kept;
    this.#kept = '';
    this.#socket.write(text, 'latin1');
  }

  #write(chunk: Buffer): boolean {
    const socket = this.#socket;
    const text = this.#kept;
    this.#kept = '';
    if (text === '') socket.write(chunk);
    else if (chunk.length <= joinSize) socket.write(text + chunk.toString('latin1'), 'latin1');
    else {
      socket.cork();
      socket.write(text, 'latin1');
      socket.write(chunk);
      socket.uncork();
    }
    return this.#hasRoom();
  }

  #writeChunk(chunk: Buffer): boolean {
    this.#kept += chunkStart(chunk.length);
    if (chunk.length <= joinSize) {
      this.#kept += chunk.toString('latin1') + '\r\n';
      if (this.#kept.length > keepSize) this.flush();
      else if (!this.#flushDue) {
        // The next chunk or the end is often in the same read; a lone chunk leaves with this turn.
        this.#flushDue = true;
        process.nextTick(flushDue, this);
      }
    } else {
      this.#socket.cork();
      this.flush();
      this.#socket.write(chunk);
      this.#socket.write('\r\n', 'latin1');
      this.#socket.uncork();
    }
    return this.#hasRoom();
  }

  #hasRoom(): boolean {
    this.#full = this.#socket.writableLength > queueSize;
    return !this.#full;
  }

  /** At `drain`: true when somebody was told to wait for it. */
  drained(): boolean {
    const full = this.#full;
    this.#full = false;
    return full;
  }

  /** For `process.nextTick` alone. */
  flushIfDue(): void {
    this.#flushDue = false;
    this.flush();
  }
}

function flushDue(writer: MessageWriter): void {
  writer.flushIfDue();
}

// WebSocket frames of a client: one message to send, and counting the messages that come (RFC 6455 §5).
// Invariant: control frames between fragments are no messages.
import { randomBytes } from 'node:crypto';

const binary = 0x82;
const closeOpcode = 8;

/** A whole message in one masked frame (§5.3: clients mask). */
export function maskedFrame(payload: Buffer): Buffer {
  const { length } = payload;
  const extended = length < 126 ? 0 : length < 65_536 ? 2 : 8;
  const frame = Buffer.alloc(2 + extended + 4 + length);
  frame[0] = binary;
  frame[1] = 0x80 | (extended === 0 ? length : extended === 2 ? 126 : 127);
  if (extended === 2) frame.writeUInt16BE(length, 2);
  else if (extended === 8) frame.writeBigUInt64BE(BigInt(length), 2);
  const mask = randomBytes(4);
  const start = 2 + extended;
  mask.copy(frame, start);
  for (let i = 0; i < length; i++) frame[start + 4 + i] = payload[i]! ^ mask[i & 3]!;
  return frame;
}

export class FrameReader {
  /** A close frame came. */
  closed = false;
  /** 14 bytes are the longest header there is. */
  readonly #header = Buffer.alloc(14);
  #headerLength = 0;
  #payloadLeft = 0;
  #final = false;
  #control = false;

  /** How many messages ended within this chunk. */
  read(chunk: Buffer): number {
    let messages = 0;
    let at = 0;
    while (at < chunk.length) {
      if (this.#payloadLeft > 0) {
        const taken = Math.min(this.#payloadLeft, chunk.length - at);
        at += taken;
        this.#payloadLeft -= taken;
      } else {
        this.#header[this.#headerLength++] = chunk[at++]!;
        if (this.#headerLength < 2 || this.#headerLength < headerLength(this.#header[1]!)) continue;
        this.#begin(this.#header);
        this.#headerLength = 0;
      }
      if (this.#payloadLeft === 0 && this.#final && !this.#control) messages++;
    }
    return messages;
  }

  #begin(header: Buffer): void {
    const opcode = header[0]! & 0x0f;
    this.#final = (header[0]! & 0x80) !== 0;
    this.#control = opcode >= closeOpcode;
    if (opcode === closeOpcode) this.closed = true;
    const short = header[1]! & 0x7f;
    if (short < 126) this.#payloadLeft = short;
    else this.#payloadLeft = short === 126 ? header.readUInt16BE(2) : Number(header.readBigUInt64BE(2));
  }
}

function headerLength(secondByte: number): number {
  const short = secondByte & 0x7f;
  return 2 + (short === 126 ? 2 : short === 127 ? 8 : 0) + ((secondByte & 0x80) !== 0 ? 4 : 0);
}

// The cookie that brings a client back to the backend which served it before.
// Invariant: a value that we did not make names no backend; a value never shows an address; it outlives restarts and
// generations as long as the address and the key stay.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { FieldId } from '../message/field-id.ts';
import type { Fields } from '../message/fields.ts';

/** The cookie of one service. */
export class StickyCookie {
  readonly #service: string;
  readonly #name: string;
  readonly #cookieKey: () => Buffer;
  #key: Buffer | null = null;
  readonly #values = new Map<string, Buffer>();

  constructor(service: string, name: string, cookieKey: () => Buffer) {
    this.#service = service;
    this.#name = name;
    this.#cookieKey = cookieKey;
  }

  get name(): string {
    return this.#name;
  }

  /** Index of the backend that the value names, or -1. */
  find(value: string, backends: readonly { readonly address: string }[]): number {
    const given = Buffer.from(value, 'latin1');
    const key = this.#currentKey();
    for (let i = 0; i < backends.length; i++) {
      const expected = this.#valueOf(backends[i]!.address, key);
      if (given.length === expected.length && timingSafeEqual(given, expected)) return i;
    }
    return -1;
  }

  /** The value of this cookie in a request, or null. */
  read(fields: Fields): string | null {
    return cookieValue(fields, this.#name);
  }

  /** A Set-Cookie value for this backend. */
  make(address: string): string {
    const value = this.#valueOf(address, this.#currentKey()).toString('latin1');
    return `${this.#name}=${value}; Path=/; HttpOnly; SameSite=Lax`;
  }

  #currentKey(): Buffer {
    const key = this.#cookieKey();
    if (this.#key?.equals(key) === true) return this.#key;
    this.#key = key;
    this.#values.clear();
    return key;
  }

  /** HMAC over service and address: it names the backend to us, proves that we said so, and tells others nothing. */
  #valueOf(address: string, key: Buffer): Buffer {
    let value = this.#values.get(address);
    if (value === undefined) {
      const mac = createHmac('sha256', key).update(`sticky\0${this.#service}\0${address}`).digest();
      value = Buffer.from(mac.subarray(0, 18).toString('base64url'), 'latin1');
      this.#values.set(address, value);
    }
    return value;
  }
}

/** First value of a cookie over all Cookie lines (RFC 6265 §5.4; h2 may split them), quotes kept; null when absent. */
export function cookieValue(fields: Fields, name: string): string | null {
  const { ids, values } = fields;
  for (let i = 0; i < ids.length; i++) {
    if (ids[i] !== FieldId.Cookie) continue;
    const line = values[i]!;
    for (let at = 0; at < line.length; ) {
      let end = line.indexOf(';', at);
      if (end < 0) end = line.length;
      while (line.charCodeAt(at) === 0x20) at++;
      if (line.startsWith(name, at) && line.charCodeAt(at + name.length) === 0x3d && at + name.length < end) {
        return line.slice(at + name.length + 1, end).trimEnd();
      }
      at = end + 1;
    }
  }
  return null;
}

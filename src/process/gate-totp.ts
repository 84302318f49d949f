// Codes of an authenticator (TOTP, RFC 6238: HMAC-SHA-1, 30 s, six digits).
// Invariant: a code is taken once; one step of clock difference either way is borne.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
const stepMs = 30_000;
const drift = 1;

export function newTotpSecret(): string {
  return base32(randomBytes(20));
}

/** For the QR code or the "enter a key" of an authenticator. */
export function totpUri(secret: string, user: string, issuer: string): string {
  return `otpauth://totp/${encodeURIComponent(issuer)}:${encodeURIComponent(user)}?secret=${secret}&issuer=${encodeURIComponent(issuer)}`;
}

/** The step that the code belongs to; null: it is none of now, or not later than `lastStep`. */
export function totpStep(secret: string, code: string, now: number, lastStep: number): number | null {
  const given = code.replace(/\s/g, '');
  if (!/^\d{6}$/.test(given)) return null;
  const current = Math.floor(now / stepMs);
  let found: number | null = null;
  for (let step = current - drift; step <= current + drift; step++) {
    const right = totpCode(secret, step);
    if (timingSafeEqual(Buffer.from(right), Buffer.from(given)) && step > lastStep) found = step;
  }
  return found;
}

/** RFC 4226 §5.3. */
export function totpCode(secret: string, step: number, digits = 6): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', fromBase32(secret)).update(counter).digest();
  const offset = mac[mac.length - 1]! & 0x0f;
  const number = mac.readUInt32BE(offset) & 0x7fffffff;
  return String(number % 10 ** digits).padStart(digits, '0');
}

/** RFC 4648 §6, without padding. */
export function base32(bytes: Buffer): string {
  let bits = 0;
  let value = 0;
  let text = '';
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      text += alphabet[(value >>> (bits - 5)) & 31];
      bits -= 5;
    }
    value &= (1 << bits) - 1;
  }
  return bits > 0 ? text + alphabet[(value << (5 - bits)) & 31] : text;
}

function fromBase32(text: string): Buffer {
  let bits = 0;
  let value = 0;
  const bytes: number[] = [];
  for (const letter of text) {
    value = (value << 5) | alphabet.indexOf(letter);
    bits += 5;
    if (bits >= 8) {
      bytes.push((value >>> (bits - 8)) & 255);
      bits -= 8;
    }
    value &= (1 << bits) - 1;
  }
  return Buffer.from(bytes);
}

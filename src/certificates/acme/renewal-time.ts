// When a certificate of a CA is due for renewal, and how pressing that is.
// Invariant: pure, and the same answer for the same certificate and window after every restart; never later than the
// emergency time, whatever the CA announces.
const dayMs = 86_400_000;

export interface Validity {
  /** Fingerprint. */
  readonly id: string;
  readonly notBefore: number;
  readonly notAfter: number;
}

/** As RFC 9773 §4.1 has it. */
export interface AnnouncedWindow {
  readonly start: number;
  readonly end: number;
}

export interface Due {
  readonly at: number;
  readonly why: 'lifetime' | 'announced' | 'emergency';
}

/**
 * Inside the announced window (RFC 9773 §4.2), else after two thirds of the lifetime; after half of it when that is less than
 * ten days, so that a CA may be away for three of them. A little earlier by chance, so that not all come together.
 */
export function dueTime(certificate: Validity, announced: AnnouncedWindow | null): Due {
  const { id, notBefore, notAfter } = certificate;
  const lifetime = notAfter - notBefore;
  const emergency = emergencyTime(certificate);
  if (announced !== null && announced.end > announced.start) {
    const { start, end } = announced;
    const at = start + (end - start) * chance(`${id} ${start} ${end}`);
    return at < emergency ? { at, why: 'announced' } : { at: emergency, why: 'emergency' };
  }
  const share = lifetime < 10 * dayMs ? 1 / 2 : 2 / 3;
  return { at: notBefore + lifetime * (share - 0.02 * chance(id)), why: 'lifetime' };
}

/** From here on a renewal is tried whatever backoff says: a twentieth of the lifetime is left. */
export function emergencyTime({ notBefore, notAfter }: Validity): number {
  return notAfter - (notAfter - notBefore) / 20;
}

/** `late`: half of the time that is meant for renewing is gone, so another CA may be asked. */
export type Urgency = 'calm' | 'late' | 'emergency';

export function urgencyOf(certificate: Validity, now: number): Urgency {
  if (now >= emergencyTime(certificate)) return 'emergency';
  const { notBefore, notAfter } = certificate;
  return notAfter - now <= (notAfter - notBefore) / 6 ? 'late' : 'calm';
}

/** 0 ≤ x < 1, the same for the same text (FNV-1a: it spreads, it hides nothing). */
function chance(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return (hash >>> 0) / 2 ** 32;
}

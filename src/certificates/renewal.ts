// When a certificate is due for renewal.
// Invariant: pure, and the same rule for everything that is signed here, whatever its lifetime.

/** Two thirds of the validity, in epoch milliseconds. */
export function renewalTime(notBefore: number, notAfter: number): number {
  return notBefore + ((notAfter - notBefore) * 2) / 3;
}

/**
 * Past two thirds, or dated into the future by a clock that ran fast.
 *
 * @param earliest  no successor is valid before that: its issuer is not
 */
export function isDue(notBefore: number, notAfter: number, earliest: number, now: number): boolean {
  return now < notBefore ? notBefore > earliest : now >= renewalTime(notBefore, notAfter);
}

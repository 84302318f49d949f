// When a certificate is due for renewal.
// Invariant: pure, and the same rule for everything that is signed here, whatever its lifetime.

/** Two thirds of the validity, in epoch milliseconds. */
export function renewalTime(notBefore: number, notAfter: number): number {
  return notBefore + ((notAfter - notBefore) * 2) / 3;
}

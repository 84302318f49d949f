// When a certificate is due for renewal. Pure.

/** Two thirds of the validity, in epoch milliseconds. */
export function renewalTime(notBefore: number, notAfter: number): number {
  return notBefore + ((notAfter - notBefore) * 2) / 3;
}

// What makes a user: names, passwords, rights. Pure.
// Invariant: a name is fit for a field of a request as it is.
import type { StoredPassword } from './gate-passwords.ts';
import type { StoredUser } from './gate-store.ts';

const passwordMin = 10;
const passwordMax = 1024;

export const nameRule = '1 to 64 lower-case letters, digits, or . _ @ + -, the first one a letter or digit';
export const passwordRule = `${passwordMin} to ${passwordMax} characters`;

export function isUserName(name: string): boolean {
  return /^[a-z0-9][a-z0-9._@+-]{0,63}$/.test(name);
}

export function isFitPassword(password: string): boolean {
  return password.length >= passwordMin && password.length <= passwordMax;
}

export function newUser(
  name: string,
  role: StoredUser['role'],
  apps: readonly string[],
  password: StoredPassword | null,
  now: number,
): StoredUser {
  return { name, role, apps, password, totp: null, createdAt: now };
}

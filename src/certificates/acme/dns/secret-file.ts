// Secrets that DNS providers want, read from their files when they are needed: a token that was renewed is taken at once.
// Invariant: what is wrong is said by the file's name, never by its content.
import { readFile } from 'node:fs/promises';
import { AcmeFailure } from '../failure.ts';

/** The first line. */
export async function readSecret(file: string): Promise<string> {
  const [line = ''] = (await readSecretText(file)).split('\n');
  const secret = line.trim();
  if (secret === '') throw new AcmeFailure('presentation', `${file}: its first line is empty`);
  return secret;
}

export async function readSecretText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code = 'unreadable' } = error as NodeJS.ErrnoException;
    throw new AcmeFailure('presentation', `${file}: cannot be read (${code})`, { cause: error });
  }
}

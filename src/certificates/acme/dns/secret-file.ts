// Secrets that DNS providers want, read from their files when they are needed: a token that was renewed is taken at once.
// Invariant: what is wrong is said by the file's name, never by its content.
import { readFile } from 'node:fs/promises';
import { AcmeFailure } from '../failure.ts';

/** Without the line end that editors add. */
export async function readSecret(file: string): Promise<string> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    const { code = 'unreadable' } = error as NodeJS.ErrnoException;
    throw new AcmeFailure('presentation', `${file}: cannot be read (${code})`, { cause: error });
  }
  const secret = text.trim();
  if (secret === '') throw new AcmeFailure('presentation', `${file} is empty`);
  return secret;
}

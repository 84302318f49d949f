// How a command gets a password or another secret: typed on a terminal without being shown, or from standard input.
// Invariant: never from the command line, where every user of the machine could read it; never echoed.
import { CommandError } from './client.ts';
import type { Terminal } from './terminal.ts';

type Input = NodeJS.ReadStream;

export async function readNewPassword(terminal: Terminal, input: Input = process.stdin): Promise<string> {
  if (!input.isTTY) return firstLine(await readAll(input));
  const password = await readHidden('Password: ', terminal, input);
  if ((await readHidden('Once more: ', terminal, input)) !== password) {
    throw new CommandError('The two passwords differ. Nothing was changed.');
  }
  return password;
}

/** All of standard input but a line feed at its end: keys and certificates have several lines. */
export async function readNewSecret(terminal: Terminal, input: Input = process.stdin): Promise<string> {
  if (input.isTTY) return readHidden('Value: ', terminal, input);
  const value = (await readAll(input, 'A value of at most 64 KiB is accepted.')).replace(/\r?\n$/, '');
  if (value === '') throw new CommandError('No value came on standard input.', 2);
  return value;
}

async function readAll(input: Input, tooLong = 'A password of at most 1024 characters is accepted.'): Promise<string> {
  let text = '';
  input.setEncoding('utf8');
  for await (const part of input) {
    text += String(part);
    if (text.length > 65_537) throw new CommandError(tooLong, 2);
  }
  return text;
}

function firstLine(text: string): string {
  const line = text.split(/\r?\n/, 1)[0]!;
  if (line === '') throw new CommandError('No password came on standard input.', 2);
  return line;
}

function readHidden(prompt: string, terminal: Terminal, input: Input): Promise<string> {
  terminal.progress(prompt);
  return new Promise((resolve, reject) => {
    let typed = '';
    const end = (): void => {
      input.setRawMode(false);
      input.pause();
      input.off('data', take);
      terminal.progressDone();
    };
    const take = (chunk: string): void => {
      for (const char of chunk) {
        if (char === '\r' || char === '\n') {
          end();
          resolve(typed);
          return;
        }
        // Control-C and control-D.
        if (char === '\u0003' || char === '\u0004') {
          end();
          reject(new CommandError('Nothing was changed.'));
          return;
        }
        typed = char === '\u007f' || char === '\b' ? typed.slice(0, -1) : typed + char;
      }
    };
    input.setEncoding('utf8');
    input.setRawMode(true);
    input.resume();
    input.on('data', take);
  });
}

// Files as a tar archive (POSIX.1-1988 ustar), as engines take them.
// Invariant: pure; regular files only, owned by root, without times.

export interface TarFile {
  /** At most 100 bytes. */
  readonly name: string;
  readonly content: Buffer;
  readonly mode: number;
}

const block = 512;

export function tarOf(files: readonly TarFile[]): Buffer {
  const parts = files.flatMap(({ name, content, mode }) => [
    header(name, content.length, mode),
    content,
    Buffer.alloc((block - (content.length % block)) % block),
  ]);
  return Buffer.concat([...parts, Buffer.alloc(2 * block)]);
}

function header(name: string, size: number, mode: number): Buffer {
  if (Buffer.byteLength(name) > 100) throw new Error(`${name} is too long for an archive`);
  const head = Buffer.alloc(block);
  const octal = (value: number, at: number, length: number): void => {
    head.write(value.toString(8).padStart(length - 1, '0'), at, 'latin1');
  };
  head.write(name, 0, 'utf8');
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  // The sum counts its own field as blanks.
  head.fill(' ', 148, 156);
  head.write('0', 156, 'latin1');
  head.write('ustar\0' + '00', 257, 'latin1');
  const sum = head.reduce((total, byte) => total + byte, 0);
  head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return head;
}

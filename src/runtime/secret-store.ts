// Values of apps' secrets: encrypted in the state directory, or in pass.
// Invariant: a value is in memory while it is used, and in no log, error, argument or environment of ours.
import { spawn } from 'node:child_process';
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { writeFileAtomically } from '../base/atomic-file.ts';
import { Fault } from '../base/fault.ts';

export interface SecretName {
  /** UUID of the app's incarnation: a later app of the same name never sees it. */
  readonly appId: string;
  readonly service: string;
  readonly name: string;
}

export interface SecretStore {
  /** Null: never set. */
  read(secret: SecretName): Promise<string | null>;
  write(secret: SecretName, value: string): Promise<void>;
  /** False: there was none. */
  remove(secret: SecretName): Promise<boolean>;
  /** Names that have a value, sorted. */
  list(appId: string, service: string): Promise<readonly string[]>;
  /** All of an app's. */
  forget(appId: string): Promise<void>;
}

/** What an environment variable or a file in a container takes; longer values are files of another kind. */
export const secretSizeMax = 64 * 1024;

export function checkSecretValue(value: string): void {
  if (value === '') throw new Fault('secret-refused', 'the value is empty');
  if (Buffer.byteLength(value) > secretSizeMax) throw new Fault('secret-refused', 'the value is longer than 64 KiB');
  if (value.includes('\0')) throw new Fault('secret-refused', 'the value holds a NUL byte');
}

/** 63 characters, as names of services have; what is kept beside the secrets of one carries a suffix. */
const nameForm = /^[a-z0-9][a-z0-9_.-]{0,62}(\.SERVED)?$/i;

function checkNames({ appId, service, name }: SecretName): void {
  for (const part of [appId, service, name]) {
    if (!nameForm.test(part)) throw new Fault('secret-refused', `${JSON.stringify(part)} is no name of a secret`);
  }
}

const algorithm = 'aes-256-gcm';
const nonceLength = 12;
const tagLength = 16;

/**
 * One file a secret, AES-256-GCM under a key in the same directory (0600). The key keeps values out of backups of single
 * files and out of sight; who reads the whole directory has them.
 */
export class FileSecretStore implements SecretStore {
  readonly #directory: string;
  readonly #key: Buffer;

  /** Makes directory and key when they are not there. Throws a Fault `secret-refused`. */
  static async open(directory: string): Promise<FileSecretStore> {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    const path = join(directory, 'key');
    try {
      return new FileSecretStore(directory, readFileSync(path));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw unusable(path, error);
    }
    const key = randomBytes(32);
    await writeFileAtomically(path, key, 0o600);
    return new FileSecretStore(directory, key);
  }

  private constructor(directory: string, key: Buffer) {
    if (key.length !== 32) throw new Fault('secret-refused', `${directory}/key has not 32 bytes`);
    this.#directory = directory;
    this.#key = key;
  }

  async read(secret: SecretName): Promise<string | null> {
    const path = this.#path(secret);
    let sealed: Buffer;
    try {
      sealed = await readFile(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw unusable(path, error);
    }
    try {
      const decipher = createDecipheriv(algorithm, this.#key, sealed.subarray(0, nonceLength));
      decipher.setAAD(bound(secret));
      decipher.setAuthTag(sealed.subarray(nonceLength, nonceLength + tagLength));
      const value = Buffer.concat([decipher.update(sealed.subarray(nonceLength + tagLength)), decipher.final()]);
      return value.toString('utf8');
    } catch {
      throw new Fault('secret-refused', `${path} was changed, or belongs to another key; set the secret again`);
    }
  }

  async write(secret: SecretName, value: string): Promise<void> {
    checkSecretValue(value);
    const path = this.#path(secret);
    mkdirSync(join(path, '..'), { recursive: true, mode: 0o700 });
    const nonce = randomBytes(nonceLength);
    const cipher = createCipheriv(algorithm, this.#key, nonce);
    cipher.setAAD(bound(secret));
    const sealed = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()]);
    await writeFileAtomically(path, Buffer.concat([nonce, cipher.getAuthTag(), sealed]), 0o600);
  }

  async remove(secret: SecretName): Promise<boolean> {
    const path = this.#path(secret);
    try {
      await rm(path);
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw unusable(path, error);
    }
  }

  async list(appId: string, service: string): Promise<readonly string[]> {
    try {
      return (await readdir(join(this.#directory, appId, service))).sort();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw unusable(this.#directory, error);
    }
  }

  async forget(appId: string): Promise<void> {
    checkNames({ appId, service: 'x', name: 'x' });
    await rm(join(this.#directory, appId), { recursive: true, force: true });
  }

  #path(secret: SecretName): string {
    checkNames(secret);
    return join(this.#directory, secret.appId, secret.service, secret.name);
  }
}

/** A file that is moved to another secret's place does not open there. */
const bound = ({ appId, service, name }: SecretName): Buffer => Buffer.from(`${appId}/${service}/${name}`);

const unusable = (path: string, error: unknown): Fault =>
  new Fault('secret-refused', `${path}: ${(error as Error).message}`, { cause: error });

/** `turnpike/apps/<app uuid>/<service>/<name>` in the password store. */
export class PassSecretStore implements SecretStore {
  readonly #command: string;
  readonly #directory: string;

  /** @param directory  of the store, `$PASSWORD_STORE_DIR` or `~/.password-store` */
  constructor(directory: string, command = 'pass') {
    this.#command = command;
    this.#directory = directory;
  }

  async read(secret: SecretName): Promise<string | null> {
    if (!(await this.list(secret.appId, secret.service)).includes(secret.name)) return null;
    const value = await this.#run(['show', entryOf(secret)], null);
    // Written here, as pass itself does with what is typed: a line feed at the end is none of the value.
    return value.endsWith('\n') ? value.slice(0, -1) : value;
  }

  async write(secret: SecretName, value: string): Promise<void> {
    checkSecretValue(value);
    await this.#run(['insert', '--multiline', '--force', entryOf(secret)], `${value}\n`);
  }

  async remove(secret: SecretName): Promise<boolean> {
    if (!(await this.list(secret.appId, secret.service)).includes(secret.name)) return false;
    await this.#run(['rm', '--force', entryOf(secret)], null);
    return true;
  }

  async list(appId: string, service: string): Promise<readonly string[]> {
    checkNames({ appId, service, name: 'x' });
    try {
      const entries = await readdir(join(this.#directory, 'turnpike', 'apps', appId, service));
      return entries
        .filter((entry) => entry.endsWith('.gpg'))
        .map((entry) => entry.slice(0, -4))
        .sort();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
      throw unusable(this.#directory, error);
    }
  }

  async forget(appId: string): Promise<void> {
    checkNames({ appId, service: 'x', name: 'x' });
    const entry = `turnpike/apps/${appId}`;
    if (existsSync(join(this.#directory, entry))) await this.#run(['rm', '--recursive', '--force', entry], null);
  }

  #run(args: readonly string[], input: string | null): Promise<string> {
    return new Promise((resolve, reject) => {
      const child = spawn(this.#command, args, {
        env: { ...process.env, PASSWORD_STORE_DIR: this.#directory },
        stdio: ['pipe', 'pipe', 'pipe'],
        timeout: 30_000,
      });
      const out: Buffer[] = [];
      let error = '';
      child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
      child.stderr.on('data', (chunk: Buffer) => {
        error = (error + chunk.toString('utf8')).slice(-1000);
      });
      child.stdin.on('error', () => {});
      child.on('error', (cause) =>
        reject(new Fault('secret-refused', `${this.#command}: ${cause.message}`, { cause })),
      );
      child.on('close', (code) => {
        if (code === 0) resolve(Buffer.concat(out).toString('utf8'));
        // What pass says on stderr names entries and keys, never values.
        else reject(new Fault('secret-refused', `pass ${args[0]} failed: ${error.trim() || `exit code ${code}`}`));
      });
      child.stdin.end(input ?? '');
    });
  }
}

function entryOf(secret: SecretName): string {
  checkNames(secret);
  return `turnpike/apps/${secret.appId}/${secret.service}/${secret.name}`;
}

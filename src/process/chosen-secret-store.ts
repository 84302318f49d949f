// The store of secrets that the configuration chooses.
// Invariant: asked anew for each call, because a reload may have chosen another one; values are never moved between them.
import { homedir } from 'node:os';
import { join } from 'node:path';
import type { Declaration } from '../config/declaration.ts';
import { FileSecretStore, PassSecretStore, type SecretName, type SecretStore } from '../runtime/secret-store.ts';

export class ChosenSecretStore implements SecretStore {
  readonly #declaration: () => Declaration;
  #file: Promise<FileSecretStore> | null = null;

  constructor(declaration: () => Declaration) {
    this.#declaration = declaration;
  }

  async read(secret: SecretName): Promise<string | null> {
    return (await this.#store()).read(secret);
  }

  async write(secret: SecretName, value: string): Promise<void> {
    return (await this.#store()).write(secret, value);
  }

  async remove(secret: SecretName): Promise<boolean> {
    return (await this.#store()).remove(secret);
  }

  async list(appId: string, service: string): Promise<readonly string[]> {
    return (await this.#store()).list(appId, service);
  }

  async forget(appId: string): Promise<void> {
    return (await this.#store()).forget(appId);
  }

  #store(): Promise<SecretStore> {
    const { secrets, stateDir } = this.#declaration();
    if (secrets.backend === 'pass') {
      const directory = process.env['PASSWORD_STORE_DIR'] ?? join(homedir(), '.password-store');
      return Promise.resolve(new PassSecretStore(directory));
    }
    this.#file ??= FileSecretStore.open(join(stateDir, 'app-secrets')).catch((error: unknown) => {
      this.#file = null;
      throw error;
    });
    return this.#file;
  }
}

// Values of apps' secrets, as commands set, list and remove them.
// Invariant: a value comes in and never goes out; only what a manifest names can be set, so that a slip of the pen is told.
import type { AppsBook } from '../apps/book.ts';
import type { Incarnation } from '../apps/state.ts';
import { Fault } from '../base/fault.ts';
import type { AppService } from '../manifest/app.ts';
import { checkSecretValue, type SecretStore } from '../runtime/secret-store.ts';

export interface SecretRow {
  readonly service: string;
  readonly name: string;
  /** Where the container finds it; null: no manifest names it any more. */
  readonly env: string | null;
  readonly delivery: 'env' | 'file' | null;
  readonly isSet: boolean;
}

export interface AppSecretOperations {
  list(app: string): Promise<readonly SecretRow[]>;
  set(app: string, service: string, name: string, value: string): Promise<void>;
  remove(app: string, service: string, name: string): Promise<void>;
}

export class AppSecrets implements AppSecretOperations {
  readonly #book: AppsBook;
  readonly #store: SecretStore;

  constructor(book: AppsBook, store: SecretStore) {
    this.#book = book;
    this.#store = store;
  }

  async list(app: string): Promise<readonly SecretRow[]> {
    const incarnation = this.#find(app);
    const rows: SecretRow[] = [];
    for (const { name: service, secrets, shape } of this.#services(incarnation)) {
      if (shape !== null) continue;
      const stored = await this.#store.list(incarnation.id, service);
      const declared = new Set(secrets.map(({ secret }) => secret));
      for (const { env, secret, delivery } of secrets) {
        rows.push({ service, name: secret, env, delivery, isSet: stored.includes(secret) });
      }
      for (const name of stored) {
        if (!declared.has(name)) rows.push({ service, name, env: null, delivery: null, isSet: true });
      }
    }
    return rows;
  }

  async set(app: string, serviceName: string, name: string, value: string): Promise<void> {
    const incarnation = this.#find(app);
    const service = this.#service(incarnation, serviceName);
    if (service.shape !== null) {
      const where = `put it into the file ${name} (mode 600) in the directory secrets of state_dir`;
      throw new Fault('secret-refused', `${app} is a YAML app: ${where}`);
    }
    const known = service.secrets.map(({ secret }) => secret);
    if (!known.includes(name)) {
      const has = known.length === 0 ? 'none' : [...new Set(known)].join(', ');
      throw new Fault('secret-refused', `${app}/${serviceName} has no secret ${name} in its manifest (it has ${has})`);
    }
    checkSecretValue(value);
    await this.#store.write({ appId: incarnation.id, service: serviceName, name }, value);
  }

  async remove(app: string, service: string, name: string): Promise<void> {
    const { id } = this.#find(app);
    if (await this.#store.remove({ appId: id, service, name })) return;
    throw new Fault('secret-refused', `${app}/${service} has no value for ${name}: turnpike apps secrets list ${app}`);
  }

  #find(app: string): Incarnation {
    const found = this.#book.app(app);
    if (found === null) throw new Fault('unknown-app', `no app is named ${app}`);
    return found;
  }

  #services({ id, desired }: Incarnation): readonly AppService[] {
    return this.#book.revision(id, desired)?.app.services ?? [];
  }

  #service(incarnation: Incarnation, name: string): AppService {
    const services = this.#services(incarnation);
    const found = services.find((each) => each.name === name);
    if (found !== undefined) return found;
    const has = services.map((each) => each.name).join(', ');
    throw new Fault('unknown-app', `${incarnation.name} has no service ${name} (it has ${has === '' ? 'none' : has})`);
  }
}

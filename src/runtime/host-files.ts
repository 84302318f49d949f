// What a YAML manifest wants on the host before its container is made: directories of binds, files, certificates, an owner.
// Invariant: everything is below the data root and no link is followed on the way there; what was made once is kept.
import { createPrivateKey, generateKeyPair, X509Certificate } from 'node:crypto';
import { promisify } from 'node:util';
import type { Clock } from '../base/clock.ts';
import { Fault } from '../base/fault.ts';
import { issueCertificate } from '../certificates/x509.ts';
import type { ContainerShape, GeneratedCert } from '../manifest/app.ts';
import { canonicalHost } from '../model/host.ts';
import { ConfinedDirectory } from './confined-directory.ts';
import { rendered } from './launch-spec.ts';

export type Placeholders = Readonly<Record<string, string>>;

const dayMs = 86_400_000;
const lifetimeMs = 3650 * dayMs;
/** Clients' clocks are late sometimes. */
const backdateMs = 300_000;
const certificateLimit = 64 * 1024;

export class HostFiles {
  readonly #clock: Clock;
  readonly #root: () => string;

  /** @param root  the data root, as configured now */
  constructor(clock: Clock, root: () => string) {
    this.#clock = clock;
    this.#root = root;
  }

  async prepare(shape: ContainerShape, placeholders: Placeholders): Promise<void> {
    const root = new ConfinedDirectory(this.#root());
    for (const { path, content, overwrite } of shape.files) {
      if (overwrite || (await root.look(path)) === null) await root.write(path, content, 0o644);
    }
    for (const each of shape.generatedCerts) await this.#certificate(each, root, placeholders);
    const binds = shape.hostBinds.filter(({ source }) => root.contains(source));
    for (const { source } of binds) {
      // A single file may be bound as well.
      if ((await root.look(source))?.isFile() !== true) await root.makeDirectory(source);
    }
    if (shape.dataUid === null) return;
    const [uid = Number.NaN, gid = Number.NaN] = shape.dataUid.split(':').map(Number);
    for (const { source, readonly } of binds) if (!readonly) await root.own(source, uid, gid);
  }

  /** Self-signed, for ten years; made again in the last third of that. */
  async #certificate(
    { crt, key, commonName, sans }: GeneratedCert,
    root: ConfinedDirectory,
    placeholders: Placeholders,
  ): Promise<void> {
    const now = this.#clock.now();
    if ((await root.look(crt)) !== null && (await root.look(key)) !== null) {
      const known = certificateIn(await root.read(crt, certificateLimit));
      const fits = known?.checkPrivateKey(createPrivateKey(await root.read(key, certificateLimit))) ?? false;
      if (known !== null && fits && known.validToDate.getTime() - now > lifetimeMs / 3) return;
    }
    const subject = rendered(commonName ?? sans[0] ?? '{{HOST_MDNS}}', placeholders);
    const names = [...new Set([subject, ...sans.map((each) => rendered(each, placeholders))])].map((name) => {
      const host = canonicalHost(name);
      if (host === null) throw new Fault('runtime-refused', `${crt}: ${JSON.stringify(name)} is no name of a host`);
      return host;
    });
    const { publicKey, privateKey } = await promisify(generateKeyPair)('ec', { namedCurve: 'P-256' });
    const content = { commonName: subject, organization: null, publicKey, names, use: 'server' } as const;
    const pem = issueCertificate(
      { ...content, notBefore: now - backdateMs, notAfter: now + lifetimeMs },
      { certificate: null, key: privateKey },
    );
    await root.write(key, privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), 0o600);
    await root.write(crt, pem, 0o644);
  }
}

function certificateIn(text: Buffer): X509Certificate | null {
  try {
    return new X509Certificate(text);
  } catch {
    return null;
  }
}

// TLS towards the backends of one service: whom we trust there, whom we expect, and how we identify ourselves.
// Invariant: bad PEM material is found by `backendTlsProblem` before it is used; a BackendTls never throws, it refuses
// every connection instead. Verification is on unless the service says otherwise.
import { X509Certificate } from 'node:crypto';
import { isIP } from 'node:net';
import { type ConnectionOptions, createSecureContext, type SecureContext } from 'node:tls';
import { Fault } from '../base/fault.ts';
import type { Service, UpstreamTls } from '../model/snapshot.ts';
import type { Participant } from '../traffic/traffic.ts';

const verified: UpstreamTls = { sni: '', verify: true, ca: '', cert: '', key: '' };

/** True when connections to the backends of this service are encrypted. */
export function usesTls(service: Service): boolean {
  return service.protocol === 'https' || service.protocol === 'h2' || service.protocol === 'tls';
}

/** Why this material cannot be used, for the operator; null when it can. */
export function backendTlsProblem(tls: UpstreamTls): string | null {
  try {
    createContext(tls);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Refuses a publication whose backend certificates or keys cannot be used: a commit has no way to fail. */
export const backendTlsCheck: Participant<null> = {
  prepare(next, current, changed) {
    if (!changed.has('routing')) return null;
    for (const service of next.table.part.services) {
      if (service.upstreamTls === null || !usesTls(service)) continue;
      const before = current?.table.services.get(service.name)?.upstreamTls;
      if (before !== undefined && sameTls(before, service.upstreamTls)) continue;
      const problem = backendTlsProblem(service.upstreamTls);
      if (problem !== null) throw new Fault('publish-refused', `upstream_tls of ${service.origin}: ${problem}`);
    }
    return null;
  },
  commit() {},
  abort() {},
};

export function sameTls(a: UpstreamTls | null, b: UpstreamTls | null): boolean {
  if (a === null || b === null) return a === b;
  return a.sni === b.sni && a.verify === b.verify && a.ca === b.ca && a.cert === b.cert && a.key === b.key;
}

export class BackendTls {
  /** Why no connection can be made; null: all is well. */
  readonly problem: string | null;
  readonly #tls: UpstreamTls;
  readonly #alpn: 'h2' | 'http/1.1' | null;
  readonly #context: SecureContext | null;

  constructor(service: Service) {
    this.#tls = service.upstreamTls ?? verified;
    // Which protocol a tunnel carries is not ours to say.
    this.#alpn = service.protocol === 'tls' ? null : service.protocol === 'h2' ? 'h2' : 'http/1.1';
    let context: SecureContext | null = null;
    let problem: string | null = null;
    try {
      context = createContext(this.#tls);
    } catch (error) {
      problem = error instanceof Error ? error.message : String(error);
    }
    this.#context = context;
    this.problem = problem;
  }

  get alpn(): 'h2' | 'http/1.1' | null {
    return this.#alpn;
  }

  /** For `tls.connect`. `host` is the backend's host, without brackets. */
  options(host: string): ConnectionOptions {
    const { sni, verify } = this.#tls;
    // An IP literal must not be sent as SNI (RFC 6066 §3); the certificate is then checked against `host`.
    const name = sni !== '' ? sni : isIP(host) === 0 ? host : '';
    return {
      ...(this.#context === null ? {} : { secureContext: this.#context }),
      ...(name === '' ? {} : { servername: name }),
      ...(this.#alpn === null ? {} : { ALPNProtocols: [this.#alpn] }),
      rejectUnauthorized: verify,
      minVersion: 'TLSv1.2',
    };
  }
}

function createContext(tls: UpstreamTls): SecureContext {
  const { ca, cert, key } = tls;
  if ((cert === '') !== (key === '')) throw new Error('a client certificate needs both cert_file and key_file');
  if (ca !== '') {
    // OpenSSL skips what it cannot read in a bundle, and would then trust nobody or too few without a word.
    const blocks = ca.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g);
    if (blocks === null) throw new Error('ca_file holds no PEM certificate');
    for (const block of blocks) new X509Certificate(block);
  }
  return createSecureContext({
    minVersion: 'TLSv1.2',
    ...(ca === '' ? {} : { ca }),
    ...(cert === '' ? {} : { cert, key }),
  });
}

// One tls.Server for each pair of TLS profile and certificate in use, built on first use.
// Invariant: a server here can only ever present its one certificate and apply its one profile: no SNI callback, nothing
// to fail open. None of them listens; connections are handed to them.
import { constants, createHash } from 'node:crypto';
import { createServer, type Server, type TLSSocket, type TlsOptions } from 'node:tls';
import type { TlsProfile } from '../model/routing-table.ts';
import type { Certificate } from '../model/snapshot.ts';

/** 33 KiB and a third of a millisecond each: enough for the hosts that are busy, not for all that are configured. */
const capacity = 1000;

/**
 * Mozilla's "intermediate" without its DHE suites: every client that has TLS 1.2 and GCM has ECDHE, and a server that
 * offers DHE lets anyone spend its CPU (CVE-2002-20001). "Modern" is the same list under a lowest version of 1.3.
 */
const ciphers = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':');

/** How long a session may be resumed. Ticket keys rotate more slowly than this. */
const sessionLifetimeS = 7200;

/** Where HTTP is spoken, these alone: a client that offers neither is refused with no_application_protocol, not guessed at. */
export const offeredProtocols = ['h2', 'http/1.1'];

export interface ServerEvents {
  secure(socket: TLSSocket): void;
  failed(error: Error, socket: TLSSocket): void;
}

interface Entry {
  readonly server: Server;
  readonly profileId: string;
  readonly certificateId: string;
}

export class ProfileServers {
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry>();
  readonly #events: ServerEvents;
  #ticketKey: Buffer;

  constructor(events: ServerEvents, ticketKey: Buffer) {
    this.#events = events;
    this.#ticketKey = ticketKey;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Throws when OpenSSL refuses the certificate, its key or the profile's CA. */
  get(profile: TlsProfile, certificate: Certificate): Server {
    const key = `${profile.id} ${profile.minVersion} ${certificate.id}`;
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      const server = createServer(serverOptions(profile, certificate, this.#ticketKey));
      server.on('secureConnection', this.#events.secure);
      server.on('tlsClientError', this.#events.failed);
      entry = { server, profileId: profile.id, certificateId: certificate.id };
      if (this.#entries.size >= capacity) this.#entries.delete(this.#entries.keys().next().value!);
    } else {
      this.#entries.delete(key);
    }
    this.#entries.set(key, entry);
    return entry.server;
  }

  /** Tickets made under the old key cost one full handshake each. */
  setTicketKey(ticketKey: Buffer): void {
    if (ticketKey.equals(this.#ticketKey)) return;
    this.#ticketKey = ticketKey;
    for (const { server } of this.#entries.values()) server.setTicketKeys(ticketKey);
  }

  /** Forgets servers that no handshake will ask for again. Connections that use them live on. */
  keep(isWanted: (profileId: string, certificateId: string) => boolean): void {
    for (const [key, { profileId, certificateId }] of this.#entries) {
      if (!isWanted(profileId, certificateId)) this.#entries.delete(key);
    }
  }
}

export function serverOptions(profile: TlsProfile, certificate: Certificate, ticketKey: Buffer): TlsOptions {
  const { clientAuth } = profile;
  return {
    cert: certificate.chain,
    key: certificate.key,
    minVersion: profile.minVersion === '1.3' ? 'TLSv1.3' : 'TLSv1.2',
    maxVersion: 'TLSv1.3',
    ciphers,
    ecdhCurve: 'X25519MLKEM768:X25519:prime256v1:secp384r1',
    // Every suite above is good: let clients without AES hardware choose ChaCha20.
    honorCipherOrder: false,
    // Renegotiation: nobody needs it, and it costs the server more than the client.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_COMPRESSION,
    ...(profile.http ? { ALPNProtocols: offeredProtocols } : {}),
    ticketKeys: ticketKey,
    sessionTimeout: sessionLifetimeS,
    // All workers and profiles share the ticket key; this is what keeps a session that was authenticated under one
    // client CA from resuming under another. It names the certificate too: RFC 6066 §3 forbids resuming under another
    // name, and what a connection presented must be what it was verified with.
    sessionIdContext: createHash('sha256').update(`${profile.id}\n${certificate.id}`).digest('hex').slice(0, 32),
    ...(clientAuth === null
      ? {}
      : { requestCert: true, rejectUnauthorized: clientAuth.mode === 'require', ca: clientAuth.ca }),
  };
}

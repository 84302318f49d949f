// Ends TLS for a worker: peeks at each ClientHello, picks identity and profile from the committed snapshot, hands the
// connection to the one tls.Server that can only do just that.
// Invariant: a new snapshot changes what the next handshake gets; connections that are up are never touched.
import { createHash } from 'node:crypto';
import type { Socket } from 'node:net';
import { createSecureContext, type Server, type TLSSocket } from 'node:tls';
import type { Clock } from '../base/clock.ts';
import type { Deadlines } from '../base/deadlines.ts';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import { type CertificateIndex, certificateIndex } from '../model/certificate-index.ts';
import type { RoutingTable, TlsProfile } from '../model/routing-table.ts';
import type { Certificate, PartName } from '../model/snapshot.ts';
import type { Compiled, Participant } from '../traffic/traffic.ts';
import { type ChallengeServers, challengeServers, noChallengeServers } from './challenge-servers.ts';
import type { ClientHello } from './client-hello.ts';
import { endsOf, Handshake, type HandshakeHost, type ServeIdentity, type TlsHooks } from './handshake.ts';
import { chooseIdentity, chooseTermination, type Identity } from './identity.ts';
import { LeafCache, type LeafFor } from './leaf-cache.ts';
import { ProfileServers, type ServerEvents } from './profile-servers.ts';

export type { TlsHooks, TlsRefusal } from './handshake.ts';

export interface TerminatorDeps {
  readonly clock: Clock;
  readonly deadlines: Deadlines;
  readonly log: Log;
  /** Leaves of the internal CA, signed elsewhere. */
  readonly leafFor: LeafFor;
}

interface PreparedTls {
  readonly table: RoutingTable;
  readonly index: CertificateIndex;
  readonly ticketKey: Buffer;
  readonly challenges: ChallengeServers;
}

export class TlsTerminator implements Participant<PreparedTls>, HandshakeHost {
  readonly deadlines: Deadlines;
  readonly #log: Log;
  readonly #leaves: LeafCache;
  readonly #servers: ProfileServers;
  readonly #events: ServerEvents;
  /**
   * Handshakes inside a tls.Server, by the four ends of their connection: node:tls tells which socket became secure, not
   * which raw socket that was.
   */
  readonly #running = new Map<string, Handshake>();
  #current: PreparedTls | null = null;

  constructor(deps: TerminatorDeps) {
    this.deadlines = deps.deadlines;
    this.#log = deps.log;
    this.#leaves = new LeafCache(deps.leafFor, deps.clock);
    this.#events = {
      secure: (socket) => this.#secured(socket),
      failed: (error, socket) => this.#failed(error, socket),
    };
    // The key is replaced by the first commit; nothing is accepted before.
    this.#servers = new ProfileServers(this.#events, Buffer.alloc(48));
  }

  /** Takes a fresh TCP connection. It must be unread, flowing or paused. */
  accept(socket: Socket, hooks: TlsHooks): void {
    new Handshake(socket, hooks, this).start();
  }

  prepare(next: Compiled, current: Compiled | null, changed: ReadonlySet<PartName>): PreparedTls {
    const { table, snapshot } = next;
    if (changed.has('routing')) {
      for (const profile of table.profiles.values()) {
        if (current?.table.profiles.get(profile.id)?.clientAuth?.ca !== profile.clientAuth?.ca) checkProfile(profile);
      }
    }
    const ticketKey = Buffer.from(snapshot.parts.keys.ticketKey, 'base64');
    if (ticketKey.length !== 48) throw new Fault('publish-refused', 'the ticket key has not 48 bytes');
    const kept = changed.has('challenges') ? null : (this.#current?.challenges ?? noChallengeServers);
    const challenges = kept ?? challengeServers(snapshot.parts.challenges, this.#events);
    return { table, index: certificateIndex(snapshot.parts.certificates), ticketKey, challenges };
  }

  commit(prepared: PreparedTls): void {
    this.#current = prepared;
    this.#servers.setTicketKey(prepared.ticketKey);
    if (!prepared.index.internalCa) this.#leaves.clear();
    this.#servers.keep(
      (profileId, certificateId) =>
        prepared.table.profiles.has(profileId) &&
        (prepared.index.byId.has(certificateId) || this.#leaves.has(certificateId)),
    );
  }

  abort(): void {
    // `prepare` built nothing that lives.
  }

  // ---- HandshakeHost -------------------------------------------------------------------------------------------

  chooseIdentity({ entrypoint, termination }: TlsHooks, hello: ClientHello, localAddress: string): Identity {
    const { table, index } = this.#snapshot;
    if (termination !== undefined) return chooseTermination(table, index, termination, hello.serverName);
    return chooseIdentity(table, index, entrypoint, hello.serverName, localAddress);
  }

  leaf(name: string): Certificate | Promise<Certificate | null> {
    return this.#leaves.get(name) ?? this.#leaves.request(name);
  }

  challengeFor(name: string | null): Server | null {
    return name === null ? null : (this.#snapshot.challenges.get(name) ?? null);
  }

  serverFor(identity: ServeIdentity, certificate: Certificate): Server {
    return this.#servers.get(identity.profile, certificate);
  }

  handedOver(handshake: Handshake): void {
    this.#running.set(handshake.ends, handshake);
  }

  ended(handshake: Handshake): void {
    if (this.#running.get(handshake.ends) === handshake) this.#running.delete(handshake.ends);
  }

  warn(event: string, members: object): void {
    this.#log.warn(event, members);
  }

  // ---- what the tls.Servers report -----------------------------------------------------------------------------

  #secured(socket: TLSSocket): void {
    const handshake = this.#running.get(endsOf(socket));
    if (handshake === undefined) socket.destroy();
    else handshake.secured(socket);
  }

  #failed(error: Error, socket: TLSSocket): void {
    this.#running.get(endsOf(socket))?.failed(error);
  }

  get #snapshot(): PreparedTls {
    if (this.#current === null) throw new Error('no snapshot committed yet');
    return this.#current;
  }
}

/** An empty or broken CA bundle must not be published: OpenSSL would fall back to trusting every public CA, or nobody. */
function checkProfile(profile: TlsProfile): void {
  const { clientAuth } = profile;
  if (clientAuth === null) return;
  try {
    if (!clientAuth.ca.includes('-----BEGIN CERTIFICATE-----')) throw new Error('no certificate in it');
    createSecureContext({ ca: clientAuth.ca });
  } catch (error) {
    const bundle = createHash('sha256').update(clientAuth.ca).digest('hex').slice(0, 16);
    throw new Fault('publish-refused', `client CA ${bundle} of TLS profile ${profile.id} is unusable`, {
      cause: error,
    });
  }
}

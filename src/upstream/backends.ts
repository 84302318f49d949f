// The backends of one generation of a service, in one worker: an exchange asks here for a connection to one of them.
// Invariant: a backend that is down or ejected is never chosen; when none is left, the ask fails with `no-live-backend`.
import { Fault } from '../base/fault.ts';
import type { Metrics } from '../base/metrics.ts';
import { Fields } from '../message/fields.ts';
import type { BackendReceiver, BackendStream } from '../message/stream.ts';
import type { Service } from '../model/snapshot.ts';
import type { GenerationResource } from '../traffic/live-service.ts';
import { type Ask, answered, type Opening, type UpstreamDeps } from './ask.ts';
import { type BackendCells, type BackendStats, backendTlsOf, connectsDifferently, LiveBackend } from './backend.ts';
import { hashText, leastRequests, rendezvous, roundRobin, Standing } from './balance.ts';
import { cookieValue, StickyCookie } from './sticky.ts';

/** What a backend is chosen by. */
interface Choice extends Pick<Ask, 'clientAddress' | 'avoid'> {
  readonly head: Pick<Ask['head'], 'fields'>;
}

/** Tunnels and flows have no header and no cookie. */
const noHead = { fields: new Fields() };

export class Backends implements GenerationResource {
  readonly #deps: UpstreamDeps;
  readonly #backends: readonly LiveBackend[];
  #service: Service;
  #sticky: StickyCookie | null;
  /** Where the next turn of round robin begins. */
  #turn = 0;

  constructor(service: Service, down: readonly string[], deps: UpstreamDeps) {
    this.#deps = deps;
    this.#service = service;
    this.#sticky = stickyOf(service, deps);
    const cells = cellsOf(deps.metrics, service.name);
    const tls = backendTlsOf(service);
    if (tls?.problem != null) deps.log.error('upstream-tls-unusable', { service: service.name, problem: tls.problem });
    this.#backends = service.generation.backends.map(
      (backend) => new LiveBackend(backend, service, tls, down.includes(backend.address), deps, cells),
    );
  }

  open(ask: Ask, receiver: BackendReceiver): Opening {
    const index = this.#choose(ask);
    if (index < 0) {
      const { name } = this.#service;
      receiver.responseFailed(
        new Fault('no-live-backend', `none of ${this.#backends.length} backends of ${name} is live`),
      );
      return answered;
    }
    return this.#backends[index]!.open(receiver, ask.replay);
  }

  /**
   * The backend for one tunnel or flow of this client, whose owner keeps its ledger; null: none is live.
   * @param avoid  the address that just failed
   */
  pick(clientAddress: string, avoid: string | null): LiveBackend | null {
    const index = this.#choose({ head: noHead, clientAddress, avoid });
    return index < 0 ? null : this.#backends[index]!;
  }

  /** The Set-Cookie value that pins the client to the backend which served it; null when it has that cookie already. */
  stickyAnswer(ask: Ask, stream: BackendStream): string | null {
    const sticky = this.#sticky;
    if (sticky === null) return null;
    const value = sticky.read(ask.head.fields);
    if (value !== null && sticky.find(value, [stream]) === 0) return null;
    return sticky.make(stream.address);
  }

  update(service: Service, down: readonly string[]): void {
    const before = this.#service;
    this.#service = service;
    if (service.stickyCookie !== before.stickyCookie) this.#sticky = stickyOf(service, this.#deps);
    const replaced = connectsDifferently(before, service) ? { tls: backendTlsOf(service) } : null;
    for (const backend of this.#backends) backend.update(service, down.includes(backend.address), replaced);
  }

  retire(): void {
    for (const backend of this.#backends) backend.retire();
  }

  close(): void {
    for (const backend of this.#backends) backend.close();
  }

  stats(): readonly BackendStats[] {
    return this.#backends.map((backend) => backend.stats());
  }

  #choose(ask: Choice): number {
    const backends = this.#backends;
    const { now } = this.#deps.deadlines;
    if (this.#sticky !== null) {
      const pinned = this.#pinned(this.#sticky, ask, now);
      if (pinned >= 0) return pinned;
    }
    if (backends.length === 1) return backends[0]!.standing(now) === Standing.out ? -1 : 0;
    const { avoid } = ask;
    let index = this.#balance(ask, now, Standing.open, avoid);
    // Rather more than a returning backend should get, or the one that just failed, than no answer at all.
    if (index < 0) index = this.#balance(ask, now, Standing.limited, avoid);
    if (index < 0 && avoid !== null) index = this.#balance(ask, now, Standing.limited, null);
    return index;
  }

  #balance(ask: Choice, now: number, least: Standing, avoid: string | null): number {
    const backends = this.#backends;
    const { balance } = this.#service;
    if (balance !== 'least_requests' && balance !== 'round_robin') {
      return rendezvous(backends, hashText(this.#hashKey(ask)), now, least, avoid);
    }
    const choose = balance === 'least_requests' ? leastRequests : roundRobin;
    const index = choose(backends, this.#turn, now, least, avoid);
    if (index >= 0) this.#turn = (index + 1) % backends.length;
    return index;
  }

  /** A client without the header or cookie is told apart by its address. */
  #hashKey(ask: Choice): string {
    const { balance, balanceKey } = this.#service;
    const { fields } = ask.head;
    const value =
      balance === 'hash_header'
        ? fields.getNamed(balanceKey)
        : balance === 'hash_cookie'
          ? cookieValue(fields, balanceKey)
          : null;
    return value ?? ask.clientAddress;
  }

  #pinned(sticky: StickyCookie, ask: Choice, now: number): number {
    const value = sticky.read(ask.head.fields);
    if (value === null) return -1;
    const index = sticky.find(value, this.#backends);
    if (index < 0) return -1;
    const backend = this.#backends[index]!;
    return backend.address === ask.avoid || backend.standing(now) === Standing.out ? -1 : index;
  }
}

function stickyOf(service: Service, deps: UpstreamDeps): StickyCookie | null {
  return service.stickyCookie === '' ? null : new StickyCookie(service.name, service.stickyCookie, deps.cookieKey);
}

function cellsOf(metrics: Metrics, service: string): BackendCells {
  const labels = ['service'];
  return {
    connections: metrics
      .gauge('backend_connections', 'Open connections to backends, idle ones included', labels)
      .cell(service),
    connects: metrics.counter('backend_connects_total', 'Connections made to backends', labels).cell(service),
    idleClosed: metrics
      .counter(
        'backend_idle_closed_total',
        'Connections to backends closed because they were idle for too long',
        labels,
      )
      .cell(service),
    failures: metrics
      .counter('backend_failures_total', 'Connections and exchanges that backends failed', labels)
      .cell(service),
    ejections: metrics
      .counter('backend_ejections_total', 'Backends put out after consecutive failures', labels)
      .cell(service),
  };
}

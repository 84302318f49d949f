// Apps for tests: manifests in memory, and a world of processes and traffic that can be killed between any two steps.
// Invariant: the world notes what happens in one list, in order; it never says that something is ready, alive or served that
// is not.
import { Apps, type AppsSettings, type Manifest } from '../../src/apps/apps.ts';
import { AppsBook } from '../../src/apps/book.ts';
import type { Moved } from '../../src/apps/ports.ts';
import { type AppGround, compose, noGround } from '../../src/apps/routing.ts';
import type { AppsChange, AppsRows, Incarnation } from '../../src/apps/state.ts';
import { Fault } from '../../src/base/fault.ts';
import { silentLog } from '../../src/base/log.ts';
import type { App, AppService } from '../../src/manifest/app.ts';
import { movingServices } from '../../src/model/moves.ts';
import type { RoutingPart } from '../../src/model/snapshot.ts';
import type { InstanceRef, Launch, LaunchCheck, Runtime, Started } from '../../src/runtime/runtime.ts';
import type { HandClock } from './hand-clock.ts';
import { routing } from './routing.ts';

export function appService(name: string, over: Partial<AppService> = {}): AppService {
  return {
    name,
    source: {
      kind: 'image',
      image: { registry: 'docker.io', repository: 'library/test', tag: '1', digest: null },
      pull: 'if-not-present',
    },
    entrypoint: null,
    command: null,
    stopGraceMs: 30_000,
    env: [],
    secrets: [],
    devices: [],
    volumes: [],
    binds: [],
    databases: [],
    backup: { postgres: [], volume: [] },
    readiness: null,
    http: [],
    tcp: [],
    udp: [],
    publications: [],
    telemetryLogs: null,
    shape: null,
    ...over,
  };
}

/** A service with one public host on port 3000, which is not probed: the world says itself what is ready. */
export function webService(name: string, host: string, over: Partial<AppService> = {}): AppService {
  return appService(name, {
    http: [{ visibility: 'public', host, port: 3000, tls: 'auto' }],
    readiness: { type: 'log', contains: 'ready', timeoutMs: 30_000 },
    ...over,
  });
}

export function app(name: string, services: readonly AppService[], over: Partial<App> = {}): App {
  return {
    name,
    kind: 'toml',
    display: { title: name, version: null, description: null, upstream: null, launch: [], extensions: {} },
    env: [],
    services,
    sharedNetworks: [],
    telemetryLogs: true,
    ports: [],
    external: false,
    dependencies: [],
    ...over,
  };
}

export const manifest = (of: App): Manifest => ({ app: of, file: `${of.name}.toml`, origins: {}, watched: false });

export const volume = { name: 'data', path: '/data', readonly: false };

/** The end of a supervisor at a step; nothing of it goes on. */
export class Killed extends Error {}

interface Process {
  readonly id: string;
  readonly app: string;
  readonly service: string;
  readonly address: string;
  readonly revision: number;
}

/** What outlives a supervisor: the state store and the processes; and what it makes workers serve. */
export class AppWorld {
  readonly clock: HandClock;
  /** "start web#2", "serve blog/web=web#2", "hold blog/web", "term web#1", "gone web#1" … */
  readonly events: string[] = [];
  readonly alive = new Map<string, Process>();
  file: RoutingPart;
  ground: AppGround = noGround;
  settings: AppsSettings = { autoRollback: false, history: 20 };
  managed = true;
  /** Revisions whose processes never become ready. */
  readonly unready = new Set<number>();
  /** Revisions whose processes wait until `letReady`. */
  readonly slow = new Set<number>();
  /** Moves of traffic that fail, by their count from now; 1: the next one. */
  failMoves = new Set<number>();
  /** Moves that the publication refuses for what they would make of the apps. */
  refused: (incarnations: readonly Incarnation[]) => boolean = () => false;
  /** Addresses that cannot be stopped. */
  readonly unstoppable = new Set<string>();
  /** Failed and answered exchanges of the generations that serve. */
  errors = 0;
  answered = 0;
  /** Nobody can say what runs. */
  away = false;
  /** Old generations keep their claims until `drain`. */
  lasting = false;
  #rows: AppsRows = { incarnations: [], revisions: [], active: [], retiring: [], deploys: [] };
  #ids = 0;
  #ports = 4000;
  #moves = 0;
  #drains: (() => void)[] = [];
  #ready: (() => void)[] = [];

  constructor(clock: HandClock, file: RoutingPart = routing()) {
    this.clock = clock;
    this.file = file;
  }

  get rows(): AppsRows {
    return this.#rows;
  }

  /** A supervisor on this world. `observer` may throw `Killed`: from then on it has no effect any more. */
  supervisor(observer: (step: string) => void = () => {}): Apps {
    // Read back as from disk.
    const book = new AppsBook(JSON.parse(JSON.stringify(this.#rows)) as AppsRows);
    let dead = false;
    const guard = (): void => {
      if (dead) throw new Killed('dead');
    };
    const write = (change: AppsChange): void => {
      guard();
      const rows = new AppsBook(this.#rows);
      rows.adopt(JSON.parse(JSON.stringify(change)) as AppsChange);
      this.#rows = {
        incarnations: [...rows.apps(), ...rows.removed()],
        revisions: [...rows.apps(), ...rows.removed()].flatMap(({ id }) => rows.revisions(id)),
        active: rows.active(),
        retiring: rows.retiring(),
        deploys: [...rows.apps(), ...rows.removed()].flatMap(({ id }) => rows.deploysOf(id)),
      };
    };
    return new Apps({
      clock: this.clock,
      log: silentLog,
      book,
      store: { write },
      traffic: {
        move: (change) => this.#move(change, book, write, guard),
        errors: async () => this.errors,
        claimed: async () => this.errors + this.answered,
      },
      runtime: this.#runtime(guard),
      observer: (step) => {
        guard();
        try {
          observer(step);
        } catch (error) {
          dead = true;
          throw error;
        }
      },
      newId: () => `id-${++this.#ids}`,
      file: () => this.file,
      ground: () => this.ground,
      settings: () => this.settings,
    });
  }

  /** What workers serve: service of the routing → process, "held" or "nothing". */
  get served(): Readonly<Record<string, string>> {
    const { routing: part } = compose(this.file, this.#rows.active, this.ground);
    return Object.fromEntries(
      part.services
        .filter(({ name }) => !this.file.services.some((each) => each.name === name))
        .map(({ name, generation, state }) => {
          const [backend] = generation.backends;
          if (state === 'paused') return [name, 'held'];
          return [name, backend === undefined ? 'nothing' : this.#named(backend.address)];
        }),
    );
  }

  /** Every claim on old generations ends now. */
  drain(): void {
    for (const done of this.#drains.splice(0)) done();
  }

  letReady(): void {
    for (const ready of this.#ready.splice(0)) ready();
  }

  processes(): readonly string[] {
    return [...this.alive.values()].map((each) => `${each.service}#${each.revision}`).sort();
  }

  #named(address: string): string {
    const process = [...this.alive.values()].find((each) => each.address === address);
    return process === undefined ? `dead ${address}` : `${process.service}#${process.revision}`;
  }

  async #move(change: AppsChange, book: AppsBook, write: (c: AppsChange) => void, guard: () => void): Promise<Moved> {
    guard();
    this.#moves++;
    await Promise.resolve();
    if (this.failMoves.delete(this.#moves)) throw new Fault('publish-refused', 'a worker refused');
    const changed = change.incarnations ?? [];
    const others = book.apps().filter(({ id }) => changed.every((each) => each.id !== id));
    if (this.refused([...others, ...changed])) throw new Fault('gate-refused', 'a way leads past its gate');
    const before = compose(this.file, book.active(), this.ground);
    const after = compose(this.file, book.activeAfter(change), this.ground);
    const instances = { ...Object.fromEntries(before.instances) };
    write(change);
    book.adopt(change);
    for (const [name, what] of Object.entries(this.served)) {
      if (instances[name] === after.instances.get(name)) continue;
      this.events.push(what === 'held' ? `hold ${name}` : `serve ${name}=${what}`);
    }
    for (const name of Object.keys(instances)) if (!after.instances.has(name)) this.events.push(`withdraw ${name}`);
    const gone = Object.keys(instances).filter((name) => instances[name] !== after.instances.get(name));
    movingServices(before.routing, after.routing);
    return {
      revision: this.#moves,
      changed: true,
      inFlight: 0,
      held: 0,
      holdMs: 0,
      drains: gone.map((service) => ({
        service,
        done: new Promise<void>((resolve) => {
          if (this.lasting) this.#drains.push(resolve);
          else resolve();
        }).then(() => ({ claimed: 1, forced: 0, tookMs: 5 })),
      })),
    };
  }

  countMoves(): number {
    return this.#moves;
  }

  #runtime(guard: () => void): Runtime {
    return {
      kind: 'none',
      check: async (launch): Promise<LaunchCheck> => ({ problems: [], fixed: launch.given, managed: this.managed }),
      start: async (launch): Promise<Started> => {
        guard();
        await Promise.resolve();
        return this.#start(launch);
      },
      stop: async (instance, _graceMs, onStep) => {
        guard();
        const process = this.alive.get(instance.id);
        if (process === undefined) return;
        onStep('term');
        this.events.push(`term ${process.service}#${process.revision}`);
        await Promise.resolve();
        guard();
        if (this.unstoppable.has(process.address)) throw new Error('it does not end');
        this.alive.delete(instance.id);
        this.events.push(`gone ${process.service}#${process.revision}`);
      },
      alive: async ({ id }) => {
        if (this.away) throw new Error('no engine answers');
        return this.alive.has(id);
      },
      list: async () => [...this.alive.keys()],
      output: async (instance) => {
        guard();
        return this.#output(instance);
      },
      forget: async () => {},
    };
  }

  #start(launch: Launch): Started {
    const { service, instance, revision, given, app: of } = launch;
    const address = given[0]?.address ?? `127.0.0.1:${++this.#ports}`;
    this.alive.set(instance, { id: instance, app: of.name, service: service.name, address, revision });
    this.events.push(`start ${service.name}#${revision}`);
    return { backends: [{ port: 3000, address }], managed: true, ended: null };
  }

  async #output({ id }: InstanceRef): Promise<string> {
    const process = this.alive.get(id);
    if (process === undefined || this.unready.has(process.revision)) return 'it boots';
    if (this.slow.has(process.revision)) await new Promise<void>((resolve) => this.#ready.push(resolve));
    return 'ready';
  }
}

// What the dashboard is told, and the orders that come from it.
// Invariant: who asks is judged here, by the session as the ledger has it; only owners change anything but their own
// sessions, and only they see more than their apps.
import { connect } from 'node:net';
import type { AppsBook } from '../apps/book.ts';
import { Fault } from '../base/fault.ts';
import type {
  AppTile,
  DashboardAnswer,
  DashboardAsk,
  DashboardPage,
  LaunchWay,
  OperationsTable,
  OperationsView,
} from '../gate/dashboard.ts';
import { originOf } from '../gate/origin.ts';
import type { App } from '../manifest/app.ts';
import { endsTls } from '../model/entrypoint-protocol.ts';
import type { RoutingPart } from '../model/snapshot.ts';
import type { GateLedger } from './gate-ledger.ts';
import type { AppGateStatus, GateOperations, GatePortStatus } from './gate-operations.ts';
import { publicId } from './gate-operations.ts';
import type { StoredUser } from './gate-store.ts';
import type { RouteRow, Status, TrafficStatus } from './operations.ts';

export interface DashboardDeps {
  readonly ledger: GateLedger;
  readonly gate: GateOperations;
  readonly book: AppsBook;
  readonly routing: () => RoutingPart;
  readonly now: () => number;
  readonly operations: {
    status(): Promise<Status>;
    traffic(): Promise<TrafficStatus>;
    routes(): Promise<readonly RouteRow[]>;
  };
}

type Order = Readonly<Record<string, string>>;

const switches: ReadonlyMap<string, boolean | null> = new Map([
  ['on', true],
  ['off', false],
  ['declared', null],
]);

const dayMs = 24 * 3_600_000;
const probeMs = 300;
const rowsMax = 500;

export class GateDashboard {
  readonly #deps: DashboardDeps;

  constructor(deps: DashboardDeps) {
    this.#deps = deps;
  }

  async answer({ session, page, order }: DashboardAsk): Promise<DashboardAnswer> {
    const found = this.#deps.ledger.sessions.get(session);
    const user = found === undefined ? undefined : this.#deps.ledger.users.get(found.user);
    if (user === undefined) return null;
    let problem: string | null = null;
    let token: string | null = null;
    try {
      if (order !== null) token = await this.#carryOut(order, user);
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      problem = error.message;
    }
    const owner = user.role === 'owner';
    const shows = (...pages: readonly DashboardPage[]): boolean => owner && pages.includes(page);
    return {
      user: user.name,
      owner,
      problem,
      token,
      apps: page === 'apps' || shows('tokens') ? await this.#apps(user, page === 'apps') : [],
      sessions: page === 'sessions' ? await this.#sessions(user, publicId(session)) : [],
      tokens: shows('tokens') ? (await this.#deps.gate.tokens()).map(tokenLine) : [],
      users: shows('users') ? await this.#deps.gate.users() : [],
      operations: shows('operations') ? await this.#operations() : null,
    };
  }

  /** Returns a token, when it made one. */
  async #carryOut(order: Order, user: StoredUser): Promise<string | null> {
    const { gate, now } = this.#deps;
    const field = (name: string): string => order[name] ?? '';
    if (order['do'] === 'end-session') {
      const mine = (await this.#sessions(user, '')).some(({ id }) => id === field('id'));
      if (!mine) throw new Fault('gate-refused', 'there is no such session');
      await gate.revokeSessions({ id: field('id') });
      return null;
    }
    if (user.role !== 'owner') throw new Fault('gate-refused', 'only owners may do that');
    switch (order['do']) {
      case 'access': {
        const enabled = switches.get(field('enabled'));
        if (enabled === undefined) throw new Fault('gate-refused', 'choose on, off, or as declared');
        await gate.setAppGate(field('app'), enabled);
        return null;
      }
      case 'create-token': {
        const days = field('days').trim();
        if (!/^\d{0,4}$/.test(days)) throw new Fault('gate-refused', 'the days are a number, or nothing');
        const expiresAt = days === '' ? null : now() + Number(days) * dayMs;
        const made = await gate.createToken({
          app: field('app'),
          name: field('name').trim(),
          expiresAt,
          paths: [],
          methods: [],
          cidrs: [],
        });
        return made.token;
      }
      case 'revoke-token':
        await gate.revokeToken(field('id'));
        return null;
      case 'add-user': {
        const role = field('role') === 'owner' ? 'owner' : 'user';
        const apps = field('apps')
          .split(/[\s,]+/)
          .filter((app) => app !== '');
        await gate.addUser({ name: field('name').trim().toLowerCase(), role, apps, password: field('password') });
        return null;
      }
      case 'remove-user':
        await gate.removeUser(field('name'));
        return null;
    }
    throw new Fault('gate-refused', 'nothing was chosen');
  }

  async #sessions(user: StoredUser, own: string) {
    const rows = await this.#deps.gate.sessions();
    return rows
      .filter((each) => user.role === 'owner' || each.user === user.name)
      .sort((a, b) => b.lastUsedAt - a.lastUsedAt)
      .slice(0, rowsMax)
      .map((each) => ({ ...each, own: each.id === own }));
  }

  async #apps(user: StoredUser, probed: boolean): Promise<readonly AppTile[]> {
    const { gate, book } = this.#deps;
    const { apps, ports } = await gate.status();
    const names = new Set([...apps.map(({ app }) => app), ...ports.map(({ app }) => app)]);
    const tiles = [...names]
      .filter((app) => user.role === 'owner' || user.apps.includes(app))
      .sort()
      .map(async (name): Promise<AppTile> => {
        const found = book.app(name);
        const revision = found === null ? null : book.revision(found.id, found.active ?? found.desired);
        const own = ports.filter(({ app }) => app === name);
        const status = apps.find(({ app }) => app === name) ?? null;
        return {
          app: name,
          title: revision?.app.display.title ?? name,
          description: revision?.app.display.description ?? null,
          policy: status?.policy ?? own[0]?.policy ?? 'absent',
          rationale: status?.rationale ?? own.find(({ rationale }) => rationale !== null)?.rationale ?? null,
          override: status?.override ?? null,
          login: status?.login ?? null,
          state: probed ? await this.#stateOf(name) : 'unknown',
          ways: [...this.#names(status), ...launchWays(own, revision?.app ?? null)],
          faults:
            user.role === 'owner'
              ? [
                  ...own.flatMap(({ faults }) => faults),
                  ...((status?.problem ?? null) === null ? [] : [status!.problem!]),
                ]
              : [],
        };
      });
    return Promise.all(tiles);
  }

  /** By the services that its routes lead to: does any of their backends take connections? */
  async #stateOf(app: string): Promise<AppTile['state']> {
    const { hosts, services } = this.#deps.routing();
    const routes = hosts.flatMap((host) => host.routes).filter(({ gate }) => gate?.app === app);
    const names = new Set(routes.flatMap(({ action }) => (action.kind === 'forward' ? [action.service] : [])));
    const found = services.filter(({ name }) => names.has(name));
    if (found.length === 0) return 'unknown';
    if (found.some(({ state }) => state === 'paused')) return 'held';
    const backends = found.filter(({ state }) => state === 'run').flatMap(({ generation }) => generation.backends);
    const answers = await Promise.all(backends.slice(0, 8).map(({ host, port }) => takesConnections(host, port)));
    return answers.includes(true) ? 'up' : 'down';
  }

  /** By name: each host that leads to it. */
  #names(status: AppGateStatus | null): readonly LaunchWay[] {
    if (status === null) return [];
    const { hosts, entrypoints } = this.#deps.routing();
    return hosts
      .filter(({ tls, pattern, routes }) => {
        return tls !== 'either' && !pattern.startsWith('*') && routes.some(({ gate }) => gate?.app === status.app);
      })
      .flatMap(({ pattern, tls, entrypoints: served }): LaunchWay[] => {
        const here = entrypoints.filter(({ name }) => served.includes(name));
        const secure = tls === 'never' ? undefined : here.find(({ protocol }) => endsTls(protocol));
        const at = secure ?? here[0];
        if (at === undefined) return [];
        const origin = originOf(secure !== undefined, pattern, at.publicPort ?? at.port);
        return [{ label: pattern, origin, port: null, path: '/' }];
      });
  }

  async #operations(): Promise<OperationsView> {
    const { operations } = this.#deps;
    const [status, traffic, routes] = await Promise.all([
      operations.status(),
      operations.traffic(),
      operations.routes(),
    ]);
    return {
      version: status.version,
      revision: status.revision,
      workers: status.workers.length,
      totals: [
        ['Open connections', String(traffic.totals.connections)],
        ['Requests', String(traffic.totals.requests)],
        ['Refused', String(traffic.totals.refused)],
        ['Bytes in', bytes(traffic.totals.bytesIn)],
        ['Bytes out', bytes(traffic.totals.bytesOut)],
      ],
      tables: tablesOf(status, traffic, routes),
    };
  }
}

function tablesOf(status: Status, traffic: TrafficStatus, routes: readonly RouteRow[]): readonly OperationsTable[] {
  const iso = (time: number): string => new Date(time).toISOString().slice(0, 16).replace('T', ' ');
  return [
    {
      title: 'Live traffic',
      heading: ['Service', 'State', 'In work', 'Waiting', 'Backends'],
      rows: status.services.map(({ name, state, active, waiting, backends }) => [
        name,
        state,
        String(active),
        String(waiting),
        backends.map((each) => `${each.address} ${each.state}`).join(', '),
      ]),
      nothing: 'There is no service.',
    },
    {
      title: 'Routes',
      heading: ['Host', 'Path', 'TLS', 'Leads to'],
      rows: routes
        .slice(0, rowsMax)
        .map(({ host, path, tls, service, action, entrypoints }) => [
          tls === 'either' ? entrypoints.join(', ') : host,
          path,
          tls,
          service ?? action,
        ]),
      nothing: 'There is no route.',
    },
    {
      title: 'Requests by route',
      heading: ['Route', 'Requests', 'Answers'],
      rows: traffic.routes.slice(0, rowsMax).map(({ route, requests, classes }) => [
        route,
        String(requests),
        Object.entries(classes)
          .filter(([, count]) => count > 0)
          .map(([name, count]) => `${name} ${count}`)
          .join(', '),
      ]),
      nothing: 'No request has come yet.',
    },
    {
      title: 'Certificates',
      heading: ['Names', 'From', 'Until'],
      rows: status.certificates.map(({ names, source, notAfter }) => [names.join(', '), source, iso(notAfter)]),
      nothing: 'There is no certificate.',
    },
    {
      title: 'Switchovers',
      heading: ['Service', 'To', 'Phase', 'Begun'],
      rows: status.switchovers.map(({ service, to, phase, startedAt }) => [
        service,
        to.join(', '),
        phase,
        iso(startedAt),
      ]),
      nothing: 'Nothing was switched.',
    },
  ];
}

/** Ports of surfaces that the manifest names come first; other ports of the gate stand for themselves. */
function launchWays(ports: readonly GatePortStatus[], app: App | null): readonly LaunchWay[] {
  const reachable = ports.filter(({ addresses }) => addresses.length > 0).map(({ port }) => port);
  const surfaces = app?.display.launch.filter(({ port }) => port !== null && reachable.includes(port)) ?? [];
  const named = surfaces.map(({ key, name, port, path }): LaunchWay => {
    const from = path === null || !path.startsWith('/') ? '/' : path;
    return { label: name ?? key, origin: null, port, path: from };
  });
  const rest = reachable.filter((port) => !surfaces.some((each) => each.port === port));
  return [...named, ...rest.map((port): LaunchWay => ({ label: `Port ${port}`, origin: null, port, path: '/' }))];
}

function tokenLine(token: Awaited<ReturnType<GateOperations['tokens']>>[number]) {
  const { id, app, name, expiresAt, lastUsedAt, paths, methods, cidrs } = token;
  const scope = [...methods, ...paths, ...cidrs].join(' ') || 'the whole app';
  return { id, app, name, scope, expiresAt, lastUsedAt };
}

function takesConnections(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const done = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(probeMs, () => done(false));
    socket.on('connect', () => done(true));
    socket.on('error', () => done(false));
  });
}

function bytes(count: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

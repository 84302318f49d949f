// Orders that come from the dashboard, and who is told what.
// Invariant: what a form says is judged by who sent it, never by which forms were drawn for them.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AppsBook } from '../../src/apps/book.ts';
import type { DashboardAnswer, DashboardPage } from '../../src/gate/dashboard.ts';
import { GateDashboard } from '../../src/process/gate-dashboard.ts';
import { GateLedger } from '../../src/process/gate-ledger.ts';
import { type GateOperations, publicId } from '../../src/process/gate-operations.ts';
import { GateStore } from '../../src/process/gate-store.ts';
import { newUser } from '../../src/process/gate-users.ts';
import { StateStore } from '../../src/process/state-store.ts';
import { routing } from '../support/routing.ts';

let directory: string;
let state: StateStore;
let ledger: GateLedger;
let dashboard: GateDashboard;
let done: unknown[][];

const session = (user: string) => ({
  hash: `hash of ${user}`,
  user,
  login: user,
  createdAt: 1,
  lastUsedAt: 1,
  secure: false,
  host: 'box',
  address: '192.0.2.1',
});

const app = {
  policy: 'gated',
  rationale: null,
  override: null,
  login: true,
  openPaths: [],
  upgradeOpenPaths: [],
  routes: [],
  origin: '',
  problem: 'broken file',
} as const;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-dashboard-'));
  state = StateStore.open(directory);
  ledger = new GateLedger(
    state.tables((database) => new GateStore(database)),
    async () => {},
  );
  const users = [newUser('anna', 'owner', [], null, 0), newUser('ben', 'user', ['photos'], null, 0)];
  await ledger.change({ users: { put: users }, sessions: { put: [session('anna'), session('ben')] } });
  done = [];
  const note =
    (name: string, answer: unknown = null) =>
    async (...args: unknown[]) => {
      done.push([name, ...args]);
      return answer;
    };
  const gate = {
    status: async () => ({
      host: null,
      users: 2,
      sessions: 2,
      tokens: 0,
      ports: [],
      apps: [
        { app: 'notes', ...app },
        { app: 'photos', ...app },
      ],
    }),
    users: async () => [],
    tokens: async () => [],
    sessions: async () => [...ledger.sessions.values()].map(({ hash, ...rest }) => ({ id: publicId(hash), ...rest })),
    setAppGate: note('setAppGate'),
    createToken: note('createToken', { token: 'tp_new' }),
    revokeToken: note('revokeToken'),
    addUser: note('addUser'),
    removeUser: note('removeUser'),
    revokeSessions: note('revokeSessions'),
  } as unknown as GateOperations;
  const unasked = async (): Promise<never> => {
    throw new Error('not for this one');
  };
  dashboard = new GateDashboard({
    ledger,
    gate,
    book: new AppsBook({ incarnations: [], revisions: [], active: [], retiring: [], deploys: [] }),
    routing,
    now: () => 1000,
    operations: { status: unasked, traffic: unasked, routes: unasked },
  });
});

afterEach(() => {
  state.close();
  rmSync(directory, { recursive: true });
});

const as = (user: string, page: DashboardPage, order: Record<string, string> | null = null): Promise<DashboardAnswer> =>
  dashboard.answer({ session: `hash of ${user}`, page, order });

describe('a user who is no owner', () => {
  it.each([
    [{ do: 'access', app: 'photos', enabled: 'off' }],
    [{ do: 'create-token', app: 'photos', name: 'x', days: '' }],
    [{ do: 'revoke-token', id: 'x' }],
    [{ do: 'add-user', name: 'eve', role: 'owner', password: 'correct horse', apps: '' }],
    [{ do: 'remove-user', name: 'anna' }],
  ] as const)('may not: %j', async (order) => {
    expect(await as('ben', 'apps', order)).toMatchObject({ problem: 'only owners may do that', token: null });
    expect(done).toEqual([]);
  });

  it('may end a session of their own, and no other', async () => {
    const other = { do: 'end-session', id: publicId('hash of anna') };
    expect(await as('ben', 'sessions', other)).toMatchObject({ problem: 'there is no such session' });
    expect(done).toEqual([]);
    const own = publicId('hash of ben');
    expect(await as('ben', 'sessions', { do: 'end-session', id: own })).toMatchObject({ problem: null });
    expect(done).toEqual([['revokeSessions', { id: own }]]);
  });

  it('sees their apps and sessions, no faults, and nothing of operations', async () => {
    const apps = await as('ben', 'apps');
    expect(apps!.apps.map(({ app: name, faults }) => [name, faults])).toEqual([['photos', []]]);
    expect((await as('ben', 'sessions'))!.sessions.map(({ user, own }) => [user, own])).toEqual([['ben', true]]);
    for (const page of ['tokens', 'users', 'operations'] as const) {
      expect(await as('ben', page)).toMatchObject({ tokens: [], users: [], operations: null, apps: [] });
    }
  });
});

describe('an owner', () => {
  it('sets access control, and is told a new token once', async () => {
    expect(await as('anna', 'apps', { do: 'access', app: 'notes', enabled: 'declared' })).toMatchObject({
      problem: null,
    });
    expect(await as('anna', 'tokens', { do: 'create-token', app: 'notes', name: ' ci ', days: '2' })).toMatchObject({
      token: 'tp_new',
    });
    const scope = { paths: [], methods: [], cidrs: [] };
    expect(done).toEqual([
      ['setAppGate', 'notes', null],
      ['createToken', { app: 'notes', name: 'ci', expiresAt: 1000 + 2 * 86_400_000, ...scope }],
    ]);
    expect((await as('anna', 'tokens'))!.token).toBe(null);
  });

  it.each([
    [{ do: 'access', app: 'notes', enabled: 'maybe' }],
    [{ do: 'access', app: 'notes', enabled: 'constructor' }],
    [{ do: 'create-token', app: 'notes', name: 'x', days: '-1' }],
    [{ do: 'constructor' }],
    [{}],
  ] as const)('is told what is wrong with %j', async (order) => {
    expect((await as('anna', 'apps', order))!.problem).not.toBe(null);
    expect(done).toEqual([]);
  });
});

it('whoever has no session any more is nobody', async () => {
  await ledger.change({ sessions: { gone: ['hash of ben'] } });
  expect(await as('ben', 'apps', { do: 'access', app: 'notes', enabled: 'off' })).toBe(null);
  await ledger.change({ users: { gone: ['anna'] } });
  expect(await as('anna', 'apps')).toBe(null);
});

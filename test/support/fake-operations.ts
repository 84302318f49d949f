import type { GateOperations } from '../../src/process/gate-operations.ts';
// Operations that answer from memory, for tests of the control API and the commands.
// Invariant: every verb has a harmless answer; a test replaces the ones it is about.
import type { Operations, ServiceChange, Status, SwitchReport } from '../../src/process/operations.ts';
import type { TlsOperations } from '../../src/process/tls-operations.ts';
import { fakeAppOperations } from './fake-app-operations.ts';
import { noCertificates, noChallenges, noGate, noHealth, routing } from './routing.ts';

export const noChanges = { empty: true, entrypoints: [], hosts: [], routers: [], services: [], settings: [], held: [] };

export const idleStatus: Status = {
  version: '1.2.3',
  pid: 4711,
  startedAt: 0,
  configFile: '/etc/turnpike/config.toml',
  stateDir: '/var/lib/turnpike',
  revision: 7,
  workers: [
    {
      id: 0,
      pid: 4712,
      state: 'ready',
      revision: 7,
      startedAt: 0,
      restarts: 0,
      load: { rung: 'calm', delayMs: 1, descriptors: 40, descriptorLimit: 1024 },
    },
  ],
  lastReload: null,
  entrypoints: [
    { name: 'web', address: '*:8080', protocol: 'http', connections: 3, accepted: 10, refused: 0, problem: null },
  ],
  services: [
    {
      name: 'app.test',
      state: 'run',
      generation: 4,
      origin: 'config.toml:12 external_routes."app.test"',
      backends: [{ address: '127.0.0.1:3001', state: 'up' }],
      override: null,
      waiting: 0,
      active: 2,
      draining: [],
    },
  ],
  hosts: 1,
  routes: 1,
  certificates: [],
  switchovers: [],
  warnings: [],
};

export const cleanReport: SwitchReport = {
  service: 'app.test',
  from: { generation: 4, addresses: ['127.0.0.1:3001'] },
  to: { generation: 5, addresses: ['127.0.0.1:3002'] },
  revision: 8,
  requestsOld: 100,
  requestsNew: 20,
  inFlightAtFlip: 3,
  held: 2,
  holdMs: 1.5,
  longestDrainedMs: 40,
  forcedCloses: 0,
  retries: 0,
  errors: 0,
  durationMs: 1234,
  clean: true,
};

export function fakeOperations(over: Partial<Operations> = {}): Operations {
  const change = (state: ServiceChange['state']) => async (service: string) => ({
    service,
    state,
    revision: 8,
    changed: true,
  });
  return {
    apps: fakeAppOperations(),
    gate: absent<GateOperations>('gate'),
    tls: absent<TlsOperations>('tls'),
    reload: async () => ({
      outcome: 'unchanged',
      revision: 7,
      file: '/etc/turnpike/config.toml',
      problems: [],
      warnings: [],
      fault: null,
      changes: noChanges,
      needsRestart: [],
    }),
    diff: async (file) => ({
      file: file ?? '/etc/turnpike/config.toml',
      problems: [],
      warnings: [],
      changes: noChanges,
      needsRestart: [],
      overrides: [],
      closes: [],
    }),
    status: async () => idleStatus,
    routes: async () => [],
    traffic: async () => ({
      at: 0,
      lastReload: null,
      totals: { connections: 3, flows: 0, accepted: 10, refused: 0, errors: 0, bytesIn: 0, bytesOut: 0, requests: 0 },
      routers: [],
      entrypoints: idleStatus.entrypoints.map((each) => ({
        ...each,
        errors: 0,
        bytesIn: 0,
        bytesOut: 0,
        refusals: {},
        protocols: {},
      })),
      tunnels: [],
      datagrams: [],
      routes: [],
      services: [],
    }),
    switchService: async () => cleanReport,
    pauseService: change('paused'),
    resumeService: change('run'),
    stopService: change('stopped'),
    startService: change('run'),
    tlsStatus: async () => ({
      certificates: [],
      internalCa: { enabled: false, rootFingerprint: null, rootNotAfter: null },
      names: [],
      entrypoints: [],
      problems: [],
    }),
    caPem: async () => null,
    explainFacts: async () => ({
      revision: 7,
      routing: routing(),
      certificates: noCertificates,
      challenges: noChallenges,
      health: noHealth,
      gate: noGate,
      overrides: [],
    }),
    metricsText: async () => '# no metrics\n',
    replaceWorkers: async () => ({ replaced: 2 }),
    ...over,
  };
}

/** Operations that the test does not use. */
function absent<T extends object>(name: string): T {
  return new Proxy({} as T, {
    get: (_, key) => () => {
      throw new Error(`${name}.${String(key)} is not played here`);
    },
  });
}

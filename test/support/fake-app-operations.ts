// Operations on apps that answer from memory, for tests of the control API and the commands.
// Invariant: every verb has a harmless answer; a test replaces the ones it is about.
import type { AppOperations, AppRow, DeployReport, ServiceReport } from '../../src/process/apps-operations.ts';

export const blogRow: AppRow = {
  name: 'blog',
  kind: 'toml',
  external: false,
  desired: 3,
  active: 3,
  state: 'active',
  services: 1,
  hosts: ['blog.test'],
  file: 'blog.toml',
};

export const replacedWeb: ServiceReport = {
  service: 'web',
  outcome: 'replaced',
  mode: 'overlap',
  warm: false,
  from: ['127.0.0.1:3001'],
  to: ['127.0.0.1:3002'],
  snapshot: 41,
  inFlight: 37,
  held: 12,
  holdMs: 2,
  tookMs: 763,
  drained: null,
  errors: 0,
  detail: null,
};

export const cleanDeploy: DeployReport = {
  app: 'blog',
  deploy: 'd1',
  kind: 'deploy',
  revision: 3,
  outcome: 'done',
  fault: null,
  services: [replacedWeb],
  tookMs: 800,
  clean: true,
};

export function fakeAppOperations(over: Partial<AppOperations> = {}): AppOperations {
  return {
    apply: async () => ({
      applied: { app: 'blog', revision: 3, outcome: 'stored', diff: ['env/GREETING'], isNew: false },
      problems: [],
      warnings: [],
    }),
    deploy: async () => cleanDeploy,
    rollback: async () => ({ ...cleanDeploy, kind: 'rollback' }),
    restart: async () => ({ ...cleanDeploy, kind: 'restart' }),
    remove: async () => ({ ...cleanDeploy, kind: 'remove', services: [] }),
    list: async () => [blogRow],
    show: async () => {
      throw new Error('no test asks for it');
    },
    diff: async (app, from, to) => ({ app, from, to: to ?? 3, entries: ['env/GREETING'] }),
    status: async () => ({
      ...blogRow,
      pending: [],
      serviceStates: [
        {
          name: 'web',
          state: 'serving',
          revision: 3,
          addresses: ['127.0.0.1:3002'],
          startedAt: 0,
          managed: true,
          restart_unsafe: false,
          restarts: null,
        },
      ],
      retiring: [],
      underWay: [],
      deploys: [],
      manifestTrouble: null,
    }),
    upstream: async () => [{ app: 'blog', version: null, images: ['docker.io/library/blog:1'], upstream: null }],
    leftovers: async () => [],
    prune: async () => [],
    secrets: {
      list: async () => [{ service: 'web', name: 'key', env: 'KEY', delivery: 'env', isSet: false }],
      set: async () => {},
      remove: async () => {},
    },
    logs: async function* () {
      yield Buffer.from('one\ntwo\n');
    },
    ...over,
  };
}

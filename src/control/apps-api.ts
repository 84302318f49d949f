// The words of the control API about apps, used by both ends of the socket.
// Invariant: a change here changes both ends, because neither spells a path or a member by hand.
import type { DeployProgress, DeployReport } from '../process/apps-operations.ts';
import type { ErrorBody } from './api.ts';

const root = '/v1/apps';

export const appPaths = {
  list: root,
  apply: '/v1/apply',
  upstream: '/v1/upstream',
  leftovers: '/v1/leftovers',
} as const;

/** Answered at once; `logs` as a stream of bytes. */
export const appQuestions = ['show', 'diff', 'status', 'secrets', 'logs'] as const;
export type AppQuestion = (typeof appQuestions)[number];

/** Answered line by line. */
export const appVerbs = ['deploy', 'rollback', 'restart', 'remove'] as const;
export type AppVerb = (typeof appVerbs)[number];

/** Answered at once, and changing something. */
export type AppChange = 'prune' | 'secret-set' | 'secret-remove';

export function appPath(app: string, verb: AppQuestion | AppVerb | AppChange): string {
  return `${root}/${encodeURIComponent(app)}/${verb}`;
}

/** The app and the rest of a path below the list; null: another path. */
export function parseAppPath(path: string): { readonly app: string; readonly verb: string } | null {
  if (!path.startsWith(`${root}/`)) return null;
  const [name, verb, ...rest] = path.slice(root.length + 1).split('/');
  if (name === undefined || name === '' || verb === undefined || rest.length > 0) return null;
  try {
    return { app: decodeURIComponent(name), verb };
  } catch {
    return null;
  }
}

/** One line of the answer to a verb (NDJSON): progress, then exactly one of the other two. */
export type DeployLine = { readonly progress: DeployProgress } | { readonly report: DeployReport } | ErrorBody;

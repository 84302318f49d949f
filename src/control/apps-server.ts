// The control API's verbs about apps.
// Invariant: a handler only translates; members are checked one by one, and what a verb does is decided in process/.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AppOperations, DeployReport, OnDeployProgress } from '../process/apps-operations.ts';
import { appPaths, type DeployLine, parseAppPath } from './apps-api.ts';
import { readJson, UsageError } from './request-body.ts';

interface AppCall {
  readonly apps: AppOperations;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
}

type Body = Readonly<Record<string, unknown>>;

/** Null: the path is not about apps; else what answers it with JSON, or has answered already (undefined). */
export function answerApps(path: string, call: AppCall): Promise<unknown> | null {
  const { apps, request, query } = call;
  const method = request.method ?? '';
  switch (`${method} ${path}`) {
    case `GET ${appPaths.list}`:
      return apps.list();
    case `GET ${appPaths.upstream}`:
      return apps.upstream();
    case `GET ${appPaths.leftovers}`:
      return apps.leftovers();
    case `POST ${appPaths.apply}`:
      return readJson(request).then((body) => {
        const path = text(body, 'path');
        return apps.apply({ path, shown: text(body, 'shown'), dryRun: flag(body, 'dryRun') });
      });
  }
  const target = parseAppPath(path);
  if (target === null) return null;
  const { app } = target;
  switch (`${method} ${target.verb}`) {
    case 'GET show':
      return apps.show(app, numberIn(query, 'revision'));
    case 'GET diff':
      return apps.diff(app, numberIn(query, 'from'), numberIn(query, 'to'));
    case 'GET status':
      return apps.status(app);
    case 'POST prune':
      return apps.prune(app);
    case 'GET secrets':
      return apps.secrets.list(app);
    case 'POST secret-set':
      return readJson(request).then(async (body) => {
        await apps.secrets.set(app, text(body, 'service'), text(body, 'name'), text(body, 'value'));
        return {};
      });
    case 'POST secret-remove':
      return readJson(request).then(async (body) => {
        await apps.secrets.remove(app, text(body, 'service'), text(body, 'name'));
        return {};
      });
    case 'GET logs':
      return stream(call, (signal) =>
        apps.logs({ app, service: query.get('service'), follow: query.has('follow') }, signal),
      );
    case 'POST deploy':
      return lines(call, (body, progress) => {
        const revision = numberOrNull(body, 'revision');
        const order = { app, revision, service: textOrNull(body, 'service'), backends: texts(body, 'backends') };
        return apps.deploy({ ...order, wait: flag(body, 'wait') }, progress);
      });
    case 'POST rollback':
      return lines(call, (body, progress) =>
        apps.rollback({ app, revision: numberOrNull(body, 'revision'), wait: flag(body, 'wait') }, progress),
      );
    case 'POST restart':
      return lines(call, (body, progress) =>
        apps.restart({ app, service: textOrNull(body, 'service'), wait: flag(body, 'wait') }, progress),
      );
    case 'POST remove':
      return lines(call, (_body, progress) => apps.remove(app, progress));
    default:
      return null;
  }
}

/** Progress goes out line by line; the client may be gone, the deploy goes on without it. */
async function lines(
  { request, response }: AppCall,
  run: (body: Body, progress: OnDeployProgress) => Promise<DeployReport>,
): Promise<undefined> {
  const body = await readJson(request);
  const write = (line: DeployLine): void => {
    if (!response.headersSent) response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    if (!response.destroyed) response.write(`${JSON.stringify(line)}\n`);
  };
  const report = await run(body, (progress) => write({ progress }));
  write({ report });
  response.end();
  return undefined;
}

/** Bytes as they come, until they end or the client goes. */
async function stream({ response }: AppCall, open: (signal: AbortSignal) => AsyncIterable<Buffer>): Promise<undefined> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    for await (const chunk of open(gone.signal)) {
      if (!response.headersSent) response.writeHead(200, { 'content-type': 'application/octet-stream' });
      if (!response.write(chunk) && !gone.signal.aborted) {
        await new Promise<void>((resolve) => {
          response.once('drain', resolve);
          response.once('close', resolve);
        });
      }
    }
  } catch (error) {
    if (!response.headersSent) throw error;
    // Half of an answer went out: only its end can tell.
    response.destroy();
    return undefined;
  }
  if (!response.headersSent) response.writeHead(200, { 'content-type': 'application/octet-stream' });
  response.end();
  return undefined;
}

function text(body: Body, name: string): string {
  const value = body[name];
  if (typeof value !== 'string') throw new UsageError(`${name}: a string`);
  return value;
}

function textOrNull(body: Body, name: string): string | null {
  return body[name] === null ? null : text(body, name);
}

function texts(body: Body, name: string): readonly string[] {
  const value = body[name];
  if (!Array.isArray(value) || !value.every((each) => typeof each === 'string')) {
    throw new UsageError(`${name}: a list of strings`);
  }
  return value;
}

function flag(body: Body, name: string): boolean {
  const value = body[name];
  if (typeof value !== 'boolean') throw new UsageError(`${name}: true or false`);
  return value;
}

function numberOrNull(body: Body, name: string): number | null {
  const value = body[name];
  if (value === null) return null;
  if (!Number.isSafeInteger(value) || (value as number) < 1) throw new UsageError(`${name}: a revision, or null`);
  return value as number;
}

function numberIn(query: URLSearchParams, name: string): number | null {
  const value = query.get(name);
  if (value === null) return null;
  if (!/^[1-9]\d{0,8}$/.test(value)) throw new UsageError(`${name}: a revision`);
  return Number(value);
}

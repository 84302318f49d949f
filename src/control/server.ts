// The control API on the supervisor's unix socket: one line per verb, everything else is refused.
// Invariant: a handler only translates; what a verb does is decided in process/ and, for `explain`, by a pure function.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Fault } from '../base/fault.ts';
import type { Log } from '../base/log.ts';
import type { CreateControlHandler, Operations } from '../process/operations.ts';
import { type ErrorBody, paths, type ServiceVerb, type SwitchLine, serviceVerbs } from './api.ts';
import { answerApps } from './apps-server.ts';
import { parseExplainBody, parseSwitchBody, readJson, UsageError } from './request-body.ts';
import { answerRpc } from './rpc.ts';

interface Call {
  readonly operations: Operations;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
}

type Verb = (call: Call) => Promise<void>;

const json =
  (run: (call: Call) => Promise<unknown>): Verb =>
  async (call) =>
    send(call.response, 200, await run(call));

const verbs: Readonly<Record<string, Verb>> = {
  [`GET ${paths.status}`]: json(({ operations }) => operations.status()),
  [`POST ${paths.reload}`]: json(({ operations }) => operations.reload()),
  [`GET ${paths.diff}`]: json(({ operations, query }) => operations.diff(query.get('file'))),
  [`GET ${paths.routes}`]: json(({ operations }) => operations.routes()),
  [`GET ${paths.traffic}`]: json(({ operations }) => operations.traffic()),
  [`GET ${paths.tls}`]: json(({ operations }) => operations.tlsStatus()),
  [`GET ${paths.ca}`]: json(async ({ operations }) => ({ pem: await operations.caPem() })),
  [`POST ${paths.replaceWorkers}`]: json(({ operations }) => operations.replaceWorkers()),
  [`POST ${paths.explain}`]: json(async ({ operations, request }) => {
    const question = parseExplainBody(await readJson(request));
    // It asks the data plane's own functions, which the supervisor has no other use for.
    const { explain } = await import('./explain/explain.ts');
    return explain(await operations.explainFacts(), question);
  }),
  [`POST ${paths.rpc}`]: async ({ operations, request, response }) => {
    send(response, 200, await answerRpc(operations, await readJson(request)));
  },
  [`GET ${paths.metrics}`]: async ({ operations, response }) => {
    const text = await operations.metricsText();
    response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' });
    response.end(text);
  },
};

const serviceVerb: Readonly<Record<ServiceVerb, (service: string, call: Call) => Promise<void>>> = {
  switch: switchService,
  pause: async (service, call) => send(call.response, 200, await call.operations.pauseService(service)),
  resume: async (service, call) => send(call.response, 200, await call.operations.resumeService(service)),
  stop: async (service, call) => send(call.response, 200, await call.operations.stopService(service)),
  start: async (service, call) => send(call.response, 200, await call.operations.startService(service)),
};

const knownPaths: ReadonlySet<string> = new Set(Object.values(paths));

export const createControlHandler: CreateControlHandler = (operations, log) => (request, response) => {
  answer(operations, request, response).catch((error: unknown) => fail(response, error, log));
};

async function answer(operations: Operations, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://turnpike');
  const call: Call = { operations, request, response, query: url.searchParams };
  const verb = verbs[`${request.method} ${url.pathname}`];
  if (verb !== undefined) {
    await verb(call);
    return;
  }
  const aboutApps = answerApps(url.pathname, { apps: operations.apps, request, response, query: url.searchParams });
  if (aboutApps !== null) {
    const body = await aboutApps;
    if (body !== undefined) send(response, 200, body);
    return;
  }
  const target = parseServicePath(url.pathname);
  if (target !== null && request.method === 'POST') {
    await serviceVerb[target.verb](target.service, call);
    return;
  }
  const known = target !== null || knownPaths.has(url.pathname);
  const message = known ? `${request.method} is not possible here` : `no such operation: ${url.pathname}`;
  send(response, known ? 405 : 404, { error: { code: 'usage', message } } satisfies ErrorBody);
}

function parseServicePath(path: string): { service: string; verb: ServiceVerb } | null {
  if (!path.startsWith(paths.services)) return null;
  const [name, verb, ...rest] = path.slice(paths.services.length).split('/');
  const known = serviceVerbs.find((each) => each === verb);
  if (name === undefined || name === '' || known === undefined || rest.length > 0) return null;
  try {
    return { service: decodeURIComponent(name), verb: known };
  } catch {
    return null;
  }
}

/** Progress goes out line by line; the status line cannot wait for the outcome, so the last line tells it. */
async function switchService(service: string, { operations, request, response }: Call): Promise<void> {
  const body = parseSwitchBody(await readJson(request));
  const write = (line: SwitchLine): void => {
    if (!response.headersSent) response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    // The client may be gone; the switch goes on without it.
    if (!response.destroyed) response.write(`${JSON.stringify(line)}\n`);
  };
  const report = await operations.switchService({ service, ...body }, (progress) => write({ progress }));
  write({ report });
  response.end();
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(`${JSON.stringify(body)}\n`);
}

function fail(response: ServerResponse, error: unknown, log: Log): void {
  const { status, body } = describe(error);
  if (status === 500) log.error('control-failed', { err: error });
  if (!response.headersSent) {
    send(response, status, body);
    return;
  }
  if (!response.destroyed) response.end(`${JSON.stringify(body)}\n`);
}

function describe(error: unknown): { status: number; body: ErrorBody } {
  if (error instanceof UsageError) return { status: 400, body: { error: { code: 'usage', message: error.message } } };
  if (error instanceof Fault) {
    const status = error.code === 'unknown-service' || error.code === 'unknown-app' ? 404 : 409;
    return { status, body: { error: { code: error.code, message: error.message } } };
  }
  return { status: 500, body: { error: { code: 'internal', message: 'a bug; the log of Turnpike has the details' } } };
}

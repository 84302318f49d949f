// What is probed of a service before it gets traffic: what it declares, else what its interfaces imply.
// Invariant: a valid service never needs a guess; the validator refuses a declared probe whose port is not clear.
import { type AppService, defaultReadinessMs } from './app.ts';
import { isSingleWriter } from './replacement.ts';

/** Null means unchecked. */
export type Probe =
  | {
      readonly type: 'http';
      readonly path: string;
      /** In the container. */
      readonly port: number;
      /** Not published on this machine: asked from inside the app's network. */
      readonly internal: boolean;
      readonly timeoutMs: number;
      /** Successes in a row. */
      readonly consecutive: number;
    }
  | {
      readonly type: 'tcp';
      readonly port: number;
      readonly internal: boolean;
      readonly timeoutMs: number;
      readonly consecutive: number;
    }
  | { readonly type: 'log'; readonly contains: string; readonly timeoutMs: number };

export function effectiveReadiness(service: AppService): Probe | null {
  const { readiness } = service;
  if (readiness === null || readiness.type === 'none') return impliedProbe(service);
  if (readiness.type === 'log') {
    return { type: 'log', contains: readiness.contains, timeoutMs: readiness.timeoutMs };
  }
  const port = readiness.port ?? readinessPort(service);
  if (port === null) return null;
  const internal = !isPublished(service, port);
  const { timeoutMs, consecutive } = readiness;
  return readiness.type === 'http'
    ? { type: 'http', path: readiness.path, port, internal, timeoutMs, consecutive }
    : { type: 'tcp', port, internal, timeoutMs, consecutive };
}

/** The only public HTTP port, else the only port that takes TCP connections; null: the manifest has to name one. */
export function readinessPort(service: AppService): number | null {
  const web = publicPorts(service);
  if (web.length === 1) return web[0]!;
  const all = tcpPorts(service);
  return all.length === 1 ? all[0]! : null;
}

/** Container ports that take TCP connections, ascending. */
export function tcpPorts(service: AppService): readonly number[] {
  const published = service.publications.filter((each) => each.protocol === 'tcp').map((each) => each.container);
  return distinct([...service.http, ...service.tcp].map((each) => each.port).concat(published));
}

/**
 * Stateless services only: all interfaces public HTTP → their lowest port answers on `/`; exactly one TCP interface and
 * nothing else → its port takes connections.
 */
function impliedProbe(service: AppService): Probe | null {
  if (isSingleWriter(service) || service.shape !== null) return null;
  const common = { internal: false, timeoutMs: defaultReadinessMs, consecutive: 1 } as const;
  const web = publicPorts(service);
  const internal = service.http.some((each) => each.visibility === 'internal');
  if (web.length > 0 && !internal && service.tcp.length === 0) {
    return { type: 'http', path: '/', port: web[0]!, ...common };
  }
  if (service.http.length === 0 && service.tcp.length === 1) {
    return { type: 'tcp', port: service.tcp[0]!.port, ...common };
  }
  return null;
}

function publicPorts(service: AppService): readonly number[] {
  return distinct(service.http.filter((each) => each.visibility === 'public').map((each) => each.port));
}

function isPublished(service: AppService, port: number): boolean {
  return service.publications.some((each) => each.protocol === 'tcp' && each.container === port);
}

function distinct(ports: readonly number[]): readonly number[] {
  return [...new Set(ports)].sort((a, b) => a - b);
}

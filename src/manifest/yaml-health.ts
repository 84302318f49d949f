// `health_check:` of a YAML app → the readiness that is probed.
// Invariant: what cannot be probed is told as "not exercised" and never passes for a check.
import type { Findings } from '../config/problem.ts';
import { defaultReadinessMs, type Readiness } from './app.ts';
import { refuseProbePath } from './values.ts';
import type { YamlApp } from './yaml-keys.ts';

const path = ['app', 'health_check'];

/** A probe, or why there is none. `key` is the part of the health check that is to blame. */
type Outcome =
  | { readonly ok: true; readonly readiness: Readiness }
  | {
      readonly ok: false;
      readonly refused: boolean;
      readonly key: string;
      readonly why: string;
      readonly accepted: string;
    };

export function checkHealth(app: YamlApp, findings: Findings): void {
  if (app.health_check === null || findings.failed(path) || findings.failed(['app', 'ports'])) return;
  const outcome = readinessOf(app);
  if (outcome === null || outcome.ok) return;
  const at = [...path, outcome.key];
  if (outcome.refused) findings.error(at, outcome.why, outcome.accepted);
  else findings.warn(at, `is not exercised: ${outcome.why}`, outcome.accepted);
}

/** Null: there is no health check, or one that cannot be exercised. */
export function healthReadiness(app: YamlApp): Readiness | null {
  const outcome = readinessOf(app);
  return outcome?.ok === true ? outcome.readiness : null;
}

function readinessOf(app: YamlApp): Outcome | null {
  const health = app.health_check;
  if (health === null) return null;
  const { type } = health;
  if (type !== 'http' && type !== 'tcp') {
    return { ok: false, refused: false, key: 'type', why: `${type} is no kind of probe here`, accepted: 'http or tcp' };
  }
  if (type === 'tcp' && health.path !== null) {
    return { ok: false, refused: true, key: 'path', why: 'says nothing to a tcp check', accepted: 'leave it out' };
  }
  const endpoint = health.endpoint === null ? { port: null, path: null } : endpointOf(health.endpoint, type);
  if (endpoint === null) {
    const accepted = type === 'http' ? '"http://localhost:8080/health"' : '"localhost:5432"';
    return { ok: false, refused: true, key: 'endpoint', why: `is no place to ask by ${type}`, accepted };
  }
  if (endpoint.path !== null && health.path !== null && endpoint.path !== health.path) {
    return { ok: false, refused: true, key: 'path', why: 'is not the path of endpoint', accepted: 'one of the two' };
  }
  const port = portOf(app, endpoint.port);
  if (port === null) {
    const accepted = 'endpoint: http://localhost:8080, with the port in the container';
    return { ok: false, refused: false, key: 'type', why: 'it is not clear which port is meant', accepted };
  }
  const patience = (health.interval ?? 10_000) * (health.retries ?? 3);
  const timeoutMs = Math.min(600_000, Math.max(defaultReadinessMs, patience));
  const readiness: Readiness =
    type === 'http'
      ? { type, path: health.path ?? endpoint.path ?? '/', port, timeoutMs, consecutive: 1 }
      : { type, port, timeoutMs, consecutive: 1 };
  return { ok: true, readiness };
}

interface Endpoint {
  readonly port: number | null;
  readonly path: string | null;
}

/** Only the app itself can be meant: `http://localhost:8080/health`, `localhost:8080`, `/health`. */
function endpointOf(written: string, type: 'http' | 'tcp'): Endpoint | null {
  if (type === 'http' && written.startsWith('/'))
    return refuseProbePath(written) === null ? { port: null, path: written } : null;
  const match = /^(?:(http|tcp):\/\/)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\])(?::(\d{1,5}))?(\/.*)?$/s.exec(
    written,
  );
  if (match === null || (match[1] !== undefined && match[1] !== type)) return null;
  const [, , digits, path = ''] = match;
  const port = digits === undefined ? null : Number(digits);
  if (port !== null && (port < 1 || port > 65535)) return null;
  if (type === 'tcp' && (path !== '' || port === null)) return null;
  if (path === '' || path === '/') return { port, path: null };
  return refuseProbePath(path) === null ? { port, path } : null;
}

/** The port in the container: by the endpoint, else the only one, else that of the launch surface `main`. */
function portOf(app: YamlApp, written: number | null): number | null {
  const streams = app.ports.map(({ value }) => value).filter(({ protocol }) => protocol === 'tcp');
  if (written !== null) {
    if (streams.some(({ container }) => container === written)) return written;
    return streams.find(({ host }) => host === written)?.container ?? written;
  }
  const distinct = [...new Set(streams.map(({ container }) => container))];
  if (distinct.length === 1) return distinct[0]!;
  const main = app.interfaces.get('main')?.port ?? null;
  return streams.find(({ host }) => host === main)?.container ?? null;
}

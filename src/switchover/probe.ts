// One look at a backend: is it ready to take traffic? Used before a switch and by the active health checks.
// Invariant: a probe settles within its timeout, follows no redirect, uses no proxy from the environment, and leaves no
// connection behind.
import { connect, isIP } from 'node:net';
import type { buildConnector, Dispatcher } from 'undici';
import type { Clock } from '../base/clock.ts';
import type { Backend, HealthCheck, Service } from '../model/snapshot.ts';

export type ProbeResult =
  | { readonly ok: true; readonly detail: string }
  | { readonly ok: false; readonly detail: string };

/** An open port proves little: forwarders accept and close when nothing is behind them. So it must stay open this long. */
const settleMs = 300;

/** The service's own check, or a plain TCP connect when it declares none. */
export async function probe(service: Service, backend: Backend, clock: Clock): Promise<ProbeResult> {
  const { health } = service;
  // Nothing that could be sent is sure to be answered.
  if (service.protocol === 'udp') return { ok: true, detail: 'takes only datagrams, which prove nothing' };
  if (health?.type === 'http') return probeHttp(service, health, backend);
  return probeTcp(backend, health?.timeoutMs ?? 2000, clock);
}

/** Ready when the backend accepts and then sends something or stays connected for 300 ms. */
export function probeTcp(backend: Backend, timeoutMs: number, clock: Clock): Promise<ProbeResult> {
  return new Promise((resolve) => {
    const socket = connect({ host: backend.host, port: backend.port });
    const finish = (result: ProbeResult): void => {
      limit.cancel();
      settled.cancel();
      socket.destroy();
      resolve(result);
    };
    let settled = clock.after(timeoutMs, () => finish({ ok: false, detail: `no connection within ${timeoutMs} ms` }));
    const limit = clock.after(timeoutMs + settleMs, () => finish({ ok: false, detail: 'no connection in time' }));
    socket.on('connect', () => {
      settled.cancel();
      settled = clock.after(settleMs, () => finish({ ok: true, detail: 'accepts connections' }));
    });
    socket.on('data', () => finish({ ok: true, detail: 'accepts connections' }));
    socket.on('error', (error) => finish({ ok: false, detail: describe(error) }));
    socket.on('close', () => finish({ ok: false, detail: 'accepted and closed at once' }));
  });
}

/** Ready when a GET of the path is answered 200–399, whatever the body does. */
async function probeHttp(service: Service, health: HealthCheck, backend: Backend): Promise<ProbeResult> {
  const client = await clientFor(service, health, backend);
  try {
    const answer = await client.request({
      method: 'GET',
      path: health.path,
      headers: { host: health.host === '' ? hostOf(service, backend) : health.host, 'user-agent': 'turnpike-probe' },
      signal: AbortSignal.timeout(health.timeoutMs),
    });
    // The status decides; a slow body is the application's business. Destroying the client ends it.
    answer.body.on('error', () => {});
    const ok = answer.statusCode >= 200 && answer.statusCode <= 399;
    return { ok, detail: `${health.path} answered ${answer.statusCode}` };
  } catch (error) {
    const timedOut = error instanceof Error && error.name === 'TimeoutError';
    return { ok: false, detail: timedOut ? `no answer within ${health.timeoutMs} ms` : describe(error) };
  } finally {
    client.destroy().catch(() => {});
  }
}

async function clientFor(service: Service, health: HealthCheck, backend: Backend): Promise<Dispatcher> {
  // Loaded with the first probe: most start without one.
  const { buildConnector, Client, H2CClient } = await import('undici');
  const { timeoutMs } = health;
  const host = backend.host.includes(':') ? `[${backend.host}]` : backend.host;
  if (service.protocol === 'h2c') return new H2CClient(`http://${host}:${backend.port}`, { headersTimeout: timeoutMs });
  if (service.protocol === 'http1') {
    return new Client(`http://${host}:${backend.port}`, { connectTimeout: timeoutMs, headersTimeout: timeoutMs });
  }
  return new Client(`https://${host}:${backend.port}`, {
    headersTimeout: timeoutMs,
    allowH2: service.protocol === 'h2',
    connect: tlsConnector(service, backend, timeoutMs, buildConnector),
  });
}

/** Expects of the backend what traffic will expect: its name, its issuer and its protocol, never the probe's Host. */
function tlsConnector(
  { protocol, upstreamTls }: Service,
  { host }: Backend,
  timeoutMs: number,
  build: typeof buildConnector,
): buildConnector.connector {
  const { sni = '', verify = true, ca = '', cert = '', key = '' } = upstreamTls ?? {};
  const connector = build({
    timeout: timeoutMs,
    allowH2: protocol === 'h2',
    rejectUnauthorized: verify,
    ...(ca === '' ? {} : { ca }),
    ...(cert === '' ? {} : { cert, key }),
  });
  // An IP literal must not be sent as SNI (RFC 6066 §3); the certificate is then checked against the address.
  const servername = sni !== '' ? sni : isIP(host) === 0 ? host : '';
  return (options, callback) =>
    connector({ ...options, servername }, (...[error, socket]) => {
      if (error !== null) callback(error, null);
      else if (protocol === 'h2' && 'alpnProtocol' in socket && socket.alpnProtocol !== 'h2') {
        socket.destroy();
        callback(new Error('the backend did not agree to HTTP/2'), null);
      } else callback(null, socket);
    });
}

/** A service is named after its host (plus a path); a wildcard has no host of its own. */
function hostOf(service: Service, backend: Backend): string {
  const slash = service.name.indexOf('/');
  const host = slash < 0 ? service.name : service.name.slice(0, slash);
  return host.startsWith('*') ? backend.address : host;
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code } = error as { code?: unknown };
  // Several addresses behind one name fail together, without a message of their own.
  if (error instanceof AggregateError && error.errors.length > 0) return describe(error.errors[0]);
  return error.message === '' ? String(code ?? error.name) : error.message;
}

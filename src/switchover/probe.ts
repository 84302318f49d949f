// One look at a backend: is it ready to take traffic? Used before a switch and by the active health checks.
// Invariant: a probe settles within its timeout, follows no redirect, uses no proxy from the environment, and leaves no
// connection behind.
import type { buildConnector, Dispatcher } from 'undici';
import type { Clock } from '../base/clock.ts';
import type { Backend, HealthCheck, Service } from '../model/snapshot.ts';
import { probeConnection } from './connection-probe.ts';
import { expectedTls } from './expected-tls.ts';
import { describeError, type ProbeResult } from './probe-result.ts';

/** The service's own check, or a connection when it declares none. */
export async function probe(service: Service, backend: Backend, clock: Clock): Promise<ProbeResult> {
  const { health } = service;
  // Nothing that could be sent is sure to be answered.
  if (service.protocol === 'udp') return { ok: true, detail: 'takes only datagrams, which prove nothing' };
  if (health?.type === 'http') return probeHttp(service, health, backend);
  return probeConnection(service, backend, health?.timeoutMs ?? 2000, clock);
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
    return { ok: false, detail: timedOut ? `no answer within ${health.timeoutMs} ms` : describeError(error) };
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
  const { servername, ...rest } = expectedTls(upstreamTls, host);
  const connector = build({ timeout: timeoutMs, allowH2: protocol === 'h2', ...rest });
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

// From `[tls.acme]` to a certificate that clients are shown: the whole product, and a real CA that looks at it.
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AcmeShim } from '../support/acme-shim.ts';
import { Pebble } from '../support/pebble.ts';
import { freePorts } from '../support/ports.ts';
import { Turnpike } from '../support/turnpike.ts';
import { until } from '../support/wait.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-acme-'));
let pebble: Pebble;
let ca: AcmeShim;
let roots = '';
let webPort = 0;
let securePort = 0;

beforeAll(async () => {
  [webPort = 0, securePort = 0] = await freePorts(2);
  pebble = await Pebble.start({ httpPort: webPort, tlsPort: securePort });
  ca = await AcmeShim.start(pebble);
  // Pebble asks for seconds between two looks; nothing here is about those.
  ca.faults.push(async (request) => {
    const reply = await request.pass();
    const { 'retry-after': _, ...headers } = reply.headers;
    return { ...reply, headers };
  });
  roots = await pebble.root();
  writeFileSync(join(directory, 'ca.pem'), ca.caPem);
});

afterAll(async () => {
  await ca?.close();
  await pebble?.stop();
  rmSync(directory, { recursive: true, force: true });
});

const config = (more = ''): string => `
workers = 2
[entrypoints.web]
address = "127.0.0.1:${webPort}"
protocol = "http"
[entrypoints.edge]
address = "127.0.0.1:${securePort}"
protocol = "smart_tcp"
[tls.internal_ca]
enabled = false
[tls.acme]
enabled = true
email = "ops@app.test"
challenge = "tls-alpn-01"
resolvers = ["${pebble.dns}"]
[[tls.acme.directory]]
url = "${ca.directoryUrl}"
ca_file = "${join(directory, 'ca.pem')}"
[external_routes."app.test"]
respond = { status = 200, body = "app" }
tls = "always"
${more}
[external_routes."*"]
respond = { status = 200, body = "anybody" }
`;

/** Names of the certificate that a client of this name is shown, by a CA that it trusts; or the error. */
function shown(servername: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connectTls({ port: securePort, host: '127.0.0.1', servername, ca: roots });
    socket.once('secureConnect', () => {
      resolve(socket.getPeerX509Certificate()?.subjectAltName ?? '');
      socket.destroy();
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  });
}

const isShown = (p: Turnpike, name: string) =>
  until(`a certificate for ${name}`, async () => (await shown(name)) === `DNS:${name}`, {
    timeoutMs: 30_000,
    everyMs: 100,
    seen: () => p.output.slice(-3000),
  });

describe('a configuration that names a CA', () => {
  let p: Turnpike;
  beforeAll(async () => {
    p = await Turnpike.start({ config: config() });
  });
  afterAll(() => p?.stop());

  it('has its host served under a certificate that was proved on the very port it is shown on', async () => {
    await isShown(p, 'app.test');
    const ordered = new Set(ca.of('new-order').map(({ payload }) => JSON.stringify(payload)));
    expect([...ordered]).toEqual(['{"identifiers":[{"type":"dns","value":"app.test"}]}']);
    // The worker that has it is not the only one.
    for (let i = 0; i < 10; i++) expect(await shown('app.test')).toBe('DNS:app.test');
  });

  it('has a host that a reload brings served too, and the first one as before', async () => {
    writeFileSync(p.configFile, config('[external_routes."second.test"]\nrespond = { status = 200, body = "second" }'));
    await p.reload();
    await isShown(p, 'second.test');
    expect(await shown('app.test')).toBe('DNS:app.test');
  });

  it('is not joined by names that clients make up', async () => {
    const asked = ca.requests.length;
    for (let i = 0; i < 200; i++) {
      const socket = connectTls({
        port: securePort,
        host: '127.0.0.1',
        servername: `n${i}.evil.test`,
        ALPNProtocols: [i % 2 === 0 ? 'acme-tls/1' : 'http/1.1'],
      });
      await once(socket, 'error');
      const reply = await fetch(`http://127.0.0.1:${webPort}/.well-known/acme-challenge/n${i}`);
      expect(await reply.text()).toBe('anybody');
    }
    await p.reload();
    expect(ca.requests.length).toBe(asked);
  });
});

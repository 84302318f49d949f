// Which names the process wants certificates for, as configurations and apps come and go.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { Metrics } from '../../src/base/metrics.ts';
import { compileRouting } from '../../src/config/compile.ts';
import type { Declaration } from '../../src/config/declaration.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { CertificatesPart, RoutingPart } from '../../src/model/snapshot.ts';
import { Certificates } from '../../src/process/certificates.ts';
import { HandClock } from '../support/hand-clock.ts';
import { host } from '../support/routing.ts';

let directory: string;
let certificates: Certificates;
let parts: CertificatesPart[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-wanted-'));
  mkdirSync(join(directory, '.turnpike'), { mode: 0o700 });
  parts = [];
  certificates = new Certificates({
    stateDir: join(directory, '.turnpike'),
    // Nobody answers where the CA and the name server are said to be.
    clock: new HandClock(),
    log: silentLog,
    metrics: new Metrics(),
    onChange: (part) => parts.push(part),
    publishChallenges: async () => {},
  });
});

afterEach(async () => {
  certificates.close();
  rmSync(directory, { recursive: true, force: true });
});

async function declarationOf(routes: string): Promise<Declaration> {
  const file = join(directory, 'config.toml');
  writeFileSync(
    file,
    `
[entrypoints.s]
address = "127.0.0.1:1"
protocol = "https"
[tls.acme]
enabled = true
directory = "http://127.0.0.1:9/directory"
resolvers = ["127.0.0.1:9"]
[tls.internal_ca]
enabled = true
${routes}`,
  );
  const loaded = await loadConfig(file);
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  return loaded.declaration;
}

const route = (name: string, keys = ''): string =>
  `[external_routes."${name}"]\nrespond = { status = 200, body = "" }\n${keys}\n`;

const wanted = (): string[] => (certificates.acme?.renewals.settings?.targets ?? []).flatMap(({ names }) => names);

const withApp = (routing: RoutingPart): RoutingPart => ({
  ...routing,
  hosts: [...routing.hosts, host('app.example.com', [], { entrypoints: ['s'] })],
});

it('hosts of apps that are served from the first publication on are wanted, and kept over reloads', async () => {
  const first = await declarationOf(route('a.example.com'));
  const loaded = await certificates.load(first);
  expect(loaded.part.pending).toEqual(['a.example.com']);
  // The first publication carries the apps of an earlier process.
  certificates.routingServed(withApp(compileRouting(first)), compileRouting(first));
  await loaded.adopt();
  expect(wanted()).toEqual(['a.example.com', 'app.example.com']);
  expect(parts.at(-1)!.pending).toEqual(['a.example.com', 'app.example.com']);
  const again = await certificates.load(first);
  expect(again.part.pending).toEqual(['a.example.com', 'app.example.com']);
});

it('a host that a reload brings is not taken for one of an app: what the file says of it counts', async () => {
  const first = await declarationOf(route('a.example.com'));
  const loaded = await certificates.load(first);
  certificates.routingServed(compileRouting(first), compileRouting(first));
  await loaded.adopt();
  const second = await declarationOf(route('a.example.com') + route('mine.example.com', 'certificate = "internal"'));
  const next = await certificates.load(second);
  certificates.routingServed(compileRouting(second), compileRouting(second));
  await new Promise((resolve) => setImmediate(resolve));
  expect(wanted()).toEqual(['a.example.com']);
  await next.adopt();
  expect(wanted()).toEqual(['a.example.com']);
});

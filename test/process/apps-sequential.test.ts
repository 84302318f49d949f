// Services that write alone: two generations of one are never alive at a time, by the processes' own log.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AppKit, program } from '../support/app-kit.ts';
import { ClientLog } from '../support/client-log.ts';
import { Load } from '../support/generations.ts';
import { freePorts } from '../support/ports.ts';
import { askOnce } from '../support/process-kit.ts';
import { closeRawClients } from '../support/raw-client.ts';

const kinds = ['volume', 'bind', 'device', 'udp'] as const;
type Kind = (typeof kinds)[number];
const where = ['new', 'running', 'both'] as const;
const cases = kinds.flatMap((kind) => where.map((place) => ({ kind, place, app: `${kind}-${place}` })));

let kit: AppKit;
beforeAll(async () => {
  const ports = await freePorts(where.length + 1);
  const apps = JSON.stringify(cases.map(({ app }) => app));
  const policy = `allowed_apps = ${apps}\nallowed_services = ["web"]\n`;
  kit = await AppKit.start({
    services: [...cases.map(({ app }) => `${app}/web`), 'blog/web'],
    workers: 1,
    more: `
${where.map((place, i) => `[entrypoints.udp-${place}]\naddress = "127.0.0.1:${ports[i]}"\nprotocol = "udp"\n`).join('')}
[apps.fixed.web]
start = ["${process.execPath}", "${program}"]
address = "127.0.0.1:${ports.at(-1)}"
[app_mounts.logs]
source = "/var/log"
${policy}
[app_devices.gpu]
cdi = ["vendor.example/gpu=0"]
${policy}
`,
  });
}, 60_000);
afterAll(async () => {
  closeRawClients();
  await kit.end();
});

function manifest(app: string, version: number, kind: Kind | null, place: string): string {
  const parts: Record<Kind, string> = {
    volume: '[[services.web.volume]]\nname = "data"\npath = "/data"\n',
    bind: '[[services.web.bind]]\nname = "logs"\npath = "/logs"\n',
    device: '',
    udp: `[[services.web.udp]]\nentrypoint = "udp-${place}"\nport = 4000\n`,
  };
  const readiness = '[services.web.readiness]\ntype = "http"\npath = "/"\nport = 3000\n';
  const text = kit.blog(version, `${readiness}${kind === null ? '' : parts[kind]}`, app);
  return kind === 'device' ? text.replace('[services.web]\n', '[services.web]\ndevices = ["gpu"]\n') : text;
}

describe.each(cases)('a $kind in the $place generation', ({ kind, place, app }) => {
  it('is replaced one after the other', { timeout: 60_000 }, async () => {
    const first = await kit.serve(app, manifest(app, 1, place === 'new' ? null : kind, place));
    expect(first.report, JSON.stringify(first.report)).toMatchObject({ outcome: 'done' });
    const { report, steps } = await kit.serve(app, manifest(app, 2, place === 'running' ? null : kind, place));
    expect(report, JSON.stringify(report)).toMatchObject({ outcome: 'done', services: [{ mode: 'sequential' }] });
    expect(steps).toEqual(
      ['withdrawing', 'stopping', 'starting', 'probing', 'publishing', 'done'].map((step) => `web ${step}`),
    );
    expect(await askOnce(kit.port, `${app}.test`)).toBe('2');
    const events = kit.events.filter(({ service }) => service === `${app}/web`);
    expect(events.map(({ what, revision }) => `${what} ${revision}`)).toEqual([
      'start 1',
      'ready 1',
      'term 1',
      'exit 1',
      'start 2',
      'ready 2',
    ]);
    await kit.verb(app, 'remove', {});
  });
});

describe('a fixed address', () => {
  it('is replaced one after the other too, because two cannot have it', { timeout: 60_000 }, async () => {
    const replaced = async (version: number) => kit.serve('fixed', manifest('fixed', version, null, ''));
    await replaced(1);
    const first = (await kit.status('fixed')).serviceStates[0]!.addresses;
    const { report } = await replaced(2);
    expect(report, JSON.stringify(report)).toMatchObject({
      outcome: 'done',
      services: [{ mode: 'sequential', to: first }],
    });
    expect(await askOnce(kit.port, 'fixed.test')).toBe('2');
    const what = kit.events
      .filter(({ service }) => service === 'fixed/web')
      .map((each) => `${each.what} ${each.revision}`);
    expect(what).toEqual(['start 1', 'ready 1', 'term 1', 'exit 1', 'start 2', 'ready 2']);
  });
});

describe('requests of a service that is replaced one after the other', () => {
  it('wait, and are answered by the new generation', { timeout: 60_000 }, async () => {
    const text = (version: number): string => manifest('blog', version, 'volume', 'both');
    await kit.serve('blog', text(1));
    const log = new ClientLog();
    const target = { plainPort: kit.port, tlsPort: 0, ca: '' };
    const load = new Load({
      target,
      host: 'blog.test',
      log,
      h1Clients: 4,
      h2Connections: 0,
      h2Streams: 0,
      wsClients: 0,
    });
    for (let version = 2; version <= 4; version++) {
      const { switched } = await kit.serve('blog', text(version));
      log.acknowledgements.push({ at: switched.get('web')! - performance.timeOrigin, generation: version });
    }
    await load.stop();
    expect(log.failures.map(({ failure }) => failure).slice(0, 5)).toEqual([]);
    expect(log.afterAcknowledgement).toEqual([]);
    expect(log.goingBack).toEqual([]);
    await kit.p.stop();
  });
});

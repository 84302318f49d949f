// What both engines must do, as one suite: run by a test file for each.
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/log.ts';
import { readManifest } from '../../src/manifest/load.ts';
import { type ContainerGrants, ContainerRuntime } from '../../src/runtime/container-runtime.ts';
import { plainSecurity } from '../../src/runtime/container-spec.ts';
import { Engine } from '../../src/runtime/engine.ts';
import { HostFiles } from '../../src/runtime/host-files.ts';
import {
  appLabels,
  instanceLabels,
  privateNetworkName,
  sharedNetworkName,
  volumeName,
} from '../../src/runtime/ownership.ts';
import type { InstanceRef, Launch, Started } from '../../src/runtime/runtime.ts';
import { SecretDirectory } from '../../src/runtime/secret-directory.ts';
import { SecretFiles } from '../../src/runtime/secret-files.ts';
import { FileSecretStore } from '../../src/runtime/secret-store.ts';
import type { TestEngine } from '../support/engines.ts';
import { until } from '../support/wait.ts';

const image = 'docker.io/library/answers:1';
const owner = { installation: '11111111-aaaa-4bbb-8ccc-000000000001' };
const appId = '22222222-aaaa-4bbb-8ccc-000000000002';

export function engineSuite(start: () => Promise<TestEngine>): void {
  let engines: TestEngine;
  let engine: Engine;
  let directory: string;
  let secrets: FileSecretStore;
  let runtime: ContainerRuntime;
  let grants: ContainerGrants;
  let serial = 0;

  beforeAll(async () => {
    engines = await start();
    engines.image(image, ['/bin/sh', '/serve'], {
      // SIGTERM ends it at once, with a word on the way out.
      serve: [
        'echo "up as $NAME"',
        'echo "answer from $NAME" > /www/index.html',
        'httpd -f -p 8080 -h /www & child=$!',
        `trap 'echo "asked to end"; kill $child; exit 0' TERM`,
        'wait $child',
      ].join('\n'),
      stubborn: `trap '' TERM\necho stubborn\nwhile true; do sleep 1; done`,
    });
    directory = mkdtempSync(join(tmpdir(), 'turnpike-runtime-'));
    engine = await Engine.open({ kind: engines.kind, env: engines.env, uid: process.getuid!() }, owner);
    secrets = await FileSecretStore.open(join(directory, 'secrets'));
    grants = {
      images: { registry: null, allowedRegistries: [], requireDigest: false },
      mounts: new Map([
        ['logs', { source: directory, readOnly: true, allowedApps: ['blog'], allowedServices: ['web'] }],
        [
          'gone',
          { source: join(directory, 'nowhere'), readOnly: false, allowedApps: ['blog'], allowedServices: ['web'] },
        ],
        ['others', { source: directory, readOnly: false, allowedApps: ['shop'], allowedServices: ['web'] }],
      ]),
      devices: new Map([['gpu', { cdi: ['vendor.test/gpu=0'], allowedApps: ['blog'], allowedServices: ['web'] }]]),
    };
    runtime = new ContainerRuntime({
      kind: engines.kind,
      clock: systemClock,
      log: silentLog,
      owner,
      engine: async () => engine,
      close: () => engine.close(),
      grants: () => grants,
      secrets,
      secretFiles: new SecretFiles(join(directory, 'mounted')),
      seal: Buffer.alloc(32),
      hostFiles: new HostFiles(systemClock, () => directory),
      dataOf: () => directory,
      installed: new Set(),
      secretDirectory: new SecretDirectory(join(directory, 'yaml-secrets')),
      placeholders: () => ({ HOST_IP: '192.0.2.1' }),
    });
  }, 120_000);

  afterAll(async () => {
    engine?.close();
    await engines?.stop();
    rmSync(directory, { recursive: true, force: true });
  }, 60_000);

  function launch(more: string, over: Partial<Launch> = {}): Launch {
    const text = `name = "blog"\n[services.web]\nimage = "${image}"\n${more}`;
    const facts = {
      entrypoints: [{ name: 'game', protocol: 'udp' as const, host: '', port: 27_015, rawFallback: null }],
      dataRoot: directory,
      ...grants,
    };
    const loaded = readManifest(Buffer.from(text), 'blog.toml', facts);
    if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
    serial++;
    return {
      instance: `33333333-0000-4000-8000-${String(serial).padStart(12, '0')}`,
      incarnation: appId,
      app: loaded.app,
      service: loaded.app.services[0]!,
      revision: 1,
      given: [],
      ...over,
    };
  }

  const web = '[[services.web.http]]\nhost = "blog.test"\nport = 8080\n';
  const named = (name: string): string => `[services.web.env]\nNAME = "${name}"\n`;
  const ref = ({ instance }: Launch, started: Started): InstanceRef => ({
    id: instance,
    app: 'blog',
    service: 'web',
    backends: started.backends,
    managed: true,
  });
  const gone = async (each: InstanceRef): Promise<void> => runtime.stop(each, 0, () => {});

  async function answer(started: Started): Promise<string> {
    const [backend] = started.backends;
    return until('the container to answer', async () => {
      try {
        return (await (await fetch(`http://${backend!.address}/`)).text()).trim();
      } catch {
        return null;
      }
    });
  }

  describe('a service as a container', () => {
    test('is published on a free loopback port and answers there', async () => {
      const one = launch(web + named('one'));
      expect(await runtime.check(one)).toEqual({ problems: [], fixed: [], managed: true });
      const started = await runtime.start(one);
      expect(started.backends).toEqual([{ port: 8080, address: expect.stringMatching(/^127\.0\.0\.1:\d+$/) }]);
      expect(await answer(started)).toBe('answer from one');
      expect(await runtime.alive(ref(one, started))).toBe(true);
      expect(await runtime.list()).toContain(one.instance);
      await gone(ref(one, started));
      expect(await runtime.alive(ref(one, started))).toBe(false);
      expect(await runtime.list()).not.toContain(one.instance);
    });

    test('two generations run side by side, each on a port of its own', async () => {
      const [one, two] = [launch(web + named('one')), launch(web + named('two'))];
      const [first, second] = [await runtime.start(one), await runtime.start(two)];
      expect(await answer(first)).toBe('answer from one');
      expect(await answer(second)).toBe('answer from two');
      expect(first.backends[0]!.address).not.toBe(second.backends[0]!.address);
      await gone(ref(one, first));
      expect(await answer(second)).toBe('answer from two');
      await gone(ref(two, second));
    });

    test('is asked to end first, and ended by force when its grace is over', async () => {
      const polite = launch(web + named('polite'));
      const started = await runtime.start(polite);
      await answer(started);
      const steps: string[] = [];
      await runtime.stop(ref(polite, started), 10_000, (step) => steps.push(step));
      expect(steps).toEqual(['term']);
      expect(await started.ended).toBe('it exited with 0');

      const stubborn = launch('command = ["/bin/sh", "/stubborn"]\n');
      const other = await runtime.start(stubborn);
      await until('it to trap the signal', async () =>
        (await runtime.output(ref(stubborn, other))).includes('stubborn'),
      );
      await runtime.stop(ref(stubborn, other), 300, (step) => steps.push(step));
      expect(steps).toEqual(['term', 'term', 'kill']);
      expect(await other.ended).toBe('it exited with 137');
    });

    test('stopping what is not there is no failure', async () => {
      const never = launch(web);
      await runtime.stop(ref(never, { backends: [], managed: true, ended: null }), 1000, () => {
        throw new Error('nothing was to be stopped');
      });
    });

    test('its output is what it wrote, both streams', async () => {
      const talks = launch('command = ["/bin/sh", "-c", "echo to stdout; echo to stderr >&2; exec sleep 100"]\n');
      const started = await runtime.start(talks);
      const instance = ref(talks, started);
      await until('both lines', async () => {
        const text = await runtime.output(instance);
        return text.includes('to stdout\n') && text.includes('to stderr\n');
      });
      await gone(instance);
    });

    test('one that ends by itself says how', async () => {
      const dies = launch('command = ["/bin/sh", "-c", "exit 7"]\n');
      const started = await runtime.start(dies);
      expect(await started.ended).toBe('it exited with 7');
      expect(await runtime.alive(ref(dies, started))).toBe(false);
      await gone(ref(dies, started));
    });

    test('gets no new privileges, and the engine never restarts it by itself', async () => {
      const one = launch(web);
      const started = await runtime.start(one);
      const [{ HostConfig }] = JSON.parse(engines.cli('inspect', containerOf(one)));
      expect(HostConfig.RestartPolicy.Name).toMatch(/^(no)?$/);
      expect(HostConfig.Privileged).toBe(false);
      expect(HostConfig.SecurityOpt).toContain('no-new-privileges');
      await gone(ref(one, started));
    });
  });

  const containerOf = ({ instance }: Launch): string =>
    engines.cli('ps', '-aq', '--no-trunc', '--filter', `label=turnpike.instance=${instance}`).trim();

  describe('secrets', () => {
    const text = `[services.web.secrets]
PLAIN = "plain"
FILED = { name = "filed", as = "file" }
`;
    const both = async (): Promise<void> => {
      await secrets.write({ appId, service: 'web', name: 'plain' }, 'value of plain');
      await secrets.write({ appId, service: 'web', name: 'filed' }, 'value of filed');
    };

    test('one without a value is named by the check, with the command that sets it', async () => {
      const { problems } = await runtime.check(launch(text, { incarnation: '44444444-0000-4000-8000-000000000000' }));
      expect(problems.join()).toContain('no value for filed, plain');
      expect(problems.join()).toContain('turnpike apps secrets set blog web filed');
    });

    test('come as a variable, or as a read-only file that inspect does not show', async () => {
      await both();
      const script =
        'echo "$PLAIN|$FILED_FILE|$(cat $FILED_FILE)|$(stat -c %a $FILED_FILE)"; echo x > $FILED_FILE || echo read-only; exec sleep 100';
      const one = launch(`command = ["/bin/sh", "-c", '''${script}''']\n${text}`);
      expect((await runtime.check(one)).problems).toEqual([]);
      const started = await runtime.start(one);
      const instance = ref(one, started);
      const written = async (): Promise<string> => {
        let text = '';
        for await (const chunk of runtime.read(instance, false, new AbortController().signal)) text += String(chunk);
        return text;
      };
      const output = await until('its output', async () => {
        const said = await written();
        return said.includes('read-only\n') ? said : null;
      });
      expect(await runtime.output(instance)).toContain('[redacted]|/run/secrets/FILED|[redacted]|444');
      expect(output).toContain('value of plain|/run/secrets/FILED|value of filed|444');
      const shown = engines.cli('inspect', containerOf(one));
      expect(shown).toContain('value of plain');
      expect(shown).not.toContain('value of filed');
      expect(statSync(join(directory, 'mounted', one.instance)).mode & 0o777).toBe(0o700);
      await gone(instance);
      expect(() => statSync(join(directory, 'mounted', one.instance))).toThrow('ENOENT');
    });
  });

  describe('what is checked before anything is made', () => {
    test.each([
      ['[[services.web.bind]]\nname = "gone"\npath = "/x"\n', 'does not exist'],
      ['devices = ["gpu"]\n', 'devices need'],
    ])('%j: %s', async (more, message) => {
      const { problems } = await runtime.check(launch(more));
      expect(problems.join()).toContain(message);
      expect(problems.join()).toMatch(/^blog\/web: /);
    });

    test('a grant that was taken away since the manifest was applied', async () => {
      const one = launch('[[services.web.bind]]\nname = "logs"\npath = "/x"\n');
      const before = grants;
      grants = { ...grants, mounts: new Map() };
      expect((await runtime.check(one)).problems).toEqual(['blog/web: no [app_mounts.logs] is declared']);
      await expect(runtime.start(one)).rejects.toMatchObject({ code: 'runtime-refused' });
      grants = before;
      expect(containerOf(one)).toBe('');
    });

    test('an image that is not allowed any more, or cannot be had', async () => {
      const one = launch(web);
      const before = grants;
      grants = { ...grants, images: { registry: null, allowedRegistries: [], requireDigest: true } };
      expect((await runtime.check(one)).problems.join()).toContain('images.require_digest is on');
      grants = before;
      const source = {
        ...one.service.source,
        image: { registry: '127.0.0.1:9', repository: 'none', tag: '1', digest: null },
      };
      grants = { ...grants, images: { registry: '127.0.0.1:9', allowedRegistries: [], requireDigest: false } };
      const { problems } = await runtime.check({ ...one, service: { ...one.service, source } as Launch['service'] });
      grants = before;
      expect(problems).toHaveLength(1);
      expect(problems[0]).toContain('127.0.0.1:9/none:1');
    });
  });

  describe('volumes, binds and networks', () => {
    test('a named volume keeps its data from one generation to the next', async () => {
      const volume = '[[services.web.volume]]\nname = "data"\npath = "/data"\n';
      const writes = launch(`command = ["/bin/sh", "-c", "echo kept > /data/file; exec sleep 100"]\n${volume}`);
      const first = await runtime.start(writes);
      const name = volumeName({ ...owner, app: 'blog', appId }, 'web', 'data');
      await until('the file', () => {
        try {
          return engines.cli('exec', containerOf(writes), 'cat', '/data/file') === 'kept\n';
        } catch {
          return false;
        }
      });
      await gone(ref(writes, first));
      const reads = launch(`command = ["/bin/sh", "-c", "cat /data/file; exec sleep 100"]\n${volume}`);
      const second = await runtime.start(reads);
      await until('what was written', async () => (await runtime.output(ref(reads, second))) === 'kept\n');
      await gone(ref(reads, second));
      expect((await engine.volumes.list()).map((each) => each.name)).toEqual([name]);
    });

    test('a volume of that name that is not ours is refused and left alone', async () => {
      const name = volumeName({ ...owner, app: 'blog', appId }, 'web', 'theirs');
      engines.cli('volume', 'create', name);
      const one = launch('[[services.web.volume]]\nname = "theirs"\npath = "/data"\n');
      expect((await runtime.check(one)).problems.join()).toContain('was not made by this installation');
      await expect(runtime.start(one)).rejects.toMatchObject({ code: 'runtime-refused' });
      await expect(engine.volumes.remove(name)).rejects.toMatchObject({ code: 'runtime-refused' });
      expect(engines.cli('volume', 'inspect', name)).toContain(name);
    });

    test('a bind is read-only when either side says so', async () => {
      writeFileSync(join(directory, 'log'), 'of the host\n');
      const script = 'cat /logs/log; echo x > /logs/new || echo refused; exec sleep 100';
      const one = launch(
        `command = ["/bin/sh", "-c", "${script}"]\n[[services.web.bind]]\nname = "logs"\npath = "/logs"\n`,
      );
      const started = await runtime.start(one);
      await until('both lines', async () =>
        /of the host\n[\s\S]*refused\n/.test(await runtime.output(ref(one, started))),
      );
      await gone(ref(one, started));
    });

    test('services of an app find each other by name; another app does not', async () => {
      const one = launch(web + named('one'));
      const started = await runtime.start(one);
      await answer(started);
      const address = (await engine.containers.inspect(containerOf(one)))!.addresses[
        privateNetworkName({ ...owner, app: 'blog', appId })
      ]!;
      const asks = `command = ["/bin/sh", "-c", "nslookup web; echo asked; exec sleep 100"]\n`;
      const reader = (over: Partial<Launch> = {}): Launch => {
        const made = launch(asks, over);
        return { ...made, service: { ...made.service, name: 'reader' } };
      };
      const sibling = reader();
      const stranger = reader({ incarnation: '55555555-0000-4000-8000-000000000005' });
      for (const [each, finds] of [
        [sibling, true],
        [stranger, false],
      ] as const) {
        const running = await runtime.start(each);
        const said = await until(
          'the answer',
          async () => {
            const text = await runtime.output(ref(each, running));
            return text.includes('asked') ? text : null;
          },
          { timeoutMs: 20_000 },
        );
        expect(said.includes(address)).toBe(finds);
        await gone(ref(each, running));
      }
      await gone(ref(one, started));
    });

    test('a shared network is joined under the name of the service', async () => {
      const shared = '[[network.shared]]\nnetwork = "backend"\nservices = ["web"]\n';
      const one = launch(web + named('shared') + shared);
      const started = await runtime.start(one);
      await answer(started);
      const other = launch(`command = ["sleep", "100"]\n${shared}`, {
        incarnation: '66666666-0000-4000-8000-000000000006',
      });
      const near = await runtime.start(other);
      const name = sharedNetworkName('backend');
      expect((await engine.networks.find(name))!.members).toHaveLength(2);
      expect(await engine.networks.removeUnused(name)).toBe(false);
      await engine.networks.leave(name, containerOf(other));
      expect((await engine.networks.find(name))!.members).toEqual([containerOf(one)]);
      for (const [each, running] of [
        [one, started],
        [other, near],
      ] as const)
        await gone(ref(each, running));
      expect(await engine.networks.removeUnused(name)).toBe(true);
    });

    test('a network of that name that is not ours is refused and left alone', async () => {
      const mark = { ...owner, app: 'blog', appId: '77777777-0000-4000-8000-000000000007' };
      const name = privateNetworkName(mark);
      engines.cli('network', 'create', name);
      await expect(engine.networks.ensure(name, appLabels(mark))).rejects.toMatchObject({ code: 'runtime-refused' });
      await expect(engine.networks.removeUnused(name)).rejects.toMatchObject({ code: 'runtime-refused' });
      engines.cli('network', 'rm', name);
    });
  });

  describe('what is not ours', () => {
    test('containers without our label, and those of another installation, are neither listed nor touched', async () => {
      const plain = engines.cli('run', '-d', '--network', 'none', image, 'sleep', '100').trim();
      const other = { installation: 'somebody-else', app: 'blog', appId, service: 'web', instance: 'theirs' };
      const { id } = (await engine.images.find(image))!;
      const rival = await Engine.open({ kind: engines.kind, env: engines.env, uid: 0 }, other);
      const theirs = await rival.containers.create('theirs', {
        image: id,
        labels: instanceLabels(other),
        entrypoint: null,
        command: ['sleep', '100'],
        env: [],
        stopGraceMs: 1000,
        publications: [],
        network: 'none',
        aliases: [],
        mounts: [],
        tmpfs: [],
        cdiDevices: [],
        hostDevices: [],
        security: plainSecurity,
        cpus: null,
        memory: null,
      });
      await rival.containers.start(theirs);
      expect((await rival.containers.list()).map((each) => each.id)).toEqual([theirs]);
      const ours = (await engine.containers.list()).map((each) => each.id);
      expect(ours).not.toContain(plain);
      expect(ours).not.toContain(theirs);
      for (const each of [plain, theirs]) {
        await expect(engine.containers.stop(each, 0)).rejects.toMatchObject({ code: 'runtime-refused' });
        await expect(engine.containers.kill(each, 'SIGKILL')).rejects.toMatchObject({ code: 'runtime-refused' });
        await expect(engine.containers.remove(each)).rejects.toMatchObject({ code: 'runtime-refused' });
        await expect(engine.containers.exec(each, ['id'], { timeoutMs: 1000 })).rejects.toMatchObject({
          code: 'runtime-refused',
        });
        expect((await engine.containers.inspect(each))!.running).toBe(true);
      }
      rival.close();
    });
  });

  describe('inside a container', () => {
    test('a command runs, its output and exit code come back, and one without end is ended by its time', async () => {
      const one = launch('command = ["sleep", "100"]\n');
      const started = await runtime.start(one);
      const id = containerOf(one);
      expect(
        await engine.containers.exec(id, ['sh', '-c', 'echo "$A"; echo err >&2; exit 3'], {
          env: ['A=b'],
          timeoutMs: 10_000,
        }),
      ).toEqual({
        exitCode: 3,
        output: expect.stringMatching(/^(b\nerr|err\nb)\n$/),
      });
      await expect(engine.containers.exec(id, ['sleep', '100'], { timeoutMs: 300 })).rejects.toThrow();
      await gone(ref(one, started));
    });
  });
}

// Manifests become running containers: the whole product on a real engine.
import { execFileSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { appPath, appPaths } from '../../src/control/apps-api.ts';
import type { LeftoverRow } from '../../src/process/apps-operations.ts';
import { ContainerKit, pages } from '../support/container-kit.ts';
import type { TestEngine } from '../support/engines.ts';
import { freePort } from '../support/ports.ts';
import { mainFile } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

const { blog } = ContainerKit;
const deviceEngine = { docker: 'Docker 28.3', podman: 'Podman 5.4' } as const;
export function deploySuite(startEngine: () => Promise<TestEngine>): void {
  let engine: TestEngine;
  let kit: ContainerKit;
  /** What the last replacement under load left. */
  let newest = '';

  beforeAll(async () => {
    engine = await startEngine();
    engine.image(pages, ['/bin/sh', '/serve'], {
      serve: [
        'mkdir -p /data; echo start >> /data/starts',
        'echo "up as $NAME"; echo "$NAME $(wc -l < /data/starts)" > /www/index.html',
        'httpd -f -p 8080 -h /www & child=$!',
        `trap 'kill $child; exit 0' TERM`,
        'wait $child',
      ].join('\n'),
    });
    kit = await ContainerKit.start(
      engine,
      `[images]
registry = "127.0.0.1:9"
[app_mounts.logs]
source = "/nowhere/at/all"
allowed_apps = ["blog"]
allowed_services = ["web"]
[app_devices.gpu]
cdi = "vendor.test/gpu=0"
allowed_apps = ["blog"]
allowed_services = ["web"]
`,
    );
  }, 120_000);

  afterAll(async () => {
    try {
      await kit?.end();
    } finally {
      await engine?.stop();
    }
  }, 60_000);

  /** What is there when nothing is on its way out any more. */
  async function settled(): Promise<readonly string[]> {
    await until('the old ones to be gone', () => kit.containers(true).length === 1, {
      timeoutMs: 20_000,
      everyMs: 200,
    });
    return kit.containers(true);
  }

  /** Exactly one container of ours is there and answers. */
  async function oneServes(word: string): Promise<void> {
    await until(
      `one container with ${word}`,
      async () => {
        const answer = await kit.ask().catch(String);
        return answer.startsWith(`200 ${word}`) && kit.containers(true).length === 1;
      },
      { timeoutMs: 45_000, everyMs: 200, seen: () => `${kit.containers(true)} ${kit.p.output.slice(-3000)}` },
    );
  }

  describe('a manifest', () => {
    test('becomes a running container that answers by its host', async () => {
      const report = await kit.serve('blog', blog('one'));
      expect(report, JSON.stringify(report)).toMatchObject({ outcome: 'done', services: [{ service: 'web' }] });
      expect(await kit.ask()).toBe('200 one 1');
      expect(kit.containers(true)).toHaveLength(1);
    }, 60_000);

    test('replacements under load lose nothing: 20 on Docker, 8 on Podman, which takes three seconds for each', async () => {
      const count = engine.kind === 'docker' ? 20 : 8;
      newest = `n${count}`;
      let running = true;
      const answers = { right: 0, wrong: [] as string[] };
      const lane = async (): Promise<void> => {
        while (running) {
          const answer = await kit.ask().catch(String);
          if (/^200 (one|n\d+) 1$/.test(answer)) answers.right++;
          else answers.wrong.push(answer);
          await sleep(5);
        }
      };
      const lanes = [lane(), lane(), lane(), lane()];
      for (let n = 1; n <= count; n++) {
        const report = await kit.serve('blog', blog(`n${n}`));
        expect(report, JSON.stringify(report)).toMatchObject({ outcome: 'done', services: [{ mode: 'overlap' }] });
        expect(await kit.ask()).toBe(`200 n${n} 1`);
      }
      running = false;
      await Promise.all(lanes);
      expect(answers.wrong).toEqual([]);
      expect(answers.right).toBeGreaterThan(200);
      await oneServes(newest);
    }, 120_000);
  });

  describe('what cannot be had', () => {
    const refusedAtApply: readonly (readonly [string, string, string])[] = [
      ['a registry that is not allowed', blog('x', '', 'registry.example.net/pages:1'), 'allowed_registries'],
      ['a digest that is none', blog('x', '', 'docker.io/library/pages@sha256:abc'), 'sha256'],
      ['a bind that nobody grants', blog('x', '[[services.web.bind]]\nname = "other"\npath = "/x"'), 'app_mounts'],
      ['a device that nobody grants', blog('x', 'devices = ["other"]'), 'app_devices'],
    ];
    const refusedAtDeploy: readonly (readonly [string, string, string])[] = [
      ['an image that is not there', blog('x', '', '127.0.0.1:9/none:1'), '127.0.0.1:9/none:1 was not pulled'],
      ['a mount that does not exist', blog('x', '[[services.web.bind]]\nname = "logs"\npath = "/x"'), 'does not exist'],
      ['a device on an engine that cannot', blog('x', 'devices = ["gpu"]'), 'devices need <engine>'],
      ['a secret without a value', blog('x', '[services.web.secrets]\nKEY = "key"'), 'no value for key'],
    ];

    test.each(refusedAtApply)('is refused when it is applied: %s', async (_what, text, why) => {
      const { applied, problems } = await kit.apply('blog', text);
      expect(applied).toBeNull();
      expect(JSON.stringify(problems)).toContain(why);
    });

    test.each(refusedAtDeploy)('is refused before anything is changed: %s', async (_what, text, why) => {
      const before = await settled();
      await expect(kit.serve('blog', text)).rejects.toThrow(why.replace('<engine>', deviceEngine[engine.kind]));
      expect(kit.containers(true)).toEqual(before);
      expect(await kit.ask()).toBe(`200 ${newest} 1`);
    });

    test('a generation that ends at once is thrown away, and the one before serves on', async () => {
      const before = await settled();
      const report = await kit.serve('blog', blog('x', 'command = ["/bin/sh", "-c", "echo no such option; exit 3"]'));
      expect(report.outcome).toBe('failed');
      expect(report.fault?.detail).toMatch(/exited with 3[\s\S]*no such option/);
      expect(kit.containers(true)).toEqual(before);
      expect(await kit.ask()).toBe(`200 ${newest} 1`);
    });
  });

  describe('what ends', () => {
    test('a container that is killed is started again as a new generation', async () => {
      const [before] = kit.containers();
      engine.cli('kill', before!);
      await until('another container', () => !kit.containers(true).includes(before!), { timeoutMs: 20_000 });
      await oneServes(newest);
      expect((await kit.status('blog')).serviceStates[0]).toMatchObject({
        state: 'serving',
        restarts: { restarts: 1 },
      });
    }, 60_000);

    test('Turnpike, killed in the middle of a deploy: one generation lives on, nothing else', async () => {
      await kit.apply('blog', blog('after'));
      const order = { revision: null, service: null, backends: [], wait: false };
      const killed = kit.verb('blog', 'deploy', order, (step) => {
        if (step === 'probing') void kit.p.kill();
      });
      await expect(killed).rejects.toThrow();
      await kit.p.exited;
      await kit.startAgain();
      await oneServes(newest);
      expect(kit.networks()).toHaveLength(1);
    }, 60_000);

    test('the engine, killed and started again: what ran runs again', async () => {
      await engine.crash();
      await engine.restart();
      await oneServes(newest);
      await until('no deploy', async () => (await kit.status('blog')).underWay.length === 0);
      expect((await kit.serve('blog', blog('later'))).outcome).toBe('done');
      await oneServes('later');
    }, 90_000);

    test('a foreign container of the same engine is there as before', async () => {
      const theirs = engine.cli('run', '-d', '--network', 'none', pages, 'sleep', '1000').trim();
      await kit.serve('blog', blog('last'));
      await oneServes('last');
      expect(engine.cli('ps', '-q', '--no-trunc')).toContain(theirs);
      engine.cli('rm', '-f', theirs);
    }, 60_000);
  });

  describe('a service with secrets and an internal port', () => {
    const text = (port: number): string => `name = "vault"
[services.web]
image = "${pages}"
command = ["/bin/sh", "-c", "echo key $KEY; exec /bin/sh /serve"]
[services.web.readiness]
type = "http"
path = "/"
port = ${port}
timeout = "4s"
[[services.web.http]]
visibility = "internal"
port = ${port}
[services.web.secrets]
KEY = "key"
FILED = { name = "filed", as = "file" }
`;
    const set = (name: string, value: string): Promise<unknown> =>
      kit.p.control.post(appPath('vault', 'secret-set'), { service: 'web', name, value });

    test('is probed from inside its network, and never published', async () => {
      await kit.apply('vault', text(8080));
      await expect(set('other', 'x')).rejects.toThrow('has no secret other in its manifest (it has filed, key)');
      const file = ['--config', kit.p.configFile];
      const command = [mainFile, 'apps', 'secrets', 'set', 'vault', 'web', 'key', ...file];
      const said = execFileSync(process.execPath, command, { input: 'value-one-qz7x\n', encoding: 'utf8' });
      expect(said).toBe('vault/web: key is set. It is used from:  turnpike apps deploy vault\n');
      await set('filed', 'value-filed-qz7x');
      const before = kit.containers(true);
      const report = await kit.serve('vault', text(8080));
      expect(report, JSON.stringify(report)).toMatchObject({ outcome: 'done' });
      const [ours] = kit.containers(true).filter((id) => !before.includes(id));
      expect(engine.cli('port', ours!)).toBe('');
      expect(kit.containers(true)).toHaveLength(before.length + 1);
    }, 60_000);

    test('is not ready while nobody listens inside', async () => {
      const report = await kit.serve('vault', text(8081));
      expect(report.outcome).toBe('failed');
      expect(report.fault?.detail).toMatch(/last: ECONNREFUSED[\s\S]*key \[redacted\]/);
      expect((await kit.verb('vault', 'rollback', { revision: 1, wait: false })).outcome).toBe('done');
    }, 60_000);

    test('gets another value with the next deploy, which only its name is told of', async () => {
      const deploy = { revision: null, service: null, backends: [], wait: false };
      expect((await kit.verb('vault', 'deploy', deploy)).services[0]!.outcome).toBe('kept');
      await set('key', 'value-two-qz7x');
      const logged = async (): Promise<string> => {
        let text = '';
        for await (const chunk of kit.p.control.bytes(appPath('vault', 'logs'))) text += String(chunk);
        return text;
      };
      // What is only restarted keeps what it had.
      await kit.verb('vault', 'restart', { service: null, wait: false });
      expect(await logged()).toContain('key value-one-qz7x');
      expect((await kit.verb('vault', 'deploy', deploy)).services[0]!.outcome).toBe('replaced');
      expect(await logged()).toContain('key value-two-qz7x');
      const rows = JSON.stringify(await kit.p.control.get(appPath('vault', 'secrets')));
      expect(rows).toContain('"name":"key"');
      expect(`${rows}${kit.p.output}`).not.toContain('qz7x');
      await kit.verb('vault', 'remove', {});
    }, 60_000);
  });

  describe('an app of the other format', () => {
    const yaml = (port: number, hook = '["/bin/sh", "-c", "cat /config/hooked >> /data/hooks"]'): string => {
      const data = join(kit.directory, '.turnpike/data/boxed');
      return `app:
  id: boxed
  name: Boxed
  version: 1.0.0
  container:
    image: ${pages}
    entrypoint: ["/bin/sh", "-c", 'mkdir -p /www/x; cp /config/page /tmp/index.html; ls -ln /data/page; echo "$HOST|$PASSWORD"; httpd -f -p 8080 -h /tmp & c=$!; trap "kill $c; exit 0" TERM; wait $c']
    derived_env: [{ key: HOST, template: "http://{{HOST_MDNS}}" }]
    generated_secrets: [{ name: boxed-password, kind: hex16 }]
    secret_env: [{ key: PASSWORD, secret_file: boxed-password }]
    generated_certs: [{ crt: ${data}/tls.crt, key: ${data}/tls.key, common_name: "{{HOST_MDNS}}" }]
    data_uid: "1234:1235"
  ports: [{ host: ${port}, container: 8080, auth: local }]
  volumes:
    - { type: bind, source: ${data}, target: /data, options: [rw] }
    - { type: bind, source: ${data}, target: /config, options: [ro] }
    - { type: tmpfs, target: /tmp, tmpfs_options: "rw,size=1m" }
    - { type: tmpfs, target: /www, tmpfs_options: "rw,size=1m" }
  files: [{ path: ${data}/page, content: "a page", overwrite: true }, { path: ${data}/hooked, content: hooked }]
  # Its user is root without the right to write where somebody else may.
  security: { capabilities: [DAC_OVERRIDE] }
  health_check: { type: http, path: / }
  hooks: { post_install: [{ exec: ${hook} }] }
`;
    };

    test('has its files, owner, secrets, certificate, and hooks once; on the port that it names', async () => {
      const port = await freePort();
      const report = await kit.serve('boxed', yaml(port), 'yml');
      expect(report, JSON.stringify(report)).toMatchObject({ outcome: 'done' });
      expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('a page');
      const data = join(kit.directory, '.turnpike/data/boxed');
      for (const name of ['page', 'tls.crt', 'tls.key']) expect(statSync(join(data, name)).uid, name).toBe(1234);
      expect(new X509Certificate(readFileSync(join(data, 'tls.crt'))).subject).toMatch(/^CN=.*\.local$/);
      expect(readFileSync(join(data, 'hooks'), 'utf8')).toBe('hooked');
      const password = readFileSync(join(kit.directory, '.turnpike/secrets/boxed-password'), 'utf8').trim();
      expect(password).toMatch(/^[0-9a-f]{32}$/);
      let log = '';
      for await (const chunk of kit.p.control.bytes(appPath('boxed', 'logs'))) log += String(chunk);
      expect(log).toMatch(/1234 +1235/);
      expect(log).toMatch(new RegExp(`http://.*\\.local\\|${password}`));
      const id = engine.cli('ps', '-q', '--filter', 'label=turnpike.app=boxed').trim();
      const [{ HostConfig, State }] = JSON.parse(engine.cli('inspect', id));
      expect(HostConfig).toMatchObject({ ReadonlyRootfs: true, Privileged: false });
      // Asked of the kernel: engines tell it in words of their own. DAC_OVERRIDE, which the manifest keeps, is bit 1.
      const status = readFileSync(`/proc/${State.Pid}/status`, 'utf8');
      expect(status).toMatch(/^CapPrm:\t0+2\nCapEff:\t0+2\nCapBnd:\t0+2$/m);
      expect(status).toMatch(/^NoNewPrivs:\t1$/m);
      // Another generation: the same secret, and no second installation.
      await kit.verb('boxed', 'restart', { service: null, wait: false });
      expect(readFileSync(join(data, 'hooks'), 'utf8')).toBe('hooked');
      expect(readFileSync(join(kit.directory, '.turnpike/secrets/boxed-password'), 'utf8').trim()).toBe(password);
      expect(await (await fetch(`http://127.0.0.1:${port}/`)).text()).toBe('a page');
      await kit.verb('boxed', 'remove', {});
    }, 60_000);

    test('is not installed when a hook of it fails', async () => {
      const report = await kit.serve('boxed', yaml(await freePort(), '["/bin/sh", "-c", "echo no; exit 4"]'), 'yml');
      expect(report.outcome).toBe('failed');
      expect(report.fault?.detail).toContain('ended with 4: no');
      await kit.verb('boxed', 'remove', {});
    }, 60_000);
  });

  describe('a service with a volume', () => {
    const withVolume = (word: string): string =>
      blog(
        word,
        '[services.web.readiness]\ntype = "http"\npath = "/"\n[[services.web.volume]]\nname = "data"\npath = "/data"',
      );

    test('never runs twice, and finds its data again', async () => {
      let most = 0;
      let watching = true;
      const watch = (async () => {
        while (watching) {
          most = Math.max(most, kit.containers().length);
          await sleep(50);
        }
      })();
      // The one without a volume goes first.
      expect((await kit.serve('blog', withVolume('v1'))).services[0]!.mode).toBe('sequential');
      expect(await kit.ask()).toBe('200 v1 1');
      expect((await kit.serve('blog', withVolume('v2'))).services[0]!.mode).toBe('sequential');
      expect(await kit.ask()).toBe('200 v2 2');
      watching = false;
      await watch;
      expect(most).toBe(1);
    }, 60_000);

    test('leaves its volume when it is removed, until that is given up', async () => {
      const report = await kit.verb('blog', 'remove', {});
      expect(report.outcome, JSON.stringify(report)).toBe('done');
      expect([kit.containers(true), kit.networks(), kit.volumes().length]).toEqual([[], [], 1]);
      const leftovers = await kit.p.control.get<readonly LeftoverRow[]>(appPaths.leftovers);
      expect(leftovers.flatMap((each) => each.leftovers)).toContain('volume data');
      await kit.p.control.post(appPath('blog', 'prune'));
      expect(kit.volumes()).toEqual([]);
    }, 60_000);
  });
}

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { type ContainerSpec, createBody, plainSecurity } from '../../src/runtime/container-spec.ts';
import { Engine, requireDevices, socketCandidates } from '../../src/runtime/engine.ts';
import { Lines, LogFrames } from '../../src/runtime/log-frames.ts';
import { containerName, instanceLabels, instanceMark, volumeName } from '../../src/runtime/ownership.ts';

const mark = { installation: 'i', app: 'blog', appId: 'aaaaaaaa-bbbb', service: 'web.api', instance: 'x1' };

const bare: ContainerSpec = {
  image: 'sha256:1',
  labels: {},
  entrypoint: null,
  command: null,
  env: [],
  stopGraceMs: 30_000,
  publications: [],
  network: 'turnpike-blog-aaaaaaaa',
  aliases: ['web'],
  mounts: [],
  tmpfs: [],
  cdiDevices: [],
  hostDevices: [],
  security: plainSecurity,
  cpus: null,
  memory: null,
};

interface Body {
  readonly ExposedPorts: object;
  readonly HostConfig: Record<string, unknown>;
  readonly [key: string]: unknown;
}
const body = (over: Partial<ContainerSpec>): Body => createBody({ ...bare, ...over }) as Body;

describe('the words for the engine', () => {
  test('nothing is published, mounted, added or privileged unless the spec says so', () => {
    const { ExposedPorts, HostConfig, ...rest } = body({});
    expect(ExposedPorts).toEqual({});
    expect(HostConfig).toMatchObject({
      PortBindings: {},
      Binds: [],
      Tmpfs: {},
      Devices: [],
      RestartPolicy: { Name: 'no' },
      SecurityOpt: ['no-new-privileges'],
    });
    for (const key of ['Privileged', 'CapAdd', 'CapDrop', 'DeviceRequests', 'Memory', 'NanoCpus']) {
      expect(HostConfig).not.toHaveProperty(key);
    }
    expect(rest).not.toHaveProperty('Cmd');
    expect(rest).not.toHaveProperty('Entrypoint');
  });

  test('a port with several addresses is one key with several bindings', () => {
    const { HostConfig } = body({
      publications: [
        { container: 80, protocol: 'tcp', address: '127.0.0.1', hostPort: null },
        { container: 80, protocol: 'tcp', address: '192.0.2.1', hostPort: 8080 },
        { container: 80, protocol: 'udp', address: '', hostPort: 53 },
      ],
    });
    expect(HostConfig['PortBindings']).toEqual({
      '80/tcp': [
        { HostIp: '127.0.0.1', HostPort: '' },
        { HostIp: '192.0.2.1', HostPort: '8080' },
      ],
      '80/udp': [{ HostIp: '', HostPort: '53' }],
    });
  });

  test('a security section drops every capability and adds back what it names', () => {
    const security = { readonlyRoot: true, noNewPrivileges: true, capabilities: ['CHOWN'], apparmorProfile: 'mine' };
    expect(body({ security }).HostConfig).toMatchObject({
      ReadonlyRootfs: true,
      CapDrop: ['ALL'],
      CapAdd: ['CHOWN'],
      SecurityOpt: ['no-new-privileges', 'apparmor=mine'],
    });
  });

  test('mounts say their access once, limits are in the units of the engine', () => {
    const { HostConfig } = body({
      mounts: [
        { kind: 'volume', name: 'v', target: '/data', readonly: false },
        { kind: 'bind', source: '/srv', target: '/srv', readonly: true, options: ['rw', 'Z'] },
      ],
      cpus: 1.5,
      memory: 1024,
    });
    expect(HostConfig['Binds']).toEqual(['v:/data:rw', '/srv:/srv:ro,Z']);
    expect(HostConfig).toMatchObject({ NanoCpus: 1_500_000_000, Memory: 1024 });
  });

  test("words of the engine's own for networks get no endpoint", () => {
    expect(body({ network: 'host' })).not.toHaveProperty('NetworkingConfig');
    expect(body({})['NetworkingConfig']).toEqual({
      EndpointsConfig: { 'turnpike-blog-aaaaaaaa': { Aliases: ['web'] } },
    });
  });
});

describe('devices', () => {
  test.each([
    ['docker', '28.3.0', true],
    ['docker', '29.0.1', true],
    ['docker', '28.2.2', false],
    ['docker', '20.10.24+dfsg1', false],
    ['docker', '', false],
    ['podman', '5.4.0', true],
    ['podman', '5.3.9', false],
    ['podman', '4.3.1', false],
  ] as const)('%s %s: %s', (kind, version, able) => {
    const ask = (): void => requireDevices({ kind, version });
    if (able) expect(ask).not.toThrow();
    else expect(ask).toThrow(expect.objectContaining({ code: 'runtime-unsupported' }));
  });

  let close: (() => void) | null = null;
  afterEach(() => close?.());

  test('go as one native CDI request to an engine that is new enough (a recorded engine API: none of Debian is)', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'turnpike-engine-'));
    const seen: { line: string; body: string }[] = [];
    const read = async (request: IncomingMessage): Promise<string> => {
      let text = '';
      for await (const chunk of request) text += chunk;
      return text;
    };
    const server = createServer(async (request, response) => {
      seen.push({ line: `${request.method} ${request.url}`, body: await read(request) });
      response.setHeader('content-type', 'application/json');
      if (request.url!.endsWith('/version')) response.end('{"Version":"28.3.0","Components":[{"Name":"Engine"}]}');
      else response.writeHead(201).end('{"Id":"c1"}');
    });
    const path = join(directory, 'engine.sock');
    await new Promise<void>((done) => server.listen(path, done));
    close = () => {
      server.close();
      server.closeAllConnections();
      rmSync(directory, { recursive: true });
    };
    const engine = await Engine.open({ kind: 'docker', env: { DOCKER_HOST: `unix://${path}` }, uid: 0 }, mark);
    requireDevices(engine.version);
    await engine.containers.create('one', { ...bare, cdiDevices: ['vendor.test/gpu=0', 'vendor.test/gpu=1'] });
    await engine.containers.create('two', bare);
    engine.close();
    const [, withDevices, without] = seen;
    expect(withDevices!.line).toBe('POST /v1.51/containers/create?name=one');
    expect(JSON.parse(withDevices!.body).HostConfig.DeviceRequests).toEqual([
      { Driver: 'cdi', Count: 0, DeviceIDs: ['vendor.test/gpu=0', 'vendor.test/gpu=1'], Capabilities: [], Options: {} },
    ]);
    expect(without!.line).toBe('POST /v1.41/containers/create?name=two');
    expect(without!.body).not.toContain('DeviceRequests');
  });
});

describe('where an engine is looked for', () => {
  test('DOCKER_HOST first, then the usual places; podman after docker when nobody said which', () => {
    const env = { DOCKER_HOST: 'unix:///a.sock', CONTAINER_HOST: 'unix:///b.sock' };
    const both = socketCandidates({ kind: 'auto', env, uid: 1000 });
    expect(both[0]).toBe('/a.sock');
    expect(both.indexOf('/b.sock')).toBeGreaterThan(both.indexOf('/run/docker.sock'));
    expect(socketCandidates({ kind: 'podman', env: {}, uid: 1000 })).toEqual([
      '/run/podman/podman.sock',
      '/run/user/1000/podman/podman.sock',
    ]);
  });

  test('an engine over the network is never asked', () => {
    const env = { DOCKER_HOST: 'tcp://192.0.2.1:2375' };
    for (const path of socketCandidates({ kind: 'docker', env, uid: 0 })) expect(path).toMatch(/^\//);
  });

  test('one that is not there is a fault that says where it was looked for', async () => {
    const env = { DOCKER_HOST: 'unix:///nowhere/docker.sock', XDG_RUNTIME_DIR: '/nowhere' };
    const opening = Engine.open({ kind: 'docker', env, uid: 4_000_000 }, mark);
    await expect(opening).rejects.toMatchObject({ code: 'runtime-unavailable' });
  });
});

describe('marks', () => {
  test('labels tell whose a container is, and to others nothing', () => {
    expect(instanceMark(instanceLabels(mark), mark)).toEqual(mark);
    expect(instanceMark(instanceLabels(mark), { installation: 'other' })).toBeNull();
    expect(instanceMark({}, mark)).toBeNull();
    expect(instanceMark(null, mark)).toBeNull();
  });

  test('names are fit for every engine, and those of two incarnations differ', () => {
    expect(containerName(mark)).toBe('turnpike-blog-web-api-x1');
    expect(volumeName(mark, 'web', 'data')).not.toBe(volumeName({ ...mark, appId: 'cccccccc' }, 'web', 'data'));
  });
});

describe('output', () => {
  const frame = (stream: number, text: string): Buffer => {
    const header = Buffer.alloc(8);
    header[0] = stream;
    header.writeUInt32BE(Buffer.byteLength(text), 4);
    return Buffer.concat([header, Buffer.from(text)]);
  };
  const bytes = Buffer.concat([frame(1, 'one\ntwo'), frame(2, 'err'), frame(1, ''), frame(1, '\nthree\r\nrest')]);

  test('frames come apart however the stream is cut', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: bytes.length }), { maxLength: 12 }), (cuts) => {
        const frames = new LogFrames();
        const said = { stdout: '', stderr: '' };
        let at = 0;
        for (const end of [...cuts.toSorted((a, b) => a - b), bytes.length]) {
          for (const { stream, data } of frames.read(bytes.subarray(at, end))) said[stream] += data.toString();
          at = end;
        }
        expect(said).toEqual({ stdout: 'one\ntwo\nthree\r\nrest', stderr: 'err' });
      }),
    );
  });

  test('lines come whole, the last one at the end, and an endless one in pieces', () => {
    const lines = new Lines(10);
    expect([...lines.read('one\ntw')]).toEqual(['one']);
    expect([...lines.read('o\r\nx')]).toEqual(['two']);
    expect([...lines.read('0123456789ab')]).toEqual(['x0123456789ab']);
    expect([...lines.read('end')]).toEqual([]);
    expect(lines.end()).toBe('end');
  });
});

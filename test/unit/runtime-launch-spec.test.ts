// From a manifest to the container that it becomes.
import { expect, test } from 'vitest';
import { readYamlManifest } from '../../src/manifest/yaml.ts';
import type { ContainerSpec } from '../../src/runtime/container-spec.ts';
import { containerSpec, hasPrivateNetwork } from '../../src/runtime/launch-spec.ts';
import { facts } from '../support/manifest-rows.ts';

const mark = { installation: 'i', app: 'myapp', appId: 'aaaaaaaa-bbbb', service: 'main', instance: 'x1' };
const launchFacts = {
  mark,
  image: 'sha256:1',
  secrets: new Map([['TOKEN', 's3cret']]),
  secretFiles: '/state/secrets/x1',
  mounts: new Map(),
  cdiDevices: [],
  placeholders: { HOST_IP: '192.0.2.7' },
};

function specOf(rest: string): { spec: ContainerSpec; hasPrivate: boolean } {
  const text = `app:\n  id: myapp\n  name: My App\n  version: 1.0.0\n${rest}`;
  const loaded = readYamlManifest(text, 'myapp.yml', facts);
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.problems));
  const { app } = loaded;
  const service = app.services[0]!;
  const launch = { app, service, instance: 'x1', incarnation: mark.appId, revision: 1, given: [] };
  return { spec: containerSpec(launch, launchFacts, 'seal'), hasPrivate: hasPrivateNetwork(service.shape) };
}

const boxed = (more: string): string => `  container:\n    image: vendor/myapp:1\n${more}`;
const ports = '  ports: [{ host: 8090, container: 8080, auth: gated }]\n';

test.each([
  ['its own by default', boxed(''), /^turnpike-/, 1],
  ["the engine's", boxed('  security: { network_policy: bridge }\n'), /^bridge$/, 1],
  ["the machine's by its policy", boxed('  security: { network_policy: host }\n'), /^host$/, 0],
  ["the machine's by its name", boxed('    network: host\n'), /^host$/, 0],
  ['a named one', boxed('    network: archy-net\n'), /^archy-net$/, 1],
  [
    'a named one, whatever the policy',
    boxed('    network: archy-net\n  security: { network_policy: host }\n'),
    /^archy-net$/,
    1,
  ],
])('the network of a container: %s', (_what, text, network, published) => {
  const { spec, hasPrivate } = specOf(`${text}${ports}`);
  expect(spec.network).toMatch(network);
  expect(hasPrivate).toBe(spec.network.startsWith('turnpike-'));
  // In the network of the machine nothing is published: the program listens there itself.
  expect(spec.publications).toHaveLength(published);
});

test('what the manifest confines is confined', () => {
  const { spec } = specOf(
    boxed(
      '    secret_env: [{ key: TOKEN, secret_file: token }]\n    derived_env: [{ key: URL, template: "http://{{HOST_IP}}" }]\n' +
        '  environment: [A=1]\n  devices: [/dev/dri]\n  security: { capabilities: [CHOWN] }\n  resources: { cpu_limit: 2, memory_limit: 64m }\n' +
        '  volumes:\n    - { type: bind, source: /var/lib/archipelago/a, target: /a, options: [ro, z] }\n    - { type: tmpfs, target: /tmp, tmpfs_options: "size=1m" }\n',
    ),
  );
  expect(spec.env).toEqual([
    { name: 'A', value: '1' },
    { name: 'URL', value: 'http://192.0.2.7' },
    { name: 'TOKEN', value: 's3cret' },
  ]);
  expect(spec.security).toMatchObject({ readonlyRoot: true, noNewPrivileges: true, capabilities: ['CHOWN'] });
  expect(spec.mounts).toMatchObject([{ kind: 'bind', source: '/var/lib/archipelago/a', target: '/a', readonly: true }]);
  expect(spec.tmpfs).toEqual([{ target: '/tmp', options: ['size=1m'] }]);
  expect([spec.hostDevices, spec.cpus, spec.memory]).toEqual([['/dev/dri'], 2, 64 * 1024 * 1024]);
});

// Rows of YAML app manifests. A row lists all problems of its text, so that a missing one and a superfluous one both fail.
import { type Row, row, seen, strictImages } from './manifest-rows.ts';

/** An app that runs outside; what follows begins on line 5. */
const app = (rest: string): string => `app:\n  id: myapp\n  name: My App\n  version: 1.0.0\n${indent(rest, 2)}`;
/** An app with an image; what follows begins on line 7. */
const boxed = (rest: string): string => app(`container:\n  image: vendor/myapp:1\n${rest}`);
/** What follows stands in `container:`, from line 7 on. */
const inside = (rest: string): string => app(`container:\n  image: vendor/myapp:1\n${indent(rest, 2)}`);
/** One port; its keys begin on line 6. */
const port = (rest: string): string => app(`ports:\n  - host: 8090\n    container: 8080\n${indent(rest, 4)}`);
const security = (rest: string): string => boxed(`security:\n${indent(rest, 2)}`);
const volume = (rest: string): string => boxed(`volumes:\n  - ${rest}`);
const hook = (rest: string): string => boxed(`hooks:\n  post_install:\n    - ${rest}`);
const health = (rest: string): string =>
  boxed(`ports:\n  - { host: 8090, container: 8080 }\nhealth_check:\n${indent(rest, 2)}`);

function indent(text: string, by: number): string {
  return text === '' ? '' : text.replaceAll(/^(?=.)/gm, ' '.repeat(by));
}

const root = '/var/lib/archipelago';

export const document: readonly Row[] = [
  row('an app without container runs outside', app('')),
  row('an app with an image', boxed('')),
  row('a comment is nothing', `# a manifest\n${app('')}`),
  row('JSON is YAML', '{"app": {"id": "a", "name": "A", "version": "1"}}'),
  row('a document start is allowed', `---\n${app('')}`),
  seen('a single app: block', 'other: 1', ['other', 1, 'unknown key "other" beside app'], ['app', 1, 'is missing']),
  seen('nothing beside it', `${app('')}ports: []`, ['ports', 5, 'ports belongs under app']),
  seen('app is a mapping', 'app: 1', ['app', 1, 'is not a mapping']),
  seen('an empty file', '', ['', 1, 'holds nothing']),
  seen('a list', '- app', ['', 1, 'not a mapping']),
  row('one document', `${app('')}---\nx: 1`, ['', 5, 'second document']),
  row('a tag', app('description: !!str 1'), ['', 5, 'has a tag']),
  row('a tag that makes code', app('description: !!js/function "x"'), ['', 5, 'has a tag']),
  row('another version of YAML', `%YAML 1.1\n---\n${app('')}`, ['', 1, 'has a directive']),
  row('a key twice, with both lines', app('ports: []\nports: []'), ['', 6, '"ports" is written twice (line 5)']),
  row('in a flow mapping too', app('interfaces: { main: { port: 1, "port": 2 } }'), ['', 5, '"port" is written twice']),
  row('every one of them', app('ports: []\nports: []\nfiles: []\nfiles: []'), ['', 6, '"ports"'], ['', 8, '"files"']),
  seen('a merge key', app('interfaces:\n  a: &a { port: 1 }\n  b:\n    <<: *a'), ['', 8, 'merge keys']),
  row(
    'an alias',
    app(
      'ports:\n  - &p { host: 1, container: 2, auth: &l local, bind: 127.0.0.1 }\n  - { host: 3, container: 4, auth: *l, bind: 127.0.0.1 }',
    ),
  ),
  row('an alias without an anchor', app('description: *x'), ['', 5, '*x has no anchor']),
  row('an alias to what it is part of', app('extra: &x [*x]'), ['', 5, 'refers to what it is part of']),
  row('a tab for indentation', 'app:\n\tid: a', ['', 2, 'not YAML']),
  row('a structure for a key', app('? [a]\n: 1'), ['', 5, 'a key is plain text']),
  row('a block without its end', 'app: {id: a', ['', 1, 'not YAML']),
  row('unknown keys become extensions', app('container_name: x\nmetadata: { a: [1, yes] }\ncategory: media')),
  row('even __proto__', app('__proto__: { auth: false }')),
  seen('unknown keys inside a typed block do not', inside('imagee: x'), [
    'app.container.imagee',
    7,
    'did you mean image?',
  ]),
  seen('nor in a port', port('rationale: x'), ['app.ports[0].rationale', 8, 'unknown key rationale in a port']),
];

export const scalars: readonly Row[] = [
  seen('a version is no number: quote it', app('').replace('1.0.0', '1.10'), ['app.version', 4, 'quote it, "1.10"']),
  seen('nor with an exponent', app('').replace('1.0.0', '1e3'), ['app.version', 4, 'quote it, "1e3"']),
  seen('nor with zeros in front', app('').replace('1.0.0', '007'), ['app.version', 4, 'quote it, "007"']),
  row('a date is text', app('').replace('1.0.0', '2024-01-01')),
  seen('a name is no boolean', app('').replace('My App', 'true'), ['app.name', 3, 'quote it, "true"']),
  row('NO is text', app('').replace('My App', 'NO')),
  row('octal-looking numbers are refused', port('').replace('8090', '08090'), [
    'app.ports[0].host',
    6,
    'different numbers',
  ]),
  row('0o too', port('').replace('8090', '0o17632'), ['app.ports[0].host', 6, 'different numbers']),
  row('0x too', port('').replace('8090', '0x1f9a'), ['app.ports[0].host', 6, 'different numbers']),
  row('a sign too', port('').replace('8090', '+8090'), ['app.ports[0].host', 6, 'different numbers']),
  seen('underscores make text', port('').replace('8090', '8_090'), [
    'app.ports[0].host',
    6,
    'a string, not an integer',
  ]),
  row('an exponent makes a float', port('').replace('8090', '8e3'), [
    'app.ports[0].host',
    6,
    'a float, not an integer',
  ]),
  row('a fraction too', port('').replace('8090', '8090.0'), ['app.ports[0].host', 6, 'a float, not an integer']),
  seen('a port is at least 1', port('').replace('8090', '0'), ['app.ports[0].host', 6, 'out of range']),
  seen('and at most 65535', port('').replace('8090', '65536'), ['app.ports[0].host', 6, 'out of range']),
  ...['no', 'off', 'yes', 'on', '"false"', 'y'].map((word) =>
    seen(`${word} is no boolean`, port(`auth: gated\nbind: 127.0.0.1\nsession_passthrough: ${word}`), [
      'app.ports[0].session_passthrough',
      10,
      'true or false',
    ]),
  ),
  seen('nor is 0', port('auth: gated\nbind: 127.0.0.1\nsession_passthrough: 0'), [
    'app.ports[0].session_passthrough',
    10,
    'true or false',
  ]),
  seen('nor is nothing', port('auth: gated\nbind: 127.0.0.1\nsession_passthrough: ~'), [
    'app.ports[0].session_passthrough',
    10,
    'true or false',
  ]),
  row('True is one', port('auth: gated\nbind: 127.0.0.1\nsession_passthrough: True')),
];

export const identity: readonly Row[] = [
  seen('an id is required', app('').replace('  id: myapp\n', ''), ['app.id', 1, 'is missing']),
  seen('a name is required', app('').replace('  name: My App\n', ''), ['app.name', 1, 'is missing']),
  seen('a version is required', app('').replace('  version: 1.0.0\n', ''), ['app.version', 1, 'is missing']),
  ...[
    ['no underscore', 'my_app', 'not a DNS label'],
    ['no capitals', 'MyApp', 'has capitals'],
    ['no hyphen in front', '-app', 'not a DNS label'],
    ['no hyphen at the end', 'app-', 'not a DNS label'],
    ['no --', 'my--app', 'two hyphens'],
    ['no dot', 'my.app', 'not a DNS label'],
    ['nothing beyond ASCII', 'myäpp', 'not a DNS label'],
    ['no reserved name', 'turnpike', 'is reserved'],
  ].map(([says, id, words]) => seen(says!, app('').replace('myapp', id!), ['app.id', 2, words!])),
  row('digits and single hyphens', app('').replace('myapp', 'app-2-b')),
];

export const containers: readonly Row[] = [
  seen('image or build', app('container: {}'), ['app.container', 5, 'neither image nor build']),
  seen('not both', inside('build: { context: app }'), ['app.container.build', 7, 'exclude each other']),
  row(
    'build',
    app(
      'container:\n  build: { context: app, dockerfile: docker/Dockerfile, tag: "myapp:local", build_args: { MODE: a } }',
    ),
  ),
  row('a context under the data root', app(`container:\n  build: { context: ${root}/src }`)),
  row('no other absolute context', app('container:\n  build: { context: /etc }'), [
    'app.container.build.context',
    6,
    'not under the data root',
  ]),
  row('no context upwards', app('container:\n  build: { context: ../secrets }'), [
    'app.container.build.context',
    6,
    'leads upwards',
  ]),
  seen('a context is required', app('container:\n  build: { tag: a }'), [
    'app.container.build.context',
    6,
    'is missing',
  ]),
  seen('a Dockerfile inside the context', app('container:\n  build: { context: app, dockerfile: ../x }'), [
    'app.container.build.dockerfile',
    6,
    'leads upwards',
  ]),
  row('a registry that is not allowed', app('container:\n  image: evil.example.net/a:1'), [
    'app.container.image',
    6,
    'not allowed',
  ]),
  { ...row('require_digest', boxed(''), ['app.container.image', 6, 'names no digest']), facts: strictImages },
  seen('a signature is refused rather than ignored', inside('image_signature: cosign'), [
    'app.container.image_signature',
    7,
    'not verified',
  ]),
  row('pull_policy', inside('pull_policy: always')),
  seen('no other pull policy', inside('pull_policy: sometimes'), [
    'app.container.pull_policy',
    7,
    '"if-not-present", "always" or "never"',
  ]),
  row('a network by its name', inside('network: archy-net\nnetwork_aliases: [api, minio]')),
  row('no container: network', inside('network: container:web'), [
    'app.container.network',
    7,
    'belongs to something else',
  ]),
  row('no ns: network', inside('network: ns:/proc/1/ns/net'), [
    'app.container.network',
    7,
    'belongs to something else',
  ]),
  row('no network with options', inside('network: slirp4netns:allow_host_loopback=true'), [
    'app.container.network',
    7,
    'not supported',
  ]),
  row('an alias once', inside('network_aliases: [api, API]'), [
    'app.container.network_aliases[1]',
    7,
    'the same as item 1',
  ]),
  row('entrypoint and arguments', inside('entrypoint: [/init]\ncustom_args: [--verbose]')),
  seen('an entrypoint is a list', inside('entrypoint: /init'), ['app.container.entrypoint', 7, 'not a list']),
  row(
    'the placeholders',
    inside('derived_env:\n  - { key: A, template: "{{HOST_IP}} {{HOST_MDNS}} {{DISK_GB}} {{BITCOIN_HOST}}" }'),
  ),
  row('no other placeholder', inside('derived_env:\n  - { key: A, template: "{{HOME}}" }'), [
    'app.container.derived_env[0].template',
    8,
    '"{{HOME}}" is not a placeholder',
  ]),
  row('no spaces in one', inside('derived_env:\n  - { key: A, template: "{{ HOST_IP }}" }'), [
    'app.container.derived_env[0].template',
    8,
    'not a placeholder',
  ]),
  row('no unbalanced braces', inside('derived_env:\n  - { key: A, template: "{{HOST_IP" }'), [
    'app.container.derived_env[0].template',
    8,
    'without their counterpart',
  ]),
  row('at the end neither', inside('derived_env:\n  - { key: A, template: "{{HOST_IP}}}}" }'), [
    'app.container.derived_env[0].template',
    8,
    'without their counterpart',
  ]),
  row('a secret', inside('secret_env:\n  - { key: A, secret_file: myapp-password }')),
  ...['a/b', '../x', '/etc/passwd', '..', 'a..b', '""', '.hidden'].map((file) =>
    seen(`${file} is no bare filename`, inside(`secret_env:\n  - { key: A, secret_file: ${file} }`), [
      'app.container.secret_env[0].secret_file',
      8,
      'the bare name of a file',
    ]),
  ),
  row('a generated secret', inside('generated_secrets:\n  - { name: myapp-password, kind: hex16 }')),
  seen('of a known kind', inside('generated_secrets:\n  - { name: myapp-password, kind: md5 }'), [
    'app.container.generated_secrets[0].kind',
    8,
    '"hex16"',
  ]),
  seen('with a bare name', inside('generated_secrets:\n  - { name: a/b, kind: hex16 }'), [
    'app.container.generated_secrets[0].name',
    8,
    'has a directory',
  ]),
  row('made once', inside('generated_secrets:\n  - { name: a, kind: hex16 }\n  - { name: a, kind: hex32 }'), [
    'app.container.generated_secrets[1].name',
    9,
    'made already (line 8)',
  ]),
  row(
    'a certificate under a bind',
    `${inside('generated_certs:\n  - { crt: /var/lib/archipelago/a/t.crt, key: /var/lib/archipelago/a/t.key }')}\n${indent(`volumes: [{ type: bind, source: ${root}/a, target: /a }]`, 2)}`,
  ),
  row(
    'not elsewhere',
    inside('generated_certs:\n  - { crt: /etc/t.crt, key: /etc/t.key }'),
    ['app.container.generated_certs[0].crt', 8, 'not under a bind mount'],
    ['app.container.generated_certs[0].key', 8, 'not under a bind mount'],
  ),
  row('UID:GID', inside('data_uid: 999:999')),
  seen('not only a UID', inside('data_uid: "999"'), ['app.container.data_uid', 7, 'not UID:GID']),
  row('KEY=value', boxed('environment: [A=1, "B=", "C=x=y"]')),
  seen('not without =', boxed('environment: [A]'), ['app.environment[0]', 7, 'has no "="']),
  seen('not as a mapping', boxed('environment: { A: 1 }'), ['app.environment', 7, 'not a list']),
  row('a variable once', boxed('environment: [A=1, A=2]'), ['app.environment[1]', 7, 'A is set already (line 7)']),
  row(
    'from one source',
    inside('derived_env:\n  - { key: A, template: x }\nsecret_env:\n  - { key: A, secret_file: x }'),
    ['app.container.secret_env[0].key', 10, 'A is set already (line 8)'],
  ),
  row('resources', boxed('resources: { cpu_limit: 2, memory_limit: 512m, disk_limit: 10g }')),
  seen('cpu_limit is whole', boxed('resources: { cpu_limit: 1.5 }'), [
    'app.resources.cpu_limit',
    7,
    'a float, not an integer',
  ]),
  row('memory has a unit', boxed('resources: { memory_limit: "512" }'), [
    'app.resources.memory_limit',
    7,
    'a size with a unit',
  ]),
  seen('memory is text', boxed('resources: { memory_limit: 512 }'), [
    'app.resources.memory_limit',
    7,
    'an integer, not a string',
  ]),
];

export const confinement: readonly Row[] = [
  row(
    'the defaults written out',
    security(
      'readonly_root: true\nno_new_privileges: true\ncapabilities: []\nnetwork_policy: isolated\napparmor_profile: null',
    ),
  ),
  row(
    'the reviewed capabilities',
    security(
      'capabilities: [CHOWN, DAC_OVERRIDE, FOWNER, NET_ADMIN, NET_BIND_SERVICE, NET_RAW, SETGID, SETUID, SYS_ADMIN]',
    ),
  ),
  seen('no other', security('capabilities: [SYS_PTRACE]'), [
    'app.security.capabilities[0]',
    8,
    'not an allowed capability',
  ]),
  seen('without CAP_', security('capabilities: [CAP_CHOWN]'), ['app.security.capabilities[0]', 8, '"CHOWN"']),
  seen('not ALL', security('capabilities: [ALL]'), ['app.security.capabilities[0]', 8, 'not an allowed capability']),
  ...['isolated', 'bridge', 'host'].map((policy) =>
    row(`network_policy: ${policy}`, security(`network_policy: ${policy}`)),
  ),
  seen('no other network policy', security('network_policy: none'), [
    'app.security.network_policy',
    8,
    '"isolated", "bridge" or "host"',
  ]),
  seen('written as it is', security('network_policy: Host'), [
    'app.security.network_policy',
    8,
    'did you mean "host"?',
  ]),
  seen('readonly_root is true or false', security('readonly_root: no'), [
    'app.security.readonly_root',
    8,
    'true or false',
  ]),
  row('a profile', security('apparmor_profile: my-profile')),
  row('a device', boxed('devices: [/dev/ttyUSB0, /dev/dri/renderD128]')),
  seen('under /dev/', boxed('devices: [/etc/passwd]'), ['app.devices[0]', 7, 'not under /dev/']),
  seen('not /dev itself', boxed('devices: [/dev]'), ['app.devices[0]', 7, 'not under /dev/']),
  row('not out of it', boxed('devices: [/dev/../etc]'), ['app.devices[0]', 7, 'not normalised']),
  row('without a mapping', boxed('devices: ["/dev/a:/dev/b"]'), ['app.devices[0]', 7, 'a colon']),
  row('a bind', volume(`{ type: bind, source: ${root}/myapp, target: /data, options: [rw, z] }`)),
  row('a named volume', volume('{ type: volume, source: myapp-data, target: /data }')),
  row('a tmpfs', volume('{ type: tmpfs, target: /tmp, tmpfs_options: "rw,noexec,nosuid,size=256m" }')),
  row('a bind outside the data root', volume('{ type: bind, source: /etc, target: /data }'), [
    'app.volumes[0].source',
    8,
    'not under the data root',
  ]),
  row('a directory that only begins like it', volume(`{ type: bind, source: ${root}-other, target: /data }`), [
    'app.volumes[0].source',
    8,
    'not under the data root',
  ]),
  row('the data root itself', volume(`{ type: bind, source: ${root}, target: /data }`), [
    'app.volumes[0].source',
    8,
    'not under the data root',
  ]),
  row('a way out of it', volume(`{ type: bind, source: ${root}/../x, target: /data }`), [
    'app.volumes[0].source',
    8,
    'not normalised',
  ]),
  row('a relative source', volume('{ type: bind, source: data, target: /data }'), [
    'app.volumes[0].source',
    8,
    'not absolute',
  ]),
  row('a bind has a source', volume('{ type: bind, target: /data }'), ['app.volumes[0].source', 8, 'is missing']),
  row('a volume has a name', volume('{ type: volume, target: /data }'), ['app.volumes[0].source', 8, 'is missing']),
  row('not a path', volume('{ type: volume, source: /data, target: /data }'), [
    'app.volumes[0].source',
    8,
    'not a name',
  ]),
  row(
    'the podman socket is reviewed',
    volume('{ type: bind, source: /run/user/1000/podman/podman.sock, target: /run/podman.sock }'),
  ),
  row(
    'dbus is reviewed',
    volume('{ type: bind, source: /run/dbus/system_bus_socket, target: /run/dbus/system_bus_socket }'),
  ),
  row("Docker's socket is not", volume('{ type: bind, source: /var/run/docker.sock, target: /var/run/docker.sock }'), [
    'app.volumes[0].source',
    8,
    'not under the data root',
  ]),
  seen('no other kind', volume('{ type: nfs, source: a, target: /data }'), [
    'app.volumes[0].type',
    8,
    '"bind", "volume" or "tmpfs"',
  ]),
  seen('no other option', volume(`{ type: bind, source: ${root}/a, target: /data, options: [suid] }`), [
    'app.volumes[0].options[0]',
    8,
    'not a mount option',
  ]),
  row('a named volume has no label', volume('{ type: volume, source: a, target: /a, options: [Z] }'), [
    'app.volumes[0].options',
    8,
    'takes no Z',
  ]),
  row('no escape sequences for terminals', app('description: "\\e[2J"'), ['app.description', 5, 'control characters']),
  row('several lines may describe it', app('description: |\n  one\n  two')),
  row(
    'options that exclude each other',
    volume(`{ type: bind, source: ${root}/a, target: /data, options: [rw, ro] }`),
    ['app.volumes[0].options', 8, 'rw and ro exclude each other'],
  ),
  row('a tmpfs has no source', volume('{ type: tmpfs, source: a, target: /tmp }'), [
    'app.volumes[0].source',
    8,
    'has none',
  ]),
  row('a bind has no tmpfs_options', volume(`{ type: bind, source: ${root}/a, target: /data, tmpfs_options: rw }`), [
    'app.volumes[0].tmpfs_options',
    8,
    'has none',
  ]),
  row('no other tmpfs option', volume('{ type: tmpfs, target: /tmp, tmpfs_options: "rw,bind" }'), [
    'app.volumes[0].tmpfs_options',
    8,
    'not an option of a tmpfs',
  ]),
  row('a target is reserved', volume(`{ type: bind, source: ${root}/a, target: /proc/1 }`), [
    'app.volumes[0].target',
    8,
    'is reserved',
  ]),
  row('a tmpfs at /dev/shm', volume('{ type: tmpfs, target: /dev/shm }')),
  row('a target once', boxed(`volumes:\n  - { type: tmpfs, target: /a }\n  - { type: tmpfs, target: /a }`), [
    'app.volumes[1].target',
    9,
    'a mount already (line 8)',
  ]),
  row(
    'a file under a bind',
    boxed(
      `volumes: [{ type: bind, source: ${root}/a, target: /a }]\nfiles: [{ path: ${root}/a/x.conf, content: "x", overwrite: true }]`,
    ),
  ),
  row(
    'a file elsewhere',
    boxed(
      `volumes: [{ type: bind, source: ${root}/a, target: /a }]\nfiles: [{ path: ${root}/b/x.conf, content: "x" }]`,
    ),
    ['app.files[0].path', 8, 'not under a bind mount'],
  ),
  seen('a file has content', boxed('files: [{ path: /a }]'), ['app.files[0].content', 7, 'is missing']),
];

export const ports: readonly Row[] = [
  row('host and container', port('')),
  row('every key', port('protocol: tcp\nbind: 127.0.0.1\nauth: gated\nsession_passthrough: true')),
  seen('a host port is required', app('ports: [{ container: 1 }]'), ['app.ports[0].host', 5, 'is missing']),
  seen('a container port is required', app('ports: [{ host: 1 }]'), ['app.ports[0].container', 5, 'is missing']),
  seen('not the short form of Compose', app('ports: [2122:22]'), ['app.ports[0]', 5, '{ host: 2122, container: 22 }']),
  seen('a protocol is tcp or udp', port('protocol: sctp'), ['app.ports[0].protocol', 8, '"tcp" or "udp"']),
  row('a bind is an address', port('bind: localhost'), ['app.ports[0].bind', 8, '"127.0.0.1"']),
  row('session', port('auth: session')),
  row('written and empty is session', port('auth:')),
  row('an empty text too', port('auth: ""')),
  row('absent is no instruction', port('bind: 0.0.0.0')),
  row('none with a reason', port('auth: none\nauth_rationale: "TLS client certificates"')),
  row('open with a reason', port('auth: open\nauth_rationale: "has its own login"')),
  seen('none needs a reason', port('auth: none'), ['app.ports[0].auth_rationale', 6, 'is missing: none needs it']),
  seen('open needs a reason', port('auth: open'), ['app.ports[0].auth_rationale', 6, 'is missing: open needs it']),
  seen('an empty one is none', port('auth: open\nauth_rationale: ""'), ['app.ports[0].auth_rationale', 9, 'is empty']),
  ...['session', 'local', 'gated'].map((auth) =>
    seen(`${auth} takes no reason`, port(`auth: ${auth}\nbind: 127.0.0.1\nauth_rationale: x`), [
      'app.ports[0].auth_rationale',
      10,
      `says nothing to ${auth}`,
    ]),
  ),
  seen('nor does a port without auth', port('auth_rationale: x'), [
    'app.ports[0].auth_rationale',
    8,
    'says nothing to a port without auth',
  ]),
  ...['off', 'no', 'public', 'Gated', 'false'].map((auth) =>
    seen(`auth: ${auth} is refused`, port(`auth: ${auth}`), ['app.ports[0].auth', 8, '']),
  ),
  ...['session', 'local', 'open'].map((auth) =>
    row(
      `session_passthrough with ${auth}`,
      port(`auth: ${auth}\nbind: 127.0.0.1\nsession_passthrough: true${auth === 'open' ? '\nauth_rationale: x' : ''}`),
      ['app.ports[0].session_passthrough', 10, `has no meaning for ${auth}`],
    ),
  ),
  row('session_passthrough without auth', port('session_passthrough: true'), [
    'app.ports[0].session_passthrough',
    8,
    'a port without auth',
  ]),
  ...['gated', 'open', 'local'].flatMap((auth) => {
    const reason = auth === 'open' ? '\nauth_rationale: x' : '';
    return [
      row(`${auth} on the loopback address`, port(`auth: ${auth}\nbind: 127.0.0.1${reason}`)),
      row(`${auth} on an empty one`, port(`auth: ${auth}${reason}`)),
      row(`${auth} on another address`, port(`auth: ${auth}\nbind: 192.0.2.7${reason}`), [
        'app.ports[0].bind',
        9,
        'not a loopback address',
      ]),
    ];
  }),
  row('gated on every address', port('auth: gated\nbind: 0.0.0.0')),
  row('session on an address', port('auth: session\nbind: 192.0.2.7')),
  row('UDP without instruction', port('protocol: udp')),
  row('UDP with none', port('protocol: udp\nauth: none\nauth_rationale: gossip')),
  row('UDP with local', port('protocol: udp\nauth: local\nbind: 127.0.0.1')),
  ...['gated', 'session'].map((auth) =>
    row(`UDP with ${auth}`, port(`protocol: udp\nauth: ${auth}`), ['app.ports[0].auth', 9, 'auth: none']),
  ),
  row('UDP with open', port('protocol: udp\nauth: open\nauth_rationale: x'), ['app.ports[0].auth', 9, 'auth: none']),
  row(
    'one host port on several addresses',
    app('ports:\n  - { host: 1, container: 2, bind: 192.0.2.7 }\n  - { host: 1, container: 2, bind: 127.0.0.1 }'),
  ),
  row(
    'they agree about the container',
    app('ports:\n  - { host: 1, container: 2, bind: 192.0.2.7 }\n  - { host: 1, container: 3, bind: 127.0.0.1 }'),
    ['app.ports[1].container', 7, 'differs from the same host port above (line 6)'],
  ),
  row(
    'and about the policy',
    app(
      'ports:\n  - { host: 1, container: 2, bind: 192.0.2.7, auth: session }\n  - { host: 1, container: 2, bind: 127.0.0.1, auth: local }',
    ),
    ['app.ports[1].auth', 7, 'differs'],
  ),
  row(
    'an address once',
    app('ports:\n  - { host: 1, container: 2 , bind: 127.0.0.1 }\n  - { host: 1, container: 2, bind: 127.0.0.1 }'),
    ['app.ports[1].bind', 7, 'is taken for this host port (line 6)'],
  ),
  row(
    'every address leaves none over',
    app('ports:\n  - { host: 1, container: 2 }\n  - { host: 1, container: 2, bind: 127.0.0.1 }'),
    ['app.ports[1].bind', 7, 'is taken for this host port (line 6)'],
  ),
  row(
    'TCP and UDP have ports of their own',
    app('ports:\n  - { host: 1, container: 2 }\n  - { host: 1, container: 2, protocol: udp }'),
  ),
];

export const rest: readonly Row[] = [
  row('a hook', hook('exec: [sh, -c, "nginx -s reload"]')),
  row('a file into the container', hook('copy_from_host: { src: web-ui/a.js, dest: /usr/share/a.js }')),
  seen('no other step', hook('shell: rm'), ['app.hooks.post_install[0].shell', 9, 'unknown key shell in a step']),
  row('a step is one of the two', hook('{}'), ['app.hooks.post_install[0]', 9, 'not one step']),
  row('not both', hook('{ exec: [a], copy_from_host: { src: a, dest: /a } }'), [
    'app.hooks.post_install[0]',
    9,
    'not one step',
  ]),
  seen('a source is relative', hook('copy_from_host: { src: /etc/passwd, dest: /a }'), [
    'app.hooks.post_install[0].copy_from_host.src',
    9,
    'is absolute',
  ]),
  seen('and leads nowhere upwards', hook('copy_from_host: { src: a/../../b, dest: /a }'), [
    'app.hooks.post_install[0].copy_from_host.src',
    9,
    'leads upwards',
  ]),
  seen('a destination is absolute', hook('copy_from_host: { src: a, dest: a }'), [
    'app.hooks.post_install[0].copy_from_host.dest',
    9,
    'not absolute',
  ]),
  seen('exec is a list', hook('exec: nginx -s reload'), ['app.hooks.post_install[0].exec', 9, 'not a list']),
  seen('no other hook', boxed('hooks: { post_start: [] }'), [
    'app.hooks.post_start',
    7,
    'unknown key post_start in hooks',
  ]),
  row('pre_start is accepted', boxed('hooks: { pre_start: [{ exec: [a] }] }')),
  row('http health', health('type: http\npath: /health\ninterval: 10s\ntimeout: 5s\nretries: 3')),
  row('an endpoint', health('type: http\nendpoint: http://localhost:8080/health')),
  row('tcp health', health('type: tcp\nendpoint: localhost:8080')),
  row('another kind is shown', health('type: exec')),
  seen('a type is required', health('path: /'), ['app.health_check.type', 9, 'is missing']),
  seen('a path as of a probe', health('type: http\npath: //evil.example.com'), [
    'app.health_check.path',
    11,
    'names a server',
  ]),
  row('an endpoint elsewhere', health('type: http\nendpoint: http://evil.example.com/'), [
    'app.health_check.endpoint',
    11,
    'no place to ask by http',
  ]),
  row('two paths', health('type: http\nendpoint: http://localhost:8080/a\npath: /b'), [
    'app.health_check.path',
    12,
    'not the path of endpoint',
  ]),
  row('tcp has no path', health('type: tcp\npath: /'), ['app.health_check.path', 11, 'says nothing to a tcp check']),
  row('a duration has a unit', health('type: http\ninterval: "10"'), ['app.health_check.interval', 11, 'with a unit']),
  seen('a duration is text', health('type: http\ninterval: 10'), [
    'app.health_check.interval',
    11,
    'an integer, not a string',
  ]),
  seen('no other key', health('type: http\nstart_period: 10s'), [
    'app.health_check.start_period',
    11,
    'unknown key start_period',
  ]),
  row(
    'a launch surface',
    app(
      'ports: [{ host: 1, container: 2 }]\ninterfaces:\n  main: { name: UI, description: x, type: ui, port: 1, protocol: http, path: / }',
    ),
  ),
  seen('no other key in it', app('interfaces: { main: { url: x } }'), [
    'app.interfaces.main.url',
    5,
    'unknown key url in an interface',
  ]),
  row('dependencies', app('dependencies:\n  - storage: "10GB"\n  - { app_id: bitcoin, version: ">=27" }\n  - lnd')),
  row('not both in one', app('dependencies:\n  - { storage: "1GB", app_id: a }'), [
    'app.dependencies[0]',
    6,
    'not one dependency',
  ]),
  row('not nothing', app('dependencies:\n  - {}'), ['app.dependencies[0]', 6, 'not one dependency']),
  row('not itself', app('dependencies: [myapp]'), ['app.dependencies[0]', 5, 'cannot wait for itself']),
  row('each once', app('dependencies: [lnd, { app_id: lnd }]'), ['app.dependencies[1]', 5, 'declared twice']),
  seen('by its id', app('dependencies: [Bit_Coin]'), ['app.dependencies[0]', 5, 'capitals']),
  row('github', app('upstream: { kind: github, repo: fedimint/fedimint }')),
  row('dockerhub', app('upstream: { kind: dockerhub, repo: a/b }')),
  row('internal', app('upstream: { kind: internal }')),
  row('manual', app('upstream: { kind: manual, url: "https://example.com/x" }')),
  seen('no other kind of upstream', app('upstream: { kind: gitlab, repo: a/b }'), [
    'app.upstream.kind',
    5,
    '"github", "dockerhub", "internal" or "manual"',
  ]),
  row('github needs a repo', app('upstream: { kind: github }'), [
    'app.upstream.repo',
    5,
    'is missing: github needs it',
  ]),
  row('manual needs a URL', app('upstream: { kind: manual }'), ['app.upstream.url', 5, 'is missing: manual needs it']),
  row('internal has none', app('upstream: { kind: internal, repo: a/b }'), ['app.upstream.repo', 5, 'says nothing']),
  row('owner/name', app('upstream: { kind: github, repo: "https://github.com/a/b" }'), [
    'app.upstream.repo',
    5,
    'not owner/name',
  ]),
];

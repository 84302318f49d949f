// The keys of `container:`, `security:`, `resources:` and what else shapes the container of a YAML app.
// Invariant: what would weaken the container beyond its own walls is refused by form: capabilities, networks, devices.
import {
  choice,
  defaulted,
  defaultsOf,
  described,
  type Form,
  flag,
  type Keys,
  list,
  misplaced,
  named,
  optional,
  quote,
  Refusal,
  required,
  table,
  tables,
  text,
} from '../config/form.ts';
import type { Variable } from './app.ts';
import { parseImage } from './image.ts';
import { needs } from './json-rules.ts';
import { bareFilename, judgeVariable, variableName, variableNames } from './names.ts';
import { absolutePath, commandLine, image, mountTarget, probePath, someText } from './values.ts';
import {
  assignment,
  bindOption,
  devicePath,
  memory,
  networkAlias,
  networkName,
  nullable,
  relativePath,
  span,
  template,
  tmpfsOptions,
  whole,
} from './yaml-values.ts';

// ---- container -------------------------------------------------------------------------------------------------

const buildKeys = {
  context: required(
    text('a directory beside the manifest, like "app", or an absolute path under the data root', (value) =>
      value === '' || value.includes('\0') ? new Refusal('is not a directory') : value,
    ),
    'Directory that is built: relative to the manifest, or absolute under the data root.',
    '"app"',
  ),
  dockerfile: defaulted(relativePath, 'Relative to the context.', '"Dockerfile"', 'Dockerfile'),
  tag: optional(
    text('a reference like "myapp:local"', (value) => {
      const parsed = parseImage(value);
      if (!parsed.ok) return new Refusal(`${quote(value)} ${parsed.why}`);
      return parsed.image.digest === null ? value : new Refusal(`${quote(value)} has a digest, which a build makes`);
    }),
    'Name of the image that is built.',
    '"myapp:local"',
  ),
  build_args: defaulted(
    described(
      named(
        'a table of arguments: NAME: value',
        text('text', (value) => value),
        judgeVariable,
      ),
      { propertyNames: variableNames },
    ),
    'Arguments of the build.',
    '{}',
    new Map(),
    '{ MODE: production }',
  ),
} as const satisfies Keys;

const derivedKeys = {
  key: required(variableName, 'Name of the variable.', 'PUBLIC_URL'),
  template: required(template, 'Filled in at deploy.', '"http://{{HOST_IP}}:8090"'),
} as const satisfies Keys;

const secretKeys = {
  key: required(variableName, 'Name of the variable.', 'ADMIN_PASSWORD'),
  secret_file: required(
    bareFilename,
    'Name of the file with the value, in the directory of secrets.',
    'myapp-password',
  ),
} as const satisfies Keys;

export const secretKinds = ['hex16', 'hex32', 'base64'] as const;

const generatedSecretKeys = {
  name: required(bareFilename, 'Name of the file, as secret_env names it.', 'myapp-password'),
  kind: required(
    choice('a kind of secret', secretKinds),
    'hex16 and hex32: so many random bytes as hexadecimal digits; base64: 32 random bytes.',
    'hex16',
  ),
} as const satisfies Keys;

const generatedCertKeys = {
  crt: required(
    absolutePath,
    'Where the certificate is written, under a bind of the app.',
    '/var/lib/data/myapp/tls.crt',
  ),
  key: required(absolutePath, 'Where its key is written.', '/var/lib/data/myapp/tls.key'),
  common_name: optional(template, 'Common name.', '"{{HOST_MDNS}}"'),
  sans: defaulted(list('a list of names', template), 'Alternative names.', '[]', [], '["{{HOST_IP}}"]'),
} as const satisfies Keys;

const containerKeys = {
  image: optional(image, 'The image to pull. Either this or build.', 'docker.io/vendor/myapp:1.0.0'),
  image_signature: misplaced(
    'signatures of images are not verified, and a key that promises it is refused rather than ignored',
    'leave it out; "@sha256:…" in image pins the content',
  ),
  pull_policy: defaulted(
    choice('a pull policy', ['if-not-present', 'always', 'never']),
    'When the image is pulled.',
    'if-not-present',
    'if-not-present' as const,
  ),
  build: optional(
    table('build', buildKeys),
    'An image built here, instead of image. Needs an engine; this version checks it and refuses to deploy it.',
    '{ context: app }',
  ),
  network: optional(networkName, 'A named network to join instead of a private one, or host.', 'archy-net'),
  network_aliases: defaulted(
    list('a list of DNS names', networkAlias, { identity: (each) => each }),
    'More names of the container on its network.',
    '[]',
    [],
    '[api]',
  ),
  entrypoint: optional(commandLine, "Instead of the image's entrypoint.", '["/init"]'),
  custom_args: defaulted(
    list(
      'a list of arguments',
      text('text without NUL characters', (value) =>
        value.includes('\0') ? new Refusal('has a NUL character') : value,
      ),
    ),
    'Arguments after the image.',
    '[]',
    [],
    '["--verbose"]',
  ),
  derived_env: defaulted(
    tables('a list like { key: PUBLIC_URL, template: "http://{{HOST_IP}}" }', table('a derived variable', derivedKeys)),
    'Variables made from facts of the host.',
    '[]',
    [],
  ),
  secret_env: defaulted(
    tables('a list like { key: ADMIN_PASSWORD, secret_file: myapp-password }', table('a secret variable', secretKeys)),
    'Variables whose values are in files of the directory of secrets.',
    '[]',
    [],
  ),
  generated_secrets: defaulted(
    tables('a list like { name: myapp-password, kind: hex16 }', table('a generated secret', generatedSecretKeys)),
    'Secrets that are made when they are first needed.',
    '[]',
    [],
  ),
  generated_certs: defaulted(
    tables('a list like { crt: …, key: … }', table('a generated certificate', generatedCertKeys)),
    'Self-signed certificates that are made when they are first needed.',
    '[]',
    [],
  ),
  data_uid: optional(
    text(
      '"UID:GID"',
      (value) => (/^\d{1,10}:\d{1,10}$/.test(value) ? value : new Refusal(`${quote(value)} is not UID:GID`)),
      {
        pattern: '^\\d{1,10}:\\d{1,10}$',
      },
    ),
    'Owner of the bind-mounted data.',
    '"999:999"',
  ),
} as const satisfies Keys;

export const container = described(table('container', containerKeys), {
  oneOf: [needs('image'), needs('build')],
});

// ---- security and resources ------------------------------------------------------------------------------------

export const capabilities = [
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'NET_ADMIN',
  'NET_BIND_SERVICE',
  'NET_RAW',
  'SETGID',
  'SETUID',
  'SYS_ADMIN',
] as const;

const capability: Form<string> = text(
  capabilities.join(', '),
  (value) => {
    if ((capabilities as readonly string[]).includes(value)) return value;
    const bare = value.toUpperCase().replace(/^CAP_/, '');
    const known = (capabilities as readonly string[]).includes(bare);
    return new Refusal(`${quote(value)} is not an allowed capability`, known ? quote(bare) : null);
  },
  { enum: capabilities },
);

export const securityKeys = {
  readonly_root: defaulted(flag, 'The root file system of the container is read-only.', 'true', true),
  no_new_privileges: defaulted(flag, 'Programs in it gain nothing by set-uid.', 'true', true),
  capabilities: defaulted(
    list('a list of capabilities', capability, { identity: (each) => each }),
    'Given back after all were dropped.',
    '[]',
    [],
    '[CHOWN]',
  ),
  network_policy: defaulted(
    choice('a network policy', ['isolated', 'bridge', 'host']),
    "isolated: a network of its own; bridge: the engine's; host: that of the machine.",
    'isolated',
    'isolated' as const,
  ),
  apparmor_profile: defaulted(
    nullable(
      text('the name of a profile', (value) =>
        /^[A-Za-z0-9_.-]{1,128}$/.test(value) ? value : new Refusal(`${quote(value)} is not the name of a profile`),
      ),
    ),
    'AppArmor profile of the engine.',
    'null',
    null as string | null,
    'docker-default',
  ),
} as const satisfies Keys;

export const resourceKeys = {
  cpu_limit: optional(whole(1, 1024), 'Processors.', '2'),
  memory_limit: optional(memory, 'Memory.', '512m'),
  disk_limit: optional(memory, 'Shown only.', '10g'),
} as const satisfies Keys;

// ---- volumes, files, hooks, health -----------------------------------------------------------------------------

export const volumeKeys = {
  type: required(
    choice('a kind of volume', ['bind', 'volume', 'tmpfs']),
    'bind: a directory under the data root; volume: a named one; tmpfs: memory.',
    'bind',
  ),
  source: optional(
    someText('an absolute path, or the name of a volume'),
    'bind: the directory; volume: the name.',
    '/var/lib/data/myapp',
  ),
  target: required(absolutePath, 'Where it is mounted in the container.', '/data'),
  options: defaulted(
    list('a list of mount options', bindOption, { identity: (each) => each }),
    'bind and volume.',
    '[]',
    [],
    '[rw]',
  ),
  tmpfs_options: optional(tmpfsOptions, 'tmpfs only.', '"rw,noexec,nosuid,size=256m"'),
} as const satisfies Keys;

export const fileKeys = {
  path: required(absolutePath, 'Where it is written, under the source of a bind.', '/var/lib/data/myapp/app.conf'),
  content: required(
    text('text', (value) => value),
    'What is written.',
    '"listen = 8080"',
  ),
  overwrite: defaulted(flag, 'Write it even when it is there.', 'false', false, 'true'),
} as const satisfies Keys;

const copyKeys = {
  src: required(relativePath, 'Under the data of the app.', 'web-ui/app.js'),
  dest: required(mountTarget, 'In the container.', '/usr/share/nginx/html/app.js'),
} as const satisfies Keys;

const stepKeys = {
  exec: optional(commandLine, 'A command in the container.', '["sh", "-c", "nginx -s reload"]'),
  copy_from_host: optional(table('copy_from_host', copyKeys), 'A file into the container.', '{ src: …, dest: … }'),
} as const satisfies Keys;

const steps = tables('a list of steps: exec or copy_from_host', table('a step', stepKeys));

export const hookKeys = {
  post_install: defaulted(steps, 'Once, after the first start, in the container.', '[]', []),
  pre_start: defaulted(steps, 'Accepted and shown; not run.', '[]', []),
} as const satisfies Keys;

export const healthKeys = {
  type: required(
    text('"http", "tcp", or another word', (value) =>
      /^[a-z][a-z0-9_-]{0,31}$/i.test(value) ? value : new Refusal(`${quote(value)} is not a kind of check`),
    ),
    'http and tcp are exercised, others are shown.',
    'http',
  ),
  endpoint: optional(
    someText('"http://localhost:8080/health" or "localhost:8080"'),
    'Where the app answers, by its own view.',
    'http://localhost:8080',
  ),
  path: optional(probePath, 'http only: what is asked for.', '/health'),
  interval: optional(span, 'Time between two tries.', '30s'),
  timeout: optional(span, 'Of one try.', '5s'),
  retries: optional(whole(1, 100), 'Tries.', '3'),
} as const satisfies Keys;

export const securityDefaults = defaultsOf(securityKeys);
export const environment: Form<readonly Variable[]> = list('a list of "KEY=value"', assignment);
export const devices: Form<readonly string[]> = list('a list of paths', devicePath, { identity: (each) => each });

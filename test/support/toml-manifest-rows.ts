// Rows of TOML app manifests. A row lists all problems of its text, so that a missing one and a superfluous one both fail.
import { type Row, row, seen, strictImages } from './manifest-rows.ts';

/** A service with an image; what follows begins on line 4. */
const web = (rest: string): string => `name = "blog"\n[services.web]\nimage = "blog:1"\n${rest}`;
/** With an interface besides; what follows begins on line 7. */
const site = (rest: string): string => web(`[[services.web.http]]\nhost = "blog.example.com"\nport = 3000\n${rest}`);
/** Two services; what follows begins on line 6. */
const two = (rest: string): string => web(`[services.db]\nimage = "postgres:17"\n${rest}`);
const named = (name: string): string => `name = ${name}\n[services.web]\nimage = "blog:1"\n`;
const image = (reference: string): string => `name = "blog"\n[services.web]\nimage = "${reference}"\n`;
const http = (rest: string): string => web(`[[services.web.http]]\n${rest}`);
const host = (name: string): string => http(`host = ${JSON.stringify(name)}\nport = 3000`);
const ready = (rest: string): string => site(`[services.web.readiness]\n${rest}`);
const variable = (value: string): string => web(`[services.web.env]\nA = ${value}`);
const mount = (kind: 'volume' | 'bind', path: string): string =>
  web(`[[services.web.${kind}]]\nname = "app-logs"\npath = ${JSON.stringify(path)}`);
const digest = 'a'.repeat(64);

export const form: readonly Row[] = [
  row('one service with an image is a manifest', web('')),
  row('a service may expose HTTP, TCP, UDP interfaces, or none', site('')),
  row(
    'a quoted key may contain dots',
    'name = "blog"\n[services."web.api"]\nimage = "a:1"\n[[services."web.api".http]]\nhost = "a.example.com"\nport = 1',
  ),
  seen('an unquoted dotted service is told to be quoted', 'name = "blog"\n[services.web.api]\nimage = "a:1"', [
    'services.web.api',
    2,
    '[services."web.api"]',
  ]),
  seen('so is one beside a service', web('[services.web.api]\nimage = "a:1"'), [
    'services.web.api',
    4,
    '[services."web.api"]',
  ]),
  seen('so is one of three parts', 'name = "blog"\n[services.a.b.c]\nimage = "a:1"', [
    'services.a.b.c',
    2,
    '[services."a.b.c"]',
  ]),
  seen(
    'so is one that is only known by its interface',
    web('[[services.web.api.http]]\nhost = "a.example.com"\nport = 1'),
    ['services.web.api', 4, '[services."web.api"]'],
  ),
  row('TOML keys are unique, so one table exists per name', web('[services.web]\nimage = "b:1"'), ['', 4, 'not TOML']),
  seen('[[service]] is refused with the keyed form', 'name = "blog"\n[[service]]\nname = "web"\nimage = "a:1"', [
    'service[0]',
    2,
    '[services.web]',
  ]),
  seen('[service.*] tables are refused with the keyed form', 'name = "blog"\n[service.web]\nimage = "a:1"', [
    'service',
    2,
    '[services.NAME]',
  ]),
  seen('[[services]] is refused with the keyed form', 'name = "blog"\n[[services]]\nname = "web.api"', [
    'services[0]',
    2,
    '[services."web.api"]',
  ]),
  seen('so is an empty list', 'name = "blog"\nservices = []', [
    'services',
    2,
    'one table for each service: [services.NAME]',
  ]),
  seen('services is a table', 'name = "blog"\nservices = 1', ['services', 2, 'an integer, not a table']),
  seen('service as a number is an unknown key', web('').replace('\n', '\nservice = 1\n'), [
    'service',
    2,
    'unknown key service in the manifest; did you mean services?',
  ]),
  seen('there is at least one service', 'name = "blog"', ['services', 1, 'is missing']),
  seen('an empty table is none', 'name = "blog"\nservices = {}', ['services', 2, 'is empty']),
  seen('a name is required', '[services.web]\nimage = "blog:1"', ['name', 1, 'is missing']),
  seen('an image is required', 'name = "blog"\n[services.web]', ['services.web.image', 2, 'is missing']),
  seen('unknown keys at the top', web('').replace('name', 'title = "x"\nname'), ['title', 1, 'unknown key title']),
  seen('unknown keys in a service, with the nearest one', web('imagee = "x"'), [
    'services.web.imagee',
    4,
    'did you mean image?',
  ]),
  seen('unknown keys in an interface', http('host = "a.example.com"\nport = 1\nprot = 1'), [
    'services.web.http[0].prot',
    7,
    'did you mean port?',
  ]),
  seen('no replicas', web('replicas = 2'), ['services.web.replicas', 4, 'exactly one container']),
  seen('no RCON kind', web('[services.web.rcon]\nport = 1'), ['services.web.rcon', 4, '[[services.NAME.tcp]]']),
  seen('an interface is a list of tables', web('[services.web.http]\nport = 1'), [
    'services.web.http',
    4,
    '[[services.NAME.http]]',
  ]),
  row('a float is no integer', http('host = "a.example.com"\nport = 8080.0'), [
    'services.web.http[0].port',
    6,
    'a float, not an integer',
  ]),
  row('an exponent makes a float', http('host = "a.example.com"\nport = 1e3'), [
    'services.web.http[0].port',
    6,
    'a float, not an integer',
  ]),
  seen('a port is at most 65535', http('host = "a.example.com"\nport = 65536'), [
    'services.web.http[0].port',
    6,
    'from 1 to 65535',
  ]),
  seen('a port is at least 1', http('host = "a.example.com"\nport = 0'), [
    'services.web.http[0].port',
    6,
    'from 1 to 65535',
  ]),
  seen('a port is no string', http('host = "a.example.com"\nport = "3000"'), [
    'services.web.http[0].port',
    6,
    'a string, not an integer',
  ]),
  row('a port beyond 2^53 is out of range', http('host = "a.example.com"\nport = 9007199254740993'), [
    'services.web.http[0].port',
    6,
    'out of range',
  ]),
  seen('a text is no number: quote it', variable('3000'), ['services.web.env.A', 5, 'is not text: quote it']),
  seen('__proto__ is an unknown key', web('[__proto__]\nadmin = true'), ['__proto__', 4, 'unknown key __proto__']),
  seen('constructor.prototype is an unknown key', web('constructor.prototype.x = 1'), [
    'services.web.constructor',
    4,
    'unknown key constructor',
  ]),
  row('a table is not reopened by dotted keys', '[a.b.c]\nz=9\n[[u]]\nx=1\n[a]\nb.c.t="no"', ['', 6, 'not TOML']),
  row('nor an inline table', 'r={p={},p.x=1}', ['', 1, 'not TOML']),
  row('quoted and bare spellings are one key', web('').replace('\n', '\n"name" = "b"\n'), ['', 2, 'not TOML']),
  seen(
    'a name from elsewhere is understood',
    http('domain = "a.example.com"\nport = 1'),
    ['services.web.http[0].host', 4, 'is missing'],
    ['services.web.http[0].domain', 5, 'did you mean host?'],
  ),
  seen('a port belongs to an interface', web('port = 3000'), ['services.web.port', 4, '[[services.NAME.http]]']),
  seen('an interface belongs to a service', web('[[http]]\nport = 1'), ['http', 4, 'belongs to a service']),
  row(
    'a table may be written after the tables below it',
    'name = "blog"\n[services.web.env]\nA = "1"\n[services.web]\nimage = "a:1"',
  ),
  seen(
    'all problems in one pass',
    `nam = 1\n[services.Web]\nimage = "x"\n[services.b]\nimage = 2\n[[services.b.tcp]]\nentrypoint = "gone"\nport = 0`,
    ['nam', 1, 'did you mean name?'],
    ['name', 1, 'is missing'],
    ['services.Web', 2, 'not a name'],
    ['services.b.image', 5, 'an integer'],
    ['services.b.tcp[0].port', 8, 'out of range'],
  ),
];

export const identity: readonly Row[] = [
  row('lower-case letters, digits and hyphens', named('"my-app-2"')),
  row('63 characters', named(`"${'a'.repeat(63)}"`)),
  seen('64 are too many', named(`"${'a'.repeat(64)}"`), ['name', 1, 'longer than 63']),
  seen('no capitals', named('"Blog"'), ['name', 1, '"blog"']),
  seen('no hyphen in front', named('"-blog"'), ['name', 1, 'not a DNS label']),
  seen('no hyphen at the end', named('"blog-"'), ['name', 1, 'not a DNS label']),
  seen('no --', named('"my--blog"'), ['name', 1, 'two hyphens']),
  seen('no underscore', named('"my_blog"'), ['name', 1, 'not a DNS label']),
  seen('no dot', named('"my.blog"'), ['name', 1, 'not a DNS label']),
  seen('not empty', named('""'), ['name', 1, 'not a DNS label']),
  ...['gordon', 'turnpike', 'registry', 'admin', 'localhost'].map((name) =>
    seen(`${name} is reserved`, named(`"${name}"`), ['name', 1, 'is reserved']),
  ),
  seen('whatever its case', named('"Admin"'), ['name', 1, 'is reserved']),
  row('a service may have dots, underscores and hyphens', 'name = "blog"\n[services."a.b_c-d"]\nimage = "a:1"'),
  seen('a service has no capitals', 'name = "blog"\n[services.Web]\nimage = "a:1"', ['services.Web', 2, 'not a name']),
  seen('at most 63 characters', `name = "blog"\n[services.${'a'.repeat(64)}]\nimage = "a:1"`, [
    `services.${'a'.repeat(64)}`,
    2,
    'longer than 63',
  ]),
  seen('a name is no way up', 'name = "blog"\n[services.".."]\nimage = "a:1"', ['services.".."', 2, 'not a name']),
  row(
    'names that share a runtime identifier',
    'name = "blog"\n[services.web-api]\nimage = "a:1"\n[services."web.api"]\nimage = "a:1"',
    ['services."web.api"', 4, 'the same as web-api (line 2)'],
  ),
  row(
    'an underscore is normalised too',
    'name = "blog"\n[services.web_api]\nimage = "a:1"\n[services.web-api]\nimage = "a:1"',
    ['services.web-api', 4, 'the same as web_api (line 2)'],
  ),
  seen('a bind has no --', web('[[services.web.bind]]\nname = "app--logs"\npath = "/x"'), [
    'services.web.bind[0].name',
    5,
    'two hyphens',
  ]),
  row(
    'a bind is unique within its service',
    web('[[services.web.bind]]\nname = "app-logs"\npath = "/x"\n[[services.web.bind]]\nname = "app-logs"\npath = "/y"'),
    ['services.web.bind[1].name', 8, 'bound twice (line 4)'],
  ),
  seen('a device has no --', web('devices = ["a--b"]'), ['services.web.devices[0]', 4, 'two hyphens']),
  seen('a device has no capitals', web('devices = ["GPU"]'), ['services.web.devices[0]', 4, 'not a name']),
  row('a device is unique within its service', web('devices = ["transcode-gpu", "transcode-gpu"]'), [
    'services.web.devices[1]',
    4,
    'the same as item 1',
  ]),
];

export const images: readonly Row[] = [
  row('Docker Hub', image('docker.io/library/blog:1')),
  row('Docker Hub by its other name', image('registry-1.docker.io/library/blog:1')),
  row('Docker Hub left out', image('blog')),
  row('ghcr.io', image('ghcr.io/a/b:1')),
  row('quay.io', image('quay.io/a/b:1')),
  row("the installation's own registry", image('gordon.mydomain.com/blog:1.4.2')),
  row('a registry that the operator allows', image('registry.example.com:5000/a/b:1')),
  row('its port counts', image('registry.example.com/a/b:1'), [
    'services.web.image',
    3,
    'registry.example.com is not allowed',
  ]),
  row('another registry', image('evil.example.net/a/b:1'), ['services.web.image', 3, 'images.allowed_registries']),
  row('localhost is a registry too', image('localhost/a'), ['services.web.image', 3, 'localhost is not allowed']),
  row('a digest', image(`ghcr.io/a/b@sha256:${digest}`)),
  row('a tag and a digest', image(`ghcr.io/a/b:1@sha256:${digest}`)),
  row('64 digits', image('ghcr.io/a/b@sha256:abc'), ['services.web.image', 3, 'no valid digest']),
  row('of sha256', image(`ghcr.io/a/b@md5:${digest}`), ['services.web.image', 3, 'no valid digest']),
  row('in lower case', image(`ghcr.io/a/b@sha256:${digest.toUpperCase()}`), ['services.web.image', 3, 'lower case']),
  row('nothing after the @', image('ghcr.io/a/b@'), ['services.web.image', 3, 'no valid digest']),
  seen('no scheme', image('https://ghcr.io/a/b'), ['services.web.image', 3, '"ghcr.io/a/b"']),
  seen('not empty', image(''), ['services.web.image', 3, 'is empty']),
  row('no capitals in the repository', image('ghcr.io/A/b'), ['services.web.image', 3, '"a/b"']),
  row('a tag is a word', image('ghcr.io/a/b:'), ['services.web.image', 3, 'no valid tag']),
  row('no port beyond 65535', image('ghcr.io:99999/a/b'), ['services.web.image', 3, 'no valid registry']),
  {
    ...row('require_digest: every reference', image('gordon.mydomain.com/blog:1'), [
      'services.web.image',
      3,
      'names no digest',
    ]),
    facts: strictImages,
  },
  { ...row('require_digest: with a digest', image(`gordon.mydomain.com/blog@sha256:${digest}`)), facts: strictImages },
];

export const services: readonly Row[] = [
  row('command', web('command = ["node", "server.js"]')),
  seen('a command is a list', web('command = "node server.js"'), ['services.web.command', 4, 'a string, not a list']),
  seen('a command is not empty', web('command = []'), ['services.web.command', 4, 'is empty']),
  row('stop_grace', web('stop_grace = "5m"')),
  row('stop_grace is at most five minutes', web('stop_grace = "5m1s"'), ['services.web.stop_grace', 4, 'out of range']),
  row('stop_grace is not nothing', web('stop_grace = "0s"'), ['services.web.stop_grace', 4, 'out of range']),
  row('stop_grace has a unit', web('stop_grace = "30"'), ['services.web.stop_grace', 4, 'not a duration with a unit']),
  seen('stop_grace is a string', web('stop_grace = 30'), ['services.web.stop_grace', 4, 'an integer, not a string']),
];

export const environment: readonly Row[] = [
  row('[env] is for all services', two('[env]\nAPP_ENV = "production"')),
  row('a key of the service overrides the same key in [env]', web('[services.web.env]\nA = "1"\n[env]\nA = "2"')),
  row(
    '[env] is disjoint from the secrets of every service',
    two('[services.db.secrets]\nPASS = "pass"\n[env]\nPASS = "x"'),
    ['services.db.secrets.PASS', 7, 'also a public variable (line 9)'],
  ),
  row(
    'service env is disjoint from its secrets',
    web('[services.web.env]\nPASS = "x"\n[services.web.secrets]\nPASS = "pass"'),
    ['services.web.secrets.PASS', 7, 'also a public variable (line 5)'],
  ),
  row(
    'but not from those of another service',
    two('[services.web.env]\nPASS = "x"\n[services.db.secrets]\nPASS = "pass"'),
  ),
  seen('at least 1 byte', variable('""'), ['services.web.env.A', 5, 'is empty']),
  row('64 KiB', variable(`"${'x'.repeat(65536)}"`)),
  row('and no byte more', variable(`"${'x'.repeat(65537)}"`), ['services.web.env.A', 5, 'larger than 64 KiB']),
  row('bytes, not characters', variable(`"${'é'.repeat(32769)}"`), ['services.web.env.A', 5, 'larger than 64 KiB']),
  seen('no newline', variable('"a\\nb"'), ['services.web.env.A', 5, 'line break']),
  seen('no carriage return', variable('"a\\rb"'), ['services.web.env.A', 5, 'line break']),
  row('no NUL', variable('"a\\u0000b"'), ['services.web.env.A', 5, 'NUL']),
  row('no secret reference', variable('"\\u0024{pass:db/password}"'), ['services.web.env.A', 5, 'refers to a secret']),
  row('in the middle neither', web('[env]\nA = "x\\u0024{secret:db}y"').replace('[env]', '[services.web.env]'), [
    'services.web.env.A',
    5,
    'refers to a secret',
  ]),
  row('what a shell would expand is text', variable('"\\u0024{HOME:-/root}"')),
  seen('the same rules for [env]', web('[env]\nA = ""'), ['env.A', 5, 'is empty']),
  seen('a variable begins with no digit', web('[services.web.env]\n1A = "x"'), [
    'services.web.env.1A',
    5,
    'not the name of a variable',
  ]),
  seen('a variable has no hyphen', web('[services.web.env]\nA-B = "x"'), [
    'services.web.env.A-B',
    5,
    'not the name of a variable',
  ]),
  seen('a boolean is no text', variable('true'), ['services.web.env.A', 5, 'is not text: quote it']),
  row('a secret by its name', web('[services.web.secrets]\nAPI_KEY = "api-key"')),
  row('a secret as a table; as defaults to env', web('[services.web.secrets]\nAPI_KEY = { name = "api-key" }')),
  row('a secret as a file', web('[services.web.secrets]\nAPI_KEY = { name = "api-key", as = "file" }')),
  seen('any other way is refused', web('[services.web.secrets]\nK = { name = "k", as = "mount" }'), [
    'services.web.secrets.K.as',
    5,
    '"env" or "file"',
  ]),
  seen('any other key is refused', web('[services.web.secrets]\nK = { name = "k", mode = "0400" }'), [
    'services.web.secrets.K.mode',
    5,
    'unknown key mode in a secret',
  ]),
  seen('a secret has a name', web('[services.web.secrets]\nK = { as = "env" }'), [
    'services.web.secrets.K.name',
    5,
    'is missing',
  ]),
  seen(
    'nor is a number',
    web('[services.web.secrets]\nK = 24680\nL = { name = 24680 }'),
    ['services.web.secrets.K', 5, 'is not the name of a secret'],
    ['services.web.secrets.L.name', 6, 'is not the name of a secret'],
  ),
  seen('a value in the place of a name is not repeated', web('[services.web.secrets]\nK = "sk_live_Hunter2!"'), [
    'services.web.secrets.K',
    5,
    'is not the name of a secret',
  ]),
  row(
    'the file variable is no other secret',
    web('[services.web.secrets]\nK = { name = "k", as = "file" }\nK_FILE = "f"'),
    ['services.web.secrets.K', 5, 'sets K_FILE, which is declared too (line 6)'],
  ),
  row('nor a key of [env]', web('[services.web.secrets]\nK = { name = "k", as = "file" }\n[env]\nK_FILE = "f"'), [
    'services.web.secrets.K',
    5,
    'sets K_FILE, which is declared too (line 7)',
  ]),
  row(
    'nor a key of the service',
    web('[services.web.secrets]\nK = { name = "k", as = "file" }\n[services.web.env]\nK_FILE = "f"'),
    ['services.web.secrets.K', 5, 'sets K_FILE, which is declared too (line 7)'],
  ),
  row('with env delivery it may be', web('[services.web.secrets]\nK = "k"\n[services.web.env]\nK_FILE = "f"')),
  row(
    'no volume at /run/secrets',
    web(
      '[services.web.secrets]\nK = { name = "k", as = "file" }\n[[services.web.volume]]\nname = "v"\npath = "/run/secrets"',
    ),
    ['services.web.volume[0].path', 8, '/run/secrets holds the secrets'],
  ),
  row(
    'no bind under it',
    web(
      '[services.web.secrets]\nK = { name = "k", as = "file" }\n[[services.web.bind]]\nname = "app-logs"\npath = "/run/secrets/x"',
    ),
    ['services.web.bind[0].path', 8, '/run/secrets holds the secrets'],
  ),
  row(
    'a name that only begins like it is another',
    web(
      '[services.web.secrets]\nK = { name = "k", as = "file" }\n[[services.web.volume]]\nname = "v"\npath = "/run/secrets2"',
    ),
  ),
  seen('secrets belong to a service', web('[secrets]\nK = "k"'), ['secrets', 4, '[services.NAME.secrets]']),
];

export const mounts: readonly Row[] = [
  row('a named volume', web('[[services.web.volume]]\nname = "web-data"\npath = "/data"\nreadonly = true')),
  row('a bind that the operator grants', mount('bind', '/var/log/app')),
  row('a bind without a policy', mount('bind', '/x').replace('app-logs', 'app-log'), [
    'services.web.bind[0].name',
    5,
    'did you mean "app-logs"?',
  ]),
  row('a bind of another app', mount('bind', '/x').replace('app-logs', 'cellar'), [
    'services.web.bind[0].name',
    5,
    'not granted to the service web of blog',
  ]),
  seen('never a path of the host', `${mount('bind', '/x')}\nsource = "/etc"`, [
    'services.web.bind[0].source',
    7,
    'never carries a path of the host',
  ]),
  row('a device that the operator grants', web('devices = ["transcode-gpu"]')),
  row('a device without a policy', web('devices = ["gpu"]'), ['services.web.devices[0]', 4, '[app_devices.gpu]']),
  row('a device of another service', web('devices = ["other-gpu"]'), [
    'services.web.devices[0]',
    4,
    'not granted to the service web of blog',
  ]),
  ...(['volume', 'bind'] as const).flatMap((kind) => [
    seen(`a ${kind} has an absolute path`, mount(kind, 'data'), [`services.web.${kind}[0].path`, 6, 'not absolute']),
    seen(`a ${kind} has a normalised path`, mount(kind, '/a/../b'), [
      `services.web.${kind}[0].path`,
      6,
      'not normalised',
    ]),
    seen(`a ${kind} has no empty parts in its path`, mount(kind, '/a//b'), [
      `services.web.${kind}[0].path`,
      6,
      'not normalised',
    ]),
    row(`a ${kind} has no slash at the end`, mount(kind, '/a/'), [`services.web.${kind}[0].path`, 6, 'not normalised']),
    ...['/', '/proc', '/proc/1', '/sys', '/sys/fs', '/dev', '/dev/shm', '/boot', '/boot/efi'].map((path) =>
      seen(`a ${kind} is not at ${path}`, mount(kind, path), [
        `services.web.${kind}[0].path`,
        6,
        path === '/' ? 'the container itself' : 'is reserved',
      ]),
    ),
    row(`a ${kind} may lie at a name that begins like one`, mount(kind, '/devices')),
  ]),
  row(
    'a volume belongs to one service',
    two('[[services.web.volume]]\nname = "d"\npath = "/d"\n[[services.db.volume]]\nname = "d"\npath = "/d"'),
    ['services.db.volume[0].name', 10, 'belongs to the service web (line 7)'],
  ),
  row(
    'and is declared once',
    web('[[services.web.volume]]\nname = "d"\npath = "/d"\n[[services.web.volume]]\nname = "d"\npath = "/e"'),
    ['services.web.volume[1].name', 8, 'declared twice (line 5)'],
  ),
  row(
    'paths do not collide',
    web('[[services.web.volume]]\nname = "d"\npath = "/d"\n[[services.web.bind]]\nname = "app-logs"\npath = "/d"'),
    ['services.web.bind[0].path', 9, 'the path of another mount (line 4)'],
  ),
  seen('a volume has a name', web('[[services.web.volume]]\npath = "/d"'), [
    'services.web.volume[0].name',
    4,
    'is missing',
  ]),
  seen('readonly is true or false', `${mount('volume', '/d')}\nreadonly = "no"`, [
    'services.web.volume[0].readonly',
    7,
    'true or false',
  ]),
];

export const databases: readonly Row[] = [
  row(
    'a database and its backup',
    web(
      '[[services.web.database]]\nname = "main"\ntype = "postgres"\nschedule = "daily"\n[services.web.backup]\npostgres = ["main"]',
    ),
  ),
  ...['hourly', 'daily', 'weekly', 'monthly'].map((schedule) =>
    row(
      `${schedule} is a schedule`,
      web(`[[services.web.database]]\nname = "main"\ntype = "postgres"\nschedule = "${schedule}"`),
    ),
  ),
  seen('minutely is none', web('[[services.web.database]]\nname = "main"\ntype = "postgres"\nschedule = "minutely"'), [
    'services.web.database[0].schedule',
    7,
    '"hourly", "daily", "weekly" or "monthly"',
  ]),
  seen('a database has a schedule', web('[[services.web.database]]\nname = "main"\ntype = "postgres"'), [
    'services.web.database[0].schedule',
    4,
    'is missing',
  ]),
  seen(
    'only PostgreSQL is supported',
    web('[[services.web.database]]\nname = "main"\ntype = "mysql"\nschedule = "daily"'),
    ['services.web.database[0].type', 6, '"postgres"'],
  ),
  row(
    'a database is declared once',
    web(
      '[[services.web.database]]\nname = "m"\ntype = "postgres"\nschedule = "daily"\n[[services.web.database]]\nname = "m"\ntype = "postgres"\nschedule = "daily"',
    ),
    ['services.web.database[1].name', 9, 'declared twice (line 5)'],
  ),
  row('a backup of an undeclared database', web('[services.web.backup]\npostgres = ["main"]'), [
    'services.web.backup.postgres[0]',
    5,
    'declares no database main',
  ]),
  row(
    'a backup of an undeclared volume',
    web('[[services.web.volume]]\nname = "data"\npath = "/d"\n[services.web.backup]\nvolume = ["dat"]'),
    ['services.web.backup.volume[0]', 8, 'did you mean "data"?'],
  ),
  row(
    'a backup of another service’s volume',
    two('[[services.db.volume]]\nname = "data"\npath = "/d"\n[services.web.backup]\nvolume = ["data"]'),
    ['services.web.backup.volume[0]', 10, 'declares no volume data'],
  ),
  seen('no other kind of backup', web('[services.web.backup]\nmysql = ["x"]'), [
    'services.web.backup.mysql',
    5,
    'unknown key mysql in backup',
  ]),
];

export const interfaces: readonly Row[] = [
  ...['auto', 'always', 'never'].map((tls) =>
    row(`tls = ${tls}`, http(`host = "a.example.com"\nport = 1\ntls = "${tls}"`)),
  ),
  seen('tls is one of three', http('host = "a.example.com"\nport = 1\ntls = "sometimes"'), [
    'services.web.http[0].tls',
    7,
    '"auto", "always" or "never"',
  ]),
  seen('tls is written as it is', http('host = "a.example.com"\nport = 1\ntls = "Always"'), [
    'services.web.http[0].tls',
    7,
    'did you mean "always"?',
  ]),
  row('visibility = public', http('visibility = "public"\nhost = "a.example.com"\nport = 1')),
  row('an empty visibility is public', http('visibility = ""\nhost = "a.example.com"\nport = 1')),
  row('internal with a port only', http('visibility = "internal"\nport = 8080')),
  seen('no other visibility', http('visibility = "vpn"\nport = 1'), [
    'services.web.http[0].visibility',
    5,
    '"public", "internal" or ""',
  ]),
  seen('public needs a host', http('port = 1'), ['services.web.http[0].host', 4, 'is missing']),
  seen('an empty visibility needs one too', http('visibility = ""\nport = 1'), [
    'services.web.http[0].host',
    4,
    'is missing',
  ]),
  seen('a port is required', http('host = "a.example.com"'), ['services.web.http[0].port', 4, 'is missing']),
  seen('internal needs a port', http('visibility = "internal"'), ['services.web.http[0].port', 4, 'is missing']),
  seen('internal has no host', http('visibility = "internal"\nport = 1\nhost = "a.example.com"'), [
    'services.web.http[0].host',
    7,
    'has no host name',
  ]),
  seen('internal has no TLS', http('visibility = "internal"\nport = 1\ntls = "never"'), [
    'services.web.http[0].tls',
    7,
    'TLS is for public interfaces',
  ]),
  seen('not even an empty one', http('visibility = "internal"\nport = 1\ntls = ""'), [
    'services.web.http[0].tls',
    7,
    '',
  ]),
  row('a host is read in its canonical form', host('Blog.Example.COM.')),
  row('an address is no host', host('192.0.2.7'), ['services.web.http[0].host', 5, 'is an address']),
  row('an IPv6 address neither', host('[2001:db8::1]'), ['services.web.http[0].host', 5, 'is an address']),
  row('localhost is not public', host('localhost'), ['services.web.http[0].host', 5, 'no public host']),
  row('a single label is not public', host('blog'), ['services.web.http[0].host', 5, 'no public host']),
  ...['blog.local', 'blog.internal', 'blog.localhost', 'localhost.example.com'].map((name) =>
    row(`${name} is not public`, host(name), ['services.web.http[0].host', 5, 'no public host']),
  ),
  row('a URL is no host', host('https://a.example.com'), ['services.web.http[0].host', 5, 'is a URL']),
  row('a path is not part of it', host('a.example.com/'), ['services.web.http[0].host', 5, 'has a path']),
  row('a port is not part of it', host('a.example.com:80'), ['services.web.http[0].host', 5, 'has a port']),
  row('one host only', host('a.example.com,b.example.com'), ['services.web.http[0].host', 5, 'not one host']),
  row('no pattern', host('*.example.com'), ['services.web.http[0].host', 5, 'is a pattern']),
  row('not empty', host(''), ['services.web.http[0].host', 5, 'is empty']),
  row('no underscore', host('a_b.example.com'), ['services.web.http[0].host', 5, 'has an underscore']),
  row('a host once, in any spelling', site('[[services.web.http]]\nhost = "BLOG.example.com"\nport = 4000'), [
    'services.web.http[1].host',
    8,
    'blog.example.com is taken (line 5)',
  ]),
  row('two hosts may lead to one port', site('[[services.web.http]]\nhost = "www.example.com"\nport = 3000')),
  row(
    'an internal port once',
    http('visibility = "internal"\nport = 1\n[[services.web.http]]\nvisibility = "internal"\nport = 1'),
    ['services.web.http[1].port', 9, 'internal already (line 6)'],
  ),
  row('internal and public on one port', site('[[services.web.http]]\nvisibility = "internal"\nport = 3000'), [
    'services.web.http[1].port',
    9,
    'reachable from outside (line 6)',
  ]),
  row(
    'internal and TCP on one port',
    http('visibility = "internal"\nport = 25565\n[[services.web.tcp]]\nentrypoint = "game"\nport = 25565'),
    ['services.web.http[0].port', 6, 'reachable from outside (line 9)'],
  ),
  row(
    'in different services they may be',
    two(
      '[[services.web.http]]\nvisibility = "internal"\nport = 1\n[[services.db.http]]\nvisibility = "internal"\nport = 1',
    ),
  ),
];

const tcp = (rest: string): string => web(`[[services.web.tcp]]\n${rest}`);
const udp = (rest: string): string => web(`[[services.web.udp]]\n${rest}`);

export const listeners: readonly Row[] = [
  row('TCP on a tcp entrypoint', tcp('entrypoint = "game"\nport = 25565\npublish = "0.0.0.0:25565"')),
  row('an omitted host is the same wildcard', tcp('entrypoint = "game"\nport = 1\npublish = ":25565"')),
  row('a bare port too', tcp('entrypoint = "game"\nport = 1\npublish = "25565"')),
  row('publish may be left out', tcp('entrypoint = "game"\nport = 1')),
  row('a loopback entrypoint', tcp('entrypoint = "rcon"\nport = 1\npublish = "127.0.0.1:25575"')),
  row('an IPv6 entrypoint, in any spelling', tcp('entrypoint = "six"\nport = 1\npublish = "[0:0::1]:2222"')),
  row(':: is another wildcard', tcp('entrypoint = "game"\nport = 1\npublish = "[::]:25565"'), [
    'services.web.tcp[0].publish',
    7,
    '[::]:25565 is not where the entrypoint game listens',
  ]),
  row('a loopback bind on a wildcard entrypoint', tcp('entrypoint = "game"\nport = 1\npublish = "127.0.0.1:25565"'), [
    'services.web.tcp[0].publish',
    7,
    '"0.0.0.0:25565"',
  ]),
  row('a wildcard on a loopback entrypoint', tcp('entrypoint = "rcon"\nport = 1\npublish = "0.0.0.0:25575"'), [
    'services.web.tcp[0].publish',
    7,
    '"127.0.0.1:25575"',
  ]),
  row('a different port', tcp('entrypoint = "game"\nport = 1\npublish = "25566"'), [
    'services.web.tcp[0].publish',
    7,
    'not where the entrypoint game listens',
  ]),
  row('a host name', tcp('entrypoint = "game"\nport = 1\npublish = "game.example.com:25565"'), [
    'services.web.tcp[0].publish',
    7,
    'not an IP address',
  ]),
  seen('a number', tcp('entrypoint = "game"\nport = 1\npublish = 25565'), ['services.web.tcp[0].publish', 7, '']),
  seen('an entrypoint is required', tcp('port = 1'), ['services.web.tcp[0].entrypoint', 4, 'is missing']),
  seen('so is a port', tcp('entrypoint = "game"'), ['services.web.tcp[0].port', 4, 'is missing']),
  row('an unknown entrypoint', tcp('entrypoint = "gam"\nport = 1'), [
    'services.web.tcp[0].entrypoint',
    5,
    'did you mean "game"?',
  ]),
  row('TCP on a udp entrypoint', tcp('entrypoint = "voice"\nport = 1'), [
    'services.web.tcp[0].entrypoint',
    5,
    'a udp entrypoint',
  ]),
  row('TCP on an http entrypoint', tcp('entrypoint = "http"\nport = 1'), [
    'services.web.tcp[0].entrypoint',
    5,
    'a http entrypoint',
  ]),
  row('TCP on a tls_mux entrypoint', tcp('entrypoint = "mux"\nport = 1'), [
    'services.web.tcp[0].entrypoint',
    5,
    'it passes no plain TCP',
  ]),
  row('TCP on a smart_tcp entrypoint', tcp('entrypoint = "smart"\nport = 1')),
  row('that has a raw fallback already', tcp('entrypoint = "taken"\nport = 1'), [
    'services.web.tcp[0].entrypoint',
    5,
    'has a raw fallback already',
  ]),
  row('UDP on a udp entrypoint', udp('entrypoint = "voice"\nport = 28015\npublish = "0.0.0.0:28015"')),
  row('UDP on a tcp entrypoint', udp('entrypoint = "game"\nport = 1'), [
    'services.web.udp[0].entrypoint',
    5,
    'no datagrams arrive there',
  ]),
  row('an entrypoint once', tcp('entrypoint = "game"\nport = 1\n[[services.web.tcp]]\nentrypoint = "game"\nport = 2'), [
    'services.web.tcp[1].entrypoint',
    8,
    'the entrypoint game is taken (line 5)',
  ]),
  row(
    'TCP and UDP beside each other',
    tcp('entrypoint = "game"\nport = 1\n[[services.web.udp]]\nentrypoint = "voice"\nport = 1'),
  ),
];

export const readiness: readonly Row[] = [
  row('http', ready('type = "http"\npath = "/healthz"\nport = 3000\ntimeout = "30s"')),
  row('a query', ready('type = "http"\npath = "/healthz?probe=1"')),
  row('the root', ready('type = "http"\npath = "/"')),
  row('tcp', ready('type = "tcp"')),
  row('log', ready('type = "log"\ncontains = "listening"')),
  row('none', ready('type = "none"')),
  seen('a type is required', ready('path = "/"'), ['services.web.readiness.type', 7, 'is missing']),
  seen('exec is no type', ready('type = "exec"'), ['services.web.readiness.type', 8, '"http", "tcp", "log" or "none"']),
  seen('http needs a path', ready('type = "http"'), ['services.web.readiness.path', 7, 'is missing']),
  seen('an empty path', ready('type = "http"\npath = ""'), ['services.web.readiness.path', 9, 'is empty']),
  seen('a relative path', ready('type = "http"\npath = "healthz"'), [
    'services.web.readiness.path',
    9,
    'does not begin with "/"',
  ]),
  seen('a scheme-relative path', ready('type = "http"\npath = "//evil.example.com/"'), [
    'services.web.readiness.path',
    9,
    'names a server',
  ]),
  seen('an authority', ready('type = "http"\npath = "@evil.example.com:80"'), [
    'services.web.readiness.path',
    9,
    'does not begin with "/"',
  ]),
  seen('an absolute URL', ready('type = "http"\npath = "http://127.0.0.1/"'), [
    'services.web.readiness.path',
    9,
    'is a URL',
  ]),
  seen('a control character', ready('type = "http"\npath = "/a\\r\\nHost: x"'), [
    'services.web.readiness.path',
    9,
    'control characters',
  ]),
  seen('a space', ready('type = "http"\npath = "/a b"'), ['services.web.readiness.path', 9, 'percent-encoded']),
  seen('a fragment', ready('type = "http"\npath = "/a#b"'), ['services.web.readiness.path', 9, 'has a fragment']),
  seen('a backslash', ready('type = "http"\npath = \'/\\evil.example.com\''), [
    'services.web.readiness.path',
    9,
    'has a backslash',
  ]),
  seen('tcp has no path', ready('type = "tcp"\npath = "/"'), [
    'services.web.readiness.path',
    9,
    'says nothing to readiness of type "tcp"',
  ]),
  seen('log needs a text', ready('type = "log"'), ['services.web.readiness.contains', 7, 'is missing']),
  seen('log has no port', ready('type = "log"\ncontains = "x"\nport = 3000'), [
    'services.web.readiness.port',
    10,
    'says nothing',
  ]),
  seen('an empty text is none', ready('type = "log"\ncontains = ""'), [
    'services.web.readiness.contains',
    9,
    'is empty',
  ]),
  row('timeout from a second', ready('type = "tcp"\ntimeout = "1s"')),
  row('to ten minutes', ready('type = "tcp"\ntimeout = "10m"')),
  row('no shorter', ready('type = "tcp"\ntimeout = "999ms"'), ['services.web.readiness.timeout', 9, 'out of range']),
  seen('timeout is no date', ready('type = "tcp"\ntimeout = 1979-05-27'), [
    'services.web.readiness.timeout',
    9,
    'a date or time, not a string',
  ]),
  seen('nor infinite', ready('type = "tcp"\ntimeout = inf'), [
    'services.web.readiness.timeout',
    9,
    'a float, not a string',
  ]),
  seen('nor negative', ready('type = "tcp"\ntimeout = -1'), [
    'services.web.readiness.timeout',
    9,
    'an integer, not a string',
  ]),
  row('no longer', ready('type = "tcp"\ntimeout = "99h"'), ['services.web.readiness.timeout', 9, 'from 1s to 10m']),
  row('a port that is not declared', ready('type = "http"\npath = "/"\nport = 4000'), [
    'services.web.readiness.port',
    10,
    '4000 is not the port of an HTTP or TCP interface',
  ]),
  row(
    'an internal port may be asked',
    ready('type = "http"\npath = "/"\nport = 8080\n[[services.web.http]]\nvisibility = "internal"\nport = 8080'),
  ),
  row(
    'the only public HTTP port is meant',
    ready('type = "http"\npath = "/"\n[[services.web.http]]\nvisibility = "internal"\nport = 9090'),
  ),
  row(
    'of two public ports none is',
    ready('type = "http"\npath = "/"\n[[services.web.http]]\nhost = "b.example.com"\nport = 4000'),
    ['services.web.readiness.port', 7, 'which of 3000, 4000 is meant'],
  ),
  row(
    'the only port that takes TCP connections is meant',
    tcp('entrypoint = "game"\nport = 1\n[services.web.readiness]\ntype = "tcp"'),
  ),
  row(
    'of a TCP port and an internal one none is',
    tcp(
      'entrypoint = "game"\nport = 1\n[[services.web.http]]\nvisibility = "internal"\nport = 2\n[services.web.readiness]\ntype = "tcp"',
    ),
    ['services.web.readiness.port', 10, 'is missing'],
  ),
  row('UDP cannot be asked by tcp', udp('entrypoint = "voice"\nport = 1\n[services.web.readiness]\ntype = "tcp"'), [
    'services.web.readiness.type',
    8,
    'UDP interfaces only',
  ]),
  row('nor by http', udp('entrypoint = "voice"\nport = 1\n[services.web.readiness]\ntype = "http"\npath = "/"'), [
    'services.web.readiness.type',
    8,
    'UDP interfaces only',
  ]),
  row(
    'but by its log',
    udp('entrypoint = "voice"\nport = 1\n[services.web.readiness]\ntype = "log"\ncontains = "ready"'),
  ),
  row('a service without interfaces cannot be asked', web('[services.web.readiness]\ntype = "tcp"'), [
    'services.web.readiness.type',
    5,
    'without interfaces',
  ]),
  row('several successes', ready('type = "tcp"\nconsecutive = 3')),
];

export const networks: readonly Row[] = [
  row('a shared network', web('[[network.shared]]\nnetwork = "backend"\nservices = ["web"]')),
  row('an unknown service', web('[[network.shared]]\nnetwork = "backend"\nservices = ["wep"]'), [
    'network.shared[0].services[0]',
    6,
    'did you mean "web"?',
  ]),
  seen('without services', web('[[network.shared]]\nnetwork = "backend"\nservices = []'), [
    'network.shared[0].services',
    6,
    'is empty',
  ]),
  seen('a network has a name', web('[[network.shared]]\nservices = ["web"]'), [
    'network.shared[0].network',
    4,
    'is missing',
  ]),
  row(
    'a network once',
    web('[[network.shared]]\nnetwork = "n"\nservices = ["web"]\n[[network.shared]]\nnetwork = "n"\nservices = ["web"]'),
    ['network.shared[1].network', 8, 'declared twice (line 4)'],
  ),
  seen('no other networks', web('[network]\nmode = "host"'), ['network.mode', 5, 'unknown key mode in network']),
  row('telemetry of the app and of a service', web('[telemetry]\nlogs = false\n[services.web.telemetry]\nlogs = true')),
  seen('logs is true or false', web('[telemetry]\nlogs = "off"'), ['telemetry.logs', 5, 'true or false']),
  seen('no other telemetry', web('[telemetry]\nlogs = true\ntraces = true'), [
    'telemetry.traces',
    6,
    'unknown key traces',
  ]),
];

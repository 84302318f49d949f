// The keys of `[gate]`, once: form, default, sentence, example.
// Invariant: no key holds a secret; those that need one name a file.
import { judgeApp } from './app-keys.ts';
import {
  choice,
  defaulted,
  defaultsOf,
  type Form,
  flag,
  type Keys,
  list,
  named,
  optional,
  quote,
  Refusal,
  required,
  table,
  text,
  type Value,
} from './form.ts';
import { fieldName } from './header-keys.ts';
import { httpUrl, secretFile, webOrigin } from './outside-values.ts';
import { duration, filePath, hostName, parsePattern, port } from './values.ts';

const second = 1000;
const minute = 60 * second;
const day = 24 * 60 * minute;

const policies = ['session', 'gated', 'open', 'none', 'local'] as const;

const sentence: Form<string> = text('a sentence that says why', (value) =>
  value.trim().length < 10 || /\p{Cc}/u.test(value)
    ? new Refusal(`${quote(value)} is no reason`, 'one line of at least ten characters')
    : value.trim(),
);

export const rationale = optional(
  sentence,
  'Why it is safe without a login here: needed with "none" and "open".',
  '"has a login of its own"',
);

/** Policies of a host: nothing that is reached by name is `local`. */
export const hostPolicy = choice('a policy of the gate', ['session', 'gated', 'open', 'none']);

/** Whole segments, in the one spelling that needs no decoding. */
const openPath: Form<string> = text('a path like "/webhook", or "/webhook/*" for everything below', (value) => {
  const rest = value.replace(/\/\*$/, '');
  if (!value.startsWith('/')) return new Refusal(`${quote(value)} does not begin with "/"`);
  if (rest.includes('*')) return new Refusal(`${quote(value)} has "*" elsewhere than as its last segment`);
  if (!/^(\/[A-Za-z0-9._~!$&'()+,=:@-]+)*\/?$/.test(rest) || /\/\.{1,2}(\/|$)/.test(rest)) {
    return new Refusal(
      `${quote(value)} is not a plain path`,
      "letters, digits and ._~!$&'()+,=:@- between slashes, nothing encoded",
    );
  }
  return value;
});

const openPaths = list('a list of paths, like ["/webhook/*"]', openPath, { identity: (each) => each });
const origins = list('a list of origins, like ["https://home.example.com"]', webOrigin, { identity: (each) => each });

const appGateKeys = {
  policy: optional(
    choice('a policy of the gate', policies),
    'session and gated ask for a login, open does not, none and local are not touched. Left out: what the manifest says.',
    '"gated"',
  ),
  rationale,
  open_paths: defaulted(openPaths, 'Paths that need no login.', '[]', [], '["/webhook/*"]'),
  upgrade_open_paths: defaulted(openPaths, 'Paths on which a WebSocket needs no login.', '[]', [], '["/socket"]'),
  session_passthrough: defaulted(
    flag,
    'Pass the session cookie on to the app: only for apps that you trust like Turnpike itself.',
    'false',
    false,
    'true',
  ),
  allowed_origins: defaulted(
    origins,
    'Other origins whose pages may open WebSockets here with a session.',
    '[]',
    [],
    '["https://home.example.com"]',
  ),
} as const satisfies Keys;

const appGate = table('the gate of an app', appGateKeys);

/** Keys that may stand in `[gate.apps.NAME]`. */
export const appGateKeyNames: readonly string[] = Object.keys(appGateKeys);

/** An app's name, or the host of an external route. */
export function judgeGated(value: string): Refusal | null {
  if (judgeApp(value) === null) return null;
  const pattern = parsePattern(value);
  return typeof pattern === 'string' ? null : new Refusal(`${quote(value)} is neither an app nor a host`);
}

const controlPort: Form<{ readonly host: string; readonly port: number } | { readonly path: string }> = text(
  '"127.0.0.1:9051", or "unix:/run/tor/control"',
  (value) => {
    if (value.startsWith('unix:')) {
      const path = value.slice(5);
      return path.startsWith('/') ? { path } : new Refusal(`${quote(value)} has no absolute path`);
    }
    const [, host = '', digits = ''] = /^\[?([^\]]*)\]?:(\d{1,5})$/.exec(value) ?? [];
    const number = Number(digits);
    return /^(127(\.\d{1,3}){3}|::1|localhost)$/.test(host) && number >= 1 && number <= 65535
      ? { host, port: number }
      : new Refusal(`${quote(value)} is not a port of this machine`);
  },
);

const claim = text('the name of a claim', (value) =>
  /^[\x21-\x7e]+$/.test(value) ? value : new Refusal(`${quote(value)} is not the name of a claim`),
);

const nonEmpty = text('text', (value) => (value.trim() === '' ? new Refusal('is empty') : value));
const members = list('a list of names', nonEmpty, { identity: (each) => each });

const oidc = table('OpenID Connect', {
  name: defaulted(nonEmpty, 'What the button of the login page says.', '"Single sign-on"', 'Single sign-on'),
  issuer: required(
    httpUrl,
    'Issuer: the URL below which /.well-known/openid-configuration is.',
    '"https://id.example.com"',
  ),
  client_id: required(nonEmpty, 'Client identifier that the issuer knows us by.', '"turnpike"'),
  client_secret_file: required(secretFile, 'File whose first line is the client secret.', '"secrets/oidc"'),
  scopes: defaulted(
    list('a list of scopes', claim, { least: 1, identity: (each) => each }),
    'Scopes to ask for.',
    '["openid", "profile", "email"]',
    ['openid', 'profile', 'email'],
  ),
  username_claim: defaulted(
    claim,
    'Claim that becomes the name of the user.',
    '"preferred_username"',
    'preferred_username',
  ),
  groups_claim: defaulted(claim, 'Claim with the groups of the user.', '"groups"', 'groups'),
  allowed_users: defaulted(members, 'Users that may log in, by username_claim.', '[]', [], '["ada"]'),
  allowed_groups: defaulted(members, 'Groups whose members may log in.', '[]', [], '["family"]'),
  allowed_domains: defaulted(
    list('a list of domains', hostName, { identity: (each) => each }),
    'Domains of verified e-mail addresses that may log in.',
    '[]',
    [],
    '["example.com"]',
  ),
  owner_groups: defaulted(members, 'Groups whose members are owners.', '[]', [], '["admins"]'),
});

const gateKeys = {
  host: optional(
    hostName,
    'Host of the login page and the dashboard, for apps that are reached by name.',
    '"home.example.com"',
  ),
  port: defaulted(port, 'Port of the login page and the dashboard, on every address.', '8000', 8000),
  session_idle: defaulted(
    duration({ least: minute, most: 365 * day }),
    'A login ends when it was not used for this time.',
    '"7d"',
    7 * day,
  ),
  session_absolute: defaulted(
    duration({ least: minute, most: 3650 * day }),
    'A login ends after this time, used or not.',
    '"30d"',
    30 * day,
  ),
  dashboard_origins: defaulted(
    origins,
    'Other pages that may show apps in a frame.',
    '[]',
    [],
    '["https://home.example.com"]',
  ),
  skip_interfaces: defaulted(
    list(
      'a list of interfaces, like ["docker0", "br-*"]',
      text('the name of an interface, with "*" at the end for all that begin like it', (value) =>
        /^[^\s/*]{1,15}\*?$|^[^\s/*]{0,14}\*$/.test(value) && value !== '*'
          ? value
          : new Refusal(`${quote(value)} is not an interface`),
      ),
      { identity: (each) => each },
    ),
    'Interfaces on which ports of apps are not taken.',
    '[]',
    [],
    '["docker0", "br-*"]',
  ),
  https: defaulted(
    choice('a way with plaintext', ['allow', 'prefer']),
    'prefer sends pages that are asked for in plaintext on ports of apps to https.',
    '"allow"',
    'allow' as const,
  ),
  apps: defaulted(
    named('a table [gate.apps.NAME]', appGate, judgeGated),
    'The gate of one app, by the name of the app or the host of an external route.',
    '{}',
    new Map(),
    '{ grafana = { policy = "gated" } }',
  ),
  tor: optional(
    table('Tor', {
      control: required(controlPort, "Tor's control port.", '"127.0.0.1:9051"'),
      password_file: optional(
        secretFile,
        'File whose first line is the control password. Left out: cookie authentication.',
        '"secrets/tor"',
      ),
      cookie_file: optional(
        filePath,
        "Tor's cookie, when it is not where Tor says it is.",
        '"/run/tor/control.authcookie"',
      ),
    }),
    'Onion services for gated and open apps.',
    '{ control = "127.0.0.1:9051" }',
  ),
  forward_auth: optional(
    table('forward authentication', {
      url: required(
        httpUrl,
        'What is asked about each request: 2xx lets it through, the rest is answered to the client.',
        '"http://127.0.0.1:9091/api/authz/forward-auth"',
      ),
      copy_headers: defaulted(
        list('a list of header names', fieldName, { identity: (name) => name.toLowerCase() }),
        'Headers of the answer that the app gets. Those of the client with these names are taken away.',
        '["Remote-User", "Remote-Groups", "Remote-Name", "Remote-Email"]',
        ['Remote-User', 'Remote-Groups', 'Remote-Name', 'Remote-Email'],
      ),
      timeout: defaulted(
        duration({ least: 100, most: minute }),
        'No answer within this time lets nobody through.',
        '"5s"',
        5 * second,
      ),
    }),
    'Ask another program who may pass (Authelia, authentik, oauth2-proxy) instead of our own login.',
    '{ url = "http://127.0.0.1:9091/api/authz/forward-auth" }',
  ),
  oidc: optional(
    oidc,
    'Log in at an OpenID Connect issuer, beside our own users.',
    '{ issuer = "https://id.example.com", client_id = "turnpike", client_secret_file = "secrets/oidc", allowed_groups = ["family"] }',
  ),
} as const satisfies Keys;

export const gate = table('the gate', gateKeys);
export const gateDefaults: Value<typeof gate> = defaultsOf(gateKeys);
export type GateWritten = Value<typeof gate>;
export type AppGateWritten = Value<typeof appGate>;

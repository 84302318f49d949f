// The keys of `[tls.acme]`, once: form, default, sentence, example.
// Invariant: no key holds a secret; those that need one name a file.
import {
  choice,
  defaulted,
  defaultsOf,
  either,
  type Form,
  flag,
  type Keys,
  list,
  mapped,
  optional,
  quote,
  Refusal,
  required,
  table,
  tables,
  text,
  type Value,
} from './form.ts';
import { command, httpUrl, nameServer, secretFile } from './outside-values.ts';
import { duration, filePath } from './values.ts';

export const letsEncrypt = 'https://acme-v02.api.letsencrypt.org/directory';

const minute = 60_000;
const word = text('text without spaces', (value) =>
  /^[\x21-\x7e]{1,256}$/.test(value) ? value : new Refusal(`${quote(value)} is not one word`),
);

const directoryKeys = {
  url: required(httpUrl, 'Directory of the certificate authority.', `"${letsEncrypt}"`),
  eab_key_id: optional(word, 'External account binding: the key identifier that the authority gave you.', '"kid-1"'),
  eab_hmac_file: optional(
    secretFile,
    'File whose first line is the HMAC key that belongs to it, base64url.',
    '"secrets/eab"',
  ),
  profile: optional(word, 'Certificate profile to ask for, such as "shortlived".', '"classic"'),
  preferred_chain: optional(
    text('the common name of a root certificate', (value) => value || new Refusal('is empty')),
    'Common name of the root to end in, when the authority offers several chains.',
    '"ISRG Root X1"',
  ),
  ca_file: optional(
    filePath,
    'PEM bundle of roots to trust when talking to it, for an authority of your own.',
    '"certs/acme-ca.pem"',
  ),
} as const satisfies Keys;

const directoryTable = table('a certificate authority', directoryKeys);

export type DirectoryWritten = Value<typeof directoryTable>;

const directoryUrl: Form<DirectoryWritten> = mapped(httpUrl, (url) => ({
  url,
  eab_key_id: null,
  eab_hmac_file: null,
  profile: null,
  preferred_chain: null,
  ca_file: null,
}));

const directory = either('the URL of a directory, or a table with url', {
  string: directoryUrl,
  table: directoryTable,
});

/** `index` is null for one that stands without a list. */
interface ListedDirectory {
  readonly index: number | null;
  readonly value: DirectoryWritten;
}

const directories: Form<readonly ListedDirectory[]> = either<readonly ListedDirectory[]>(
  'the URL of a directory, a table with url, or a list of them',
  {
    string: mapped(directoryUrl, (value) => [{ index: null, value }]),
    table: mapped(directoryTable, (value) => [{ index: null, value }]),
    array: tables('a list of directories', directory),
  },
);

const dnsKeys = {
  cloudflare: optional(
    table('Cloudflare', {
      token_file: required(
        secretFile,
        'File whose first line is an API token that may edit the DNS of the zone.',
        '"secrets/cloudflare"',
      ),
    }),
    'Records through the API of Cloudflare.',
    '{ token_file = "secrets/cloudflare" }',
  ),
  rfc2136: optional(
    table('RFC 2136', {
      server: required(nameServer, 'The primary name server: an address, and a port if it is not 53.', '"192.0.2.53"'),
      key_name: required(word, 'Name of the TSIG key.', '"turnpike."'),
      key_file: required(secretFile, 'File whose first line is the TSIG key, base64.', '"secrets/tsig"'),
      algorithm: defaulted(
        choice('an algorithm', ['hmac-sha256', 'hmac-sha384', 'hmac-sha512']),
        'Algorithm of the key.',
        '"hmac-sha256"',
        'hmac-sha256' as const,
      ),
    }),
    'Records by dynamic update (BIND, Knot, PowerDNS).',
    '{ server = "192.0.2.53", key_name = "turnpike.", key_file = "secrets/tsig" }',
  ),
  acme_dns: optional(
    table('acme-dns', {
      url: required(httpUrl, 'Address of the acme-dns server.', '"https://auth.acme-dns.io"'),
      credentials_file: required(
        secretFile,
        'JSON file with the accounts by domain, as acme-dns clients keep it.',
        '"secrets/acme-dns.json"',
      ),
    }),
    'Records at an acme-dns server, to which _acme-challenge of each domain is a CNAME.',
    '{ url = "https://auth.acme-dns.io", credentials_file = "secrets/acme-dns.json" }',
  ),
  exec: optional(
    table('a command', {
      command: required(
        command,
        'Program and arguments; called with "present" or "cleanup", the name of the record and its value behind them.',
        '["/usr/local/bin/dns-hook"]',
      ),
      timeout: defaulted(duration({ least: 1000, most: 10 * minute }), 'How long one call may take.', '"60s"', minute),
    }),
    'Records by a program of yours.',
    '{ command = ["/usr/local/bin/dns-hook"] }',
  ),
  propagation_timeout: defaulted(
    duration({ least: 1000, most: 60 * minute }),
    'How long a record may take to be seen by all name servers of its zone.',
    '"2m"',
    2 * minute,
  ),
  propagation_delay: defaulted(
    duration({ least: 0, most: 60 * minute }),
    'Wait this long before the first look.',
    '"0s"',
    0,
  ),
} as const satisfies Keys;

export const dnsProviders = ['cloudflare', 'rfc2136', 'acme_dns', 'exec'] as const;

const acmeKeys = {
  enabled: defaulted(
    flag,
    'Order certificates for hosts with tls = "auto" or "always" that no other certificate covers.',
    'false',
    false,
    'true',
  ),
  directory: defaulted(
    directories,
    'Certificate authority: a URL, a table for more than that, or a list in the order of trying.',
    `"${letsEncrypt}"`,
    [{ index: null, value: { ...defaultsOf(directoryKeys), url: letsEncrypt } }],
  ),
  email: optional(
    text('an e-mail address', (value) =>
      /^[^\s@<>]+@[^\s@<>]+\.[^\s@<>]+$/.test(value) ? value : new Refusal(`${quote(value)} is not an e-mail address`),
    ),
    'Contact for the authority, in case something is wrong with your certificates.',
    '"ops@example.com"',
  ),
  challenge: defaulted(
    choice('a challenge', ['auto', 'http-01', 'tls-alpn-01', 'dns-01']),
    'How to prove that a name is yours; auto chooses for each name and says what it chose.',
    '"auto"',
    'auto' as const,
  ),
  key_type: defaulted(
    choice('a type of key', ['p256', 'p384', 'rsa2048', 'rsa4096']),
    'Kind of the private keys; a new one for each certificate.',
    '"p256"',
    'p256' as const,
  ),
  ari: defaulted(flag, 'Renew when the authority advises to (RFC 9773); else after 2/3 of the lifetime.', 'true', true),
  resolvers: defaulted(
    list('a list of name servers, like ["1.1.1.1", "9.9.9.9:53"]', nameServer, { identity: (each) => each }),
    'Name servers to look with whether a name leads here and a record is seen. Left out: those of the system.',
    '[]',
    [],
    '["1.1.1.1"]',
  ),
  dns: optional(
    table('a DNS provider', dnsKeys),
    'Who writes the records of dns-01: one of cloudflare, rfc2136, acme_dns and exec.',
    '{ cloudflare = { token_file = "secrets/cloudflare" } }',
  ),
} as const satisfies Keys;

export const acme = table('ACME', acmeKeys);
export type AcmeWritten = Value<typeof acme>;
export const acmeDefaults: AcmeWritten = defaultsOf(acmeKeys);

// Manifests with their verdicts, one row for each sentence that says what is required, refused or defaulted. Shared by the
// tests of the validator and of the JSON Schemas, which have to agree.
import type { OperatorFacts } from '../../src/manifest/operator-facts.ts';

/** Every problem of the text: key path, line, words of the message or of the accepted form. */
export type Expected = readonly [key: string, line: number, words: string];

export interface Row {
  readonly says: string;
  readonly text: string;
  /** Empty: the manifest is valid. */
  readonly problems: readonly Expected[];
  readonly facts: OperatorFacts;
  /** An editor sees it too. */
  readonly inSchema: boolean;
}

const entrypoint = (
  name: string,
  protocol: OperatorFacts['entrypoints'][number]['protocol'],
  host: string,
  port: number,
) => ({ name, protocol, host, port, rawFallback: null }) as const;

const blogWeb = { allowedApps: ['blog'], allowedServices: ['web'] };

export const facts: OperatorFacts = {
  entrypoints: [
    entrypoint('http', 'http', '', 80),
    entrypoint('https', 'https', '', 443),
    entrypoint('game', 'tcp', '', 25565),
    entrypoint('rcon', 'tcp', '127.0.0.1', 25575),
    entrypoint('six', 'tcp', '::1', 2222),
    entrypoint('voice', 'udp', '', 28015),
    entrypoint('mux', 'tls_mux', '', 8443),
    entrypoint('smart', 'smart_tcp', '', 9000),
    { ...entrypoint('taken', 'smart_tcp', '', 9001), rawFallback: { service: 'ssh', trustedCidrs: null } },
  ],
  mounts: new Map([
    ['app-logs', blogWeb],
    ['cellar', { allowedApps: ['other'], allowedServices: ['web'] }],
  ]),
  devices: new Map([
    ['transcode-gpu', blogWeb],
    ['other-gpu', { allowedApps: ['blog'], allowedServices: ['worker'] }],
  ]),
  images: { registry: 'gordon.mydomain.com', allowedRegistries: ['registry.example.com:5000'], requireDigest: false },
  dataRoot: '/var/lib/archipelago',
};

export const strictImages: OperatorFacts = { ...facts, images: { ...facts.images, requireDigest: true } };

export function row(says: string, text: string, ...problems: readonly Expected[]): Row {
  return { says, text, problems, facts, inSchema: false };
}

/** A row that an editor refuses too. */
export function seen(says: string, text: string, ...problems: readonly Expected[]): Row {
  return { ...row(says, text, ...problems), inSchema: true };
}

// References to images: `registry/repository:tag@sha256:…` in one canonical form, and which of them the operator allows.
// Invariant: a name check only. What resolves behind a registry's name, and who may pull there, is not judged here.

export interface ImageReference {
  /** Host name, with the port if one was written. Docker Hub is `docker.io` under any of its names. */
  readonly registry: string;
  readonly repository: string;
  /** `latest` when neither tag nor digest was written. */
  readonly tag: string | null;
  /** `sha256:<64 hex>` */
  readonly digest: string | null;
}

/** What the operator says of images. */
export interface ImagePolicy {
  /** The operator's own registry, allowed like the public ones. */
  readonly registry: string | null;
  /** More of them: exact host name and port. */
  readonly allowedRegistries: readonly string[];
  /** Every reference has to name a digest. */
  readonly requireDigest: boolean;
}

export const publicRegistries = ['docker.io', 'ghcr.io', 'quay.io'] as const;
const hubNames = ['docker.io', 'registry-1.docker.io'];

/** Why a text is no reference, or the reference. */
export type ParsedImage =
  | { readonly ok: true; readonly image: ImageReference }
  | { readonly ok: false; readonly why: string; readonly accepted: string };

/** Grammar of the distribution project: the first part is a registry when it has a dot, a colon, or is "localhost". */
export function parseImage(text: string): ParsedImage {
  const refuse = (why: string, accepted = imageForm): ParsedImage => ({ ok: false, why, accepted });
  if (text === '') return refuse('is empty');
  if (text.length > 512) return refuse('is longer than 512 characters');
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) {
    return refuse('is a URL', `without the scheme: "${text.replace(/^[a-z][a-z0-9+.-]*:\/\//i, '')}"`);
  }
  const at = text.indexOf('@');
  const named = at < 0 ? text : text.slice(0, at);
  const digest = at < 0 ? null : text.slice(at + 1);
  if (digest !== null && !/^sha256:[0-9a-f]{64}$/.test(digest)) {
    return refuse('has no valid digest', '"@sha256:" and 64 hexadecimal digits in lower case');
  }
  const slash = named.indexOf('/');
  const first = slash < 0 ? '' : named.slice(0, slash);
  const explicit = first === 'localhost' || /[.:]/.test(first);
  const registry = canonicalRegistry(explicit ? first : 'docker.io');
  if (registry === null) return refuse(`has no valid registry: ${JSON.stringify(first)}`);
  const rest = explicit ? named.slice(slash + 1) : named;
  const colon = rest.lastIndexOf(':');
  const tagged = colon > rest.lastIndexOf('/');
  const path = tagged ? rest.slice(0, colon) : rest;
  const tag = tagged ? rest.slice(colon + 1) : null;
  if (path !== path.toLowerCase()) return refuse('has capitals in its repository', `"${path.toLowerCase()}"`);
  if (path.length > 255 || !path.split('/').every((part) => /^[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*$/.test(part))) {
    return refuse('has no valid repository');
  }
  if (tag !== null && !/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/.test(tag)) return refuse('has no valid tag');
  const repository = registry === 'docker.io' && !path.includes('/') ? `library/${path}` : path;
  return { ok: true, image: { registry, repository, tag: tag ?? (digest === null ? 'latest' : null), digest } };
}

export const imageForm = '"registry.example.com/team/app:1.4.2", "docker.io/library/postgres:17", or with "@sha256:…"';

/** Lower case; `host` or `host:port`; null when it is neither. */
export function canonicalRegistry(text: string): string | null {
  const match =
    /^([a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]+\])(?::(\d{1,5}))?$/i.exec(
      text,
    );
  if (match === null) return null;
  const port = match[2] === undefined ? 1 : Number(match[2]);
  if (port < 1 || port > 65535) return null;
  const registry = text.toLowerCase();
  return hubNames.includes(registry) ? 'docker.io' : registry;
}

/** As it is written to an engine. */
export function formatImage(image: ImageReference): string {
  const tag = image.tag === null ? '' : `:${image.tag}`;
  const digest = image.digest === null ? '' : `@${image.digest}`;
  return `${image.registry}/${image.repository}${tag}${digest}`;
}

/** Why the operator's policy refuses this image; null when it does not. Asked at apply, at deploy and before each pull. */
export function refuseImage(image: ImageReference, policy: ImagePolicy): { why: string; accepted: string } | null {
  const allowed = allowedRegistries(policy);
  if (!allowed.includes(image.registry)) {
    return {
      why: `the registry ${image.registry} is not allowed`,
      accepted: `${allowed.join(', ')}; others by images.allowed_registries`,
    };
  }
  if (policy.requireDigest && image.digest === null) {
    return {
      why: 'names no digest, and images.require_digest is on',
      accepted: '"…@sha256:" and 64 hexadecimal digits',
    };
  }
  return null;
}

function allowedRegistries(policy: ImagePolicy): readonly string[] {
  const own = policy.registry === null ? [] : [policy.registry];
  return [
    ...new Set(
      [...publicRegistries, ...own, ...policy.allowedRegistries].map((each) => canonicalRegistry(each) ?? each),
    ),
  ];
}

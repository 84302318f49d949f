// A launch, with everything looked up, as the container that it becomes.
// Invariant: pure; backends are published on loopback only, unless the manifest is of the kind that may say otherwise.
import { type ContainerShape, environmentOf } from '../manifest/app.ts';
import { type ContainerSecurity, type ContainerSpec, type Mount, plainSecurity } from './container-spec.ts';
import {
  containerName,
  type InstanceMark,
  instanceLabels,
  privateNetworkName,
  sealLabel,
  volumeName,
} from './ownership.ts';
import type { Launch } from './runtime.ts';

/** What the host and the operator's files say. */
export interface LaunchFacts {
  readonly mark: InstanceMark;
  /** Content id of the image on the engine. */
  readonly image: string;
  /** By environment name. */
  readonly secrets: ReadonlyMap<string, string>;
  /** Directory with a file for each secret that is delivered as one, by environment name. */
  readonly secretFiles: string;
  /** By the name of the policy. */
  readonly mounts: ReadonlyMap<string, { readonly source: string; readonly readOnly: boolean }>;
  /** CDI names, in the order of the service's devices. */
  readonly cdiDevices: readonly string[];
  /** `{{HOST_IP}}` and the like, by name. */
  readonly placeholders: Readonly<Record<string, string>>;
}

export const secretDirectory = '/run/secrets';

export function containerSpec({ app, service }: Launch, facts: LaunchFacts, seal: string): ContainerSpec {
  const { shape } = service;
  const { mark } = facts;
  return {
    image: facts.image,
    labels: { ...instanceLabels(mark), [sealLabel]: seal },
    entrypoint: service.entrypoint,
    command: service.command,
    env: [
      ...environmentOf(app, service),
      ...(shape?.derivedEnv ?? []).map(({ name, template }) => ({
        name,
        value: rendered(template, facts.placeholders),
      })),
      ...service.secrets.map(({ env, delivery }) =>
        delivery === 'file'
          ? { name: `${env}_FILE`, value: `${secretDirectory}/${env}` }
          : { name: env, value: secretOf(facts, env) },
      ),
    ],
    stopGraceMs: service.stopGraceMs,
    publications: service.publications,
    network: networkOf(shape, mark),
    aliases: aliasesOf(service.name, shape),
    mounts: [
      ...volumesOf(service, mark),
      ...bindsOf(service, facts),
      ...hostBindsOf(shape),
      ...secretMounts(service, facts),
    ],
    tmpfs: shape?.tmpfs ?? [],
    cdiDevices: facts.cdiDevices,
    hostDevices: shape?.hostDevices ?? [],
    security: securityOf(shape),
    cpus: shape?.resources.cpus ?? null,
    memory: shape?.resources.memory ?? null,
  };
}

export const launchName = ({ mark }: LaunchFacts): string => containerName(mark);

/** Where services of one app find each other: under the service's own name, and under those that a YAML manifest adds. */
export function aliasesOf(service: string, shape: ContainerShape | null): readonly string[] {
  return [...new Set([service, ...(shape?.networkAliases ?? [])])];
}

/** What `network` names, else what the policy means: the machine's, the engine's, or one of the app's own. */
function networkOf(shape: ContainerShape | null, mark: InstanceMark): string {
  if (hasPrivateNetwork(shape)) return privateNetworkName(mark);
  return shape?.network ?? shape?.security.networkPolicy ?? privateNetworkName(mark);
}

/** A network of its own, that only services of the app join. */
export function hasPrivateNetwork(shape: ContainerShape | null): boolean {
  return shape === null || (shape.network === null && shape.security.networkPolicy === 'isolated');
}

function securityOf(shape: ContainerShape | null): ContainerSecurity {
  if (shape === null) return plainSecurity;
  const { readonlyRoot, noNewPrivileges, capabilities, apparmorProfile } = shape.security;
  return { readonlyRoot, noNewPrivileges, capabilities, apparmorProfile };
}

function volumesOf(service: Launch['service'], mark: InstanceMark): readonly Mount[] {
  return service.volumes.map((volume) => ({
    kind: 'volume',
    name: volumeName(mark, service.name, volume.name),
    target: volume.path,
    readonly: volume.readonly,
  }));
}

/** Either side makes it read-only; a manifest can never weaken its policy. */
function bindsOf(service: Launch['service'], { mounts }: LaunchFacts): readonly Mount[] {
  return service.binds.map((bind) => {
    const policy = mounts.get(bind.name);
    if (policy === undefined) throw new Error(`no mount ${bind.name}`);
    return {
      kind: 'bind',
      source: policy.source,
      target: bind.path,
      readonly: bind.readonly || policy.readOnly,
      options: [],
    };
  });
}

function hostBindsOf(shape: ContainerShape | null): readonly Mount[] {
  return (shape?.hostBinds ?? []).map((bind) => ({ kind: 'bind', ...bind }));
}

function secretMounts(service: Launch['service'], { secretFiles }: LaunchFacts): readonly Mount[] {
  return service.secrets
    .filter(({ delivery }) => delivery === 'file')
    .map(({ env }) => ({
      kind: 'bind',
      source: `${secretFiles}/${env}`,
      target: `${secretDirectory}/${env}`,
      readonly: true,
      options: [],
    }));
}

function secretOf({ secrets }: LaunchFacts, env: string): string {
  const value = secrets.get(env);
  if (value === undefined) throw new Error(`no value for ${env}`);
  return value;
}

export function rendered(template: string, placeholders: LaunchFacts['placeholders']): string {
  return template.replaceAll(/\{\{([A-Z_]+)\}\}/g, (whole, name: string) => placeholders[name] ?? whole);
}

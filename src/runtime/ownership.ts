// Which containers, networks and volumes of an engine are ours: told by labels, and by nothing else.
// Invariant: whatever does not carry this installation's label is never stopped, removed, joined or changed.

const prefix = 'turnpike.';
/** Keyed digest of what a container was made of beside its manifest. */
export const sealLabel = `${prefix}seal`;

/** Who owns what is made: the same for the life of a state directory. */
export interface Owner {
  /** UUID of the installation. */
  readonly installation: string;
}

export interface AppMark extends Owner {
  readonly app: string;
  /** UUID of the incarnation: an app of the same name that comes later is somebody else. */
  readonly appId: string;
}

export interface InstanceMark extends AppMark {
  readonly service: string;
  /** Unique for each started container. */
  readonly instance: string;
}

export type Labels = Readonly<Record<string, string>>;

export function ownerLabels({ installation }: Owner): Labels {
  return { [`${prefix}installation`]: installation };
}

export function appLabels(mark: AppMark): Labels {
  return { ...ownerLabels(mark), [`${prefix}app`]: mark.app, [`${prefix}app-id`]: mark.appId };
}

export function instanceLabels(mark: InstanceMark): Labels {
  return { ...appLabels(mark), [`${prefix}service`]: mark.service, [`${prefix}instance`]: mark.instance };
}

/** Null: not ours. */
export function instanceMark(labels: Labels | null | undefined, owner: Owner): InstanceMark | null {
  const of = (name: string): string => labels?.[prefix + name] ?? '';
  if (of('installation') !== owner.installation || of('instance') === '') return null;
  return {
    installation: owner.installation,
    app: of('app'),
    appId: of('app-id'),
    service: of('service'),
    instance: of('instance'),
  };
}

/** The incarnation that something of ours was made for; null: for several. */
export function appIdOf(labels: Labels): string | null {
  return labels[`${prefix}app-id`] ?? null;
}

export function isOurs(labels: Labels | null | undefined, owner: Owner): boolean {
  return labels?.[`${prefix}installation`] === owner.installation;
}

/** The `filters` parameter of the engine's lists. */
export function labelFilter(labels: Labels): string {
  return JSON.stringify({ label: Object.entries(labels).map(([name, value]) => `${name}=${value}`) });
}

/** Short enough for every engine, unique by its end, and readable in `docker ps`. */
export function containerName({ app, service, instance }: InstanceMark): string {
  return `turnpike-${app}-${service.replaceAll(/[^a-z0-9-]/g, '-')}-${instance}`;
}

export function privateNetworkName({ app, appId }: AppMark): string {
  return `turnpike-${app}-${appId.slice(0, 8)}`;
}

export function sharedNetworkName(network: string): string {
  return `turnpike-shared-${network}`;
}

export function volumeName({ app, appId }: AppMark, service: string, volume: string): string {
  const plain = (text: string): string => text.replaceAll(/[^a-z0-9_.-]/g, '-');
  return `turnpike-${app}-${appId.slice(0, 8)}-${plain(service)}-${plain(volume)}`;
}

// What starts and stops the processes behind a service: an engine with containers, or the operator's own commands.
// Invariant: an instance is known by its id alone, also to a process that did not start it; stopping what is not there is
// no failure, and nothing that does not carry an id of ours is ever touched.
import type { App, AppService } from '../manifest/app.ts';
import type { Probe } from '../manifest/readiness.ts';
import type { ProbeResult } from '../switchover/probe-result.ts';
import type { OutputChunk } from './log-frames.ts';

/** One generation of a service that is to run. */
export interface Launch {
  /** A UUID, written down before anything is started. */
  readonly instance: string;
  /** Internal id of the app; its volumes and secrets belong to it. */
  readonly incarnation: string;
  readonly app: App;
  readonly service: AppService;
  readonly revision: number;
  /** Addresses that the operator named for this deploy; empty: the runtime knows or finds them. */
  readonly given: readonly PortBackend[];
  /** What served before, once more: with the secrets that it had then. */
  readonly again?: boolean;
}

/** Where a port of the service is reached from here. */
export interface PortBackend {
  /** In the manifest. */
  readonly port: number;
  /** `host:port`, IPv6 in brackets. */
  readonly address: string;
}

/** What is known of an instance beside its id; enough to find and stop it from another process. */
export interface InstanceRef {
  readonly id: string;
  readonly app: string;
  readonly service: string;
  readonly backends: readonly PortBackend[];
  /** False: somebody else runs it; it is neither started nor stopped here. */
  readonly managed: boolean;
}

export interface Started {
  readonly backends: readonly PortBackend[];
  readonly managed: boolean;
  /** Resolves with the reason when it ends; null: nobody here would notice. */
  readonly ended: Promise<string> | null;
}

export interface LaunchCheck {
  /** What is in the way of starting it, in words; empty: nothing. */
  readonly problems: readonly string[];
  /** Addresses that are known before the start: two generations cannot have the same ones at a time. */
  readonly fixed: readonly PortBackend[];
  readonly managed: boolean;
}

/** `term`: it was asked to end; `kill`: its grace is over. */
export type StopStep = 'term' | 'kill';

export interface Runtime {
  readonly kind: 'none' | 'docker' | 'podman' | 'auto';
  /** Looks, and changes nothing. */
  check(launch: Launch): Promise<LaunchCheck>;
  /** Resolves when it runs, which says nothing about readiness. What failed has to be stopped as well. */
  start(launch: Launch): Promise<Started>;
  /** Asks it to end, ends it by force after `graceMs`. Resolves when nothing of it is left, rejects when that is unknown. */
  stop(instance: InstanceRef, graceMs: number, onStep: (step: StopStep) => void): Promise<void>;
  /** Null: nobody here can tell. */
  alive(instance: InstanceRef): Promise<boolean | null>;
  /** Ids of all instances of this installation that are there, known or not. */
  list(): Promise<readonly string[]>;
  /** What it wrote since it was started, the end of it; '' when that is not known. */
  output(instance: InstanceRef): Promise<string>;
  /** It is gone for good: its output may go as well. */
  forget(id: string): Promise<void>;
  /**
   * It is ready and serves next: its secrets are what `again` means from now on, and what its manifest wants done after an
   * installation is done, once in the life of the app.
   */
  install?(launch: Launch): Promise<void>;
  /** False: the same manifest would make another instance now, of another image or with other secrets. */
  isCurrent?(launch: Launch, instance: InstanceRef): Promise<boolean>;
  /** Resolves with the reason when a running instance ends, or can be watched no longer. */
  watch?(instance: InstanceRef): Promise<string>;
  /** One look at a port from inside the app's network. Throws when it could not be looked at. */
  probeInside?(instance: InstanceRef, probe: PortProbe, signal: AbortSignal): Promise<ProbeResult>;
  /** The app's networks go, if nobody is in them; its volumes and secrets stay. */
  leave?(incarnation: string): Promise<void>;
  /** What a removed app left behind goes for good. */
  prune?(incarnation: string): Promise<void>;
  /** What it writes, as it comes; with `follow` until it ends. */
  read?(instance: InstanceRef, follow: boolean, signal: AbortSignal): AsyncIterable<Buffer>;
  /**
   * The container of an instance, and everything that it writes from `sinceMs` (epoch; 0: its start) on, each frame with the
   * engine's time in front; null: there is none. Throws when its secrets are not known: nobody could take them out.
   */
  tail?(launch: Launch, sinceMs: number, signal: AbortSignal): Promise<Tail | null>;
  /** Ends every wait of ours; what runs runs on. */
  close?(): void;
}

export interface Tail {
  readonly container: string;
  /** Digest of the image's configuration: "sha256:...". */
  readonly image: string;
  /** Must not be told on: the longest first. */
  readonly secrets: readonly string[];
  readonly chunks: AsyncIterable<OutputChunk>;
}

/** A probe that dials. */
export type PortProbe = Exclude<Probe, { type: 'log' }>;

/** Ports that need an address: of public HTTP, TCP and UDP interfaces, each once, in order. */
export function backedPorts(service: AppService): readonly number[] {
  const ports = [
    ...service.http.flatMap((each) => (each.visibility === 'public' ? [each.port] : [])),
    ...service.tcp.map(({ port }) => port),
    ...service.udp.map(({ port }) => port),
  ];
  return [...new Set(ports)];
}

// What `[gate]` declares: who must log in where, and with what help.
// Invariant: plain frozen data, defaults filled in, paths absolute; secrets are named by their files, never held.

/** `session`, `gated` and `open` are fronted by the gate; `none` and `local` it never touches. */
export type GatePolicy = 'session' | 'gated' | 'open' | 'none' | 'local';

export interface DeclaredGate {
  /** `[gate]` is in the file: login and dashboard are wanted whether or not an app asks for them. */
  readonly written: boolean;
  /** Host of login and dashboard; null: on `port` only. */
  readonly host: string | null;
  readonly port: number;
  readonly sessionIdleMs: number;
  readonly sessionAbsoluteMs: number;
  /** Origins beside our own that may frame apps. */
  readonly dashboardOrigins: readonly string[];
  /** Interfaces whose addresses are not taken: names, or beginnings of names with `*` at the end. */
  readonly skipInterfaces: readonly string[];
  /** `prefer`: navigations on gate-taken ports are sent to https. */
  readonly https: 'allow' | 'prefer';
  /** By app name, or by host for external routes. */
  readonly apps: ReadonlyMap<string, DeclaredAppGate>;
  readonly tor: DeclaredTor | null;
  readonly forwardAuth: DeclaredForwardAuth | null;
  readonly oidc: DeclaredOidc | null;
}

export interface DeclaredAppGate {
  /** Null: what the manifest says, for a TOML app `none`. */
  readonly policy: GatePolicy | null;
  /** Why `none` or `open` is safe; null otherwise. */
  readonly rationale: string | null;
  readonly sessionPassthrough: boolean;
  /** "/p" for one path, "/p/*" for everything below. */
  readonly openPaths: readonly string[];
  readonly upgradeOpenPaths: readonly string[];
  readonly allowedOrigins: readonly string[];
  readonly origin: string;
}

export interface DeclaredTor {
  readonly control: { readonly host: string; readonly port: number } | { readonly path: string };
  /** Null: cookie authentication. */
  readonly passwordFile: string | null;
  /** Null: the one that Tor names. */
  readonly cookieFile: string | null;
}

export interface DeclaredForwardAuth {
  readonly url: string;
  /** Fields of its answer that are handed on to the app; everybody else's are taken away. */
  readonly copyHeaders: readonly string[];
  readonly timeoutMs: number;
}

export interface DeclaredOidc {
  /** Text of the button. */
  readonly name: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecretFile: string;
  readonly scopes: readonly string[];
  readonly usernameClaim: string;
  readonly groupsClaim: string;
  /** Who may log in; at least one list has members, and one match is enough. Domains are those of verified addresses. */
  readonly allowedUsers: readonly string[];
  readonly allowedGroups: readonly string[];
  readonly allowedDomains: readonly string[];
  /** Groups whose members are owners; empty: nobody becomes one by this login. */
  readonly ownerGroups: readonly string[];
}

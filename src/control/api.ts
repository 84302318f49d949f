// The words of the control API, used by both ends of the socket: paths, bodies, lines.
// Invariant: a change here changes both ends, because neither spells a path or a member by hand.
import type { FaultCode } from '../base/fault.ts';
import type { SwitchProgress, SwitchReport } from '../process/operations.ts';

export const paths = {
  status: '/v1/status',
  reload: '/v1/reload',
  diff: '/v1/diff',
  routes: '/v1/routes',
  traffic: '/v1/traffic',
  explain: '/v1/explain',
  tls: '/v1/tls',
  ca: '/v1/tls/ca',
  metrics: '/v1/metrics',
  rpc: '/v1/rpc',
  replaceWorkers: '/v1/workers/replace',
  services: '/v1/services/',
} as const;

export const serviceVerbs = ['switch', 'pause', 'resume', 'stop', 'start'] as const;
export type ServiceVerb = (typeof serviceVerbs)[number];

/** Service names are host patterns ("*.app.test/api"), so they travel percent-encoded in one segment. */
export function servicePath(service: string, verb: ServiceVerb): string {
  return `${paths.services}${encodeURIComponent(service)}/${verb}`;
}

export interface SwitchBody {
  readonly to: readonly string[] | 'config';
  readonly drainMs: number | null;
  readonly probe: boolean;
}

export interface ExplainBody {
  readonly url: string;
  readonly method: string;
  readonly from: string | null;
  readonly sni: string | null;
  readonly entrypoint: string | null;
}

export interface ErrorBody {
  /** `usage`: the request itself is wrong. */
  readonly error: { readonly code: FaultCode | 'usage'; readonly message: string };
}

/** One line of the answer to a switch (NDJSON): progress, then exactly one of the other two. */
export type SwitchLine = { readonly progress: SwitchProgress } | { readonly report: SwitchReport } | ErrorBody;

/** JSON-RPC 2.0, §5. */
export type RpcAnswer =
  | { readonly jsonrpc: '2.0'; readonly id: RpcId; readonly result: unknown }
  | {
      readonly jsonrpc: '2.0';
      readonly id: RpcId;
      readonly error: {
        readonly code: number;
        readonly message: string;
        readonly data?: { readonly fault: FaultCode };
      };
    };

export type RpcId = string | number | null;

/** JSON-RPC 2.0, §5.1; `failed` is of the range that is left to us. */
export const rpcErrors = { request: -32600, method: -32601, params: -32602, internal: -32603, failed: -32000 } as const;

// Checks of one `[entrypoints.NAME]`: which of its keys mean something for its protocol.
// Invariant: a key without effect is told as one, never silently ignored.

import { takesHttp } from '../model/entrypoint-protocol.ts';
import { limitKeys } from './limit-keys.ts';
import type { Findings } from './problem.ts';
import type { Config } from './schema.ts';
import type { Path } from './syntax.ts';

const httpKeys = ['public_port', 'trusted_proxies', ...limitsExcept('connections_per_peer', 'udp_sessions')];
const connectionKeys = ['max_connections', 'connections_per_peer', 'proxy_protocol_from'];

function limitsExcept(...names: readonly string[]): readonly string[] {
  return Object.keys(limitKeys).filter((name) => limitKeys[name]!.scope === 'entrypoint' && !names.includes(name));
}

export function checkEntrypoints(config: Config, findings: Findings): void {
  for (const [name, { protocol }] of config.entrypoints) {
    const path: Path = ['entrypoints', name];
    if (!takesHttp(protocol)) {
      // A TCP router may end TLS.
      const keys = protocol === 'tcp' ? httpKeys.filter((key) => key !== 'tls_handshake_timeout') : httpKeys;
      warn(keys, 'is about HTTP', path, findings);
    }
    if (protocol === 'udp')
      warn(connectionKeys, 'is about connections; limits.udp_sessions bounds flows', path, findings);
    else warn(['udp_sessions'], 'is about UDP', path, findings);
  }
}

function warn(keys: readonly string[], why: string, path: Path, findings: Findings): void {
  for (const key of keys) {
    if (findings.document.has([...path, key])) {
      findings.warn([...path, key], `has no effect: it ${why}`, 'leave it out', 'key');
    }
  }
}

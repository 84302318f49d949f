// Ports of a YAML app: addresses, policies of the gate, and what goes with which policy.
// Invariant: fail closed. A port whose policy is not clear is an error, never a port without a policy.
import type { Findings } from '../config/problem.ts';
import type { Path } from '../config/syntax.ts';
import type { YamlApp, YamlPort } from './yaml-keys.ts';
import { isLoopback } from './yaml-values.ts';

export function checkPorts(app: YamlApp, findings: Findings): void {
  const first = new Map<string, { readonly path: Path; readonly value: YamlPort }>();
  const bound = new Map<string, Map<string, Path>>();
  for (const { index, value } of app.ports) {
    const path = ['app', 'ports', index];
    checkPolicy(value, path, findings);
    const socket = `${value.host}/${value.protocol}`;
    const owner = first.get(socket);
    if (owner === undefined) first.set(socket, { path, value });
    else checkAgreement(owner, { path, value }, findings);
    const addresses = bound.get(socket) ?? new Map<string, Path>();
    bound.set(socket, addresses);
    checkAddress(value, path, addresses, findings);
  }
}

function checkPolicy(port: YamlPort, path: Path, findings: Findings): void {
  if (findings.failed([...path, 'auth'])) return;
  const { auth, auth_rationale: rationale, bind, protocol } = port;
  const explained = auth === 'none' || auth === 'open';
  if (explained && rationale === null && !findings.failed([...path, 'auth_rationale'])) {
    findings.error(
      [...path, 'auth_rationale'],
      `is missing: ${auth} needs it`,
      'why this is safe without a login',
      'key',
    );
  }
  if (!explained && findings.document.has([...path, 'auth_rationale'])) {
    const policy = auth === null ? 'a port without auth' : auth;
    findings.error([...path, 'auth_rationale'], `says nothing to ${policy}`, 'auth: none or auth: open', 'key');
  }
  if (port.session_passthrough && auth !== 'gated') {
    const policy = auth === null ? 'a port without auth' : auth;
    findings.error([...path, 'session_passthrough'], `has no meaning for ${policy}`, 'auth: gated', 'key');
  }
  if (protocol === 'udp' && (auth === 'gated' || auth === 'open' || auth === 'session')) {
    const why = `${auth} needs a login or a page, which UDP has not`;
    findings.error([...path, 'auth'], why, 'auth: none with auth_rationale, or auth: local');
  }
  if ((auth === 'gated' || auth === 'open' || auth === 'local') && !findings.failed([...path, 'bind'])) {
    if (bind !== '' && !isLoopback(bind)) {
      const why = `${bind} is not a loopback address: with ${auth} the app itself listens on 127.0.0.1 only`;
      findings.error([...path, 'bind'], why, '127.0.0.1, or empty');
    } else if (bind !== '127.0.0.1') {
      const part = findings.document.has([...path, 'bind']) ? [...path, 'bind'] : [...path, 'auth'];
      findings.warn(part, `${auth} pins the app to 127.0.0.1`, 'bind: 127.0.0.1');
    }
  }
}

/** One host port with several addresses is one port. */
function checkAgreement(
  owner: { readonly path: Path; readonly value: YamlPort },
  other: { readonly path: Path; readonly value: YamlPort },
  findings: Findings,
): void {
  for (const key of ['container', 'auth', 'auth_rationale', 'session_passthrough'] as const) {
    if (owner.value[key] === other.value[key]) continue;
    if (findings.failed([...owner.path, key]) || findings.failed([...other.path, key])) continue;
    const why = `differs from the same host port above (line ${lineOf(owner.path, findings)})`;
    findings.error([...other.path, key], why, 'one answer for all addresses of a host port', 'key');
  }
}

function checkAddress(port: YamlPort, path: Path, taken: Map<string, Path>, findings: Findings): void {
  const { bind } = port;
  const rival = taken.get(bind) ?? taken.get('') ?? (bind === '' ? [...taken.values()][0] : undefined);
  if (rival === undefined) taken.set(bind, path);
  else {
    const why = `${bind === '' ? 'every address' : bind} is taken for this host port (line ${lineOf(rival, findings)})`;
    findings.error([...path, 'bind'], why, 'each address once; every address leaves none over');
  }
}

function lineOf(path: Path, findings: Findings): number {
  return findings.document.locate(path).key.line;
}

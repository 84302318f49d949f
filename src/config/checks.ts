// What no single value shows: clashes, references, keys that exclude or need each other, settings without effect.
// Invariant: everything here is found in one pass; errors are what would do something else than it says, warnings what
// would do nothing or what is probably not meant.

import { takesHttp, transportOf } from '../model/entrypoint-protocol.ts';
import type { Transport } from '../model/snapshot.ts';
import { checkAcme } from './acme-checks.ts';
import { checkApps } from './app-checks.ts';
import { checkControl } from './control-checks.ts';
import { checkEntrypoints } from './entrypoint-checks.ts';
import { checkGate } from './gate-checks.ts';
import { checkHosts } from './host-checks.ts';
import { defaultLimits, writtenLimits } from './limit-keys.ts';
import { checkNetworkServices } from './network-checks.ts';
import type { Findings } from './problem.ts';
import { checkRouters, routedEntrypoints, terminatingEntrypoints } from './router-checks.ts';
import type { Config } from './schema.ts';
import type { Path } from './syntax.ts';
import type { ListenAddress } from './values.ts';

/** @param file  the configuration file, absolute */
export function checkConfig(config: Config, file: string, findings: Findings): void {
  checkAddresses(config, findings);
  checkEntrypoints(config, findings);
  checkSizes(config, findings);
  checkTrust(config, findings);
  checkTls(config, findings);
  checkHosts(config, findings);
  checkNetworkServices(config, findings);
  checkRouters(config, findings);
  checkAcme(config, findings);
  checkGate(config, findings);
  checkApps(config, file, findings);
  checkControl(config, findings);
  checkUse(config, findings);
  checkServed(config, findings);
}

/**
 * A wildcard address and a specific one on the same port exclude each other; addresses compare parsed. TCP and UDP have
 * ports of their own.
 */
function checkAddresses(config: Config, findings: Findings): void {
  const taken: { readonly path: Path; readonly address: ListenAddress; readonly transport: Transport }[] = [];
  const claim = (path: Path, address: ListenAddress, transport: Transport): void => {
    const rival = taken.find(
      (each) =>
        each.transport === transport &&
        each.address.port === address.port &&
        (each.address.host === address.host || each.address.host === '' || address.host === ''),
    );
    if (rival === undefined) {
      taken.push({ path, address, transport });
      return;
    }
    const { line } = findings.document.locate(rival.path).value;
    const owner = rival.path.slice(0, 2).join('.');
    findings.error(path, `clashes with ${owner} (line ${line})`, 'an address and port that nothing else listens on');
  };
  for (const [name, { address, protocol }] of config.entrypoints) {
    claim(['entrypoints', name, 'address'], address, transportOf(protocol));
  }
  if (config.metrics.address !== null) claim(['metrics', 'address'], config.metrics.address, 'tcp');
  if (config.control.address !== null) claim(['control', 'address'], config.control.address, 'tcp');
  if (findings.document.has(['gate'])) claim(['gate', 'port'], { host: '', port: config.gate.port }, 'tcp');
}

/** A target is part of the head that carries it. */
function checkSizes(config: Config, findings: Findings): void {
  const global = { ...defaultLimits, ...writtenLimits(config.limits) };
  const check = (path: Path, values: object): void => {
    const own = writtenLimits(values);
    const { headerSize, targetSize } = { ...global, ...own };
    if (targetSize <= headerSize) return;
    const key = own.targetSize === undefined ? 'header_size' : 'target_size';
    findings.error([...path, key], 'target_size is larger than header_size', 'a target_size within header_size');
  };
  check(['limits'], findings.document.has(['limits']) ? config.limits : {});
  for (const [name, entrypoint] of config.entrypoints) {
    if (Object.keys(writtenLimits(entrypoint)).length > 0) check(['entrypoints', name], entrypoint);
  }
}

function checkTrust(config: Config, findings: Findings): void {
  const check = (networks: readonly string[] | null, path: Path): void => {
    const everyone = (networks ?? []).find((network) => network.endsWith('/0'));
    if (everyone === undefined) return;
    findings.warn(path, `${everyone} lets anybody choose the client address in X-Forwarded-For`, 'your proxies only');
  };
  check(config.trusted_proxies, ['trusted_proxies']);
  for (const [name, entrypoint] of config.entrypoints) {
    check(entrypoint.trusted_proxies, ['entrypoints', name, 'trusted_proxies']);
  }
}

function checkTls(config: Config, findings: Findings): void {
  const { tls } = config;
  if (tls.profile === 'modern' && tls.min_version === '1.2') {
    findings.error(['tls', 'min_version'], 'the profile modern is TLS 1.3 only', '"1.3", or the profile intermediate');
  }
  let chosen: number | null = null;
  for (const { index, value: pair } of tls.certificate) {
    const path = ['tls', 'certificate', index];
    const pem = pair.cert_file !== null && pair.key_file !== null;
    const parts = pair.cert_file !== null || pair.key_file !== null;
    if (!findings.failed(path) && (pair.pkcs12_file === null ? !pem : parts)) {
      findings.error(path, 'is not one certificate', 'cert_file and key_file, or pkcs12_file', 'key');
    }
    if (!pair.default) continue;
    if (chosen !== null) {
      const { line } = findings.document.locate(['tls', 'certificate', chosen, 'default']).key;
      findings.error([...path, 'default'], `is the second default (line ${line})`, 'one default certificate');
    } else if (tls.default_certificate !== null) {
      const { line } = findings.document.locate(['tls', 'default_certificate']).key;
      findings.error([...path, 'default'], `tls.default_certificate names another (line ${line})`, 'one of the two');
    }
    chosen ??= index;
  }
  const source = tls.certificate.length > 0 || tls.internal_ca.enabled || tls.acme.enabled;
  if (source || findings.failed(['tls'])) return;
  for (const name of terminatingEntrypoints(config)) {
    findings.warn(
      ['entrypoints', name],
      'there is no certificate to serve here: every handshake will be refused',
      '[[tls.certificate]], tls.acme.enabled = true or tls.internal_ca.enabled = true',
      'key',
    );
  }
}

/** What is read and not acted on in this version. Whoever builds one of them takes it from this list. */
const unserved: readonly Path[] = [['backups']];

function checkServed(config: Config, findings: Findings): void {
  for (const path of unserved) {
    if (findings.document.has(path)) findings.warn(path, 'has no effect in this version', 'leave it out', 'key');
  }
  if (config.telemetry?.traces) findings.warn(['telemetry', 'traces'], 'has no effect in this version', 'false', 'key');
}

function checkUse(config: Config, findings: Findings): void {
  if (config.entrypoints.size === 0 && !findings.failed(['entrypoints'])) {
    findings.warn(['entrypoints'], 'there is no entrypoint: nothing will be served', '[entrypoints.web]', 'key');
  }
  if (findings.failed(['external_routes']) || findings.failed(['routers'])) return;
  const routed = routedEntrypoints(config);
  for (const [name, { protocol }] of config.entrypoints) {
    if (routed.has(name)) continue;
    const what = takesHttp(protocol) ? 'a host with this entrypoint' : `[[routers.${protocol}]] with this entrypoint`;
    findings.warn(['entrypoints', name], 'no route is served here', what, 'key');
  }
}

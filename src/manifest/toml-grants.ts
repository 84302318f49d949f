// What a manifest asks of the operator: binds and devices by the names of policies.
// Invariant: without a policy of that name that lists this app and this service there is nothing.
import type { Findings } from '../config/problem.ts';
import { nearest } from '../config/suggest.ts';
import type { Path } from '../config/syntax.ts';
import { type Granted, isGranted, type OperatorFacts } from './operator-facts.ts';
import type { TomlService } from './toml-keys.ts';

export function checkGrants(
  service: TomlService,
  path: Path,
  app: string,
  name: string,
  facts: OperatorFacts,
  findings: Findings,
): void {
  for (const { index, value } of service.bind) {
    check([...path, 'bind', index, 'name'], value.name, facts.mounts, 'app_mounts');
  }
  for (const [i, device] of service.devices.entries()) {
    check([...path, 'devices', i], device, facts.devices, 'app_devices');
  }

  function check(at: Path, wanted: string, policies: ReadonlyMap<string, Granted>, table: string): void {
    if (findings.failed(at)) return;
    const policy = policies.get(wanted);
    if (policy === undefined) {
      const near = nearest(wanted, policies.keys());
      const hint = near === null ? '' : `; did you mean "${near}"?`;
      findings.error(at, `there is no policy [${table}.${wanted}]${hint}`, 'a policy that the operator declares');
    } else if (!findings.failed(['name']) && !isGranted(policy, app, name)) {
      const accepted = `${app} in allowed_apps and ${name} in allowed_services of [${table}.${wanted}]`;
      findings.error(at, `[${table}.${wanted}] is not granted to the service ${name} of ${app}`, accepted);
    }
  }
}

// `turnpike apps`: apps from their manifest to their traffic.
// Invariant: `apply` changes what is wanted, `deploy` what is served; nothing else does.
import type { Command } from 'commander';
import type { CommandContext } from '../command.ts';
import { addAppsApply } from './apps-apply.ts';
import { addAppsChanges } from './apps-changes.ts';
import { addAppsLogs } from './apps-logs.ts';
import { addAppsQuestions } from './apps-questions.ts';
import { addAppsSecrets } from './apps-secrets.ts';
import { addAppsUpstream } from './apps-upstream.ts';

export function addApps(program: Command, context: CommandContext): void {
  const apps = program
    .command('apps')
    .summary('apply, deploy, roll back and remove apps')
    .description(
      'Apps are declared in manifests, one file each. `apply` checks a manifest and stores it; `deploy` replaces what\n' +
        'runs by it, without losing a request where the app allows that.',
    );
  addAppsApply(apps, context);
  addAppsChanges(apps, context);
  addAppsQuestions(apps, context);
  addAppsLogs(apps, context);
  addAppsSecrets(apps, context);
  addAppsUpstream(apps, context);
}

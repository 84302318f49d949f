// Follows a deploy to its report, whichever verb began it.
// Invariant: exit code 0 means that it was done and nothing is known to be lost; Ctrl-C ends the command, not the deploy.
import type { DeployReport } from '../../process/apps-operations.ts';
import { type AppVerb, appPath, type DeployLine } from '../apps-api.ts';
import { formatDeployProgress, formatDeployReport } from '../apps-screen.ts';
import { CommandError, type ControlClient, commandErrorOf } from '../client.ts';
import type { CommandContext } from '../command.ts';

export async function followDeploy(
  client: ControlClient,
  app: string,
  verb: AppVerb,
  body: object,
  context: CommandContext,
  json: boolean,
): Promise<void> {
  const { terminal } = context;
  const report = await runDeploy(client, app, verb, body, context);
  if (json) terminal.json(report);
  else for (const line of formatDeployReport(report, terminal)) terminal.line(line);
  context.exit(report.clean ? 0 : 1);
}

async function runDeploy(
  client: ControlClient,
  app: string,
  verb: AppVerb,
  body: object,
  { terminal }: CommandContext,
): Promise<DeployReport> {
  const interrupted = (): void => {
    terminal.error(`\nThis command ends; the ${verb} goes on in Turnpike. See: turnpike apps status ${app}`);
    process.exitCode = 130;
    process.kill(process.pid, 'SIGINT');
  };
  process.once('SIGINT', interrupted);
  try {
    for await (const line of client.lines<DeployLine>(appPath(app, verb), body)) {
      if ('error' in line) throw commandErrorOf(line);
      if ('report' in line) return line.report;
      terminal.progress(formatDeployProgress(line.progress));
    }
  } finally {
    process.removeListener('SIGINT', interrupted);
    terminal.progressDone();
  }
  throw new CommandError(`Turnpike ended before it reported; what happened, says:  turnpike apps status ${app}`);
}

// `turnpike tls status`, `turnpike tls ca`; the verbs that speak with CAs are in tls-acme.ts.
// Invariant: never prints a private key.
import type { Command } from 'commander';
import type { TlsStatus } from '../../process/operations.ts';
import { paths } from '../api.ts';
import { CommandError } from '../client.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { printProblems } from '../problems.ts';
import { certificateTable } from '../status-screen.ts';
import { nameTable } from '../tls-screen.ts';
import { addTlsAccount, addTlsPlan, addTlsRenew, addTlsRevoke } from './tls-acme.ts';

export function addTls(program: Command, context: CommandContext): void {
  const tls = program.command('tls').description('Certificates.');
  addTlsStatus(tls, context);
  addTlsPlan(tls, context);
  addTlsRenew(tls, context);
  addTlsRevoke(tls, context);
  addTlsAccount(tls, context);
  addTlsCa(tls, context);
}

function addTlsStatus(tls: Command, context: CommandContext): void {
  const command = tls
    .command('status')
    .description('What clients get for each name, how long it lasts, and what is wrong with it.')
    .action(async (options: ClientOptions) => {
      const { terminal } = context;
      const status = await connect(options, context).get<TlsStatus>(paths.tls);
      if (options.json === true) {
        terminal.json(status);
        return;
      }
      for (const line of nameTable(status.names, Date.now(), terminal)) terminal.line(line);
      terminal.line();
      for (const line of certificateTable(status.certificates, Date.now(), terminal)) terminal.line(line);
      terminal.line();
      terminal.line(
        status.internalCa.enabled
          ? `internal CA: on, root ${status.internalCa.rootFingerprint}. Trust it with: turnpike tls ca`
          : 'internal CA: off ([tls.internal_ca] enabled = true turns it on)',
      );
      await printProblems('the certificate files', [], status.problems, terminal);
    });
  withExamples(withJson(withSocketOptions(command)), 'tls status', 'tls status --json');
}

function addTlsCa(tls: Command, context: CommandContext): void {
  const command = tls
    .command('ca')
    .description('Prints the root certificate of the internal CA (PEM), to be trusted by clients.')
    .action(async (options: ClientOptions) => {
      const { pem } = await connect(options, context).get<{ pem: string | null }>(paths.ca);
      if (pem === null) {
        throw new CommandError(
          'The internal CA is off. Turn it on with [tls.internal_ca] enabled = true, then reload.',
        );
      }
      if (options.json === true) context.terminal.json({ pem });
      else context.terminal.line(pem.trimEnd());
    });
  withExamples(
    withJson(withSocketOptions(command)),
    'tls ca > turnpike-ca.pem',
    'tls ca | sudo tee /usr/local/share/ca-certificates/turnpike.crt && sudo update-ca-certificates',
  );
}

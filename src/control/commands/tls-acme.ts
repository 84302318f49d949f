// `turnpike tls plan`, `tls renew`, `tls revoke`, `tls account rollover`.
// Invariant: each says what it has done, and what happens next.
import { type Command, Option } from 'commander';
import type { RenewedCertificate, RevokedCertificate, TlsPlan } from '../../process/tls-operations.ts';
import { revocationReasons } from '../../process/tls-operations.ts';
import { CommandError } from '../client.ts';
import {
  type ClientOptions,
  type CommandContext,
  connect,
  withExamples,
  withJson,
  withSocketOptions,
} from '../command.ts';
import { planScreen } from '../tls-screen.ts';

export function addTlsPlan(tls: Command, context: CommandContext): void {
  const command = tls
    .command('plan')
    .description('What will be ordered from whom and when, what waits for what, and what the limits of CAs leave.')
    .action(async (options: ClientOptions) => {
      const { terminal } = context;
      const plan = await connect(options, context).call<TlsPlan | null>('tls.plan', {});
      if (options.json === true) {
        terminal.json(plan);
        return;
      }
      if (plan === null)
        throw new CommandError('Nothing is ordered from anybody. Name a CA in [tls.acme], then reload.');
      for (const line of planScreen(plan, terminal)) terminal.line(line);
    });
  withExamples(withJson(withSocketOptions(command)), 'tls plan', 'tls plan --json');
}

export function addTlsRenew(tls: Command, context: CommandContext): void {
  const command = tls
    .command('renew')
    .argument('<host>', 'a name of `tls plan`')
    .description('Orders a new certificate for a name now. The limits of the CA are kept.')
    .action(async (host: string, options: ClientOptions) => {
      const { terminal } = context;
      const renewed = await connect(options, context).call<RenewedCertificate>('tls.renew', { name: host });
      if (options.json === true) terminal.json(renewed);
      else {
        const ends = new Date(renewed.notAfter).toISOString().slice(0, 10);
        terminal.line(`${renewed.names.join(', ')}: a new certificate of ${renewed.issuer} is served, until ${ends}.`);
      }
    });
  withExamples(withJson(withSocketOptions(command)), 'tls renew app.example.com');
}

export function addTlsRevoke(tls: Command, context: CommandContext): void {
  const command = tls
    .command('revoke')
    .argument('<host>', 'a name of `tls plan`')
    .addOption(new Option('--reason <reason>', 'told to the CA').choices(revocationReasons).default('unspecified'))
    .description('Has the CA revoke the certificate of a name, and orders another one at once.')
    .action(async (host: string, options: ClientOptions & { readonly reason: string }) => {
      const { terminal } = context;
      const params = { name: host, reason: options.reason };
      const revoked = await connect(options, context).call<RevokedCertificate>('tls.revoke', params);
      if (options.json === true) terminal.json(revoked);
      else {
        terminal.line(`The certificate of ${revoked.names.join(', ')} is revoked. It is served until its successor is`);
        terminal.line('there, which has been ordered. See: turnpike tls status');
      }
    });
  withExamples(
    withJson(withSocketOptions(command)),
    'tls revoke app.example.com',
    'tls revoke app.example.com --reason key-compromise',
  );
}

export function addTlsAccount(tls: Command, context: CommandContext): void {
  const account = tls.command('account').description('Accounts at CAs.');
  const command = account
    .command('rollover')
    .description('Replaces the key of the account at every CA.')
    .action(async (options: ClientOptions) => {
      const { terminal } = context;
      const done = await connect(options, context).call<{ readonly directories: readonly string[] }>(
        'tls.account.rollover',
        {},
      );
      if (options.json === true) terminal.json(done);
      else for (const directory of done.directories) terminal.line(`${directory}: the account has a new key.`);
    });
  withExamples(withJson(withSocketOptions(command)), 'tls account rollover');
}

// Checks of `[control]`.
// Invariant: beyond this machine nothing is administrated in plaintext, and nowhere without a token.
import { isLoopbackHost } from './outside-values.ts';
import type { Findings } from './problem.ts';
import type { Config } from './schema.ts';

export function checkControl({ control }: Config, findings: Findings): void {
  const { address, token_file: token, cert_file: cert, key_file: key } = control;
  const missing = (name: string, instead: string): void => {
    if (!findings.failed(['control', name])) findings.error(['control', name], 'is missing', instead, 'key');
  };
  if (address === null) {
    for (const name of ['token_file', 'cert_file', 'key_file'] as const) {
      if (control[name] === null || findings.failed(['control', 'address'])) continue;
      findings.error(
        ['control', name],
        'has no effect without an address',
        'address = "127.0.0.1:8081" beside it',
        'key',
      );
    }
    return;
  }
  if (token === null) missing('token_file', 'a file with a token of at least 32 characters');
  if ((cert === null) !== (key === null)) {
    missing(cert === null ? 'cert_file' : 'key_file', 'cert_file and key_file together');
  } else if (cert === null && !isLoopbackHost(address.host)) {
    findings.error(
      ['control', 'address'],
      'others could listen in: there is no TLS',
      'cert_file and key_file, or an address of this machine such as "127.0.0.1:8081"',
    );
  }
}

// slowhttptest (Debian) in all its modes, beside an ordinary client: Slowloris, R-U-Dead-Yet, Apache killer, Slow Read.
//
// Its own verdict counts: it probes the server all the while and says whether it was available, and in the end whether any of
// its connections are left.
import { spawn } from 'node:child_process';
import { stripVTControlCharacters } from 'node:util';
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { sleep, until } from '../support/wait.ts';
import { othersAreServed } from './support/provoke.ts';

const f = useProxy({
  workers: 1,
  limits: `
header_timeout = "1s"
keep_alive_timeout = "1s"
body_idle_timeout = "1s"
`,
  // It asks for the address, as scanners do.
  more: ({ app1 }) => `
[external_routes."127.0.0.1"]
to = ["${app1.address}"]
`,
});

const modes: readonly (readonly [string, readonly string[]])[] = [
  ['Slowloris', ['-H', '-i', '1', '-x', '10', '-t', 'GET']],
  // Further apart than a body may stand still.
  ['R-U-Dead-Yet', ['-B', '-i', '3', '-s', '8192', '-t', 'POST', '-x', '10']],
  ['Apache killer', ['-R', '-a', '5', '-b', '3000', '-t', 'HEAD']],
  ['Slow Read', ['-X', '-w', '10', '-y', '20', '-n', '1', '-z', '5', '-k', '1']],
];

it.each(modes)('%s takes nothing away from others', { timeout: 60_000 }, async (name, options) => {
  f.app1.script = (exchange) => {
    if (exchange.method === 'HEAD') exchange.ok('x');
    else void exchange.whole().then(() => exchange.ok(name === 'Slow Read' ? Buffer.alloc(4 * 1024 * 1024) : 'ok'));
  };
  const url = `http://127.0.0.1:${f.webPort}/`;
  const tool = spawn('slowhttptest', ['-c', '150', '-r', '100', '-l', '5', '-p', '3', '-u', url, ...options], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [tool.stdout, tool.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  let code: number | null | undefined;
  tool.once('close', (status) => {
    code = status;
  });
  while (code === undefined) {
    await othersAreServed(f);
    await sleep(50);
  }
  // Without the colours of the tool.
  const plain = stripVTControlCharacters(output);
  expect(plain).toContain('service available');
  expect(plain).not.toMatch(/service available:\s+NO/);
  // Slow Read may sit on what the kernel has buffered for it; all others were sent away.
  expect(plain).toMatch(name === 'Slow Read' ? /Exit status: / : /Exit status: No open connections left/);
  await until('the backend sockets to be given up', () => f.app1.connections.every((connection) => connection.idle));
  await until('its connections to be gone', async () =>
    /^turnpike_entrypoint_connections\{entrypoint="web"\} [01]$/m.test(await f.p.metrics()),
  );
});

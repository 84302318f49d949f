// npm run bench [-- NAME…] [--rounds N] [--seconds N] [--smoke] [--page]: asks the questions and writes what was seen.
// Invariant: loopback only, bounded in time, and everything that was started is ended.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { mintCa } from '../certs/make-certs.ts';
import type { Ground } from './contestants.ts';
import { fillPage } from './page.ts';
import { answer, type Question } from './question.ts';
import { chart, table } from './report.ts';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '6' },
    smoke: { type: 'boolean', default: false },
    page: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1));
const here = import.meta.dirname;
const names = readdirSync(join(here, 'questions'))
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.slice(0, -3));

if (values.help) {
  process.stdout.write(`npm run bench -- [${names.join('] [')}] [--rounds 5] [--seconds 6] [--smoke]
       npm run bench -- --page
Compares Turnpike with haproxy, nginx, caddy and http-proxy-3 on this machine; needs wrk and h2load.
--page asks nothing: it fills docs/performance.md from bench/results.
Example: npm run bench -- http1 --rounds 3
`);
  process.exit(0);
}
const unknown = positionals.filter((name) => !names.includes(name));
if (unknown.length > 0) {
  process.stderr.write(`error: no question named ${unknown.join(', ')}; there are: ${names.join(', ')}\n`);
  process.exit(2);
}
if (values.page) {
  fillPage();
  process.exit(0);
}
const rounds = values.smoke ? 1 : Number(values.rounds);
const seconds = values.smoke ? 1 : Number(values.seconds);

const directory = mkdtempSync(join(tmpdir(), 'turnpike-bench-'));
const ground = prepareGround(directory);
try {
  for (const name of positionals.length > 0 ? positionals : names) {
    const { question: asked } = (await import(`./questions/${name}.ts`)) as { question: Question };
    const question = values.smoke ? fewer(asked, names.indexOf(name)) : asked;
    const result = await answer(question, ground, rounds, seconds, (text) => {
      if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`);
    });
    if (process.stderr.isTTY) process.stderr.write('\r\u001b[K');
    process.stdout.write(`${table(result)}\n\n`);
    if (values.smoke) continue;
    const machine = { cpu: cpus()[0]?.model ?? 'unknown', cores: cpus().length, node: process.version };
    const out = join(here, 'results');
    mkdirSync(out, { recursive: true });
    writeFileSync(join(out, `${name}.json`), `${JSON.stringify({ ...result, machine, rounds, seconds }, null, 1)}\n`);
    writeFileSync(join(out, `${name}.svg`), chart(result));
  }
} finally {
  rmSync(directory, { recursive: true, force: true });
}

/** Enough to see that a question runs: the first contestant and one of the others, each of them in some question. */
function fewer(question: Question, turn: number): Question {
  const [first, ...others] = question.contestants;
  return { ...question, contestants: [first!, others[turn % others.length]!] };
}

function prepareGround(scratch: string): Ground {
  const ca = mintCa();
  const leaf = ca.leaf({ names: ['bench.test', '127.0.0.1'] });
  const file = (name: string, text: string): string => {
    const path = join(scratch, name);
    writeFileSync(path, text, { mode: 0o600 });
    return path;
  };
  const certFile = file('cert.pem', leaf.cert);
  const keyFile = file('key.pem', leaf.key);
  return {
    directory: scratch,
    certFile,
    keyFile,
    pairFile: file('pair.pem', readFileSync(certFile, 'latin1') + readFileSync(keyFile, 'latin1')),
  };
}

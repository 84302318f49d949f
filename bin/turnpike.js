#!/usr/bin/env node
// Starts Turnpike with a Node that can run it: the one at hand, or the one that the installation brought along.
// Invariant: plain JavaScript that any supported or older Node parses; the program's arguments, streams, signals and exit
// code pass through unchanged.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { keepCompiledCode } from './compile-cache.js';

const needed = 26;
const root = join(dirname(fileURLToPath(import.meta.url)), '..');
// A package has compiled files; a checkout runs its sources.
const program = [join(root, 'dist/main.js'), join(root, 'src/main.ts')].find(existsSync);

if (Number(process.versions.node.split('.')[0]) >= needed) {
  keepCompiledCode();
  process.argv[1] = program;
  await import(program);
} else {
  const node = findNode(root);
  if (node === null) {
    console.error(
      `turnpike needs Node.js ${needed} or newer, this is ${process.version}.\n` +
        'Install it, or run "npm ci" without --omit=optional: that brings a matching Node along.',
    );
    process.exit(1);
  }
  const child = spawn(node, [program, ...process.argv.slice(2)], { stdio: 'inherit' });
  // A terminal sends SIGINT to both; what is sent to this process alone must reach the one that does the work.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
    process.on(signal, () => {
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    });
  }
  child.on('error', (error) => {
    console.error(`${node} does not start: ${error.message}`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

/** The Node of the optional dependency: in the package's own node_modules, or hoisted above it. */
function findNode(from) {
  for (let directory = from; ; directory = dirname(directory)) {
    const node = join(directory, 'node_modules/.bin/node');
    if (existsSync(node)) return node;
    if (directory === dirname(directory)) return null;
  }
}

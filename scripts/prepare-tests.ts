// Runs before the tests: installs the Debian programs that they drive, where it may, and says what it could not.
// Invariant: never leaves a service running that it caused to start; with CI=true a missing program is an error.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, globSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';
import process from 'node:process';

interface Program {
  /** What a test runs, or the file that it needs; a star stands for a version. */
  readonly command: string;
  /** The Debian package that brings it. */
  readonly debian: string;
  /** What does not happen without it. */
  readonly use: string;
}

const programs: readonly Program[] = [
  { command: 'openssl', debian: 'openssl', use: 'TLS policy and certificate tests (test certificates, s_client)' },
  { command: 'curl', debian: 'curl', use: 'TLS policy tests with a second client' },
  { command: 'nginx', debian: 'nginx', use: 'differential tests: an origin; bench: backend and contestant' },
  { command: 'haproxy', debian: 'haproxy', use: 'differential tests: an origin; bench: contestant' },
  // The program and its modules, without the service around it.
  { command: 'apache2', debian: 'apache2-bin', use: 'differential tests: an origin' },
  { command: 'lighttpd', debian: 'lighttpd', use: 'differential tests: an origin' },
  { command: 'slowhttptest', debian: 'slowhttptest', use: 'tests of slow clients' },
  { command: 'psql', debian: 'postgresql-client', use: 'a database client behind TCP tunnels' },
  { command: '/usr/lib/postgresql/*/bin/postgres', debian: 'postgresql', use: 'a database behind TCP tunnels' },
  { command: 'ssh', debian: 'openssh-client', use: 'SSH through the port that also serves HTTPS' },
  { command: 'sshd', debian: 'openssh-server', use: 'SSH through the port that also serves HTTPS' },
  { command: 'socat', debian: 'socat', use: 'bulk through TCP tunnels' },
  { command: 'dnsmasq', debian: 'dnsmasq-base', use: 'a DNS server behind TCP and UDP' },
  { command: 'dig', debian: 'bind9-dnsutils', use: 'a DNS client in front of TCP and UDP' },
  { command: 'pebble', debian: 'pebble', use: 'a certificate authority for the ACME tests' },
  { command: 'named', debian: 'bind9', use: 'a name server that takes dynamic updates, for dns-01' },
  {
    command: '/usr/lib/nginx/modules/ngx_stream_module.so',
    debian: 'libnginx-mod-stream',
    use: 'bench: contestant for TCP and UDP',
  },
  { command: 'dockerd', debian: 'docker.io', use: 'containers of Docker' },
  { command: 'podman', debian: 'podman', use: 'containers of Podman' },
  { command: 'runc', debian: 'runc', use: 'containers of both' },
  { command: '/usr/lib/podman/netavark', debian: 'netavark', use: 'networks of Podman' },
  { command: '/usr/lib/podman/aardvark-dns', debian: 'aardvark-dns', use: 'names in networks of Podman' },
  { command: 'iptables', debian: 'iptables', use: 'published ports of containers' },
  { command: '/bin/busybox', debian: 'busybox-static', use: 'all that is in the test images' },
  { command: 'pass', debian: 'pass', use: 'secrets in a password store' },
  { command: 'gpg', debian: 'gnupg', use: 'secrets in a password store' },
  { command: 'ip', debian: 'iproute2', use: 'network namespaces: addresses that appear and vanish' },
  { command: 'chromium', debian: 'chromium', use: 'pages of the gate in a browser' },
  { command: 'tor', debian: 'tor', use: 'onion services, without a network' },
  { command: 'caddy', debian: 'caddy', use: 'bench: contestant' },
  { command: 'wrk', debian: 'wrk', use: 'bench: load generator for HTTP/1.1' },
  { command: 'h2load', debian: 'nghttp2-client', use: 'bench: load generator for HTTP/2' },
];

/** Debian keeps daemons in sbin, which an ordinary user's PATH leaves out. */
const searchPath = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/local/sbin', '/usr/sbin', '/sbin'];

function isInstalled(command: string): boolean {
  if (isAbsolute(command)) return globSync(command).length > 0;
  return searchPath.some((directory) => {
    try {
      accessSync(join(directory, command), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Installs packages without letting their maintainer scripts start a daemon (Debian policy 9.3.3: policy-rc.d). */
function install(packages: readonly string[]): boolean {
  const policy = '/usr/sbin/policy-rc.d';
  const ownPolicy = !existsSync(policy);
  if (ownPolicy) writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    const run = (args: readonly string[]): boolean =>
      spawnSync('apt-get', args, { env, stdio: ['ignore', 'ignore', 'inherit'], timeout: 600_000 }).status === 0;
    return run(['update', '-qq']) && run(['install', '-y', '-qq', '--no-install-recommends', ...packages]);
  } finally {
    if (ownPolicy) rmSync(policy, { force: true });
  }
}

const ci = process.env['CI'] === 'true';
let missing = programs.filter((program) => !isInstalled(program.command));
if (missing.length > 0) {
  const packages = missing.map((program) => program.debian);
  if (process.getuid?.() !== 0) console.log(`not root: cannot install ${packages.join(', ')}`);
  else if (!isInstalled('apt-get')) console.log(`no apt-get: cannot install ${packages.join(', ')}`);
  else {
    console.log(`installing ${packages.join(', ')}`);
    if (!install(packages)) console.log('apt-get did not succeed');
  }
  missing = missing.filter((program) => !isInstalled(program.command));
}
for (const { command, debian, use } of missing) {
  console.log(`${ci ? 'MISSING' : 'SKIPPED'}: ${use}: needs ${command} (Debian: apt-get install ${debian})`);
}
if (missing.length > 0 && ci) process.exitCode = 1;

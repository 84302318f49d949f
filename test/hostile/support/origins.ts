// Debian's servers as origins, each with its own idea of what a request is, and their logs of what they took for one.
// Invariant: they run in the foreground, in a directory of their own, on loopback, and end with the test.
import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../support/ports.ts';
import { sleep, until } from '../../support/wait.ts';

export const originNames = ['nginx', 'apache2', 'lighttpd', 'haproxy'] as const;
export type OriginName = (typeof originNames)[number];

/** One line of an origin's log: one request, as it saw it. */
export interface Seen {
  /** Address of the socket. */
  readonly peer: string;
  /** X-Forwarded-For; '' when it saw none. */
  readonly forwardedFor: string;
  /** Its request line; what it could not read may be missing. */
  readonly request: string;
}

interface Recipe {
  readonly files: (directory: string, port: number) => Readonly<Record<string, string>>;
  readonly command: (directory: string) => readonly string[];
  /** Its log is on standard output. */
  readonly logsToStdout?: boolean;
  /** It keeps its log for so long before it writes it. */
  readonly logDelayMs?: number;
}

// One form of line for all of them: peer|X-Forwarded-For|request line.
const recipes: Readonly<Record<OriginName, Recipe>> = {
  nginx: {
    files: (directory, port) => ({
      'nginx.conf': `
daemon off;
master_process off;
pid ${directory}/nginx.pid;
error_log ${directory}/error.log;
events { worker_connections 1024; }
http {
  log_format seen '$remote_addr|$http_x_forwarded_for|$request';
  access_log ${directory}/access.log seen;
  client_body_temp_path ${directory}/body;
  proxy_temp_path ${directory}/proxy;
  fastcgi_temp_path ${directory}/fastcgi;
  uwsgi_temp_path ${directory}/uwsgi;
  scgi_temp_path ${directory}/scgi;
  client_body_timeout 1s;
  client_header_timeout 1s;
  # Its line is written when the connection is done with, which must not take five seconds.
  lingering_close off;
  large_client_header_buffers 4 64k;
  underscores_in_headers on;
  ignore_invalid_headers off;
  server {
    listen 127.0.0.1:${port};
    location / { return 200 "nginx"; }
  }
}
`,
    }),
    command: (directory) => ['nginx', '-p', directory, '-c', join(directory, 'nginx.conf')],
  },
  apache2: {
    files: (directory, port) => ({
      'apache.conf': `
ServerRoot ${directory}
ServerName localhost
PidFile ${directory}/apache.pid
DefaultRuntimeDir ${directory}
Mutex pthread
User www-data
Group www-data
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule alias_module /usr/lib/apache2/modules/mod_alias.so
Listen 127.0.0.1:${port}
ErrorLog ${directory}/error.log
LogFormat "%a|%{X-Forwarded-For}i|%r" seen
CustomLog ${directory}/access.log seen
# As lenient as it can be.
HttpProtocolOptions Unsafe LenientMethods Allow0.9
LimitRequestLine 65536
LimitRequestFieldSize 65536
KeepAliveTimeout 1
MaxKeepAliveRequests 0
Timeout 2
RedirectMatch 404 .*
`,
    }),
    command: (directory) => ['apache2', '-d', directory, '-f', join(directory, 'apache.conf'), '-DFOREGROUND'],
  },
  lighttpd: {
    files: (directory, port) => ({
      'lighttpd.conf': `
server.bind = "127.0.0.1"
server.port = ${port}
server.document-root = "${directory}/www"
server.errorlog = "${directory}/error.log"
server.modules = ( "mod_accesslog" )
accesslog.filename = "${directory}/access.log"
accesslog.format = "%h|%{X-Forwarded-For}i|%r"
server.http-parseopts = ( "header-strict" => "disable", "host-strict" => "disable", "host-normalize" => "disable", "method-get-body" => "enable" )
server.max-read-idle = 2
server.max-keep-alive-idle = 1
server.max-request-field-size = 65535
`,
      'www/index.html': 'lighttpd',
    }),
    command: (directory) => ['lighttpd', '-D', '-f', join(directory, 'lighttpd.conf')],
    logDelayMs: 5000,
  },
  haproxy: {
    files: (_directory, port) => ({
      'haproxy.cfg': `
global
  log stdout format raw local0
  tune.bufsize 131072
defaults
  mode http
  option dontlognull
  option http-ignore-probes
  option accept-invalid-http-request
  timeout client 2s
  timeout server 2s
  timeout connect 2s
  timeout http-request 2s
  timeout http-keep-alive 1s
frontend f
  bind 127.0.0.1:${port}
  log global
  capture request header X-Forwarded-For len 40
  log-format %ci|%[capture.req.hdr(0)]|%{+Q}r
  http-request return status 200 content-type text/plain string haproxy
`,
    }),
    command: (directory) => ['haproxy', '-db', '-f', join(directory, 'haproxy.cfg')],
    logsToStdout: true,
  },
};

const searchPath = `${process.env['PATH'] ?? ''}:/usr/local/sbin:/usr/sbin:/sbin`;

export class Origin {
  readonly name: OriginName;
  readonly port: number;
  readonly #directory: string;
  readonly #child: ChildProcess;
  readonly #log: string;

  private constructor(name: OriginName, port: number, directory: string, child: ChildProcess) {
    this.name = name;
    this.port = port;
    this.#directory = directory;
    this.#child = child;
    this.#log = join(directory, 'access.log');
  }

  static async start(name: OriginName): Promise<Origin> {
    const port = await freePort();
    const directory = mkdtempSync(join(tmpdir(), `turnpike-${name}-`));
    // Some of them give their privileges up before they open their files.
    chmodSync(directory, 0o777);
    const { files, command, logsToStdout } = recipes[name];
    for (const [file, text] of Object.entries(files(directory, port))) {
      mkdirSync(join(directory, file, '..'), { recursive: true });
      writeFileSync(join(directory, file), text);
    }
    const [program = '', ...args] = command(directory);
    const output = openSync(join(directory, logsToStdout === true ? 'access.log' : 'output.log'), 'a');
    const child = spawn(program, args, {
      stdio: ['ignore', output, output],
      env: { ...process.env, PATH: searchPath },
    });
    closeSync(output);
    const origin = new Origin(name, port, directory, child);
    running.add(origin);
    child.once('error', () => {});
    await until(
      `${name} to listen`,
      () =>
        canConnect(port).then(
          (can) => can || (child.exitCode === null ? false : Promise.reject(new Error(origin.complaints))),
        ),
      { timeoutMs: 10_000, seen: () => origin.complaints },
    );
    return origin;
  }

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  get complaints(): string {
    const text = (file: string): string => {
      const path = join(this.#directory, file);
      return existsSync(path) ? readFileSync(path, 'utf8').slice(-500) : '';
    };
    return text('output.log') + text('error.log');
  }

  /** Every request that it has logged since the last call; waits until it stops writing. */
  async seen(): Promise<Seen[]> {
    await sleep(recipes[this.name].logDelayMs ?? 0);
    let text = '';
    // Its log is written behind the answer, and in pieces.
    for (let quiet = 0; quiet < 3; ) {
      await sleep(100);
      const now = existsSync(this.#log) ? readFileSync(this.#log, 'latin1') : '';
      quiet = now === text ? quiet + 1 : 0;
      text = now;
    }
    const fresh = text.slice(this.#read);
    this.#read = text.length;
    return fresh
      .split('\n')
      .filter((line) => line.includes('|'))
      .map((line) => {
        const [peer = '', forwardedFor = '', ...request] = line.split('|');
        return {
          peer,
          forwardedFor: forwardedFor === '-' ? '' : forwardedFor,
          request: request.join('|').replace(/^"|"$/g, ''),
        };
      });
  }

  #read = 0;

  async stop(): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const closed = new Promise<void>((resolve) => this.#child.once('close', () => resolve()));
      this.#child.kill('SIGTERM');
      await Promise.race([closed, sleep(3000)]);
      this.#child.kill('SIGKILL');
    }
    running.delete(this);
    rmSync(this.#directory, { recursive: true, force: true });
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

const running = new Set<Origin>();
process.once('exit', () => {
  for (const origin of running) origin.kill();
});

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

// The proxies that are compared, each configured for the same work: HTTP/1.1 and TLS in front of one backend, forwarded
// headers added, an access log written, keep-alive on both sides, one worker.
// Invariant: no contestant is spared a duty that another one has.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ControlClient } from '../src/control/client.ts';
import { socketName } from '../src/control/socket-path.ts';
import { ports } from './ports.ts';
import { type Program, startNode, startProgram } from './process.ts';

export interface Ground {
  /** A scratch directory of this run. */
  readonly directory: string;
  /** PEM of a certificate for bench.test and 127.0.0.1, its key, and both in one file for haproxy. */
  readonly certFile: string;
  readonly keyFile: string;
  readonly pairFile: string;
}

export interface Contestant {
  readonly name: string;
  readonly port: number;
  /** Null: does not take part in TLS questions. */
  readonly tlsPort: number | null;
  start(ground: Ground): Promise<Program>;
}

export async function startBackend(ground: Ground): Promise<Program> {
  const megabyte = join(ground.directory, 'www');
  mkdirSync(megabyte, { recursive: true });
  writeFileSync(join(megabyte, 'megabyte'), Buffer.alloc(1 << 20, 'x'));
  const conf = join(ground.directory, 'backend.conf');
  writeFileSync(
    conf,
    // Started by root it would serve as somebody who may not read the scratch directory.
    `${process.getuid?.() === 0 ? 'user root; ' : ''}worker_processes 1; daemon off; pid ${ground.directory}/backend.pid; error_log ${ground.directory}/backend.err;
events { worker_connections 8192; }
http { access_log off; keepalive_requests 1000000000; sendfile on;
  server { listen 127.0.0.1:${ports.backend} reuseport backlog=4096; listen 127.0.0.1:${ports.otherBackend} backlog=4096;
    location / { default_type text/plain; return 200 "hello from the backend, a small body of text\\n"; }
    location = /megabyte { root ${megabyte}; } } }`,
  );
  return await startProgram('backend', 'nginx', ['-c', conf], ports.backend);
}

/** The whole product from its sources. @param config  its config.toml; paths are relative to the ground's directory */
export function turnpikeFrom(name: string, config: (ground: Ground) => string, tlsPort: number | null): Contestant {
  return {
    name,
    port: ports.turnpike,
    tlsPort,
    start(ground) {
      const file = join(ground.directory, `${name.replaceAll(' ', '-')}.toml`);
      writeFileSync(file, config(ground));
      return startProgram(name, process.execPath, [turnpikeMain, 'serve', '--config', file], ports.turnpike);
    },
  };
}

export const turnpikeMain = join(import.meta.dirname, '..', 'bin', 'turnpike.js');

/** @param host  more keys of the host under load. @param more  more of the file */
export function turnpikeWith(name: string, host: string, more = '', workers = 1): Contestant {
  return turnpikeFrom(name, (ground) => httpConfig(ground, host, more, workers), ports.turnpikeTls);
}

export const turnpike: Contestant = turnpikeWith('turnpike', '');

/** So many hosts more, for the end of a configuration. */
export function manyRoutes(count: number): string {
  const to = `to = "127.0.0.1:${ports.backend}"`;
  return Array.from({ length: count }, (_each, i) => `[external_routes."host${i}.bench.test"]\n${to}\n`).join('');
}

/** The control socket of the Turnpike that runs. */
export function controlOf(ground: Ground): ControlClient {
  return new ControlClient({ path: join(ground.directory, 'state', socketName), configFile: null });
}

function httpConfig(ground: Ground, host = '', more = '', workers = 1): string {
  return `state_dir = "state"
workers = ${workers}
[entrypoints.web]
address = "127.0.0.1:${ports.turnpike}"
protocol = "http"
[entrypoints.websecure]
address = "127.0.0.1:${ports.turnpikeTls}"
protocol = "https"
[tls]
redirect = false
[[tls.certificate]]
cert_file = "${ground.certFile}"
key_file = "${ground.keyFile}"
default = true
[log]
access = true
format = "json"
[external_routes."127.0.0.1"]
to = "127.0.0.1:${ports.backend}"
${host}
[external_routes."bench.test"]
to = "127.0.0.1:${ports.backend}"
${more}`;
}

export const haproxy: Contestant = {
  name: 'haproxy',
  port: ports.haproxy,
  tlsPort: ports.haproxyTls,
  start(ground) {
    const file = join(ground.directory, 'haproxy.cfg');
    writeFileSync(
      file,
      `global
  nbthread 1
  log stdout format raw local0
  ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets
defaults
  mode http
  log global
  option httplog
  option forwardfor
  timeout client 60s
  timeout server 60s
  timeout connect 5s
  timeout http-keep-alive 60s
frontend plain
  bind 127.0.0.1:${ports.haproxy}
  http-request set-header X-Forwarded-Proto http
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  unique-id-format %[uuid()]
  unique-id-header X-Request-Id
  default_backend app
frontend secure
  bind 127.0.0.1:${ports.haproxyTls} ssl crt ${ground.pairFile} alpn h2,http/1.1
  http-request set-header X-Forwarded-Proto https
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  unique-id-format %[uuid()]
  unique-id-header X-Request-Id
  default_backend app
backend app
  http-reuse always
  server one 127.0.0.1:${ports.backend}
`,
    );
    return startProgram('haproxy', 'haproxy', ['-f', file], ports.haproxy);
  },
};

export const nginx: Contestant = nginxFrom('nginx', 'proxy_set_header Connection "";');

/** @param upstream  how connections to the backend are used */
export function nginxFrom(name: string, upstream: string): Contestant {
  return {
    name,
    port: ports.nginx,
    tlsPort: ports.nginxTls,
    start(ground) {
      const file = join(ground.directory, 'nginx.conf');
      const server = `location / { proxy_pass http://app; proxy_http_version 1.1; ${upstream}
      proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $host;
      proxy_set_header X-Request-Id $request_id; }`;
      writeFileSync(
        file,
        `worker_processes 1; daemon off; pid ${ground.directory}/nginx.pid; error_log ${ground.directory}/nginx.err;
events { worker_connections 8192; }
http { access_log ${ground.directory}/nginx.log; keepalive_requests 1000000000;
  upstream app { server 127.0.0.1:${ports.backend}; keepalive 256; keepalive_requests 1000000000; }
  server { listen 127.0.0.1:${ports.nginx}; ${server} }
  server { listen 127.0.0.1:${ports.nginxTls} ssl http2; ssl_certificate ${ground.certFile};
    ssl_certificate_key ${ground.keyFile}; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets off; ${server} } }`,
      );
      return startProgram('nginx', 'nginx', ['-c', file], ports.nginx);
    },
  };
}

export const caddy: Contestant = {
  name: 'caddy',
  port: ports.caddy,
  tlsPort: ports.caddyTls,
  start(ground) {
    const file = join(ground.directory, 'Caddyfile');
    const log = `log {
    output file ${ground.directory}/caddy.log
  }`;
    writeFileSync(
      file,
      `{
  admin off
  auto_https off
  storage file_system ${ground.directory}/caddy
}
http://:${ports.caddy} {
  bind 127.0.0.1
  ${log}
  reverse_proxy 127.0.0.1:${ports.backend}
}
https://:${ports.caddyTls} {
  bind 127.0.0.1
  tls ${ground.certFile} ${ground.keyFile}
  ${log}
  reverse_proxy 127.0.0.1:${ports.backend}
}
`,
    );
    // One thread of Go code at a time, as everybody else here has one worker.
    return startProgram(
      'caddy',
      'env',
      ['GOMAXPROCS=1', 'caddy', 'run', '--config', file, '--adapter', 'caddyfile'],
      ports.caddy,
    );
  },
};

export const httpProxy3: Contestant = {
  name: 'http-proxy-3',
  port: ports.httpProxy3,
  tlsPort: null,
  start: () => startNode('http-proxy-3', 'http-proxy-3.ts', ports.httpProxy3, ports.backend),
};

// The TCP and UDP relays that are compared: one worker each, in front of the same backend or echo, with an access log.
// Invariant: none of them looks at what it relays; each takes TCP connections on its port, which tells that it is there.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Contestant, turnpikeFrom } from './contestants.ts';
import { ports } from './ports.ts';
import { type Program, startNode, startProgram } from './process.ts';

export const turnpikeTcp = turnpikeFrom(
  'turnpike',
  () => `state_dir = "state-tcp"
workers = 1
[entrypoints.tcp]
address = "127.0.0.1:${ports.turnpike}"
protocol = "tcp"
[network_services.backend]
tcp = "127.0.0.1:${ports.backend}"
[[routers.tcp]]
entrypoint = "tcp"
service = "backend"
[log]
access = true
format = "json"
`,
  null,
);

export const turnpikeUdp = turnpikeFrom(
  'turnpike',
  () => `state_dir = "state-udp"
workers = 1
[entrypoints.here]
address = "127.0.0.1:${ports.turnpike}"
protocol = "http"
[entrypoints.udp]
address = "127.0.0.1:${ports.turnpike}"
protocol = "udp"
[network_services.echo]
udp = "127.0.0.1:${ports.udpBackend}"
[[routers.udp]]
entrypoint = "udp"
service = "echo"
[log]
access = true
format = "json"
`,
  null,
);

export const haproxyTcp: Contestant = {
  name: 'haproxy',
  port: ports.haproxy,
  tlsPort: null,
  start(ground) {
    const file = join(ground.directory, 'haproxy-tcp.cfg');
    writeFileSync(
      file,
      `global
  nbthread 1
  log stdout format raw local0
defaults
  mode tcp
  log global
  option tcplog
  timeout client 300s
  timeout server 300s
  timeout connect 10s
frontend tcp
  bind 127.0.0.1:${ports.haproxy}
  default_backend app
backend app
  server one 127.0.0.1:${ports.backend}
`,
    );
    return startProgram('haproxy', 'haproxy', ['-f', file], ports.haproxy);
  },
};

export const nginxTcp = nginxStream(
  `server { listen 127.0.0.1:${ports.nginx}; proxy_pass 127.0.0.1:${ports.backend}; }`,
);

export const nginxUdp = nginxStream(`
  server { listen 127.0.0.1:${ports.nginx} udp rcvbuf=4m; proxy_pass 127.0.0.1:${ports.udpBackend}; proxy_timeout 120s; }
  server { listen 127.0.0.1:${ports.nginx}; proxy_pass 127.0.0.1:${ports.udpBackend}; }`);

function nginxStream(servers: string): Contestant {
  return {
    name: 'nginx',
    port: ports.nginx,
    tlsPort: null,
    start({ directory }) {
      const file = join(directory, 'nginx-stream.conf');
      writeFileSync(
        file,
        `load_module /usr/lib/nginx/modules/ngx_stream_module.so;
worker_processes 1; daemon off; pid ${directory}/nginx-stream.pid; error_log ${directory}/nginx-stream.err;
events { worker_connections 8192; }
stream {
  log_format line '$remote_addr $protocol $status $bytes_sent $bytes_received $session_time';
  access_log ${directory}/nginx-stream.log line;
  ${servers} }`,
      );
      return startProgram('nginx', 'nginx', ['-c', file], ports.nginx);
    },
  };
}

export const naiveUdp: Contestant = {
  name: 'naive node:dgram',
  port: ports.udpRelay,
  tlsPort: null,
  start: () => startNode('naive node:dgram', 'udp-relay.ts', ports.udpRelay, ports.udpBackend),
};

export function startUdpEcho(): Promise<Program> {
  return startNode('echo', 'udp-echo.ts', ports.udpBackend);
}

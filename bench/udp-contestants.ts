// The UDP relays that are compared: one worker each, in front of the same echo.
// Invariant: each takes TCP connections on its port as well, which tells that it is there.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Contestant, turnpikeFrom } from './contestants.ts';
import { ports } from './ports.ts';
import { type Program, startProgram } from './process.ts';

export function startUdpEcho(): Promise<Program> {
  return startProgram(
    'echo',
    process.execPath,
    [join(import.meta.dirname, 'udp-echo.ts'), String(ports.udpBackend)],
    ports.udpBackend,
  );
}

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
`,
  null,
);

export const nginxUdp: Contestant = {
  name: 'nginx',
  port: ports.nginx,
  tlsPort: null,
  start(ground) {
    const file = join(ground.directory, 'nginx-udp.conf');
    writeFileSync(
      file,
      `load_module /usr/lib/nginx/modules/ngx_stream_module.so;
worker_processes 1; daemon off; pid ${ground.directory}/nginx-udp.pid; error_log ${ground.directory}/nginx-udp.err;
events { worker_connections 8192; }
stream {
  log_format line '$remote_addr $protocol $status $bytes_sent $bytes_received $session_time';
  access_log ${ground.directory}/nginx-udp.log line;
  server { listen 127.0.0.1:${ports.nginx} udp rcvbuf=4m; proxy_pass 127.0.0.1:${ports.udpBackend}; proxy_timeout 120s; }
  server { listen 127.0.0.1:${ports.nginx}; proxy_pass 127.0.0.1:${ports.udpBackend}; } }`,
    );
    return startProgram('nginx', 'nginx', ['-c', file], ports.nginx);
  },
};

export const naiveUdp: Contestant = {
  name: 'naive node:dgram',
  port: ports.udpRelay,
  tlsPort: null,
  start: () =>
    startProgram(
      'naive node:dgram',
      process.execPath,
      [join(import.meta.dirname, 'udp-relay.ts'), String(ports.udpRelay), String(ports.udpBackend)],
      ports.udpRelay,
    ),
};

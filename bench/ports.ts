// Fixed loopback ports of a bench run, high enough to be nobody's.
// Invariant: one port, one program.
export const ports = {
  backend: 19_001,
  otherBackend: 19_002,
  turnpike: 19_010,
  turnpikeTls: 19_011,
  haproxy: 19_020,
  haproxyTls: 19_021,
  nginx: 19_030,
  nginxTls: 19_031,
  caddy: 19_040,
  caddyTls: 19_041,
  httpProxy3: 19_050,
  udpBackend: 19_060,
  udpRelay: 19_061,
} as const;

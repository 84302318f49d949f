// How much processor time does a new TLS handshake cost?
// Invariant: TLS 1.3 under a P-256 certificate, nothing resumed. The others send no session tickets; Turnpike has no switch for
// them and sends its two.
import { connect, type PeerCertificate, type TLSSocket } from 'node:tls';
import { caddy, haproxy, nginx, turnpike } from '../contestants.ts';
import { handshakes } from '../load.ts';
import { underLoad } from '../question.ts';

export const question = underLoad({
  name: 'handshakes',
  asks: 'new TLS 1.3 handshakes, P-256, four clients',
  unit: 'handshake',
  contestants: [turnpike, nginx, haproxy, caddy],
  check: ({ tlsPort }) => expectP256(tlsPort!),
  load: ({ tlsPort }, seconds) => handshakes(tlsPort!, seconds),
});

async function expectP256(port: number): Promise<void> {
  const socket = await new Promise<TLSSocket>((resolve, reject) => {
    const options = { host: '127.0.0.1', port, servername: 'bench.test', rejectUnauthorized: false };
    const each = connect(options, () => resolve(each));
    each.on('error', reject);
  });
  const { asn1Curve } = socket.getPeerCertificate() as PeerCertificate;
  const protocol = socket.getProtocol();
  socket.destroy();
  if (protocol !== 'TLSv1.3' || asn1Curve !== 'prime256v1') throw new Error(`port ${port}: ${protocol}, ${asn1Curve}`);
}

// The TLS steps of an explanation: what the handshake shows, and what the policy of the host makes of the connection.
// Invariant: identity, 421 and redirect are decided by the functions that decide them for real traffic.
import type { Answer } from '../../http/answer.ts';
import { httpsEndpoint } from '../../http/https-endpoint.ts';
import { misdirection } from '../../http/match.ts';
import { httpsRedirect } from '../../http/respond.ts';
import { FieldId } from '../../message/field-id.ts';
import type { ConnectionFacts, TlsFacts } from '../../message/stream.ts';
import type { CertificateIndex } from '../../model/certificate-index.ts';
import { isAddressLiteral } from '../../model/host.ts';
import { type Reason, reasons } from '../../model/reason.ts';
import { defaultProfileId, findHost, type HostEntry, type RoutingTable } from '../../model/routing-table.ts';
import type { Entrypoint } from '../../model/snapshot.ts';
import { judgePlaintext, redirectPort } from '../../model/tls-policy.ts';
import type { ExplainFacts } from '../../process/operations.ts';
import { Alert, type AlertDescription } from '../../tls/alert.ts';
import { chooseIdentity, type Identity } from '../../tls/identity.ts';
import type { Asked } from './arrival.ts';
import type { ExplainOutcome, Trace } from './trace.ts';

/** What the connection would be known by, or how the handshake ends. */
export function explainHandshake(
  asked: Asked,
  entrypoint: Entrypoint,
  table: RoutingTable,
  index: CertificateIndex,
  trace: Trace,
): TlsFacts | ExplainOutcome {
  // A client sends no SNI for an address literal (RFC 6066 §3); it has connected to that address then.
  const sent = asked.sni ?? (isAddressLiteral(asked.host) ? null : asked.host);
  const local = asked.host.replace(/^\[|\]$/g, '');
  const identity = chooseIdentity(table, index, entrypoint.name, sent, local);
  const origin = sent === null ? null : (findHost(table.reserved, sent.toLowerCase())?.host.origin ?? null);
  return explainIdentity(identity, sent, origin, trace);
}

/**
 * What the client is shown, or why the handshake ends.
 * @param origin  the line that a refusal comes from
 */
export function explainIdentity(
  identity: Identity,
  sent: string | null,
  origin: string | null,
  trace: Trace,
): TlsFacts | ExplainOutcome {
  const sni = sent === null ? 'no SNI' : `SNI ${sent}`;
  if (identity.kind === 'refuse') {
    const why = refusalTexts[identity.reason] ?? identity.reason;
    return trace.stop('certificate', `${sni}: ${why}`, origin, {
      status: null,
      reason: null,
      text: `the TLS handshake is refused (${alertName(identity.alert)})`,
    });
  }
  const { choice, profile, serverName } = identity;
  const names = choice.kind === 'internal' ? [choice.name] : choice.certificate.names;
  trace.pass('certificate', `${sni}: ${describeChoice(choice)}`, originOf(choice));
  if (profile.id !== defaultProfileId && profile.http) {
    const { clientAuth, minVersion } = profile;
    const asks =
      clientAuth === null ? '' : `, client certificate ${clientAuth.mode === 'require' ? 'required' : 'asked for'}`;
    trace.pass('TLS settings', `TLS ${minVersion} or newer${asks}`);
  }
  return {
    serverName,
    certificateId: choice.kind === 'internal' ? '' : choice.certificate.id,
    certificateNames: names,
    profileId: profile.id,
    version: profile.minVersion,
    clientSubject: null,
  };
}

/** "unrecognized_name", as RFC 8446 and every client's error message spell it. */
function alertName(alert: AlertDescription): string {
  const name = Object.entries(Alert).find(([, code]) => code === alert)?.[0] ?? String(alert);
  return name.replace(/(?!^)[A-Z]/g, '_$&').toLowerCase();
}

type Choice = Extract<Identity, { kind: 'serve' }>['choice'];

function describeChoice(choice: Choice): string {
  if (choice.kind === 'internal') return `${choice.name}, signed by the internal CA`;
  const { names, notAfter, source } = choice.certificate;
  const ends = new Date(notAfter).toISOString().slice(0, 10);
  const why = choice.why === 'default' ? 'the default certificate' : `${choice.why} match`;
  return `${names.join(', ')} (${source}, ${why}, ends ${ends})`;
}

function originOf(choice: Choice): string | null {
  return choice.kind === 'internal' ? null : choice.certificate.origin;
}

const refusalTexts: Readonly<Partial<Record<Extract<Identity, { kind: 'refuse' }>['reason'], string>>> = {
  'never-host': 'the host is plaintext only (tls = "never")',
  'unknown-name': 'no certificate covers the name, and there is no default',
  'no-name': 'a name is needed: there is no default certificate',
};

/** The 421 rules for a request over TLS; null lets it through. */
export function explainMisdirection(
  asked: Asked,
  connection: Pick<ConnectionFacts, 'tls' | 'trustedPeer'>,
  table: RoutingTable,
  trace: Trace,
): ExplainOutcome | null {
  const reason = misdirection(asked.host, connection, table);
  if (reason === null) return null;
  const origin = findHost(table.reserved, asked.host)?.host.origin ?? null;
  return trace.stop('TLS policy', reasons[reason], origin, misdirected(reason));
}

/** What the policy of the host makes of a plaintext request; null lets it through. */
export function explainPlaintext(
  asked: Asked,
  entrypoint: Entrypoint,
  { host }: HostEntry,
  table: RoutingTable,
  facts: ExplainFacts,
  trace: Trace,
): ExplainOutcome | null {
  const { redirect } = facts.routing.settings;
  const endpoint = httpsEndpoint(host, asked.host, table, facts.certificates);
  const policy = `tls = "${host.tls}"`;
  switch (judgePlaintext(host.tls, endpoint !== null, redirect, false)) {
    case 'serve': {
      const why =
        host.tls === 'never' || host.tls === 'either'
          ? ''
          : endpoint === null
            ? ', no TLS entrypoint can serve it'
            : ', redirects are off';
      trace.pass('TLS policy', `${policy}: served in plaintext${why}`, host.origin);
      return null;
    }
    case 'misdirected':
      return trace.stop(
        'TLS policy',
        `${policy}, and no TLS entrypoint can serve it`,
        host.origin,
        misdirected('misdirected-plaintext'),
      );
    case 'redirect': {
      const { port: tlsPort, publicPort } = endpoint!;
      const plainPort = entrypoint.publicPort ?? entrypoint.port;
      const port = redirectPort(asked.portGiven ? asked.port : null, plainPort, tlsPort, publicPort);
      const to = locationOf(httpsRedirect(asked.host, port, asked.head));
      const why = host.tls === 'always' ? '' : ', and redirects are on';
      return trace.stop('TLS policy', `${policy}${why}`, host.origin, {
        status: 308,
        reason: 'redirect-https',
        text: `sent to ${to}`,
      });
    }
  }
}

export function locationOf({ head }: Answer): string {
  return head.fields.get(FieldId.Location) ?? '';
}

function misdirected(reason: Reason): ExplainOutcome {
  return { status: 421, reason, text: 'misdirected: the client should use another connection' };
}

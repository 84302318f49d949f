// What one tunnel was, for its line in the access log.
// Invariant: plain facts, written as they become known and read once, at the tunnel's end; every value that a client
// chose is escaped.
import { isoTime, ms } from '../http/access-log.ts';
import { jsonText } from '../http/json-text.ts';
import type { Reason } from '../model/reason.ts';

export class TunnelRecord {
  /** Wall clock and monotonic milliseconds of its beginning. */
  readonly startedAt: number;
  readonly started: number;
  readonly entrypoint: string;
  /** Who is served, after a PROXY header was believed, and whose socket it is. */
  readonly client: string;
  readonly peer: string;
  /** TLS version that was ended here, and the name that was asked for, passing or ended; '' for none. */
  readonly tls: string;
  readonly serverName: string;
  service = '';
  generation = 0;
  backend = '';
  reason: Reason = 'ended';
  /** What went wrong, in the words of whoever noticed; '' when nothing did. */
  detail = '';
  bytesIn = 0;
  bytesOut = 0;
  heldMs = 0;
  /** From the first dial to the connected backend; negative: never connected. */
  connectMs = -1;
  /** Backends that failed before the one that was used. */
  retries = 0;

  constructor(
    startedAt: number,
    started: number,
    entrypoint: string,
    client: string,
    peer: string,
    tls: string,
    serverName: string,
  ) {
    this.startedAt = startedAt;
    this.started = started;
    this.entrypoint = entrypoint;
    this.client = client;
    this.peer = peer;
    this.tls = tls;
    this.serverName = serverName;
  }
}

export function jsonTunnel(record: TunnelRecord, endedAt: number): string {
  let line = `{"time":"${isoTime(record.startedAt)}","client":${jsonText(record.client)},"protocol":"tcp","reason":"${
    record.reason
  }","duration_ms":${ms(endedAt - record.started)},"bytes_in":${record.bytesIn},"bytes_out":${record.bytesOut}`;
  if (record.service !== '') line += `,"service":${jsonText(record.service)},"generation":${record.generation}`;
  if (record.backend !== '') line += `,"backend":${jsonText(record.backend)}`;
  if (record.heldMs > 0) line += `,"held_ms":${ms(record.heldMs)}`;
  if (record.connectMs >= 0) line += `,"connect_ms":${ms(record.connectMs)}`;
  if (record.retries > 0) line += `,"retries":${record.retries}`;
  if (record.detail !== '') line += `,"detail":${jsonText(record.detail)}`;
  line += `,"entrypoint":${jsonText(record.entrypoint)},"peer":${jsonText(record.peer)}`;
  if (record.tls !== '') line += `,"tls":${jsonText(record.tls)}`;
  if (record.serverName !== '') line += `,"server_name":${jsonText(record.serverName)}`;
  return `${line}}\n`;
}

export function prettyTunnel(record: TunnelRecord, endedAt: number): string {
  const time = isoTime(record.startedAt).slice(11, 23);
  const to = record.backend === '' ? record.service : `${record.service} #${record.generation} ${record.backend}`;
  const name = record.serverName === '' ? '' : ` (${record.serverName})`;
  const what = JSON.stringify(`tcp ${record.entrypoint}${name}`).slice(1, -1);
  const bytes = `${record.bytesIn}↑ ${record.bytesOut}↓`;
  return `${time} ${record.reason} ${what} ${bytes} ${ms(endedAt - record.started)}ms ${record.client} → ${to || '-'}\n`;
}

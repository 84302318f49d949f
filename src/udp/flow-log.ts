// One line in the access log for each flow, when it ends.
// Invariant: nothing of a datagram's content is in a line.
import { type AccessLog, isoTime, ms } from '../http/access-log.ts';
import { jsonText } from '../http/json-text.ts';
import type { Flow } from './flow.ts';
import type { FlowEnd } from './flow-cells.ts';

export class FlowLog {
  readonly #log: Pick<AccessLog, 'wanted' | 'write'>;

  constructor(log: Pick<AccessLog, 'wanted' | 'write'>) {
    this.#log = log;
  }

  /** @param endedAt  monotonic milliseconds */
  flowEnded(flow: Flow, entrypoint: string, why: FlowEnd, endedAt: number): void {
    const format = this.#log.wanted;
    if (format === null) return;
    const line = format === 'json' ? jsonLine : prettyLine;
    this.#log.write(line(flow, entrypoint, why, ms(endedAt - flow.started)));
  }
}

function jsonLine(flow: Flow, entrypoint: string, why: FlowEnd, durationMs: number): string {
  let line = `{"time":"${isoTime(flow.startedAt)}","client":${jsonText(flow.client)},"client_port":${
    flow.port
  },"protocol":"udp","reason":"${why}","duration_ms":${durationMs},"bytes_in":${flow.bytesIn},"bytes_out":${
    flow.bytesOut
  },"datagrams_in":${flow.datagramsIn},"datagrams_out":${flow.datagramsOut}`;
  if (flow.serviceName !== '') line += `,"service":${jsonText(flow.serviceName)},"generation":${flow.generation}`;
  if (flow.backend !== '') line += `,"backend":${jsonText(flow.backend)}`;
  if (flow.refusals > 0) line += `,"refused":${flow.refusals}`;
  return `${line},"entrypoint":${jsonText(entrypoint)}}\n`;
}

function prettyLine(flow: Flow, entrypoint: string, why: FlowEnd, durationMs: number): string {
  const time = isoTime(flow.startedAt).slice(11, 23);
  const to = flow.backend === '' ? flow.serviceName : `${flow.serviceName} #${flow.generation} ${flow.backend}`;
  const client = flow.client.includes(':') ? `[${flow.client}]` : flow.client;
  const bytes = `${flow.bytesIn}↑ ${flow.bytesOut}↓`;
  return `${time} ${why} udp ${entrypoint} ${bytes} ${durationMs}ms ${client}:${flow.port} → ${to || '-'}\n`;
}

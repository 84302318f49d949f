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

  /** @param endedAt  wall clock */
  flowEnded(flow: Flow, entrypoint: string, why: FlowEnd, endedAt: number): void {
    const format = this.#log.wanted;
    if (format === null) return;
    this.#log.write(
      format === 'json' ? jsonLine(flow, entrypoint, why, endedAt) : prettyLine(flow, entrypoint, why, endedAt),
    );
  }
}

function jsonLine(flow: Flow, entrypoint: string, why: FlowEnd, endedAt: number): string {
  let line = `{"time":"${isoTime(flow.startedAt)}","client":${jsonText(flow.client)},"client_port":${
    flow.port
  },"protocol":"udp","entrypoint":${jsonText(entrypoint)},"reason":"${why}","duration_ms":${ms(
    endedAt - flow.startedAt,
  )},"bytes_in":${flow.bytesIn},"bytes_out":${flow.bytesOut},"datagrams_in":${flow.datagramsIn},"datagrams_out":${
    flow.datagramsOut
  }`;
  if (flow.serviceName !== '') line += `,"service":${jsonText(flow.serviceName)},"generation":${flow.generation}`;
  if (flow.backend !== '') line += `,"backend":${jsonText(flow.backend)}`;
  if (flow.refusals > 0) line += `,"refused":${flow.refusals}`;
  return `${line}}\n`;
}

function prettyLine(flow: Flow, entrypoint: string, why: FlowEnd, endedAt: number): string {
  const time = isoTime(flow.startedAt).slice(11, 23);
  const to = flow.backend === '' ? '' : ` → ${flow.serviceName} #${flow.generation} ${flow.backend}`;
  const client = flow.client.includes(':') ? `[${flow.client}]` : flow.client;
  const moved = `${flow.datagramsIn}/${flow.datagramsOut} datagrams ${flow.bytesIn}/${flow.bytesOut} bytes`;
  return `${time} udp ${entrypoint} ${moved} ${ms(endedAt - flow.startedAt)}ms ${client}:${flow.port}${to} (${why})\n`;
}

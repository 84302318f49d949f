// Node's own parser (llhttp) as a second opinion, driven without sockets.
// `_http_common` is where Node exposes it; the callbacks and their arguments are those of node:http's own server.
import { createRequire } from 'node:module';
import type { Message, Reading } from './codec.ts';

interface Parser {
  initialize(type: number, resource: object, maxHeaderSize: number, lenient: number): void;
  execute(chunk: Buffer): number | Error;
  finish(): Error | undefined;
  remove(): void;
  free(): void;
  [callback: number]: unknown;
}

interface ParserClass {
  new (): Parser;
  readonly REQUEST: number;
  readonly RESPONSE: number;
  readonly kOnHeaders: number;
  readonly kOnHeadersComplete: number;
  readonly kOnBody: number;
  readonly kOnMessageComplete: number;
  readonly kLenientNone: number;
}

const { HTTPParser, methods } = createRequire(import.meta.url)('_http_common') as {
  HTTPParser: ParserClass;
  methods: readonly string[];
};

export const llhttpMethods: ReadonlySet<string> = new Set(methods);

/** Reads requests (`method` null) or the responses to requests with this method. */
export function readWithLlhttp(bytes: Buffer, method: string | null): Reading {
  const parser = new HTTPParser();
  parser.initialize(method === null ? HTTPParser.REQUEST : HTTPParser.RESPONSE, {}, 64 * 1024, HTTPParser.kLenientNone);
  const reading: Reading = { messages: [], refusal: '', upgrade: false };
  let current: Message | null = null;
  let url = '';
  let pending: string[] = [];
  parser[HTTPParser.kOnHeaders] = (headers: string[], text: string) => {
    pending.push(...headers);
    url += text;
  };
  parser[HTTPParser.kOnHeadersComplete] = (
    major: number,
    minor: number,
    headers: string[] | undefined,
    methodIndex: number | undefined,
    text: string | undefined,
    status: number | undefined,
    reason: string | undefined,
    upgrade: boolean,
    keepAlive: boolean,
  ) => {
    current = {
      start: method === null ? `${methods[methodIndex!]} ${major}${minor}` : `${status}`,
      target: url + (text ?? ''),
      reason: reason ?? '',
      fields: pending.concat(headers ?? []),
      body: '',
      trailers: [],
      persistent: keepAlive,
      complete: false,
    };
    pending = [];
    url = '';
    reading.upgrade ||= upgrade;
    reading.messages.push(current);
    return method === 'HEAD' ? 1 : 0;
  };
  parser[HTTPParser.kOnBody] = (chunk: Buffer) => {
    current!.body += chunk.toString('latin1');
  };
  parser[HTTPParser.kOnMessageComplete] = () => {
    current!.trailers = pending;
    current!.complete = true;
    pending = [];
    url = '';
  };
  const result = parser.execute(bytes);
  if (typeof result === 'number') {
    // What follows an upgrade is not HTTP, so its end is not a cut message.
    const end = reading.upgrade ? undefined : parser.finish();
    if (end !== undefined) reading.refusal = refusalOf(end);
  } else reading.refusal = refusalOf(result);
  parser.remove();
  parser.free();
  return reading;
}

function refusalOf(error: Error): string {
  return (error as Error & { code?: string }).code ?? error.message;
}

// TXT records by dynamic update (RFC 2136) at a name server of the operator's: BIND, Knot, PowerDNS and others.
// Invariant: an update counts as made only when the server said so in a reply signed with the same key.
import { randomInt } from 'node:crypto';
import { lookup, Resolver } from 'node:dns/promises';
import { connect, isIP } from 'node:net';
import type { Clock } from '../../../base/clock.ts';
import { readReply, type Update, updateMessage } from './dns-message.ts';
import { readSecret } from './secret-file.ts';
import { addressAndPort } from './server-address.ts';
import { judgeReply, signMessage, type TsigAlgorithm, type TsigKey } from './tsig.ts';
import type { TxtKeeper, TxtRecord } from './txt-keeper.ts';

export interface Rfc2136Options {
  /** `host:port` */
  readonly server: string;
  readonly keyName: string;
  /** Holds the secret, base64. */
  readonly keyFile: string;
  readonly algorithm: TsigAlgorithm;
  readonly clock: Clock;
  /** One update. */
  readonly timeoutMs?: number;
}

const defaultTimeoutMs = 10_000;
const ttlSeconds = 60;

/** RFC 1035 §4.1.1 and RFC 2136 §2.2 */
const rcodes: Readonly<Record<number, string>> = {
  1: 'it did not understand the update (FORMERR)',
  2: 'it failed (SERVFAIL)',
  4: 'it takes no updates (NOTIMP)',
  5: 'this key may not change this name (REFUSED)',
  9: 'it is not in charge of the zone, or does not accept the key (NOTAUTH)',
  10: 'the name is outside of the zone (NOTZONE)',
};

export class Rfc2136Keeper implements TxtKeeper {
  readonly label: string;
  readonly #options: Rfc2136Options;

  constructor(options: Rfc2136Options) {
    this.#options = options;
    this.label = options.server;
  }

  add(records: readonly TxtRecord[], signal: AbortSignal): Promise<void> {
    return this.#update('add', records, signal);
  }

  remove(records: readonly TxtRecord[], signal: AbortSignal): Promise<void> {
    return this.#update('delete', records, signal);
  }

  /** One update for each zone: the records of an apex and its wildcard come and go together. */
  async #update(action: Update['action'], records: readonly TxtRecord[], signal: AbortSignal): Promise<void> {
    const { server, keyName, keyFile, algorithm } = this.#options;
    const secret = Buffer.from(await readSecret(keyFile), 'base64');
    const key: TsigKey = { name: keyName, algorithm, secret };
    const { host, port } = addressAndPort(server, 53);
    const address = isIP(host) === 0 ? (await lookup(host)).address : host;
    const zones = new Map<string, TxtRecord[]>();
    for (const each of records) {
      const zone = await this.#zoneOf(each.name, address, port);
      zones.set(zone, [...(zones.get(zone) ?? []), each]);
    }
    for (const [zone, inZone] of zones) {
      signal.throwIfAborted();
      await this.#send(
        { id: randomInt(65_536), zone, action, records: inZone, ttlSeconds },
        key,
        address,
        port,
        signal,
      );
    }
  }

  /** The server itself knows best which of its zones a name is in. */
  async #zoneOf(name: string, address: string, port: number): Promise<string> {
    const resolver = new Resolver({ timeout: 3000, tries: 2 });
    resolver.setServers([address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`]);
    const labels = name.split('.');
    let last = '';
    for (let i = 0; i < labels.length - 1; i++) {
      const zone = labels.slice(i).join('.');
      try {
        await resolver.resolveSoa(zone);
        return zone;
      } catch (error) {
        last = (error as NodeJS.ErrnoException).code ?? '';
      }
    }
    throw new Error(`it has no zone for ${name} (${last})`);
  }

  async #send(update: Update, key: TsigKey, host: string, port: number, signal: AbortSignal): Promise<void> {
    const { clock, timeoutMs = defaultTimeoutMs } = this.#options;
    const { bytes, mac } = signMessage(updateMessage(update), key, clock.now());
    const received = await exchange(bytes, { host, port, clock, timeoutMs, signal });
    const reply = readReply(received);
    if (reply === null || !reply.isResponse || reply.id !== update.id)
      throw new Error('its reply is none to our update');
    const verdict = judgeReply(received, reply, key, mac);
    if (verdict.kind === 'refused') throw new Error(verdict.why);
    if (reply.rcode !== 0) throw new Error(rcodes[reply.rcode] ?? `it answered with code ${reply.rcode}`);
    if (verdict.kind === 'unsigned') throw new Error('its reply is not signed with the key');
  }
}

interface Exchange {
  readonly host: string;
  readonly port: number;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** One message and its reply over TCP (RFC 1035 §4.2.2): updates outgrow datagrams, and nobody can forge an answer. */
function exchange(message: Buffer, { host, port, clock, timeoutMs, signal }: Exchange): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true });
    let received = Buffer.alloc(0);
    const settle = (error: Error | null): void => {
      timer.cancel();
      signal.removeEventListener('abort', onAbort);
      socket.destroy();
      if (error !== null) reject(error);
    };
    const timer = clock.after(timeoutMs, () => settle(new Error(`no reply within ${timeoutMs} ms`)));
    const onAbort = (): void => settle(new Error('stopped'));
    signal.addEventListener('abort', onAbort, { once: true });
    socket.on('connect', () => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(message.length);
      socket.write(Buffer.concat([length, message]));
    });
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      resolve(received.subarray(2, 2 + received.readUInt16BE(0)));
      settle(null);
    });
    socket.on('error', (error) => settle(error));
    socket.on('close', () => settle(new Error('it closed the connection without a reply')));
  });
}

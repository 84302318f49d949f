// The request corpus, sent through Turnpike to origins of every kind, and past it: nobody may find more in what we forward
// than the client meant, however lenient.
//
// Every report of request smuggling is this difference between two readers. Here the second reader is a raw recorder, read in
// seventeen ways, and the servers of Debian in their most tolerant settings.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { RawClient } from '../support/raw-client.ts';
import { Recorder } from '../support/recorder.ts';
import { type RequestCase, requestCorpus } from './corpus/requests.ts';
import { Origin, type OriginName, originNames, type Seen } from './support/origins.ts';
import { canonicalRequests, leniencies, lenientStarts, type ReadMessage } from './support/readers.ts';

let raw: Recorder;
const origins = new Map<OriginName, Origin>();
/** Six characters each, as the corpus wants them. */
const hosts: Readonly<Record<OriginName, string>> = {
  nginx: 'n.test',
  apache2: 'a.test',
  lighttpd: 'l.test',
  haproxy: 'h.test',
};

const f = useProxy({
  workers: 1,
  names: ['r.test'],
  limits: 'header_timeout = "1s"\nbody_idle_timeout = "1s"\nkeep_alive_timeout = "5s"',
  more: async () => {
    raw = await Recorder.start({ name: 'raw' });
    for (const origin of await Promise.all(originNames.map((name) => Origin.start(name))))
      origins.set(origin.name, origin);
    const route = (host: string, address: string): string => `[external_routes."${host}"]\nto = ["${address}"]\n`;
    return [
      route('r.test', raw.address),
      ...originNames.map((name) => route(hosts[name], origins.get(name)!.address)),
    ].join('');
  },
});
afterAll(async () => {
  await raw.close();
  await Promise.all([...origins.values()].map((origin) => origin.stop()));
});

function bytesFor(each: RequestCase, host: string): string {
  return each.bytes.replaceAll('<host>', host).replaceAll('<HOST>', host.toUpperCase());
}

const expected = (each: RequestCase, host: string): string[] =>
  each.forwarded.map((start) => start.replaceAll('<host>', host));

/** Every case has an address of its own, so that an origin's log tells whose request it saw. */
const addressOf = (net: number, i: number): string => `127.${net}.${Math.floor(i / 200) + 1}.${(i % 200) + 1}`;

async function inLots<T>(count: number, size: number, work: (i: number) => Promise<T>): Promise<T[]> {
  const results: T[] = new Array(count);
  let next = 0;
  await Promise.all(
    Array.from({ length: size }, async () => {
      for (let i = next++; i < count; i = next++) results[i] = await work(i);
    }),
  );
  return results;
}

/** Sends a case through Turnpike, a last good request when it should serve on, and says what was answered. */
async function throughTurnpike(each: RequestCase, host: string, localAddress: string, tls: boolean): Promise<number[]> {
  const client = await RawClient.connect({
    port: tls ? f.securePort : f.webPort,
    localAddress,
    ...(tls ? { tls: { servername: host, ca: f.ca.pem } } : {}),
  });
  client.write(bytesFor(each, host));
  const methods = each.forwarded.map((start) => start.split(' ')[0]!);
  if (each.after === 'not-here') methods.unshift('GET');
  const servesOn = each.after === 'open' || each.after === 'not-here';
  const statuses: number[] = [];
  let last = false;
  try {
    while (true) {
      if (servesOn && !last && statuses.length === methods.length) {
        last = true;
        client.write(`GET /last HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
      }
      if (client.ended && client.received.length === 0) break;
      const answer = await client.readAnswer({ method: methods[statuses.length] ?? 'GET', timeoutMs: 8000 });
      statuses.push(answer.status);
    }
  } catch (error) {
    // An end without an answer is how a connection ends; anything else is to be seen.
    if (!String(error).includes('without an answer; received ""')) throw error;
  }
  client.destroy();
  return statuses;
}

/** What a strict reader makes of the answers. */
function judge(each: RequestCase, statuses: readonly number[]): string | null {
  const seen = statuses.join(' ');
  const good = statuses.filter((status) => status < 400).length;
  const bad = statuses.length - good;
  switch (each.after) {
    case 'closed':
      return bad === 0 && good === each.forwarded.length ? null : seen;
    case 'open':
      return bad === 0 && good === each.forwarded.length + 1 ? null : seen;
    case 'refused':
      return bad === 1 && good === each.forwarded.length && statuses.at(-1)! >= 400 ? null : seen;
    case 'broken':
      return bad === 1 && good === each.forwarded.length - 1 && statuses.at(-1)! >= 400 ? null : seen;
    case 'not-here':
      return bad === 1 && statuses[0]! >= 400 && good === each.forwarded.length + 1 ? null : seen;
  }
}

const label = (each: RequestCase): string => `${each.kind}: ${JSON.stringify(each.bytes.slice(0, 120))}`;

describe.each([false, true])('the corpus to a raw recorder, over TLS: %s', (tls) => {
  const net = tls ? 31 : 30;
  let statuses: number[][] = [];
  let connections: { readonly bytes: string; readonly messages: ReadMessage[] }[] = [];

  beforeAll(async () => {
    raw.reset();
    statuses = await inLots(requestCorpus.length, 40, (i) =>
      throughTurnpike(requestCorpus[i]!, 'r.test', addressOf(net, i), tls),
    );
    connections = raw.connections.map((connection) => {
      const bytes = connection.bytes.toString('latin1');
      return { bytes, messages: [] };
    });
  });

  it('is answered as a strict reader would', () => {
    const wrong = requestCorpus.flatMap((each, i) => {
      const problem = judge(each, statuses[i]!);
      return problem === null ? [] : [`${label(each)} → ${problem}`];
    });
    expect(wrong).toEqual([]);
  });

  it('arrives in our own framing, byte for byte', () => {
    for (const connection of connections) connection.messages.push(...canonicalRequests(connection.bytes));
    expect(connections.length).toBeGreaterThan(0);
  });

  it('arrives as the requests that the client meant, and no others', () => {
    const byAddress = new Map<string, ReadMessage[]>();
    for (const { messages } of connections) {
      for (const message of messages) {
        const from = message.lines.filter(([name]) => name.toLowerCase() === 'x-forwarded-for');
        expect(from.length, message.start).toBe(1);
        const [[, address]] = from as [readonly [string, string]];
        if (message.start !== 'GET /last') byAddress.set(address, [...(byAddress.get(address) ?? []), message]);
      }
    }
    const wrong = requestCorpus.flatMap((each, i) => {
      const found = byAddress.get(addressOf(net, i)) ?? [];
      const starts = found.map((message) => message.start);
      const wanted = expected(each, 'r.test');
      // What breaks off may have broken off before anything of it was sent.
      if (each.after === 'broken' && starts.length === wanted.length - 1) wanted.pop();
      // Two requests of one client may reach the origin on two connections.
      const same = JSON.stringify(starts.sort()) === JSON.stringify(wanted.sort());
      const whole = found.every(
        (message, k) => message.whole === !(each.after === 'broken' && k === each.forwarded.length - 1),
      );
      return same && whole ? [] : [`${label(each)} → ${JSON.stringify(starts)}, whole: ${whole}`];
    });
    expect(wrong).toEqual([]);
  });

  it.each(leniencies)('reads the same when $name', (how) => {
    const wrong = connections.flatMap(({ bytes, messages }) => {
      const lenient = lenientStarts(bytes, how, 'request');
      const strict = messages.map((message) => message.start);
      return JSON.stringify(lenient) === JSON.stringify(strict) ? [] : [{ lenient, strict }];
    });
    expect(wrong).toEqual([]);
  });
});

/** Logs escape and cut what could not stand in a line, each in a way of its own: this much is the same in all of them. */
function key(start: string): string {
  return start.replace(/#[0-9a-f]{2}|\\x[0-9a-f]{2}|[^a-z0-9 /]/gi, '').slice(0, 60);
}
const startOf = (seen: Seen): string => key(seen.request.split(' ').slice(0, 2).join(' '));
const keys = (each: RequestCase, host: string): string[] => expected(each, host).map(key);

describe('the corpus to the servers of Debian', () => {
  const logs = new Map<OriginName, Seen[]>();

  beforeAll(async () => {
    await Promise.all(
      originNames.map(async (name) => {
        const send = (i: number): Promise<number[]> =>
          throughTurnpike(requestCorpus[i]!, hosts[name], addressOf(40, i), false);
        await inLots(requestCorpus.length, 15, send);
        logs.set(name, await origins.get(name)!.seen());
      }),
    );
  }, 120_000);

  it.each(originNames)('%s finds no more in what we forward than the client meant', (name) => {
    const host = hosts[name];
    const seen = logs.get(name)!;
    const wrong: string[] = [];
    const counts = requestCorpus.map(() => 0);
    let unnamed = 0;
    for (const each of seen) {
      const start = startOf(each);
      const [, , third = '0', fourth = '0'] = each.forwardedFor.split('.');
      const i = (Number(third) - 1) * 200 + Number(fourth) - 1;
      const owner = requestCorpus[i];
      if (start === 'GET /last') continue;
      if (owner === undefined) {
        // A head that it did not like. What it says of the request line, if anything, must still be ours.
        unnamed++;
        const unread = /^(?:BADREQ|[^a-z]*http\/1)?[^a-z]*$/i.test(start);
        if (!unread && !requestCorpus.some((candidate) => keys(candidate, host).includes(start))) {
          wrong.push(`unknown: ${JSON.stringify(each)}`);
        }
        continue;
      }
      counts[i]!++;
      if (!keys(owner, host).includes(start)) wrong.push(`${label(owner)} → ${JSON.stringify(each)}`);
    }
    for (const [i, count] of counts.entries()) {
      const each = requestCorpus[i]!;
      if (count > each.forwarded.length) wrong.push(`${label(each)} → ${count} requests`);
    }
    // Those that it could not name are requests of ours that are missing under their names.
    const missing = requestCorpus.reduce(
      (sum, each, i) => sum + (each.after === 'broken' ? 0 : Math.max(0, each.forwarded.length - counts[i]!)),
      0,
    );
    expect(wrong).toEqual([]);
    expect(unnamed).toBeLessThanOrEqual(missing);
    // And it did see them.
    expect(counts.filter((count) => count > 0).length).toBeGreaterThan(80);
  });
});

describe('the corpus has teeth', () => {
  it('one lenient reader or another finds other requests in most of it', () => {
    const bitten = requestCorpus.filter((each) => {
      const bytes = bytesFor(each, 'r.test');
      const wanted = JSON.stringify(expected(each, 'r.test'));
      return leniencies.some((how) => JSON.stringify(lenientStarts(bytes, how, 'request')) !== wanted);
    });
    expect(bitten.length).toBeGreaterThan(250);
  });

  it('the servers of Debian do, when it is sent to them directly', { timeout: 120_000 }, async () => {
    const found = await Promise.all(
      originNames.map(async (name, n) => {
        const origin = origins.get(name)!;
        await inLots(requestCorpus.length, 20, async (i) => {
          const client = await RawClient.connect({ port: origin.port, localAddress: addressOf(50 + n, i) });
          client.write(bytesFor(requestCorpus[i]!, hosts[name]));
          client.fin();
          await client.waitForEnd(3000).catch(() => {});
          client.destroy();
        });
        const seen = await origin.seen();
        return requestCorpus.filter((each, i) => {
          const starts = seen.filter((line) => line.peer === addressOf(50 + n, i)).map(startOf);
          return (
            starts.filter((start) => start.includes('/smuggled')).length >
            each.forwarded.filter((start) => start.includes('/smuggled')).length
          );
        }).length;
      }),
    );
    // Requests to /smuggled where a strict reader finds none.
    expect(found.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(50);
  });
});

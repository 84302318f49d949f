// The answer corpus, sent by an origin through Turnpike: a client gets one answer to one request, in our own framing, and the
// next request on the same connection gets its own, however lenient the client reads.
//
// Response splitting and queue poisoning are the mirror of request smuggling: a head or a length that two readers see
// differently makes the rest of one answer the answer to somebody else.
import { beforeAll, describe, expect, it } from 'vitest';
import { H2Connection } from '../support/h2-frames.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { Recorder } from '../support/recorder.ts';
import { until } from '../support/wait.ts';
import { type AnswerCase, answerCorpus } from './corpus/answers.ts';
import { connect } from './support/flood.ts';
import { askH2, h2Outcome } from './support/provoke.ts';
import { canonicalAnswers, leniencies, lenientStarts, type ReadMessage } from './support/readers.ts';

const f = useProxy({ workers: 1, limits: 'body_idle_timeout = "2s"\nbackend_head_timeout = "2s"' });

const second = 'GET /second HTTP/1.1\r\nHost: app1.test\r\nConnection: close\r\n\r\n';
const label = (each: AnswerCase): string => `${each.kind}: ${JSON.stringify(each.bytes.slice(0, 120))}`;

/** Answers `/<i>` with the bytes of case i, and everything else honestly. */
function playOrigin(): void {
  f.app1.script = (exchange) => {
    const each = answerCorpus[Number(/^\/(\d+)$/.exec(exchange.target)?.[1] ?? -1)];
    if (each === undefined) {
      Recorder.plain(exchange);
      return;
    }
    exchange.reply(each.bytes);
    if (each.fin) exchange.connection.fin();
  };
}

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

describe.each(['h1', 'h1+tls'] as const)('the corpus of answers [%s]', (transport) => {
  let received: string[] = [];
  let messages: (ReadMessage[] | string)[] = [];
  const methodsOf = (each: AnswerCase): string[] => [each.method, 'GET'];

  beforeAll(async () => {
    playOrigin();
    received = await inLots(answerCorpus.length, 20, async (i) => {
      const client = await f.raw(transport);
      // Both at once: whatever is behind the first answer had better not be the second.
      client.write(`${answerCorpus[i]!.method} /${i} HTTP/1.1\r\nHost: app1.test\r\nTE: trailers\r\n\r\n${second}`);
      await client.waitForEnd(10_000);
      client.destroy();
      return client.text;
    });
    messages = received.map((bytes, i) => {
      try {
        return canonicalAnswers(bytes, methodsOf(answerCorpus[i]!), true);
      } catch (error) {
        return String(error);
      }
    });
  });

  it('arrives in our own framing, byte for byte', () => {
    const wrong = messages.flatMap((each, i) =>
      typeof each === 'string' ? [`${label(answerCorpus[i]!)} → ${each}`] : [],
    );
    expect(wrong).toEqual([]);
  });

  it('arrives as the one answer that it is, or as a 502, or as a cut', () => {
    const wrong = answerCorpus.flatMap((each, i) => {
      const found = messages[i] as ReadMessage[];
      const [first, next, ...more] = found;
      const got = `${label(each)} → ${found.map((message) => `${message.start}${message.whole ? '' : ' cut'}`).join(', ')}`;
      if (first === undefined || more.length > 0) return [got];
      const cut = first.start === '200' && !first.whole;
      const good =
        each.outcome === 'refused'
          ? first.start === '502' && first.whole
          : each.outcome === 'cut'
            ? cut || first.start === '502'
            : first.start === String(each.outcome) && first.whole;
      // Behind a cut the connection ends; behind anything else the next request is answered, by the honest origin.
      const goesOn = cut ? next === undefined : next === undefined || (next.start === '200' && next.whole);
      return good && goesOn ? [] : [got];
    });
    expect(wrong).toEqual([]);
  });

  it('carries nothing of what lies behind it', () => {
    const wrong = answerCorpus.flatMap((each, i) =>
      /poison/i.test(received[i]!) && !/^until the end/.test(each.kind) ? [label(each)] : [],
    );
    expect(wrong).toEqual([]);
    // The honest second answer comes wherever the connection serves on, and it serves on nearly everywhere.
    expect(received.filter((bytes) => bytes.endsWith('app1')).length).toBeGreaterThan(100);
  });

  it.each(leniencies)('reads the same when $name', (how) => {
    const wrong = messages.flatMap((each, i) => {
      const strict = (each as ReadMessage[]).map((message) => message.start);
      const final = lenientStarts(received[i]!, how, 'answer', methodsOf(answerCorpus[i]!)).filter(
        (start) => !start.startsWith('1'),
      );
      return JSON.stringify(final) === JSON.stringify(strict) ? [] : [{ case: label(answerCorpus[i]!), final, strict }];
    });
    expect(wrong).toEqual([]);
  });
});

describe('the corpus of answers over HTTP/2', () => {
  it('is one answer, a 502, or a reset', async () => {
    playOrigin();
    const connection = await connect(f, 'h2');
    const wrong = (
      await inLots(answerCorpus.length, 10, async (i) => {
        const each = answerCorpus[i]!;
        const stream = connection.open(H2Connection.request(each.method, 'app1.test', `/${i}`, [['te', 'trailers']]));
        const outcome = await h2Outcome(stream);
        await until('the end of the stream', () => stream.over);
        const text = JSON.stringify([stream.lines, stream.trailers, stream.body.toString('latin1')]);
        const good =
          each.outcome === 'refused'
            ? outcome === 502
            : each.outcome === 'cut'
              ? outcome === 502 || !stream.ended
              : outcome === each.outcome && stream.ended;
        const clean = each.kind === 'until the end' || !/poison/i.test(text);
        return good && clean ? [] : [`${label(each)} → ${outcome}, ended: ${stream.ended}`];
      })
    ).flat();
    expect(wrong).toEqual([]);
    expect(connection.closed).toBe(false);
    expect(await askH2(f, 'h2', [], { method: 'GET' })).toBe(200);
  });
});

it('the corpus has teeth: one lenient reader or another finds other answers in most of it', () => {
  const bitten = answerCorpus.filter((each) => {
    const strict = typeof each.outcome === 'number' ? [String(each.outcome)] : [];
    return leniencies.some((how) => {
      const found = lenientStarts(each.bytes, how, 'answer', [each.method, 'GET']).filter(
        (start) => !start.startsWith('1'),
      );
      return JSON.stringify(found) !== JSON.stringify(strict);
    });
  });
  expect(bitten.length).toBeGreaterThan(150);
});

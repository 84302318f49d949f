// Backends that speak HTTP/2 and mean ill, or have lost their way: floods, bombs, lies about lengths, endings that are none.
//
// The floods of CVE-2019-9511 to -9518 and CVE-2024-27983 aim at servers; a proxy is a client of its backends, and node:http2
// takes a body that RST_STREAM(NO_ERROR) cut for a whole one. What came of undici the same way is in its h2 client.
import type { Socket } from 'node:net';
import fc from 'fast-check';
import { afterAll, afterEach, expect, it } from 'vitest';
import { encodeFrame, encodeSettings, FrameType, preface, Setting } from '../support/h2-frames.ts';
import { encodeBlock } from '../support/hpack.ts';
import { useProxy } from '../support/proxy-fixture.ts';
import { type Line, Recorder } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';
import { residentSize } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';
import { rst, uint32 } from './support/flood.ts';
import { backendFrame } from './support/random-frames.ts';

let backend: Recorder;

const f = useProxy({
  workers: 1,
  names: ['h2.test'],
  limits: 'backend_connect_timeout = "1s"\nbackend_head_timeout = "1s"\nbody_idle_timeout = "1s"',
  more: async () => {
    backend = await Recorder.start({ name: 'h2', parse: false });
    return `
[external_routes."h2.test"]
to = ["${backend.address}"]
protocol = "h2c"
`;
  },
});

// Each test answers on a connection of its own.
afterEach(async () => {
  for (const connection of backend.open) connection.socket.destroy();
  await sleep(20);
});
afterAll(() => backend.close());

const miB = 1024 * 1024;
const head = (lines: readonly Line[], flags = 4, id = 1): Buffer =>
  encodeFrame(FrameType.Headers, flags, id, encodeBlock(lines));
const ok = (extra: readonly Line[] = [], flags = 4): Buffer => head([[':status', '200'], ...extra], flags);
const data = (text: string, flags = 0): Buffer => encodeFrame(FrameType.Data, flags, 1, Buffer.from(text));
const end = 1;

/** Answers the first HEADERS of a connection by `frames`. */
function answering(frames: Buffer | ((socket: Socket) => void), settings = encodeSettings([])): void {
  backend.accepted = (connection) => {
    connection.socket.on('error', () => {});
    connection.send(settings);
    let answered = false;
    connection.onRaw = () => {
      const at = connection.raw.indexOf(preface);
      if (answered || at < 0 || !hasHeaders(connection.raw.subarray(at + preface.length))) return;
      answered = true;
      if (typeof frames === 'function') frames(connection.socket);
      else connection.send(frames);
    };
  };
}

function hasHeaders(bytes: Buffer): boolean {
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3))
    if (bytes[at + 3] === FrameType.Headers) return true;
  return false;
}

async function ask(
  method = 'GET',
): Promise<{ status: number; complete: boolean; body: string; trailers: readonly Line[] }> {
  const answer = await f.requester('h1').request({ host: 'h2.test', method, lines: [['TE', 'trailers']] });
  return { status: answer.status, complete: answer.complete, body: answer.body.toString(), trailers: answer.trailers };
}

const refused: readonly (readonly [string, Buffer])[] = [
  ['no status', head([['x', 'y']])],
  [
    'two statuses',
    head([
      [':status', '200'],
      [':status', '200'],
    ]),
  ],
  ['a status that is no number', head([[':status', 'ok']])],
  ['a status of two digits', head([[':status', '20']])],
  ['status 101', head([[':status', '101']])],
  ['status 099', head([[':status', '099']])],
  [
    'a request field',
    head([
      [':status', '200'],
      [':path', '/'],
    ]),
  ],
  [
    'a status behind a field',
    head([
      ['x', 'y'],
      [':status', '200'],
    ]),
  ],
  ['a connection field', ok([['connection', 'close']])],
  ['a transfer coding', ok([['transfer-encoding', 'chunked']])],
  ['capitals in a name', ok([['X', 'y']])],
  [
    'two lengths',
    ok([
      ['content-length', '2'],
      ['content-length', '3'],
    ]),
  ],
  ['a length that is no number', ok([['content-length', '2x']])],
  ['a length with a sign', ok([['content-length', '+2']])],
  ['a length without a body', ok([['content-length', '2']], 5)],
  [
    '300 fields',
    ok(
      Array.from({ length: 300 }, (_each, i): Line => [`x${i}`, 'y']),
      5,
    ),
  ],
  [
    '40 KiB of fields',
    Buffer.concat([
      encodeFrame(
        FrameType.Headers,
        1,
        1,
        encodeBlock([
          [':status', '200'],
          ['x', 'a'.repeat(16_000)],
        ]),
      ),
      encodeFrame(FrameType.Continuation, 0, 1, encodeBlock([['y', 'a'.repeat(16_000)]])),
      encodeFrame(FrameType.Continuation, 4, 1, encodeBlock([['z', 'a'.repeat(8000)]])),
    ]),
  ],
  ['DATA before the head', data('x')],
  ['an interim answer that ends the stream', head([[':status', '103']], 5)],
  [
    '70 interim answers',
    Buffer.concat(
      Array.from({ length: 70 }, () =>
        head([
          [':status', '103'],
          ['link', '</a>'],
        ]),
      ),
    ),
  ],
  ['RST_STREAM', rst(1, 2)],
  ['RST_STREAM without blame', rst(1, 0)],
  ['GOAWAY', encodeFrame(FrameType.Goaway, 0, 0, Buffer.concat([uint32(0), uint32(2)]))],
  ['HPACK that is none', encodeFrame(FrameType.Headers, 4, 1, Buffer.of(0xff, 0xff, 0xff, 0xff, 0xff, 0xff))],
  ['a frame above 16 KiB', encodeFrame(FrameType.Data, 0, 1, Buffer.alloc(20_000))],
  ['HTTP/1.1', Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')],
];

const cut: readonly (readonly [string, Buffer])[] = [
  ['RST_STREAM(NO_ERROR)', Buffer.concat([ok(), data('abc'), rst(1, 0)])],
  ['RST_STREAM(CANCEL)', Buffer.concat([ok(), data('abc'), rst(1, 8)])],
  ['RST_STREAM(INTERNAL_ERROR)', Buffer.concat([ok(), data('abc'), rst(1, 2)])],
  ['END_STREAM short of the length', Buffer.concat([ok([['content-length', '9']]), data('abc', end)])],
  ['more than the length', Buffer.concat([ok([['content-length', '2']]), data('abc', end)])],
  ['a malformed trailer', Buffer.concat([ok(), data('abc'), head([['connection', 'x']], 5)])],
  ['a pseudo-header field in the trailers', Buffer.concat([ok(), data('abc'), head([[':status', '200']], 5)])],
  ['trailers that end nothing', Buffer.concat([ok(), data('abc'), head([['x', 'y']], 4)])],
  [
    'GOAWAY that forgets the stream',
    Buffer.concat([ok(), data('abc'), encodeFrame(FrameType.Goaway, 0, 0, Buffer.concat([uint32(0), uint32(0)]))]),
  ],
  ['garbage', Buffer.concat([ok(), data('abc'), Buffer.from('garbage that is no frame at all, however it is read')])],
];

it.each(refused)('an answer with %s is 502', async (_name, frames) => {
  answering(frames);
  expect((await ask()).status).toBe(502);
});

it.each(cut)('an answer that ends by %s never looks complete', async (_name, frames) => {
  answering(frames);
  const answer = await ask();
  if (answer.status !== 502) expect([answer.status, answer.complete]).toEqual([200, false]);
});

it('a push promise that nobody wants is no answer', async () => {
  const promise = encodeBlock([
    [':method', 'GET'],
    [':path', '/'],
    [':scheme', 'http'],
    [':authority', 'h2.test'],
  ]);
  answering(encodeFrame(FrameType.PushPromise, 4, 1, Buffer.concat([uint32(2), promise])));
  expect([502, 504]).toContain((await ask()).status);
});

it('an answer to HEAD, a 204 and a 304 carry no body, whatever frames follow', async () => {
  for (const [method, status] of [
    ['HEAD', '200'],
    ['GET', '204'],
    ['GET', '304'],
  ] as const) {
    answering(Buffer.concat([head([[':status', status]]), data('stray', end)]));
    const answer = await ask(method);
    expect(answer.body).toBe('');
    expect([Number(status), 502]).toContain(answer.status);
  }
});

it('a backend that says nothing, or nothing after the request, is 504', async () => {
  backend.accepted = () => {};
  expect((await ask()).status).toBe(504);
  answering(Buffer.alloc(0));
  expect((await ask()).status).toBe(504);
});

overTransports(
  'a backend that floods',
  (transport) => {
    const floods: readonly (readonly [string, (i: number) => Buffer])[] = [
      ['PING', () => encodeFrame(FrameType.Ping, 0, 0, Buffer.alloc(8))],
      ['SETTINGS', (i) => encodeSettings([[Setting.InitialWindowSize, i % 65_536]])],
      ['empty DATA', (i) => (i === 0 ? ok() : data(''))],
      [
        'interim answers',
        () =>
          head([
            [':status', '103'],
            ['link', '</a>'],
          ]),
      ],
      [
        'CONTINUATION',
        (i) =>
          i === 0
            ? encodeFrame(FrameType.Headers, 0, 1, encodeBlock([[':status', '200']]))
            : encodeFrame(9, 0, 1, encodeBlock([['x', 'a'.repeat(1000)]])),
      ],
      ['unknown frames', () => encodeFrame(0xfa, 0, 0, Buffer.alloc(100))],
      ['priorities', (i) => encodeFrame(FrameType.Priority, 0, 2 * i + 1, Buffer.of(0, 0, 0, 0, 1))],
      ['window updates', () => encodeFrame(FrameType.WindowUpdate, 0, 0, uint32(1))],
      [
        'references to one long field',
        (i) =>
          encodeFrame(
            FrameType.Headers,
            4,
            1,
            i === 0
              ? Buffer.concat([
                  encodeBlock([[':status', '103']]),
                  Buffer.of(0x40, 1, 0x78, 0x7f, 0x80 | ((3900 - 127) & 127), (3900 - 127) >> 7),
                  Buffer.alloc(3900, 97),
                ])
              : Buffer.concat([encodeBlock([[':status', '103']]), Buffer.alloc(12_000, 0xbe)]),
          ),
      ],
    ];

    it.each(floods)('with %s ends with its own request, and costs little', async (_name, frame) => {
      const [pid] = await f.p.workerPids();
      const before = residentSize(pid!);
      let sending = true;
      answering((socket) => {
        let i = 0;
        const more = (): void => {
          if (!sending || socket.destroyed) return;
          const burst: Buffer[] = [];
          for (let k = 0; k < 100; k++) burst.push(frame(i++));
          if (socket.write(Buffer.concat(burst))) setImmediate(more);
          else socket.once('drain', more);
        };
        more();
      });
      const requester = f.requester(transport);
      const asked = requester.request({ host: 'h2.test' });
      for (let i = 0; i < 10; i++)
        expect((await f.requester(transport).request({ host: 'alive.test' })).status).toBe(200);
      const answer = await asked.catch(() => null);
      sending = false;
      if (answer !== null)
        expect(answer.status === 200 ? !answer.complete : [502, 504].includes(answer.status)).toBe(true);
      expect(residentSize(pid!) - before).toBeLessThan(48 * miB);
    });
  },
  ['h1', 'h2'],
);

it('frames drawn at random end no process', { timeout: 60_000 }, async () => {
  const [pid] = await f.p.workerPids();
  await fc.assert(
    fc.asyncProperty(
      fc.array(backendFrame, { minLength: 1, maxLength: 12 }),
      fc.constantFrom('GET', 'POST', 'HEAD'),
      fc.boolean(),
      async (frames, method, apart) => {
        answering((socket) => {
          if (!apart) socket.end(Buffer.concat(frames));
          else {
            for (const [i, frame] of frames.entries()) setTimeout(() => socket.write(frame), i);
            setTimeout(() => socket.end(), frames.length + 1);
          }
        });
        const options = {
          host: 'h2.test',
          method,
          lines: [['TE', 'trailers']] as const,
          ...(method === 'POST' ? { body: 'abc' } : {}),
        };
        const answer = await f.requester(apart ? 'h1' : 'h2c').request(options);
        expect([200, 204, 502, 504]).toContain(answer.status);
      },
    ),
    { numRuns: 150, seed: 9113 },
  );
  expect(await f.p.workerPids()).toEqual([pid]);
});

it('after all of that the same backend serves an ordinary answer', async () => {
  answering(Buffer.concat([ok([['x', 'y']]), data('fine'), head([['x-sum', '4']], 5)]));
  await until('an ordinary answer', async () => {
    const answer = await ask();
    return answer.status === 200 && answer.complete && answer.body === 'fine' && answer.trailers.length === 1;
  });
});

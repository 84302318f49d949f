// gRPC through the proxy, all four kinds of call, with @grpc/grpc-js on both ends, over TLS and in plaintext.
import { join } from 'node:path';
import {
  type Client,
  credentials,
  type GrpcObject,
  type handleBidiStreamingCall,
  type handleClientStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  loadPackageDefinition,
  Metadata,
  Server,
  ServerCredentials,
  type ServiceClientConstructor,
  type ServiceError,
  status,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import { repository } from '../support/turnpike.ts';
import { sleep, until } from '../support/wait.ts';

interface Word {
  readonly text: string;
  readonly count: number;
}

const definition = loadSync(join(repository, 'test/support/echo.proto'), { keepCase: true });
const { turnpike } = loadPackageDefinition(definition) as unknown as { turnpike: { test: GrpcObject } };
const Echo = turnpike.test['Echo'] as ServiceClientConstructor;

const server = new Server();
/** Calls that the server has seen end before their time. */
let cancelled = 0;
let grpcPort = 0;

const unary: handleUnaryCall<Word, Word> = ({ request, metadata }, done) => {
  const trailer = new Metadata();
  trailer.set('x-seen', metadata.get('x-given')[0] ?? 'none');
  trailer.set('x-sum-bin', Buffer.of(0, 1, 254, 255));
  if (request.text === 'fail') done({ code: status.FAILED_PRECONDITION, details: 'as asked: é' });
  else done(null, request, trailer);
};

const collect: handleClientStreamingCall<Word, Word> = (call, done) => {
  let text = '';
  let count = 0;
  call.on('data', (word: Word) => {
    text += word.text;
    count++;
  });
  call.on('end', () => done(null, { text, count }));
  call.on('error', () => {});
};

const spread: handleServerStreamingCall<Word, Word> = (call) => {
  const { text, count } = call.request;
  call.on('cancelled', () => cancelled++);
  for (let i = 0; i < count; i++) call.write({ text: `${text}-${i}`, count: i });
  // A negative count never ends by itself.
  if (count >= 0) call.end();
  else call.write({ text: 'first', count: 0 });
};

const talk: handleBidiStreamingCall<Word, Word> = (call) => {
  call.on('data', (word: Word) => call.write({ text: word.text.toUpperCase(), count: word.count }));
  call.on('end', () => call.end());
  call.on('error', () => {});
};

const f = useProxy({
  names: ['grpc.test'],
  more: async () => {
    server.addService(Echo.service, { unary, collect, spread, talk });
    grpcPort = await new Promise<number>((resolve, reject) => {
      server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
        error === null ? resolve(port) : reject(error),
      );
    });
    return `
[external_routes."grpc.test"]
to = ["127.0.0.1:${grpcPort}"]
protocol = "h2c"
`;
  },
});

afterAll(() => server.forceShutdown());

const clients: Client[] = [];
afterEach(() => {
  for (const client of clients.splice(0)) client.close();
});

interface EchoClient extends Client {
  unary(word: Partial<Word>, metadata: Metadata, done: (error: ServiceError | null, word: Word) => void): EmitsStatus;
  collect(done: (error: ServiceError | null, word: Word) => void): Writer;
  spread(word: Partial<Word>): Reader;
  talk(): Reader & Writer;
}
interface EmitsStatus {
  on(event: 'status', listener: (status: { code: number; metadata: Metadata }) => void): void;
}
interface Writer {
  write(word: Partial<Word>): void;
  end(): void;
}
interface Reader extends AsyncIterable<Word> {
  cancel(): void;
  on(event: 'data', listener: (word: Word) => void): void;
  on(event: 'error', listener: (error: ServiceError) => void): void;
}

function connect(transport: 'tls' | 'plain'): EchoClient {
  const port = transport === 'tls' ? f.securePort : f.webPort;
  const channel = transport === 'tls' ? credentials.createSsl(Buffer.from(f.ca.pem)) : credentials.createInsecure();
  const client = new Echo(`127.0.0.1:${port}`, channel, {
    'grpc.ssl_target_name_override': 'grpc.test',
    'grpc.default_authority': 'grpc.test',
  }) as unknown as EchoClient;
  clients.push(client);
  return client;
}

describe.each(['tls', 'plain'] as const)('gRPC over %s', (transport) => {
  it('a unary call brings metadata both ways', async () => {
    const given = new Metadata();
    given.set('x-given', 'this');
    const outcome = await new Promise<{ word: Word; trailer: Metadata }>((resolve, reject) => {
      let answered: Word | null = null;
      const call = connect(transport).unary({ text: 'hello', count: 7 }, given, (error, word) => {
        if (error !== null) reject(error);
        else answered = word;
      });
      call.on('status', ({ metadata }) => resolve({ word: answered!, trailer: metadata }));
    });
    expect(outcome.word).toEqual({ text: 'hello', count: 7 });
    expect(outcome.trailer.get('x-seen')).toEqual(['this']);
    expect(outcome.trailer.get('x-sum-bin')).toEqual([Buffer.of(0, 1, 254, 255)]);
  });

  it('an error keeps its code and its words', async () => {
    const error = await new Promise<ServiceError | null>((resolve) => {
      connect(transport).unary({ text: 'fail' }, new Metadata(), (failure) => resolve(failure));
    });
    expect(error?.code).toBe(status.FAILED_PRECONDITION);
    expect(error?.details).toBe('as asked: é');
  });

  it('a large message passes', async () => {
    const text = 'large '.repeat(500_000);
    const word = await new Promise<Word>((resolve, reject) => {
      connect(transport).unary({ text }, new Metadata(), (error, answer) =>
        error === null ? resolve(answer) : reject(error),
      );
    });
    expect(word.text.length).toBe(text.length);
  });

  it('a client stream is collected', async () => {
    const word = await new Promise<Word>((resolve, reject) => {
      const call = connect(transport).collect((error, answer) => (error === null ? resolve(answer) : reject(error)));
      for (let i = 0; i < 200; i++) call.write({ text: `${i},` });
      call.end();
    });
    expect(word.count).toBe(200);
    expect(word.text.endsWith('198,199,')).toBe(true);
  });

  it('a server stream arrives whole and in order', async () => {
    const words: Word[] = [];
    for await (const word of connect(transport).spread({ text: 'w', count: 300 })) words.push(word);
    expect(words.map((word) => word.count)).toEqual(Array.from({ length: 300 }, (_each, i) => i));
  });

  it('both directions talk at the same time', async () => {
    const call = connect(transport).talk();
    const heard: string[] = [];
    call.on('data', (word) => heard.push(word.text));
    for (const text of ['one', 'two', 'three']) {
      call.write({ text });
      await until(`the answer to ${text}`, () => heard.includes(text.toUpperCase()));
    }
    call.end();
    await sleep(50);
    expect(heard).toEqual(['ONE', 'TWO', 'THREE']);
  });

  it('a cancel of the client reaches the server', async () => {
    const before = cancelled;
    const call = connect(transport).spread({ text: 'w', count: -1 });
    call.on('error', () => {});
    let first = false;
    call.on('data', () => {
      first = true;
    });
    await until('the first word', () => first);
    call.cancel();
    await until('the server to see it', () => cancelled > before, { timeoutMs: 1500 });
  });

  it('many calls at once share the connections', async () => {
    const client = connect(transport);
    const words = await Promise.all(
      Array.from(
        { length: 200 },
        (_each, i) =>
          new Promise<number>((resolve, reject) => {
            client.unary({ text: 'x', count: i + 1 }, new Metadata(), (error, word) =>
              error === null ? resolve(word.count) : reject(error),
            );
          }),
      ),
    );
    expect(words).toEqual(Array.from({ length: 200 }, (_each, i) => i + 1));
  });
});

// What containers print, at a receiver of OTLP: once, under the right name, without secrets, and nothing of who opted out.
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { appPath } from '../../src/control/apps-api.ts';
import { ContainerKit, pages } from '../support/container-kit.ts';
import { startDocker, type TestEngine } from '../support/engines.ts';
import { until } from '../support/wait.ts';

interface Attribute {
  readonly key: string;
  readonly value: { readonly stringValue?: string; readonly intValue?: string };
}
interface Resource {
  readonly attributes: readonly Attribute[];
}
interface LogsBody {
  readonly resourceLogs: readonly {
    readonly resource: Resource;
    readonly scopeLogs: readonly {
      readonly logRecords: readonly {
        readonly timeUnixNano: string;
        readonly severityText: string;
        readonly body: { readonly stringValue: string };
      }[];
    }[];
  }[];
}
interface MetricsBody {
  readonly resourceMetrics: readonly {
    readonly scopeMetrics: readonly { readonly metrics: readonly { readonly name: string }[] }[];
  }[];
}
interface Received {
  readonly of: Readonly<Record<string, string>>;
  readonly severity: string;
  readonly nanos: string;
  readonly text: string;
}

const secret = 'open-sesame-of-forty-thieves';
let engine: TestEngine;
let kit: ContainerKit;
let receiver: Server;
const received: Received[] = [];
const metrics = new Set<string>();

function take(path: string | undefined, text: string): void {
  if (path === '/v1/metrics') {
    const { resourceMetrics } = JSON.parse(text) as MetricsBody;
    for (const { scopeMetrics } of resourceMetrics) {
      for (const each of scopeMetrics) for (const { name } of each.metrics) metrics.add(name);
    }
    return;
  }
  for (const { resource, scopeLogs } of (JSON.parse(text) as LogsBody).resourceLogs) {
    const of = Object.fromEntries(
      resource.attributes.map(({ key, value }) => [key, value.stringValue ?? value.intValue ?? '']),
    );
    for (const { timeUnixNano, severityText, body } of scopeLogs.flatMap(({ logRecords }) => logRecords)) {
      received.push({ of, severity: severityText, nanos: timeUnixNano, text: body.stringValue });
    }
  }
}

beforeAll(async () => {
  receiver = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      take(request.url, gunzipSync(Buffer.concat(chunks)).toString('utf8'));
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  engine = await startDocker();
  const talk = [
    'echo "hello of $NAME with $KEY"',
    'echo "trouble" >&2',
    'i=0; while [ $i -lt 5 ]; do i=$((i+1)); echo "count $i"; done',
    'exec httpd -f -p 8080 -h /www',
  ];
  engine.image(pages, ['/bin/sh', '/talk'], { talk: talk.join('\n') });
  const endpoint = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
  kit = await ContainerKit.start(engine, `[telemetry]\nendpoint = "${endpoint}"\nlogs = true\nmetrics = true\n`);
}, 120_000);

afterAll(async () => {
  try {
    await kit?.end();
  } finally {
    receiver?.closeAllConnections();
    receiver?.close();
    await engine?.stop();
  }
}, 60_000);

const manifest = `name = "talk"
[telemetry]
logs = false
[services.loud]
image = "${pages}"
stop_grace = "1s"
[services.loud.env]
NAME = "loud"
[services.loud.secrets]
KEY = "key"
[services.loud.telemetry]
logs = true
[services.quiet]
image = "${pages}"
stop_grace = "1s"
[services.quiet.env]
NAME = "quiet"
`;

test('lines come once, before and after an engine that crashed; a service that opted out says nothing', async () => {
  expect((await kit.apply('talk', manifest)).problems).toEqual([]);
  await kit.p.control.post(appPath('talk', 'secret-set'), { service: 'loud', name: 'key', value: secret });
  await kit.serve('talk', manifest);
  const first = ['hello of loud with [redacted]', 'trouble', ...[1, 2, 3, 4, 5].map((i) => `count ${i}`)].sort();
  await until('the first lines', () => received.length >= first.length, { timeoutMs: 10_000 });
  expect(received.map(({ text }) => text).sort()).toEqual(first);
  const [one] = received;
  const id = engine.cli('ps', '-q', '--no-trunc', '--filter', `id=${one!.of['container.id']}`).trim();
  expect(one!.of).toMatchObject({ 'service.name': 'talk.loud', 'container.id': id, 'turnpike.revision': '1' });
  expect(one!.of['container.image.id']).toMatch(/^sha256:[0-9a-f]{64}$/);
  expect(received.filter(({ severity }) => severity === 'ERROR').map(({ text }) => text)).toEqual(['trouble']);
  expect(Math.abs(Number(BigInt(one!.nanos) / 1_000_000n) - Date.now())).toBeLessThan(120_000);

  await engine.crash();
  await engine.restart();
  // Whatever was started again says hello under another generation; nothing of the old one is told twice.
  const instance = one!.of['turnpike.generation'];
  await until('another generation', () => received.some(({ of }) => of['turnpike.generation'] !== instance), {
    timeoutMs: 30_000,
  });
  await until(
    'all it says',
    () => received.filter(({ of }) => of['turnpike.generation'] !== instance).length >= first.length,
    { timeoutMs: 10_000 },
  );
  expect(received.filter(({ of }) => of['turnpike.generation'] === instance)).toHaveLength(first.length);
  expect(new Set(received.map(({ of }) => of['service.name']))).toEqual(new Set(['talk.loud']));
  expect(JSON.stringify(received)).not.toContain(secret);
  expect([...metrics]).toEqual(expect.arrayContaining(['turnpike_workers', 'turnpike_telemetry_records_total']));
}, 90_000);

import { afterEach, expect, it } from 'vitest';
import { until } from '../support/wait.ts';
import { Edge, onPort } from './entrypoint-kit.ts';

const open: Edge[] = [];
afterEach(async () => {
  for (const edge of open.splice(0)) await edge.close();
});

function serving(): { edge: Edge; port: number } {
  const edge = new Edge();
  open.push(edge);
  const port = edge.lend();
  edge.publish({ entrypoints: [onPort(port)] });
  return { edge, port };
}

const value = (edge: Edge, reason: string): number =>
  edge.metrics.counter('entrypoint_refused_total', '', ['entrypoint', 'reason']).cell('web', reason).value;

it('a connection for which there is no descriptor is closed and counted, and holds no place', async () => {
  const { edge, port } = serving();
  edge.hasRoom = false;
  const refused = await edge.client(port);
  await refused.untilEnd();
  expect(value(edge, 'overload')).toBe(1);
  expect(edge.entrypoints.connections).toBe(0);
  edge.hasRoom = true;
  const client = await edge.client(port);
  client.get('/x');
  await client.until(/[/]x$/);
});

it('a listener that paused leaves its connections alone and names the socket that it needs', async () => {
  const { edge, port } = serving();
  const client = await edge.client(port);
  client.get('/x');
  await client.until(/[/]x$/);
  expect(edge.entrypoints.pausedKeys).toEqual([]);
  edge.entrypoints.pause();
  edge.entrypoints.pause();
  expect(edge.entrypoints.pausedKeys).toEqual([`127.0.0.1:${port}`]);
  client.get('/y');
  await client.until(/[/]y$/);
  edge.lend('127.0.0.1', port);
  expect(edge.entrypoints.pausedKeys).toEqual([]);
  const next = await edge.client(port);
  next.get('/x');
  await next.until(/[/]x$/);
});

it('the third sweep that finds a connection idle closes it, and one with something in work never', async () => {
  let answer = (): void => {};
  const edge = new Edge((target) =>
    target === '/wait' ? new Promise((resolve) => (answer = () => resolve('done'))) : target,
  );
  open.push(edge);
  const port = edge.lend();
  edge.publish({ entrypoints: [onPort(port)] });
  const idle = await edge.client(port);
  const silent = await edge.client(port);
  const busy = await edge.client(port);
  const half = await edge.client(port);
  const asking = await edge.client(port);
  for (const each of [idle, asking]) {
    each.get('/x');
    await each.until(/[/]x$/);
  }
  busy.get('/wait');
  half.socket.write('GET /half HTTP/1.1\r\n');
  await until('the request', () => edge.http.seen.some(({ target }) => target === '/wait'));
  await until('half a head', () => edge.entrypoints.connections === 5);
  expect(edge.entrypoints.sweepIdle()).toBe(0);
  expect(edge.entrypoints.sweepIdle()).toBe(0);
  asking.get('/again');
  await asking.until(/[/]again$/);
  expect(edge.entrypoints.sweepIdle()).toBe(2);
  await idle.untilEnd();
  await silent.untilEnd();
  expect(edge.entrypoints.sweepIdle()).toBe(0);
  answer();
  await busy.until(/done$/);
  half.socket.write('Host: a.test\r\n\r\n');
  await half.until(/[/]half$/);
});

import { expect, test } from 'vitest';
import { Metrics } from '../../src/base/metrics.ts';
import { MetricsSum } from '../../src/process/metrics.ts';
import { host, route, routing, service } from '../support/routing.ts';

/** A worker that has counted this. */
function worker(requests: Readonly<Record<string, number>>, open = 0): ReturnType<Metrics['collect']> {
  const metrics = new Metrics();
  const family = metrics.counter('requests_total', 'Requests', ['route']);
  for (const [id, count] of Object.entries(requests)) family.cell(id).value = count;
  metrics.gauge('open', 'Open').cell().value = open;
  const seconds = metrics.histogram('seconds', 'Seconds', ['route'], [1, 2]).cell('a.test');
  for (let i = 0; i < (requests['a.test'] ?? 0); i++) seconds.observe(1.5);
  return metrics.collect();
}

const lines = (text: string): string[] => text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));

test('counters, gauges and histograms of all processes are added up', async () => {
  const text = await new MetricsSum().text([worker({ 'a.test': 2 }, 3), worker({ 'a.test': 1, 'b.test': 5 }, 4)]);
  expect(lines(text)).toEqual([
    'turnpike_requests_total{route="a.test"} 3',
    'turnpike_requests_total{route="b.test"} 5',
    'turnpike_open 7',
    'turnpike_seconds_bucket{route="a.test",le="1"} 0',
    'turnpike_seconds_bucket{route="a.test",le="2"} 3',
    'turnpike_seconds_bucket{route="a.test",le="+Inf"} 3',
    'turnpike_seconds_sum{route="a.test"} 4.5',
    'turnpike_seconds_count{route="a.test"} 3',
  ]);
});

test('what a worker had counted stays when it leaves, what it had open does not', async () => {
  const sum = new MetricsSum();
  sum.keep(worker({ 'a.test': 2 }, 3));
  sum.keep(worker({ 'a.test': 1, 'b.test': 1 }, 3));
  const text = await sum.text([worker({ 'a.test': 1 }, 1)]);
  expect(lines(text)).toEqual(
    expect.arrayContaining([
      'turnpike_requests_total{route="a.test"} 4',
      'turnpike_requests_total{route="b.test"} 1',
      'turnpike_open 1',
      'turnpike_seconds_count{route="a.test"} 4',
    ]),
  );
  expect(sum.sum([], 'turnpike_requests_total').map(({ value }) => value)).toEqual([3, 1]);
});

test('routes that left the configuration are forgotten', () => {
  const sum = new MetricsSum();
  sum.keep(worker({ 'a.test': 2, 'b.test': 1, other: 7 }));
  sum.forget(
    routing({ hosts: [host('a.test', [route('a.test', 'a.test')])], services: [service('a.test', 1, ['h:1'])] }),
  );
  const kept = sum.sum([], 'turnpike_requests_total').map(({ labels, value }) => [labels['route'], value]);
  expect(kept).toEqual([
    ['a.test', 2],
    ['other', 7],
  ]);
});

test('label values cannot break the exposition', async () => {
  const text = await new MetricsSum().text([worker({ 'a"} 1\nx{b="\\': 1 })]);
  expect(lines(text)[0]).toBe('turnpike_requests_total{route="a\\"} 1\\nx{b=\\"\\\\"} 1');
});

import { AggregatorRegistry } from 'prom-client';
import { expect, test } from 'vitest';
import { Metrics } from '../../src/base/metrics.ts';

test('two processes add up to one valid exposition', async () => {
  const worker = (requests: number, seconds: readonly number[]) => {
    const metrics = new Metrics();
    metrics.counter('requests_total', 'Requests.', ['route']).cell('a.test"\n\\').value += requests;
    const histogram = metrics.histogram('request_seconds', 'Duration.', ['route'], [0.1, 1]).cell('a.test');
    for (const each of seconds) histogram.observe(each);
    return metrics.collect();
  };
  const registry = AggregatorRegistry.aggregate([worker(2, [0.05, 5]), worker(3, [0.5])] as never);
  const text = await registry.metrics();
  expect(text).toContain('turnpike_requests_total{route="a.test\\"\\n\\\\"} 5');
  expect(text).toContain('turnpike_request_seconds_bucket{route="a.test",le="0.1"} 1');
  expect(text).toContain('turnpike_request_seconds_bucket{route="a.test",le="1"} 2');
  expect(text).toContain('turnpike_request_seconds_bucket{route="a.test",le="+Inf"} 3');
  expect(text).toContain('turnpike_request_seconds_count{route="a.test"} 3');
});

test('the same labels give the same cell; a dropped label value takes its series along', () => {
  const metrics = new Metrics();
  const family = metrics.counter('requests_total', 'Requests.', ['route', 'class']);
  expect(family.cell('a', '2xx')).toBe(
    metrics.counter('requests_total', 'Requests.', ['route', 'class']).cell('a', '2xx'),
  );
  family.cell('b', '2xx').value = 1;
  metrics.drop('route', 'a');
  expect(family.collect().values).toEqual([{ labels: { route: 'b', class: '2xx' }, value: 1 }]);
});

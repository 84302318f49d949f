// Fields by which a client tells a second story about its request: another path, another method, a thousand ranges.
//
// CVE-2018-14773 of Symfony (X-Original-URL, X-Rewrite-URL), X-HTTP-Method-Override behind rules for methods, CVE-2011-3192 (the
// Apache killer's ranges). Routes, limits and the log go by the request line alone; the fields are the app's, byte for byte.
import { expect, it } from 'vitest';
import { useProxy } from '../support/proxy-fixture.ts';
import type { Line } from '../support/recorder.ts';
import { overTransports } from '../support/transports.ts';

const f = useProxy({
  workers: 1,
  more: ({ app1, app2 }) => `
[external_routes."paths.test"]
to = ["${app1.address}"]
[[external_routes."paths.test".routes]]
path = "/admin"
to = ["${app2.address}"]
`,
  names: ['paths.test'],
});

const stories: readonly Line[] = [
  ['X-Original-URL', '/admin'],
  ['X-Rewrite-URL', '/admin'],
  ['X-Forwarded-Uri', '/admin'],
  ['X-Original-Host', 'app2.test'],
  ['X-HTTP-Method-Override', 'DELETE'],
  ['X-HTTP-Method', 'DELETE'],
  ['X-Method-Override', 'DELETE'],
  ['Max-Forwards', '0'],
  ['Range', `bytes=${Array.from({ length: 1500 }, (_each, i) => `${i}-`).join(',')}`],
  ['Content-Location', 'http://app2.test/admin'],
  ['Destination', 'http://127.0.0.1/'],
];

overTransports('a second story about a request', (transport) => {
  it.each(stories.map(([name, value]) => [name, value] as const))('%s changes nothing here', async (name, value) => {
    const answer = await f.requester(transport).request({ host: 'paths.test', path: '/x?y', lines: [[name, value]] });
    expect(answer.status).toBe(200);
    expect(f.app2.exchanges).toEqual([]);
    const { last } = f.app1;
    expect([last.method, last.target]).toEqual(['GET', '/x?y']);
    // What speaks in the voice of a proxy is not passed on at all.
    expect(last.values(name.toLowerCase())).toEqual(name.startsWith('X-Forwarded') ? [] : [value]);
  });
});

// Parts of snapshots arrive as they were sent, a piece at a time, or not at all.
import { expect, test } from 'vitest';
import { Fault } from '../../src/base/fault.ts';
import { openPart, sealPart } from '../../src/model/part-code.ts';

const limits = { bodySize: Number.MAX_SAFE_INTEGER };
const part = {
  settings: { limits, names: ['a', 'b'] },
  hosts: Array.from({ length: 2500 }, (_each, i) => ({ name: `host${i}`, limits, down: null })),
  services: [{ name: 'a', limits }],
};

test('a part comes out as it went in, with a pause after each piece', async () => {
  let pauses = 0;
  const opened = await openPart(sealPart(part), async () => {
    pauses++;
  });
  expect(opened).toEqual(part);
  expect(Object.keys(opened)).toEqual(Object.keys(part));
  expect(pauses).toBe(3);
});

test('what many items share is one object again', async () => {
  const { hosts } = (await openPart(sealPart(part), async () => {})) as typeof part;
  expect(new Set(hosts.map((host) => host.limits)).size).toBe(3);
});

test('a small part comes without a pause', async () => {
  let pauses = 0;
  const small = { down: { a: ['127.0.0.1:1'] } };
  const pause = async () => {
    pauses++;
  };
  expect(await openPart(sealPart(small), pause)).toEqual(small);
  expect(pauses).toBe(0);
});

test('a part that was altered on the way is refused', async () => {
  const { pieces } = sealPart({ down: { a: ['127.0.0.1:2'] } });
  const altered = { ...sealPart({ down: {} }), pieces };
  await expect(openPart(altered, async () => {})).rejects.toThrow(Fault);
});

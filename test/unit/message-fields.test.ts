import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FieldId, fieldIdOf } from '../../src/message/field-id.ts';
import { Fields, listHasToken } from '../../src/message/fields.ts';

describe('field ids', () => {
  test('are found in any case', () => {
    for (const name of ['Host', 'hOsT', 'HOST', 'host']) expect(fieldIdOf(name)).toBe(FieldId.Host);
    expect(fieldIdOf('Sec-WebSocket-Extensions')).toBe(FieldId.SecWebSocketExtensions);
    expect(fieldIdOf('x-forwarded-PORT')).toBe(FieldId.XForwardedPort);
  });

  test('are exact: neighbours, underscores and control characters are other names', () => {
    for (const name of ['', 'Hos', 'Hostt', 'Content_Length', 'Content\rLength', 'x-forwarded_for', 'T\u0005', 'te ']) {
      expect(fieldIdOf(name)).toBe(FieldId.Other);
    }
  });

  test('agree with a lower-cased comparison for any string', () => {
    const known = ['host', 'te', 'etag', 'content-length', 'x-request-id', 'set-cookie'];
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.mixedCase(fc.constantFrom(...known))), (name) => {
        // Only ASCII letters fold: "K" (Kelvin sign) lower-cases to "k" but is another name.
        const ascii = name.replace(/[A-Z]/g, (c) => c.toLowerCase());
        expect(fieldIdOf(name)).toBe(fieldIdOf(ascii));
      }),
    );
  });
});

describe('fields', () => {
  test('keep order, case and duplicates; removal keeps the places of the others', () => {
    const fields = Fields.of(['X-A', '1'], ['Set-Cookie', 'a=1'], ['set-cookie', 'b=2'], ['x-a', '3']);
    expect(fields.count(FieldId.SetCookie)).toBe(2);
    fields.removeNamed('X-a');
    expect([...fields.entries()]).toEqual([
      ['Set-Cookie', 'a=1'],
      ['set-cookie', 'b=2'],
    ]);
    fields.remove(FieldId.SetCookie);
    expect([...fields.entries()]).toEqual([]);
    expect(fields.get(FieldId.SetCookie)).toBeNull();
  });

  test('set replaces every line by one at the end', () => {
    const fields = Fields.of(['X-Real-IP', '9.9.9.9'], ['A', 'b'], ['x-real-ip', '8.8.8.8']);
    fields.set('X-Real-IP', '1.1.1.1', FieldId.XRealIp);
    expect([...fields.entries()]).toEqual([
      ['A', 'b'],
      ['X-Real-IP', '1.1.1.1'],
    ]);
  });

  test('a line that could not be written as one line is never live', () => {
    const long = 'x'.repeat(100);
    for (const text of ['a\rb', 'a\nb', 'a\0b', 'a\u010ab', `${long}\r\n`, `${long}\u4e2d`]) {
      const fields = Fields.of(['X-A', text], [text, 'b'], ['Content-Type', text], ['X-B', `\xe9${long}`]);
      expect([...fields.entries()]).toEqual([['X-B', `\xe9${long}`]]);
      expect(fields.length).toBe(4);
    }
  });

  test('getNamed finds names without an id in any case', () => {
    expect(Fields.of(['X-Custom', 'v']).getNamed('x-cUSTOM')).toBe('v');
    expect(Fields.of(['X-Custom', 'v']).getNamed('x-other')).toBeNull();
  });
});

test.each([
  ['upgrade', true],
  ['keep-alive, Upgrade', true],
  ['Upgrade , close', true],
  ['upgraded', false],
  ['h2c', false],
  ['', false],
])('token list %j holds "upgrade": %s', (list, holds) => expect(listHasToken(list, 'upgrade')).toBe(holds));

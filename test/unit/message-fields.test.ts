import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FieldId, fieldIdOf } from '../../src/message/field-id.ts';
import { FieldBlock, Fields, listHasToken } from '../../src/message/fields.ts';

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

describe('the text of fields', () => {
  const everything = new Uint8Array(128).fill(1);
  everything[FieldId.Removed + 1] = 0;
  const wire = 'A: 1\r\nHost: a.test\r\nX-B:   2\r\nCookie: c\r\n';

  /** As a strict parser leaves them: `X-B` does not stand there as it would be written. */
  function parsed(): Fields {
    const fields = new Fields();
    fields.pushParsed('A', '1', FieldId.Other, wire, 0);
    fields.pushParsed('Host', 'a.test', FieldId.Host, wire, 6);
    fields.pushParsed('X-B', '2', FieldId.Other, wire, -1);
    fields.pushParsed('Cookie', 'c', FieldId.Cookie, wire, 30);
    return fields;
  }
  const block = new FieldBlock([
    ['X-Forwarded-For', '::1', FieldId.XForwardedFor],
    ['X-Real-IP', '::1', FieldId.XRealIp],
  ]);
  const blockText = 'X-Forwarded-For: ::1\r\nX-Real-IP: ::1\r\n';

  test('is what was read, but for blanks', () => {
    expect(parsed().text(everything)).toBe('A: 1\r\nHost: a.test\r\nX-B: 2\r\nCookie: c\r\n');
  });

  test('follows replacement, removal and what a serialiser leaves out', () => {
    const fields = parsed();
    fields.replace(1, 'b.test');
    expect(fields.text(everything)).toBe('A: 1\r\nHost: b.test\r\nX-B: 2\r\nCookie: c\r\n');
    fields.removeAt(0);
    const noCookie = everything.slice();
    noCookie[FieldId.Cookie + 1] = 0;
    expect(fields.text(noCookie)).toBe('Host: b.test\r\nX-B: 2\r\n');
  });

  test('a value that would end its line takes its line along', () => {
    const fields = parsed();
    fields.replace(1, 'b.test\r\nX-Evil: 1');
    expect(fields.text(everything)).toBe('A: 1\r\nX-B: 2\r\nCookie: c\r\n');
  });

  test('holds a block whole, or without the lines that were removed or replaced', () => {
    const fields = parsed();
    fields.pushBlock(block);
    fields.pushSafe('X-Request-Id', 'r', FieldId.XRequestId);
    expect(fields.text(everything)).toContain(`Cookie: c\r\n${blockText}X-Request-Id: r\r\n`);
    expect(fields.get(FieldId.XRealIp)).toBe('::1');
    fields.removeNamed('x-forwarded-for');
    expect(fields.text(everything)).toContain('Cookie: c\r\nX-Real-IP: ::1\r\nX-Request-Id: r\r\n');
    const other = new Fields();
    other.pushBlock(block);
    other.replace(1, '10.0.0.1');
    expect(other.text(everything)).toBe('X-Forwarded-For: ::1\r\nX-Real-IP: 10.0.0.1\r\n');
  });

  test('restore brings back what was saved', () => {
    const fields = parsed();
    fields.pushBlock(block);
    const before = fields.text(everything);
    const saved = fields.save();
    fields.replace(1, 'b.test');
    fields.removeNamed('a');
    fields.add('X-New', 'n');
    fields.restore(saved);
    expect(fields.text(everything)).toBe(before);
    expect(fields.length).toBe(6);
  });

  test('agrees with its names and values, whatever was done to it', () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('replace' as const), at: fc.nat(5), value: fc.constantFrom('1', 'x', 'a.test') }),
      fc.record({ kind: fc.constant('remove' as const), at: fc.nat(5), value: fc.constant('') }),
      fc.record({ kind: fc.constant('add' as const), at: fc.constant(0), value: fc.constantFrom('y', 'z') }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
        const fields = parsed();
        fields.pushBlock(block);
        for (const { kind, at, value } of steps) {
          if (kind === 'replace') fields.replace(at, value);
          else if (kind === 'remove') fields.removeAt(at);
          else fields.add('X-Added', value);
        }
        const lines = [...fields.entries()].map(([name, value]) => `${name}: ${value}\r\n`);
        expect(fields.text(everything)).toBe(lines.join(''));
      }),
    );
  });
});

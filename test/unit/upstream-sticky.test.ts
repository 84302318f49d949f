import { describe, expect, it } from 'vitest';
import { Fields } from '../../src/message/fields.ts';
import { cookieValue, StickyCookie } from '../../src/upstream/sticky.ts';

const key = Buffer.alloc(32, 1);
const cookie = (service = 'app.test', cookieKey = key): StickyCookie =>
  new StickyCookie(service, 'route', () => cookieKey);
/** The value in a Set-Cookie that was made. */
const madeValue = (setCookie: string): string => /^route=([^;]*);/.exec(setCookie)![1]!;

/** Which of two backends the value names. */
const named = (each: StickyCookie, value: string): string | undefined =>
  ['10.0.0.1:80', '10.0.0.2:80'][each.find(value, [{ address: '10.0.0.1:80' }, { address: '10.0.0.2:80' }])];

describe('sticky cookie', () => {
  it('names its backend and no other', () => {
    const value = madeValue(cookie().make('10.0.0.1:80'));
    expect(named(cookie(), value)).toBe('10.0.0.1:80');
    expect(named(cookie(), madeValue(cookie().make('10.0.0.2:80')))).toBe('10.0.0.2:80');
    expect(cookie().find(value, [{ address: '10.0.0.2:80' }])).toBe(-1);
  });

  it('outlives a restart: the same key gives the same value', () => {
    expect(cookie().make('10.0.0.1:80')).toBe(cookie().make('10.0.0.1:80'));
  });

  it('does not show the address', () => {
    const made = cookie().make('10.0.0.1:80');
    expect(made).not.toContain('10.0.0.1');
    expect(Buffer.from(madeValue(made), 'base64url').toString('latin1')).not.toContain('10.0.0.1');
  });

  it('is worth nothing under another key or for another service', () => {
    const value = madeValue(cookie().make('10.0.0.1:80'));
    expect(named(cookie('app.test', Buffer.alloc(32, 2)), value)).toBeUndefined();
    expect(named(cookie('other.test'), value)).toBeUndefined();
  });

  it('ignores forged values of any length', () => {
    const value = madeValue(cookie().make('10.0.0.1:80'));
    for (const forged of ['', 'x', '10.0.0.1:80', value.slice(0, -1), `${value}A`, value.toUpperCase()]) {
      expect(named(cookie(), forged)).toBeUndefined();
    }
  });

  it('follows a new key at once', () => {
    let current = key;
    const rotating = new StickyCookie('app.test', 'route', () => current);
    const before = madeValue(rotating.make('10.0.0.1:80'));
    current = Buffer.alloc(32, 9);
    expect(named(rotating, before)).toBeUndefined();
    expect(named(rotating, madeValue(rotating.make('10.0.0.1:80')))).toBe('10.0.0.1:80');
  });

  it('is out of reach of scripts and of other sites', () => {
    expect(cookie().make('a:1')).toMatch(/^route=[\w-]{24}; Path=\/; HttpOnly; SameSite=Lax$/);
  });
});

describe('reading a cookie', () => {
  const read = (name: string, ...lines: string[]): string | null =>
    cookieValue(Fields.of(...lines.map((line): [string, string] => ['Cookie', line])), name);

  it('finds it wherever it stands', () => {
    expect(read('b', 'a=1; b=2; c=3')).toBe('2');
    expect(read('c', 'a=1;b=2;c=3')).toBe('3');
    expect(read('c', 'a=1', 'b=2', 'c=3')).toBe('3');
    expect(read('a', ' a=1 ;b=2')).toBe('1');
    expect(read('e', 'e=')).toBe('');
    expect(read('v', 'v=a=b')).toBe('a=b');
  });

  it('is not fooled by names that only begin or end alike', () => {
    expect(read('b', 'ab=1; bb=2; b2=3')).toBeNull();
    expect(read('b', 'a=b=1')).toBeNull();
    expect(read('b', 'b; c=1')).toBeNull();
    expect(read('B', 'b=1')).toBeNull();
    expect(read('b')).toBeNull();
  });
});

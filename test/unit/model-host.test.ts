import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { canonicalAuthority, canonicalHost, canonicalPattern, patternCovers } from '../../src/model/host.ts';

describe('an authority has one canonical form', () => {
  test.each([
    ['app1.test', 'app1.test', null],
    ['APP1.Test', 'app1.test', null],
    ['app1.test.', 'app1.test', null],
    ['app1.test.:8080', 'app1.test', 8080],
    ['app1.test:', 'app1.test', null],
    ['app_1.test', 'app_1.test', null],
    ['bücher.test', 'xn--bcher-kva.test', null],
    ['127.0.0.1:80', '127.0.0.1', 80],
    ['[::1]', '[::1]', null],
    ['[::1]:8080', '[::1]', 8080],
    ['[0:0:0:0:0:0:0:1]', '[::1]', null],
    ['[2001:DB8::1]:443', '[2001:db8::1]', 443],
  ])('%s → %s port %s', (text, host, port) => {
    expect(canonicalAuthority(text)).toEqual({ host, port });
  });

  test.each([
    '',
    '.',
    'app1.test..',
    '.app1.test',
    'a..b',
    'a b',
    'app1.test/@evil',
    'user@app1.test',
    'app1.test:0',
    'app1.test:99999',
    'app1.test:bad',
    'app1.test:80:80',
    '::1',
    '[::1',
    '[::1]x',
    '[::1]:x',
    '[fe80::1%eth0]',
    '[127.0.0.1]',
    'a?b',
    'a#b',
    'a\\b',
    'a\tb',
    'a\u0000b',
    '-a.test',
    'a-.test',
    `${'a'.repeat(64)}.test`,
    `${'a.'.repeat(127)}toolong`,
    'a%62.test',
    'a,b',
  ])('%j is refused', (text) => {
    expect(canonicalAuthority(text)).toBeNull();
  });

  test('canonical forms are fixed points', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.domain(),
          fc.ipV6().map((ip) => `[${ip}]`),
          fc.ipV4(),
        ),
        (text) => {
          const once = canonicalHost(text);
          if (once !== null) expect(canonicalHost(once)).toBe(once);
        },
      ),
      { numRuns: 2000 },
    );
  });
});

describe('host patterns', () => {
  test.each([
    ['*', '*'],
    ['*.Wild.test', '*.wild.test'],
    ['app1.test.', 'app1.test'],
  ])('%s → %s', (text, pattern) => expect(canonicalPattern(text)).toBe(pattern));

  test.each(['*.', '**.test', 'a.*.test', '*x.test', '*.10.0.0.1', '*.[::1]'])('%s is refused', (text) => {
    expect(canonicalPattern(text)).toBeNull();
  });

  test('a wildcard covers exactly one label', () => {
    expect(patternCovers('*.wild.test', 'x.wild.test')).toBe(true);
    expect(patternCovers('*.wild.test', 'a.b.wild.test')).toBe(false);
    expect(patternCovers('*.wild.test', 'wild.test')).toBe(false);
    expect(patternCovers('*.wild.test', 'xwild.test')).toBe(false);
    expect(patternCovers('*.0.0.1', '127.0.0.1')).toBe(false);
  });
});

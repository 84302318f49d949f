import { describe, expect, test } from 'vitest';
import { judgePlaintext, judgeTls, redirectPort } from '../../src/model/tls-policy.ts';

describe('a plaintext request', () => {
  test.each([
    // policy, TLS endpoint exists, redirects on, trusted peer says https
    ['auto', true, true, false, 'redirect'],
    ['auto', true, false, false, 'serve'],
    ['auto', false, true, false, 'serve'],
    ['auto', true, true, true, 'serve'],
    ['always', true, true, false, 'redirect'],
    ['always', true, false, false, 'redirect'],
    ['always', true, false, true, 'redirect'],
    ['always', false, true, false, 'misdirected'],
    ['always', false, false, true, 'misdirected'],
    ['never', true, true, false, 'serve'],
    ['never', false, false, false, 'serve'],
  ] as const)(
    '%s, endpoint %s, redirects %s, forwarded https %s → %s',
    (policy, endpoint, redirects, https, verdict) => {
      expect(judgePlaintext(policy, endpoint, redirects, https)).toBe(verdict);
    },
  );
});

describe('a request over TLS', () => {
  test.each([
    ['auto', 'x.wild.test', 'default', 'default', ['*.wild.test'], false, 'serve'],
    ['always', 'app1.test', 'default', 'default', ['app1.test'], false, 'serve'],
    ['never', 'app1.test', 'default', 'default', ['app1.test'], false, 'misdirected-never'],
    ['never', 'app1.test', 'default', 'default', ['app1.test'], true, 'misdirected-never'],
    ['auto', 'app2.test', 'default', 'default', ['app1.test'], false, 'misdirected-identity'],
    ['auto', 'app2.test', 'default', 'default', ['app1.test'], true, 'serve'],
    ['auto', 'a.b.wild.test', 'default', 'default', ['*.wild.test'], false, 'misdirected-identity'],
    ['auto', 'app1.test', 'mtls', 'default', ['app1.test'], false, 'misdirected-profile'],
    ['auto', 'app1.test', 'mtls', 'default', ['app1.test'], true, 'misdirected-profile'],
  ] as const)(
    '%s %s, host profile %s on %s, names %j, trusted %s → %s',
    (policy, name, own, connection, names, trusted, verdict) => {
      expect(judgeTls(policy, name, own, connection, names, trusted)).toBe(verdict);
    },
  );
});

describe('the port of a redirect to https', () => {
  test.each([
    // requested, plaintext listener, TLS listener, public port
    [null, 80, 443, null, null],
    [8080, 8080, 8443, null, 8443],
    [9999, 8080, 8443, null, 9999],
    [8080, 8080, 8443, 443, null],
    [null, 8080, 8443, 444, 444],
    [80, 80, 443, null, null],
  ])('host port %s on %s → tls %s public %s: %s', (requested, plain, tls, published, port) => {
    expect(redirectPort(requested, plain, tls, published)).toBe(port);
  });
});

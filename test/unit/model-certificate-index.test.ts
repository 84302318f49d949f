import { describe, expect, it } from 'vitest';
import {
  certificateFor,
  certificateIndex,
  chooseCertificate,
  fallbackCertificate,
} from '../../src/model/certificate-index.ts';
import type { Certificate, CertificatesPart } from '../../src/model/snapshot.ts';

function certificate(id: string, names: readonly string[], over: Partial<Certificate> = {}): Certificate {
  return { id, source: 'static', origin: id, names, notBefore: 0, notAfter: 1000, chain: '', key: '', ...over };
}

function part(certificates: readonly Certificate[], over: Partial<CertificatesPart> = {}): CertificatesPart {
  return { certificates, defaultId: null, internalCa: false, pending: [], ...over };
}

function choose(from: CertificatesPart, name: string, pattern: string | null = null): string {
  const choice = chooseCertificate(certificateIndex(from), name, pattern);
  return choice.kind === 'certificate' ? `${choice.certificate.id} ${choice.why}` : JSON.stringify(choice);
}

describe('the certificate for a name', () => {
  // traefik/traefik#4081, #7001: the deeper and the exact one must win, whatever the order.
  const wild = part(
    [
      certificate('wild', ['wild.test', '*.wild.test']),
      certificate('sub', ['sub.wild.test', '*.sub.wild.test']),
      certificate('api', ['api.wild.test']),
    ],
    { defaultId: 'wild' },
  );

  it('is the exact one before the wildcard, and a wildcard stands for one label', () => {
    expect(choose(wild, 'api.wild.test')).toBe('api exact');
    expect(choose(wild, 'other.wild.test')).toBe('wild wildcard');
    expect(choose(wild, 'q.sub.wild.test')).toBe('sub wildcard');
    expect(choose(wild, 'sub.wild.test')).toBe('sub exact');
    expect(choose(wild, 'wild.test')).toBe('wild exact');
    expect(choose(wild, 'a.b.wild.test')).toBe('wild default');
  });

  it('is the same in whatever order they are listed', () => {
    const reversed = part([...wild.certificates].reverse(), { defaultId: 'wild' });
    for (const name of ['api.wild.test', 'q.sub.wild.test', 'wild.test', 'x.test']) {
      expect(choose(reversed, name)).toBe(choose(wild, name));
    }
  });

  it('is a static one before an ACME one, even where only its wildcard fits', () => {
    const both = part([certificate('acme', ['a.x.test'], { source: 'acme' }), certificate('own', ['*.x.test'])]);
    expect(choose(both, 'a.x.test')).toBe('own wildcard');
  });

  it('is the one that lives longest, then the newest, then the one with the lower id', () => {
    const rivals = [
      certificate('short', ['a.test'], { notAfter: 10 }),
      certificate('long', ['a.test'], { notAfter: 20, notBefore: 1 }),
      certificate('newer', ['a.test'], { notAfter: 20, notBefore: 2 }),
      certificate('newer-b', ['a.test'], { notAfter: 20, notBefore: 2 }),
    ];
    expect(choose(part(rivals), 'a.test')).toBe('newer exact');
    expect(choose(part([...rivals].reverse()), 'a.test')).toBe('newer exact');
  });

  it('is an internal leaf for configured names only, and never for what a catch-all lets in', () => {
    const internal = part([certificate('own', ['own.test'])], { internalCa: true });
    expect(choose(internal, 'a.test', 'a.test')).toBe('{"kind":"internal","name":"a.test"}');
    expect(choose(internal, 'a.b.test', '*.b.test')).toBe('{"kind":"internal","name":"*.b.test"}');
    expect(choose(internal, 'own.test', 'own.test')).toBe('own exact');
    expect(choose(internal, 'random.test', '*')).toBe('{"kind":"none"}');
    expect(choose(internal, 'random.test', null)).toBe('{"kind":"none"}');
  });

  it('is an internal leaf rather than a default one that does not cover the name', () => {
    const both = part([certificate('own', ['own.test'])], { internalCa: true, defaultId: 'own' });
    expect(choose(both, 'a.test', 'a.test')).toBe('{"kind":"internal","name":"a.test"}');
    expect(choose(both, 'random.test', '*')).toBe('own default');
  });

  it('never takes an address for a name with labels', () => {
    const odd = part([certificate('wild', ['*.0.0.1']), certificate('v6', ['[::1]'])]);
    expect(choose(odd, '127.0.0.1')).toBe('{"kind":"none"}');
    expect(choose(odd, '[::1]')).toBe('v6 exact');
  });

  it('is none when there is none', () => {
    expect(choose(part([]), 'a.test', 'a.test')).toBe('{"kind":"none"}');
    expect(fallbackCertificate(certificateIndex(part([certificate('a', ['a.test'])])))).toEqual({ kind: 'none' });
    expect(choose(part([certificate('a', ['a.test'])], { defaultId: 'gone' }), 'b.test')).toBe('{"kind":"none"}');
  });
});

describe('an HTTPS endpoint', () => {
  it('needs a certificate that covers the host, not a default one', () => {
    const index = certificateIndex(part([certificate('own', ['own.test', '*.w.test'])], { defaultId: 'own' }));
    expect(certificateFor(index, 'own.test', 'own.test')).toBe('now');
    expect(certificateFor(index, 'a.w.test', '*.w.test')).toBe('now');
    expect(certificateFor(index, 'other.test', 'other.test')).toBeNull();
  });

  it('is there as soon as the internal CA may sign', () => {
    const index = certificateIndex(part([], { internalCa: true }));
    expect(certificateFor(index, 'a.test', 'a.test')).toBe('now');
    expect(certificateFor(index, 'a.test', '*')).toBeNull();
  });

  it('is on its way for a host whose first order is pending, also while the internal CA stands in', () => {
    for (const internalCa of [false, true]) {
      const index = certificateIndex(part([], { internalCa, pending: ['a.test', '*.w.test'] }));
      expect(certificateFor(index, 'a.test', 'a.test')).toBe('soon');
      expect(certificateFor(index, 'x.w.test', '*.w.test')).toBe('soon');
    }
    const covered = certificateIndex(part([certificate('own', ['a.test'])], { pending: ['a.test'] }));
    expect(certificateFor(covered, 'a.test', 'a.test')).toBe('now');
  });
});

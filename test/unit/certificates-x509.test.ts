import { createPrivateKey, generateKeyPairSync, X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { mintCa } from '../../certs/make-certs.ts';
import { issueCertificate, namesOf, readChain } from '../../src/certificates/x509.ts';
import { openssl } from './tls-kit.ts';

const directory = mkdtempSync(join(tmpdir(), 'turnpike-x509-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function file(name: string, content: string): string {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
}

const ca = mintCa();
const names = ['a.test', '*.w.test', 'x.local', '127.0.0.1', '[::1]', '[2001:db8::7]'];

describe('a certificate that is made here', () => {
  for (const rsa of [false, true]) {
    it(`verifies with openssl, strictly, for every name (${rsa ? 'RSA' : 'EC'} key)`, async () => {
      const leaf = ca.leaf({ names, rsa });
      const leafFile = file('leaf.pem', leaf.cert);
      const base = ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', file('ca.pem', ca.cert)];
      for (const [flag, name] of [
        ['-verify_hostname', 'a.test'],
        ['-verify_hostname', 'q.w.test'],
        ['-verify_ip', '127.0.0.1'],
        ['-verify_ip', '::1'],
        ['-verify_ip', '2001:db8:0::7'],
      ] as const) {
        expect(await openssl([...base, flag, name, leafFile]), name).toMatch(/: OK/);
      }
      expect(await openssl([...base, '-verify_hostname', 'b.test', leafFile])).toMatch(/hostname mismatch/);
      expect(new X509Certificate(leaf.cert).checkPrivateKey(createPrivateKey(leaf.key))).toBe(true);
    });
  }

  it('for a client is none for a server, and the reverse', async () => {
    const caFile = file('ca.pem', ca.cert);
    const client = file('client.pem', ca.leaf({ commonName: 'c', clientAuth: true }).cert);
    const server = file('server.pem', ca.leaf({ names: ['a.test'] }).cert);
    const verify = (purpose: string, path: string) => openssl(['verify', '-purpose', purpose, '-CAfile', caFile, path]);
    expect(await verify('sslclient', client)).toMatch(/: OK/);
    expect(await verify('sslserver', client)).toMatch(/unsuitable certificate purpose/);
    expect(await verify('sslclient', server)).toMatch(/unsuitable certificate purpose/);
  });

  it('tells its names again, canonical and with addresses', () => {
    expect(namesOf(new X509Certificate(ca.leaf({ names }).cert))).toEqual(names);
    expect(namesOf(new X509Certificate(ca.leaf({ names: ['UPPER.Test', '*.W.test', 'a.test.'] }).cert))).toEqual([
      'upper.test',
      '*.w.test',
      'a.test',
    ]);
  });

  it('never outlives its issuer, nor is it older', () => {
    const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const issuer = { certificate: new X509Certificate(ca.cert), key: createPrivateKey(ca.key) };
    const pem = issueCertificate(
      {
        commonName: 'long',
        organization: null,
        publicKey,
        notBefore: 0,
        notAfter: Date.UTC(2200, 0),
        names: ['a.test'],
        use: 'server',
      },
      issuer,
    );
    const made = new X509Certificate(pem);
    expect(made.validToDate).toEqual(issuer.certificate.validToDate);
    expect(made.validFromDate).toEqual(issuer.certificate.validFromDate);
  });

  it('may end after 2049, where the form of the date changes', () => {
    const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const [notBefore, notAfter] = [Date.UTC(2049, 11, 31, 23, 59, 59), Date.UTC(2050, 0, 1, 0, 0, 1)];
    const content = { commonName: 'far', organization: 'O', publicKey, notBefore, notAfter, names: [] };
    const made = new X509Certificate(
      issueCertificate({ ...content, use: { pathLength: 0 } }, { certificate: null, key: privateKey }),
    );
    expect([made.validFromDate.getTime(), made.validToDate.getTime()]).toEqual([notBefore, notAfter]);
    expect(made.ca).toBe(true);
    expect(made.verify(publicKey)).toBe(true);
  });

  it('has a serial number of its own', () => {
    const serials = new Set(Array.from({ length: 50 }, () => new X509Certificate(ca.leaf({}).cert).serialNumber));
    expect(serials.size).toBe(50);
    for (const serial of serials) expect(serial).toMatch(/^[4-7][0-9A-F]{39}$/);
  });
});

describe('a certificate of someone else', () => {
  it('tells its names, without what is no host and without its common name', async () => {
    const key = join(directory, 'own.key');
    const cert = join(directory, 'own.pem');
    await openssl([
      ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
      ...['-subj', '/CN=only-common.test', '-keyout', key, '-out', cert, '-addext'],
      'subjectAltName=DNS:A.test,DNS:*.b.test,DNS:*,DNS:f*.c.test,DNS:sp ace,email:me@d.test,URI:https://e.test/,IP:10.0.0.1,IP:::1',
    ]);
    const [certificate] = readChain(await openssl(['x509', '-in', cert]));
    expect(namesOf(certificate!)).toEqual(['a.test', '*.b.test', '10.0.0.1', '[::1]']);
  });
});

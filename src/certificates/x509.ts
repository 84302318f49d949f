// X.509 certificates: built with node-forge's ASN.1, signed by node:crypto (node-forge cannot handle EC keys), and read.
// Invariant: a certificate made here is never valid longer than its issuer, and its serial number is random (RFC 5280
// §4.1.2.2).
import { createHash, type KeyObject, randomBytes, sign, X509Certificate } from 'node:crypto';
import { isIP, isIPv4 } from 'node:net';
import type forge from 'node-forge';
import { canonicalHost, canonicalPattern } from '../model/host.ts';
import {
  type Asn1,
  asn1,
  bitString,
  boolean,
  bytesOf,
  children,
  explicit,
  fromDer,
  implicit,
  integer,
  node,
  objectId,
  octetString,
  sequence,
  toDer,
  wholeForge,
} from './der.ts';

/** What a certificate shall say. Times are epoch milliseconds. */
export interface CertificateContent {
  /** Subject common name, for people; at most 64 characters are kept. */
  readonly commonName: string;
  readonly organization: string | null;
  readonly publicKey: KeyObject;
  readonly notBefore: number;
  readonly notAfter: number;
  /** Canonical host names, one-label wildcards and IP literals (IPv6 in brackets); empty for a CA. */
  readonly names: readonly string[];
  readonly use: 'server' | 'client' | CaUse;
  /** Proves control over the one name to a CA (RFC 8737 §3): SHA-256 of the key authorization. */
  readonly acmeIdentifier?: Buffer;
}

export interface CaUse {
  /** How many CAs may follow below. */
  readonly pathLength: number;
}

/** Who signs. Its own certificate null: self-signed. */
export interface Signer {
  readonly certificate: X509Certificate | null;
  /** EC P-256 (any EC key with SHA-256) or RSA. */
  readonly key: KeyObject;
}

const oids = {
  commonName: '2.5.4.3',
  organization: '2.5.4.10',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
  clientAuth: '1.3.6.1.5.5.7.3.2',
  acmeIdentifier: '1.3.6.1.5.5.7.1.31',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  sha256WithRsa: '1.2.840.113549.1.1.11',
} as const;

/** Bits of KeyUsage, most significant first (RFC 5280 §4.2.1.3). */
const KeyUsage = { digitalSignature: 0x80, keyEncipherment: 0x20, keyCertSign: 0x04, crlSign: 0x02 } as const;

/** @returns the certificate, PEM */
export function issueCertificate(content: CertificateContent, signer: Signer): string {
  const issuer = signer.certificate;
  const notBefore = issuer === null ? content.notBefore : Math.max(content.notBefore, issuer.validFromDate.getTime());
  const notAfter = issuer === null ? content.notAfter : Math.min(content.notAfter, issuer.validToDate.getTime());
  if (notAfter <= notBefore) throw new Error('the issuer is not valid at that time');
  const subject = distinguishedName(content);
  const algorithm = signatureAlgorithm(signer.key);
  const tbs = sequence(
    explicit(0, integer(Buffer.of(2))),
    integer(serialNumber()),
    algorithm,
    issuer === null ? subject : subjectOf(issuer),
    sequence(time(notBefore), time(notAfter)),
    subject,
    fromDer(content.publicKey.export({ type: 'spki', format: 'der' })),
    explicit(3, sequence(...extensions(content, signer))),
  );
  const tbsDer = toDer(tbs);
  const signature = sign('sha256', tbsDer, signer.key);
  return pem(toDer(sequence(tbs, algorithm, bitString(signature))));
}

function extensions(content: CertificateContent, { certificate: issuer }: Signer): Asn1[] {
  const { use, names, publicKey, acmeIdentifier } = content;
  const ca = typeof use === 'object';
  const rsa = publicKey.asymmetricKeyType === 'rsa';
  const usage = ca
    ? KeyUsage.keyCertSign | KeyUsage.crlSign | KeyUsage.digitalSignature
    : KeyUsage.digitalSignature | (rsa ? KeyUsage.keyEncipherment : 0);
  const ownId = keyIdentifier(publicKey);
  const list = [
    extension(
      oids.basicConstraints,
      true,
      ca ? sequence(boolean(true), integer(Buffer.of(use.pathLength))) : sequence(),
    ),
    // One unused bit for each trailing zero of the named bits (DER).
    extension(oids.keyUsage, true, bitString(Buffer.of(usage), Math.log2(usage & -usage))),
    extension(oids.subjectKeyIdentifier, false, octetString(ownId)),
    extension(
      oids.authorityKeyIdentifier,
      false,
      sequence(implicit(0, issuer === null ? ownId : keyIdentifier(issuer.publicKey))),
    ),
  ];
  if (!ca) {
    const purpose = use === 'client' ? oids.clientAuth : oids.serverAuth;
    list.push(extension(oids.extendedKeyUsage, false, sequence(objectId(purpose))));
  }
  if (names.length > 0) list.push(subjectAltName(names));
  if (acmeIdentifier !== undefined) list.push(extension(oids.acmeIdentifier, true, octetString(acmeIdentifier)));
  return list;
}

export function subjectAltName(names: readonly string[]): Asn1 {
  return extension(oids.subjectAltName, false, sequence(...names.map(generalName)));
}

function generalName(name: string): Asn1 {
  const address = name.startsWith('[') ? name.slice(1, -1) : name;
  // RFC 5280 §4.2.1.6: dNSName is [2], iPAddress is [7] with 4 or 16 bytes.
  return isIP(address) === 0 ? implicit(2, Buffer.from(name, 'latin1')) : implicit(7, addressBytes(address));
}

function addressBytes(address: string): Buffer {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number));
  const [head = '', tail] = address.split('::');
  const groups = (text: string): number[] =>
    text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16));
  const front = groups(head);
  const back = tail === undefined ? [] : groups(tail);
  const all = [...front, ...new Array<number>(8 - front.length - back.length).fill(0), ...back];
  const bytes = Buffer.alloc(16);
  all.forEach((group, i) => {
    bytes.writeUInt16BE(group, i * 2);
  });
  return bytes;
}

// ---- reading ---------------------------------------------------------------------------------------------------

/**
 * What the certificate covers, canonical; names that are no hosts (mail addresses, URIs, wildcards in odd places) are
 * left out. The common name does not count (RFC 9525 §2).
 */
export function namesOf(certificate: X509Certificate): readonly string[] {
  const names = new Set<string>();
  for (const entry of subjectAltNames(certificate)) {
    const name = entry.kind === 'dns' ? canonicalPattern(entry.text) : canonicalAddress(entry.bytes);
    if (name !== null && name !== '*') names.add(name);
  }
  return [...names];
}

type AltName = { readonly kind: 'dns'; readonly text: string } | { readonly kind: 'ip'; readonly bytes: Buffer };

function* subjectAltNames(certificate: X509Certificate): Iterable<AltName> {
  for (const value of extensionValues(certificate, oids.subjectAltName)) {
    for (const name of children(value)) {
      if (name.type === (2 as forge.asn1.Type)) yield { kind: 'dns', text: bytesOf(name).toString('latin1') };
      else if (name.type === (7 as forge.asn1.Type)) yield { kind: 'ip', bytes: bytesOf(name) };
    }
  }
}

function* extensionValues(certificate: X509Certificate, id: string): Iterable<Asn1> {
  const [tbs] = children(fromDer(certificate.raw));
  const extensionList = children(tbs!).find(
    (part) => part.tagClass === asn1().Class.CONTEXT_SPECIFIC && part.type === 3,
  );
  if (extensionList === undefined) return;
  for (const each of children(children(extensionList)[0]!)) {
    const parts = children(each);
    if (asn1().derToOid(bytesOf(parts[0]!).toString('latin1')) === id) yield fromDer(bytesOf(parts.at(-1)!));
  }
}

/** Which of its issuer's keys signed it (RFC 5280 §4.2.1.1); null: it does not say. */
export function authorityKeyId(certificate: X509Certificate): Buffer | null {
  for (const value of extensionValues(certificate, oids.authorityKeyIdentifier)) {
    const id = children(value).find((part) => part.type === (0 as forge.asn1.Type));
    if (id !== undefined) return bytesOf(id);
  }
  return null;
}

/** The content of its serial number in DER, the zero before a high bit included. */
export function serialBytes(certificate: X509Certificate): Buffer {
  const [tbs] = children(fromDer(certificate.raw));
  const fields = children(tbs!);
  return bytesOf(fields[hasVersion(fields) ? 1 : 0]!);
}

function canonicalAddress(bytes: Buffer): string | null {
  if (bytes.length === 4) return bytes.join('.');
  if (bytes.length !== 16) return null;
  const groups = Array.from({ length: 8 }, (_, i) => bytes.readUInt16BE(i * 2).toString(16));
  return canonicalHost(`[${groups.join(':')}]`);
}

/** SHA-256 over the DER, hex: the id of a certificate in a snapshot. */
export function fingerprintOf(certificate: X509Certificate): string {
  return createHash('sha256').update(certificate.raw).digest('hex');
}

/** Every certificate of a PEM text, in order. Throws when one cannot be read. */
export function readChain(text: string): X509Certificate[] {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  return blocks.map((block) => new X509Certificate(block));
}

export function pem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g)!;
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}

// ---- DER -------------------------------------------------------------------------------------------------------

/** SHA-256 of the public key's bits, cut to 160 bits (RFC 7093 §2, method 1). */
function keyIdentifier(publicKey: KeyObject): Buffer {
  const [, bits] = children(fromDer(publicKey.export({ type: 'spki', format: 'der' })));
  return createHash('sha256').update(bytesOf(bits!).subarray(1)).digest().subarray(0, 20);
}

function distinguishedName({ commonName, organization }: CertificateContent): Asn1 {
  const utf8 = asn1().Type.UTF8 as unknown as forge.asn1.Class;
  const attribute = (type: string, value: string) => ({ type, value, valueTagClass: utf8 });
  const attributes = organization === null ? [] : [attribute(oids.organization, organization)];
  attributes.push(attribute(oids.commonName, commonName.slice(0, 64)));
  return wholeForge().pki.distinguishedNameToAsn1({ attributes });
}

/** The subject field byte for byte, so that the chain links whatever string types it uses. */
function subjectOf(certificate: X509Certificate): Asn1 {
  const [tbs] = children(fromDer(certificate.raw));
  const fields = children(tbs!);
  return fields[hasVersion(fields) ? 5 : 4]!;
}

/** Version 1 is the default and not written. */
function hasVersion(fields: readonly Asn1[]): boolean {
  return fields[0]!.tagClass === asn1().Class.CONTEXT_SPECIFIC;
}

/** How `sign('sha256', …)` with this key is called. */
export function signatureAlgorithm(key: KeyObject): Asn1 {
  switch (key.asymmetricKeyType) {
    case 'ec':
      return sequence(objectId(oids.ecdsaWithSha256));
    case 'rsa':
      return sequence(objectId(oids.sha256WithRsa), node(asn1().Type.NULL, ''));
    default:
      throw new Error(`cannot sign with a key of type ${key.asymmetricKeyType}`);
  }
}

/** 159 random bits: positive, and never zero in practice. */
function serialNumber(): Buffer {
  const bytes = randomBytes(20);
  bytes[0]! &= 0x7f;
  bytes[0]! |= 0x40;
  return bytes;
}

/** RFC 5280 §4.1.2.5: UTCTime through 2049, GeneralizedTime from 2050 on. */
function time(ms: number): Asn1 {
  const date = new Date(ms);
  return date.getUTCFullYear() < 2050
    ? node(asn1().Type.UTCTIME, asn1().dateToUtcTime(date))
    : node(asn1().Type.GENERALIZEDTIME, asn1().dateToGeneralizedTime(date));
}

function extension(id: string, critical: boolean, value: Asn1): Asn1 {
  const wrapped = octetString(toDer(value));
  return critical ? sequence(objectId(id), boolean(true), wrapped) : sequence(objectId(id), wrapped);
}

// Pieces of DER (X.690) on node-forge's ASN.1, for certificates and the requests for them.
// Invariant: what is read and written again comes out byte for byte; bit strings are never opened.
import type forge from 'node-forge';
import { lazyModule } from '../base/lazy-module.ts';

/** Only who issues certificates or opens PKCS#12 needs more than ASN.1. */
export const wholeForge = lazyModule<typeof forge>('node-forge');
/** The ASN.1 of node-forge without all that is built on it. */
export const asn1 = lazyModule<typeof forge.asn1>('node-forge/lib/asn1.js');
const forgeUtil = lazyModule<typeof forge.util>('node-forge/lib/util.js');

export type Asn1 = forge.asn1.Asn1;

export function node(type: forge.asn1.Type, bytes: string): Asn1 {
  return asn1().create(asn1().Class.UNIVERSAL, type, false, bytes);
}

export function sequence(...parts: Asn1[]): Asn1 {
  return asn1().create(asn1().Class.UNIVERSAL, asn1().Type.SEQUENCE, true, parts);
}

export function explicit(tag: number, part: Asn1): Asn1 {
  return asn1().create(asn1().Class.CONTEXT_SPECIFIC, tag, true, [part]);
}

export function implicit(tag: number, bytes: Buffer): Asn1 {
  return asn1().create(asn1().Class.CONTEXT_SPECIFIC, tag, false, bytes.toString('latin1'));
}

export function integer(bytes: Buffer): Asn1 {
  return node(asn1().Type.INTEGER, bytes.toString('latin1'));
}

export function boolean(value: boolean): Asn1 {
  return node(asn1().Type.BOOLEAN, value ? '\xff' : '\0');
}

export function objectId(id: string): Asn1 {
  return node(asn1().Type.OID, asn1().oidToDer(id).getBytes());
}

export function octetString(bytes: Buffer): Asn1 {
  return node(asn1().Type.OCTETSTRING, bytes.toString('latin1'));
}

export function bitString(bytes: Buffer, unusedBits = 0): Asn1 {
  return node(asn1().Type.BITSTRING, String.fromCharCode(unusedBits) + bytes.toString('latin1'));
}

export function toDer(value: Asn1): Buffer {
  return Buffer.from(asn1().toDer(value).getBytes(), 'latin1');
}

/** Bit strings stay as they are: keys and signatures must come out byte for byte. (The types know only the old flag.) */
export function fromDer(der: Buffer): Asn1 {
  return asn1().fromDer(forgeUtil().createBuffer(der.toString('latin1')), {
    decodeBitStrings: false,
  } as unknown as boolean);
}

export function children(value: Asn1): Asn1[] {
  if (!Array.isArray(value.value)) throw new Error('malformed certificate');
  return value.value;
}

export function bytesOf(value: Asn1): Buffer {
  if (typeof value.value !== 'string') throw new Error('malformed certificate');
  return Buffer.from(value.value, 'latin1');
}

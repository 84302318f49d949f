// Where certificates, accounts and what is remembered about both are kept: by one process, or by several that share it.
// Invariant: every write is whole or not there; what a holder of an older term writes never hides what a newer one wrote.
import type { Certificate } from '../../model/snapshot.ts';

/** Rises with every lease and, within one, with every write. The highest one that can be used is the one that counts. */
export interface Version {
  /** Of the lease under which it was written. */
  readonly term: number;
  readonly serial: number;
}

export interface StoredCertificate {
  readonly version: Version;
  readonly certificate: Certificate;
  /** Common name of the leaf's issuer, for people. */
  readonly issuer: string;
  /** Who was asked for it; null: the metadata are lost, the pair is good. */
  readonly directory: string | null;
}

/** One name set. `current` null: nothing in it can be used; `known`: what the caller has. */
export interface StoredEntry {
  readonly id: string;
  readonly current: StoredCertificate | 'known' | null;
  /** What is broken in it, for people; an older version may be served meanwhile. */
  readonly problems: readonly string[];
}

export interface NewCertificate {
  /** PEM, leaf first. */
  readonly chain: string;
  readonly key: string;
  readonly issuer: string;
  readonly directory: string;
}

/**
 * Documents are small texts under names like "journal.00000007" or "nodes/ab12". A shared store (an object store, a database)
 * can stand beside the files: all it needs is `create`, which only one of many succeeds with.
 */
export interface AcmeStore {
  /** Every entry, each judged by itself: a broken one costs the others nothing. `known` ones are not read again. */
  certificates(known: (id: string) => Version | null): Promise<readonly StoredEntry[]>;
  /** Changes whenever `certificates` may give something else. */
  stamp(): Promise<string>;
  /** Durable, and of a version that counts, when it resolves. */
  put(id: string, term: number, content: NewCertificate): Promise<StoredCertificate>;
  remove(id: string): Promise<void>;
  read(name: string): Promise<string | null>;
  write(name: string, text: string): Promise<void>;
  /** False: there is one of this name. */
  create(name: string, text: string): Promise<boolean>;
  erase(name: string): Promise<void>;
  /** Names of documents that begin so. */
  list(prefix: string): Promise<readonly string[]>;
}

/** The name of an entry: readable, and a file name everywhere. */
export function entryId(names: readonly string[]): string {
  const [first = ''] = names;
  // "+" is in no host name, so these cannot be mistaken for one.
  if (first.startsWith('*.')) return `+wildcard${first.slice(1)}`;
  if (first.startsWith('[')) return `+ip.${first.slice(1, -1).replaceAll(':', '-')}`;
  return first;
}

export function isSame(a: Version, b: Version | null): boolean {
  return a.term === b?.term && a.serial === b.serial;
}

export function isNewer(a: Version, b: Version): boolean {
  return a.term === b.term ? a.serial > b.serial : a.term > b.term;
}

// Canonical order of lists whose order means nothing.
// Invariant: by code units, so that it is the same on every machine.

export function sortedBy<T>(items: readonly T[], ...keys: readonly ((item: T) => string | number)[]): readonly T[] {
  return [...items].sort((a, b) => {
    for (const key of keys) {
      const left = key(a);
      const right = key(b);
      if (left !== right) return left < right ? -1 : 1;
    }
    return 0;
  });
}

export function sorted(words: readonly string[]): readonly string[] {
  return sortedBy(words, (word) => word);
}

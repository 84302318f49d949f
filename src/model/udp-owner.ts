// Which worker owns the socket of which UDP entrypoint.
// Invariant: pure; an entrypoint whose owner is still there keeps it, and the others are spread evenly: flows are lost
// only when their owner is.

/**
 * @param keys  what is to be owned: one key for each UDP entrypoint's address
 * @param workers  ids of the workers that can own, in order of preference among equals
 * @param owners  key → worker id, as it was until now
 */
export function assignOwners(
  keys: readonly string[],
  workers: readonly string[],
  owners: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const next = new Map<string, string>();
  const load = new Map(workers.map((worker) => [worker, 0]));
  const take = (key: string, worker: string): void => {
    next.set(key, worker);
    load.set(worker, load.get(worker)! + 1);
  };
  for (const key of keys) {
    const owner = owners.get(key);
    if (owner !== undefined && load.has(owner)) take(key, owner);
  }
  for (const key of keys) {
    if (next.has(key)) continue;
    let idlest: string | undefined;
    for (const worker of workers) if (idlest === undefined || load.get(worker)! < load.get(idlest)!) idlest = worker;
    // Without a worker nobody owns; the next one that starts will.
    if (idlest !== undefined) take(key, idlest);
  }
  return next;
}

// Libraries that are large and that most runs never need: loaded when first used.
// Invariant: what is loaded is the same module that an import would have given.
import { createRequire } from 'node:module';

const load = createRequire(import.meta.url);

/** @example const yaml = lazyModule<typeof import('yaml')>('yaml'); … yaml().isMap(node) */
export function lazyModule<M>(name: string): () => M {
  let module: M | null = null;
  return () => {
    module ??= load(name) as M;
    return module;
  };
}

// Values that may be secrets, or stand where one belongs.
// Invariant: a refusal says what is wrong and never what was written.
import type { Form } from '../config/form.ts';
import type { Node } from '../config/syntax.ts';

/** @param kinds  what the form reads; its own refusals must not repeat a value either */
export function unrepeated<T>(form: Form<T>, kinds: readonly Node['kind'][], why: string): Form<T> {
  return {
    ...form,
    read(node, path, findings) {
      if (kinds.includes(node.kind)) return form.read(node, path, findings);
      const unquoted = node.kind === 'integer' || node.kind === 'float' || node.kind === 'boolean';
      findings.error(path, unquoted ? `${why}: quote it` : why, form.accepts);
      return undefined;
    },
  };
}

// What is wrong with a file, as an operator wants to hear it: where, which key, what, and what would be right.
// Invariant: a problem always names a file; line and column are 1-based, 0 when the file as a whole is meant.
import { type Document, formatPath, type Path } from './syntax.ts';

export interface Problem {
  /** As the operator named it. */
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** `external_routes."app.test".to[0]`; '' for the file as a whole. */
  readonly key: string;
  readonly message: string;
  /** The accepted form, or what to do; '' when the message says it all. */
  readonly accepted: string;
}

/** Where something was written, for whoever finds later that it cannot be used. */
export type ProblemPlace = Pick<Problem, 'file' | 'line' | 'column' | 'key'>;

/** `config.toml:12:8: external_routes."app.test".tls: "Always" is not a TLS policy (accepted: "auto", …)`. */
export function formatProblem(problem: Problem): string {
  const place = problem.line === 0 ? problem.file : `${problem.file}:${problem.line}:${problem.column}`;
  const key = problem.key === '' ? '' : ` ${problem.key}:`;
  const accepted = problem.accepted === '' ? '' : ` (accepted: ${problem.accepted})`;
  return `${place}:${key} ${problem.message}${accepted}`;
}

/** Collects everything that is found in one document. Errors make it unusable, warnings never do. */
export class Findings {
  readonly document: Document;
  readonly #errors: Problem[] = [];
  /** The paths of all errors and of everything around them. */
  readonly #failed = new Set<string>();
  readonly #warnings: Problem[] = [];

  constructor(document: Document) {
    this.document = document;
  }

  /** @param part  what the position points at: the value, or the name of the key */
  error(path: Path, message: string, accepted: string, part: 'key' | 'value' = 'value'): void {
    this.#errors.push(this.#problem(path, message, accepted, part));
    for (let length = 0; length <= path.length; length++) this.#failed.add(JSON.stringify(path.slice(0, length)));
  }

  warn(path: Path, message: string, accepted: string, part: 'key' | 'value' = 'value'): void {
    this.#warnings.push(this.#problem(path, message, accepted, part));
  }

  /** True when an error was found at this path or below: what follows from it needs no second complaint. */
  failed(path: Path): boolean {
    return this.#failed.size > 0 && this.#failed.has(JSON.stringify(path));
  }

  get sound(): boolean {
    return this.#errors.length === 0;
  }

  /** In the order of the file. */
  get problems(): readonly Problem[] {
    return [...this.#errors].sort(byPlace);
  }

  get warnings(): readonly Problem[] {
    return [...this.#warnings].sort(byPlace);
  }

  #problem(path: Path, message: string, accepted: string, part: 'key' | 'value'): Problem {
    const place = this.document.locate(path);
    const { line, column } = part === 'key' ? place.key : place.value;
    return { file: this.document.file, line, column, key: formatPath(path), message, accepted };
  }
}

function byPlace(a: Problem, b: Problem): number {
  return a.line - b.line || a.column - b.column;
}

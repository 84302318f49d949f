// One question of the bench: contestants answer it in turns, several rounds, and the medians are compared.
// Invariant: a contestant whose answer is wrong is not timed; contestants alternate, so a slow minute hits all of them.
import { type Contestant, type Ground, startBackend } from './contestants.ts';
import type { Load } from './load.ts';
import type { Program } from './process.ts';

export interface Question {
  readonly name: string;
  readonly asks: string;
  readonly contestants: readonly Contestant[];
  /** What stands behind the contestants; an HTTP server when left out. */
  readonly backend?: (ground: Ground) => Promise<Program>;
  /** Throws when the contestant does not do what is asked. */
  check(contestant: Contestant, ground: Ground): Promise<void>;
  load(contestant: Contestant, seconds: number): Promise<Load>;
  /** Bytes of body per request; 0 when requests are what counts. */
  readonly bodyBytes: number;
}

export interface Round {
  readonly cpuMicros: number;
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  readonly residentBytes: number;
}

export interface Result {
  readonly question: string;
  readonly asks: string;
  readonly bodyBytes: number;
  readonly contestants: readonly { readonly name: string; readonly rounds: readonly Round[] }[];
}

export async function answer(
  question: Question,
  ground: Ground,
  rounds: number,
  seconds: number,
  progress: (text: string) => void,
): Promise<Result> {
  const results = new Map<string, Round[]>(question.contestants.map(({ name }) => [name, []]));
  const backend = await (question.backend ?? startBackend)(ground);
  try {
    for (let round = 0; round < rounds; round++) {
      for (const contestant of question.contestants) {
        progress(`${question.name}: round ${round + 1} of ${rounds}, ${contestant.name}`);
        results.get(contestant.name)!.push(await once(question, contestant, ground, seconds));
      }
    }
  } finally {
    await backend.stop();
  }
  return {
    question: question.name,
    asks: question.asks,
    bodyBytes: question.bodyBytes,
    contestants: [...results].map(([name, each]) => ({ name, rounds: each })),
  };
}

async function once(question: Question, contestant: Contestant, ground: Ground, seconds: number): Promise<Round> {
  const program = await contestant.start(ground);
  try {
    await question.check(contestant, ground);
    // Everybody is warm before the clock runs: a compiler that is still compiling is not what is asked about.
    await question.load(contestant, Math.max(1, Math.floor(seconds / 2)));
    const before = program.cpuMicros();
    const load = await question.load(contestant, seconds);
    const used = program.cpuMicros() - before;
    return {
      cpuMicros: used / load.requests,
      perSecond: load.requests / load.seconds,
      p50: load.p50,
      p99: load.p99,
      residentBytes: program.residentBytes(),
    };
  } finally {
    await program.stop();
  }
}

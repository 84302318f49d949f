// One question of the bench: contestants answer it in turns, several rounds, and the medians are compared.
// Invariant: a contestant whose answer is wrong is not timed; contestants alternate, so a slow minute hits all of them.
import { type Contestant, type Ground, startBackend } from './contestants.ts';
import type { Load } from './load.ts';
import type { Program } from './process.ts';

/** A column of the table. The first one of a question is what its contestants are compared by. */
export interface Figure {
  /** Its name in a round, and in the JSON. */
  readonly key: string;
  /** With its unit. */
  readonly title: string;
  readonly digits: number;
}

/** What was seen of one contestant in one round, by the keys of the figures. */
export type Round = Readonly<Record<string, number>>;

export interface Question {
  readonly name: string;
  readonly asks: string;
  readonly contestants: readonly Contestant[];
  readonly figures: readonly Figure[];
  /** What stands behind the contestants; an HTTP server when left out. */
  readonly backend?: ((ground: Ground) => Promise<Program>) | undefined;
  /** Throws when the contestant does not do what is asked. */
  measure(contestant: Contestant, ground: Ground, seconds: number): Promise<Round>;
}

/** How long a just-in-time compiler may take to be done with what a load needs. */
export const warmSeconds = 3;

/** A question about the processor time of a unit of work under load. */
export interface LoadQuestion extends Pick<Question, 'name' | 'asks' | 'contestants' | 'backend'> {
  /** What is counted: "request" when left out. */
  readonly unit?: string;
  /** Bytes of body in a unit, when they are what counts. */
  readonly bodyBytes?: number;
  check(contestant: Contestant, ground: Ground): Promise<void>;
  load(contestant: Contestant, seconds: number): Promise<Load>;
}

export function underLoad(question: LoadQuestion): Question {
  const { name, asks, contestants, backend, unit = 'request', bodyBytes = 0 } = question;
  return {
    name,
    asks,
    contestants,
    backend,
    figures: [
      { key: 'cpuMicros', title: `CPU µs / ${unit}`, digits: 1 },
      bodyBytes > 0
        ? { key: 'megabytes', title: 'MB / s', digits: 0 }
        : { key: 'perSecond', title: `${unit}s / s`, digits: 0 },
      { key: 'p50', title: 'p50 ms', digits: 2 },
      { key: 'p99', title: 'p99 ms', digits: 2 },
      { key: 'resident', title: 'RSS MB', digits: 0 },
    ],
    async measure(contestant, ground, seconds) {
      const program = await contestant.start(ground);
      try {
        await question.check(contestant, ground);
        // Everybody is warm before the clock runs: a compiler that is still compiling is not what is asked about.
        if (seconds > 1) await question.load(contestant, warmSeconds);
        const before = program.cpuMicros();
        const load = await question.load(contestant, seconds);
        const used = program.cpuMicros() - before;
        return {
          cpuMicros: used / load.requests,
          perSecond: load.requests / load.seconds,
          megabytes: (load.requests * bodyBytes) / load.seconds / 1e6,
          p50: load.p50 / 1000,
          p99: load.p99 / 1000,
          resident: program.residentBytes() / 1e6,
        };
      } finally {
        await program.stop();
      }
    },
  };
}

export interface Result {
  readonly question: string;
  readonly asks: string;
  readonly figures: readonly Figure[];
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
        results.get(contestant.name)!.push(await question.measure(contestant, ground, seconds));
      }
    }
  } finally {
    await backend.stop();
  }
  return {
    question: question.name,
    asks: question.asks,
    figures: question.figures,
    contestants: [...results].map(([name, each]) => ({ name, rounds: each })),
  };
}

// The supervisor's end of the gate, played by a test: credentials that it puts in, questions that it answers.
// Invariant: what was asked and reported is kept in order; without an answer of the test's, nothing is granted.
import {
  Credentials,
  type CredentialsDelta,
  hashOf,
  type SessionRow,
  type TokenRow,
  type UserRow,
} from '../../src/gate/credentials.ts';
import type { DeskQuestion, DeskQuestions, DeskTopic } from '../../src/gate/desk.ts';
import type { GateHost } from '../../src/gate/gatekeeper.ts';

const nothing = { put: [], gone: [] };

export class TestDesk implements GateHost {
  readonly credentials = new Credentials();
  readonly asked: DeskQuestion[] = [];
  readonly wrongTokens: string[] = [];
  addressChanges = 0;
  answer: (question: DeskQuestion) => unknown = () => null;
  /** Seconds by address. */
  waits: Record<string, number> = {};

  apply(delta: Partial<Omit<CredentialsDelta, 'whole'>>): void {
    this.credentials.apply({ whole: false, users: nothing, sessions: nothing, tokens: nothing, ...delta });
  }

  user(name: string, over: Partial<UserRow> = {}): void {
    this.apply({ users: { put: [{ name, role: 'user', apps: [], ...over }], gone: [] } });
  }

  /** The user must be known. Returns the id for the cookie. */
  session(name: string, user: string, over: Partial<SessionRow> = {}): string {
    const id = name.padEnd(43, '_');
    const now = Date.now();
    const row = {
      hash: hashOf(id),
      user,
      createdAt: now,
      lastUsedAt: now,
      secure: false,
      host: '',
      address: '127.0.0.1',
    };
    this.apply({ sessions: { put: [{ ...row, ...over }], gone: [] } });
    return id;
  }

  token(name: string, app: string, over: Partial<TokenRow> = {}): string {
    const token = `tp_${name.padEnd(43, '_')}`;
    const row = { hash: hashOf(token), name, app, expiresAt: null, paths: [], methods: [], cidrs: [] };
    this.apply({ tokens: { put: [{ ...row, ...over }], gone: [] } });
    return token;
  }

  endSession(id: string): void {
    this.apply({ sessions: { put: [], gone: [hashOf(id)] } });
  }

  endToken(token: string): void {
    this.apply({ tokens: { put: [], gone: [hashOf(token)] } });
  }

  async ask<T extends DeskTopic>(topic: T, ask: DeskQuestions[T]['ask']): Promise<DeskQuestions[T]['answer'] | null> {
    const question = { topic, ask } as DeskQuestion;
    this.asked.push(question);
    return this.answer(question) as DeskQuestions[T]['answer'] | null;
  }

  wrongToken(address: string): void {
    this.wrongTokens.push(address);
  }

  waitOf(address: string): number {
    return this.waits[address] ?? 0;
  }

  addressChanged(): void {
    this.addressChanges++;
  }
}

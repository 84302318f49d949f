// Where the connections to a backend report what becomes of their exchanges.
// Invariant: `began` and `ended` come in pairs; what is said between them is about one exchange.
import type { Fault } from '../base/fault.ts';

export interface Ledger {
  began(): void;
  /** The head of an answer came. */
  succeeded(): void;
  /** The connection, not the client, is why there is no (whole) answer. */
  failed(fault: Fault): void;
  ended(): void;
}

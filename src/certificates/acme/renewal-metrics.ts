// What is counted of the life cycle.
// Invariant: labels are fixed words and directory hosts of the configuration.
import type { Family, Metrics } from '../../base/metrics.ts';

export class RenewalMetrics {
  readonly #attempts: Family;
  readonly #failures: Family;

  constructor(metrics: Metrics) {
    this.#attempts = metrics.counter('acme_orders_total', 'Certificates ordered from a CA, by outcome.', [
      'authority',
      'outcome',
    ]);
    this.#failures = metrics.counter('acme_failures_total', 'Orders that failed, by what failed.', ['kind']);
  }

  obtained(directory: string): void {
    this.#attempts.cell(hostOf(directory), 'obtained').value++;
  }

  failed(directory: string, kind: string): void {
    this.#attempts.cell(hostOf(directory), 'failed').value++;
    this.#failures.cell(kind).value++;
  }

  /** No order was made. */
  doubted(): void {
    this.#failures.cell('preflight').value++;
  }
}

const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : url);

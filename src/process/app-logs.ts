// What a service of an app writes, of the generation that serves; followed from one generation to the next.
// Invariant: as it was written, unchanged; it ends when its reader goes.
import type { AppsBook } from '../apps/book.ts';
import type { Incarnation, Instance } from '../apps/state.ts';
import { Fault } from '../base/fault.ts';
import type { Runtime } from '../runtime/runtime.ts';

const nextEveryMs = 500;

export async function* readLogs(
  incarnation: Incarnation,
  named: string | null,
  follow: boolean,
  book: AppsBook,
  runtime: Runtime,
  signal: AbortSignal,
): AsyncIterable<Buffer> {
  const { id, name: app } = incarnation;
  const services = book.activeOf(id).map(({ name }) => name);
  const service = named ?? (services.length === 1 ? services[0]! : null);
  const has = services.length === 0 ? 'none that runs' : services.join(', ');
  if (service === null) throw new Fault('unknown-app', `${app} has several services: name one by --service (${has})`);
  if (!services.includes(service)) throw new Fault('unknown-app', `${app} has no service ${service} (it has ${has})`);
  let last: string | null = null;
  while (!signal.aborted) {
    const instance: Instance | null = book.activeService(id, service)?.instance ?? null;
    if (instance !== null && instance.id !== last) {
      last = instance.id;
      yield* linesOf(instance, follow, runtime, signal);
    }
    if (!follow) return;
    await new Promise((resolve) => setTimeout(resolve, nextEveryMs));
  }
}

async function* linesOf(
  instance: Instance,
  follow: boolean,
  runtime: Runtime,
  signal: AbortSignal,
): AsyncIterable<Buffer> {
  if (runtime.read === undefined) {
    yield Buffer.from(await runtime.output(instance));
    return;
  }
  try {
    yield* runtime.read(instance, follow, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

// One order, from the wish to a judged chain (RFC 8555 §7.4).
// Invariant: every wait ends at a deadline; finalising is asked for again only while the CA says that it has not begun; a
// key that an order was told about is the key of its certificate.
import { generateKeyPair } from 'node:crypto';
import { promisify } from 'node:util';
import { signingRequest } from '../csr.ts';
import { asFailure } from './account.ts';
import { type OrderAnswer, readOrder } from './answers.ts';
import { type AuthorizationDeps, authorize } from './authorizations.ts';
import { commonName, type JudgedChain, judgeChain, leadsTo } from './chain.ts';
import { AcmeFailure } from './failure.ts';
import type { HttpAnswer } from './http.ts';
import type { Issued, KeyType, OrderWish, PendingOrder } from './issuer.ts';
import { identifierOf } from './names.ts';
import { type Look, poll } from './poll.ts';
import { kindOf, retryAfter } from './problem.ts';

export interface OrderDeps extends AuthorizationDeps {
  readonly issuanceMs: number;
}

/** Attempts to finalise one order; every one after the first follows a look that showed it not begun. */
const maxFinalisations = 3;
/** A CA may offer a chain for each root it has; nobody has many. */
const maxAlternates = 10;
const chainAsk = { payload: null, what: 'certificate', accept: 'application/pem-certificate-chain' } as const;

export async function runOrder(wish: OrderWish, deps: OrderDeps, signal: AbortSignal): Promise<Issued> {
  const { pending, order } = await begin(wish, deps, signal);
  await keep(pending, wish);
  const run = new OrderRun(wish, pending, deps, signal);
  const certificateUrl = await run.toCertificate(order);
  return await run.download(certificateUrl);
}

async function keep(pending: PendingOrder, { onPending }: OrderWish): Promise<void> {
  try {
    await onPending?.(pending);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new AcmeFailure('store', `the order cannot be kept: ${why}`, { scope: 'account', cause: error });
  }
}

interface Begun {
  readonly pending: PendingOrder;
  readonly order: OrderAnswer;
}

/** The order of last time if it may still become a certificate; else a new one. */
async function begin(wish: OrderWish, deps: OrderDeps, signal: AbortSignal): Promise<Begun> {
  const { session, account } = deps;
  const resolve = (value: unknown): string => session.resource(value, 'order');
  const { resume, names, profile, replaces } = wish;
  if (resume !== null) {
    const order = await takeUp(resume, names, deps, signal);
    if (order !== null) return { pending: resume, order };
  }
  const { newOrder, meta } = await session.directory(signal);
  if (profile !== null && !meta.profiles.has(profile)) {
    const offered = [...meta.profiles.keys()].join(', ') || 'none';
    throw new AcmeFailure('rejected', `the CA has no profile "${profile}"; on offer: ${offered}`, {
      problemType: 'invalidProfile',
      scope: 'account',
    });
  }
  const payload = {
    identifiers: names.map(identifierOf),
    ...(profile === null ? {} : { profile }),
    // RFC 9773 §5: only where the CA has renewal information.
    ...(replaces === null || !meta.renewalInfo ? {} : { replaces }),
  };
  const answer = await account.ask({ url: newOrder, payload, what: 'new order', names }, signal);
  const url = resolve(answer.header('location'));
  return { pending: { url, keyPem: await newKey(wish.keyType) }, order: readOrder(answer, resolve) };
}

/** Null: it leads nowhere any more. */
async function takeUp(
  { url }: PendingOrder,
  names: readonly string[],
  deps: OrderDeps,
  signal: AbortSignal,
): Promise<OrderAnswer | null> {
  const { session, account } = deps;
  try {
    const answer = await account.ask({ url, payload: null, what: 'order' }, signal);
    const order = readOrder(answer, (value) => session.resource(value, 'order'));
    const isForUs = order.names.length === names.length && names.every((name) => order.names.includes(name));
    return isForUs && order.status !== 'invalid' ? order : null;
  } catch (error) {
    const failure = asFailure(error);
    const { status } = failure;
    // The CA answered, and does not know it: they are kept for some days only.
    if (status !== null && status >= 400 && status < 500 && failure.kind !== 'rate-limited') return null;
    throw failure;
  }
}

class OrderRun {
  readonly #wish: OrderWish;
  readonly #pending: PendingOrder;
  readonly #deps: OrderDeps;
  readonly #signal: AbortSignal;

  constructor(wish: OrderWish, pending: PendingOrder, deps: OrderDeps, signal: AbortSignal) {
    this.#wish = wish;
    this.#pending = pending;
    this.#deps = deps;
    this.#signal = signal;
  }

  /** Drives the order to `valid`. @returns where the certificate is */
  async toCertificate(begun: OrderAnswer): Promise<string> {
    let order = begun;
    if (order.status === 'pending') {
      await authorize(order.authorizations, (name) => this.#wish.challengeFor(name), this.#deps, this.#signal);
      // The verdict on the last name and the order's own status need not come in the same moment.
      order = await this.#watch('the order', (status) => status !== 'pending');
    }
    for (let attempt = 1; order.status === 'ready'; attempt++) {
      if (attempt > maxFinalisations) throw new AcmeFailure('server', 'the CA does not begin to issue');
      order = await this.#finalise(order);
    }
    if (order.status === 'processing')
      order = await this.#watch('the certificate', (status) => status !== 'processing');
    if (order.status === 'valid' && order.certificate !== null) return order.certificate;
    throw this.#failed(order);
  }

  /** @returns the order as it is after a verdict, or after a look where there was none */
  async #finalise({ finalize: url }: OrderAnswer): Promise<OrderAnswer> {
    const { names } = this.#wish;
    const csr = signingRequest(names, this.#pending.keyPem).toString('base64url');
    let answer: HttpAnswer;
    try {
      answer = await this.#deps.account.ask({ url, payload: { csr }, what: 'finalise', names }, this.#signal);
    } catch (error) {
      const failure = asFailure(error);
      const { kind, problemType } = failure;
      if (problemType === 'orderNotReady') return await this.#watch('the order', (status) => status !== 'pending', 1);
      // The request may have arrived although its answer did not.
      const unknown = kind === 'network' || kind === 'timeout' || (kind === 'server' && failure.status !== null);
      if (!unknown) throw failure;
      return await this.#watch('the order', () => true, 1);
    }
    const order = this.#read(answer);
    // It was taken, whatever the answer still says.
    return order.status === 'ready' ? await this.#watch('the order', (status) => status !== 'ready') : order;
  }

  /** Looks at the order until its status will do. @param firstPause  looks to sit out before the first one */
  async #watch(what: string, willDo: (status: OrderAnswer['status']) => boolean, firstPause = 0): Promise<OrderAnswer> {
    const { clock, issuanceMs: withinMs, pollMs, account } = this.#deps;
    let toSitOut = firstPause;
    return await poll({ clock, withinMs, pollMs, what }, this.#signal, async (): Promise<Look<OrderAnswer>> => {
      if (toSitOut-- > 0) return { retryAfterMs: null };
      const answer = await account.ask({ url: this.#pending.url, payload: null, what: 'order' }, this.#signal);
      const order = this.#read(answer);
      return willDo(order.status) ? { done: order } : { retryAfterMs: retryAfter(answer, clock.now()) };
    });
  }

  async download(url: string): Promise<Issued> {
    const { names, preferredChain } = this.#wish;
    const { keyPem: key } = this.#pending;
    const answer = await this.#fetchChain(url);
    const usual = judgeChain(answer.text, key, names);
    const preferred =
      preferredChain === null || leadsTo(answer.text, preferredChain)
        ? null
        : await this.#alternate(answer, preferredChain);
    const { pem: chain, leaf } = preferred ?? usual;
    return {
      chain,
      key,
      issuer: commonName(leaf.issuer),
      notBefore: leaf.validFromDate.getTime(),
      notAfter: leaf.validToDate.getTime(),
      url: this.#pending.url,
    };
  }

  /** RFC 8555 §7.4.2. Null: no other chain leads there, or it cannot be had: that costs no certificate. */
  async #alternate(answer: HttpAnswer, preferred: string): Promise<JudgedChain | null> {
    const { session, account } = this.#deps;
    for (const link of alternates(answer).slice(0, maxAlternates)) {
      try {
        const url = session.resource(link, 'alternate chain');
        const { text } = await account.ask({ ...chainAsk, url }, this.#signal);
        if (leadsTo(text, preferred)) return judgeChain(text, this.#pending.keyPem, this.#wish.names);
      } catch (error) {
        if (asFailure(error).kind === 'aborted') throw error;
      }
    }
    return null;
  }

  #fetchChain(url: string): Promise<HttpAnswer> {
    const { clock, issuanceMs: withinMs, pollMs, account } = this.#deps;
    // Issued is issued: a connection that breaks here must not cost the certificate.
    return poll({ clock, withinMs, pollMs, what: 'the certificate' }, this.#signal, async () => ({
      done: await account.ask({ ...chainAsk, url }, this.#signal),
    }));
  }

  #read(answer: HttpAnswer): OrderAnswer {
    return readOrder(answer, (value) => this.#deps.session.resource(value, 'order'));
  }

  #failed({ status, error }: OrderAnswer): AcmeFailure {
    if (error === null) return new AcmeFailure('server', `the order is ${status}, and the CA does not say why`);
    const { type: problemType, detail, perName } = error;
    const isVerdict = perName.length > 0 || problemType === 'unauthorized';
    const kind = isVerdict ? 'validation' : problemType === null ? 'server' : kindOf(problemType, 400);
    return new AcmeFailure(kind, detail, { problemType, perName });
  }
}

/** Targets of `Link: <…>;rel="alternate"` (RFC 8288 §3), one or several in a field. */
export function alternates(answer: Pick<HttpAnswer, 'headers'>): readonly string[] {
  const urls: string[] = [];
  for (const value of answer.headers('link')) {
    for (const [, url = '', parameters = ''] of value.matchAll(/<([^>]*)>((?:\s*;\s*[^,;<]+)*)/g)) {
      if (/;\s*rel\s*=\s*("[^"]*\balternate\b[^"]*"|alternate\s*(;|$))/i.test(parameters)) urls.push(url);
    }
  }
  return urls;
}

const generate = promisify(generateKeyPair);

/** Asynchronous: a long RSA key takes seconds. */
async function newKey(type: KeyType): Promise<string> {
  const { privateKey } =
    type === 'p256' || type === 'p384'
      ? await generate('ec', { namedCurve: type === 'p256' ? 'P-256' : 'P-384' })
      : await generate('rsa', { modulusLength: type === 'rsa2048' ? 2048 : 4096 });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}

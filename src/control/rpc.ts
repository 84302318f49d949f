// JSON-RPC 2.0 on the control API: access control, users, tokens, sessions, certificates of CAs.
// Invariant: parameters are checked member by member, and an unknown one is an error; what a method does is decided in
// process/.
import { Fault } from '../base/fault.ts';
import type { Operations } from '../process/operations.ts';
import { revocationReasons } from '../process/tls-operations.ts';
import { type RpcAnswer, type RpcId, rpcErrors } from './api.ts';
import { UsageError } from './request-body.ts';

type Params = Readonly<Record<string, unknown>>;
type Method = (operations: Operations, params: Reader) => Promise<unknown>;

const methods: Readonly<Record<string, Method>> = {
  'security.set-app-gate': ({ gate }, params) => {
    const app = params.text('id');
    return gate.setAppGate(app, params.booleanOrNull('enabled'));
  },
  'gate.status': ({ gate }) => gate.status(),
  'gate.users.list': ({ gate }) => gate.users(),
  'gate.users.add': ({ gate }, params) =>
    gate.addUser({
      name: params.text('name'),
      role: params.role('role'),
      apps: params.texts('apps'),
      password: params.text('password'),
    }),
  'gate.users.remove': ({ gate }, params) => gate.removeUser(params.text('name')).then(done),
  'gate.users.passwd': ({ gate }, params) => gate.setPassword(params.text('name'), params.text('password')).then(done),
  'gate.users.rights': ({ gate }, params) =>
    gate.setRights(params.text('name'), params.role('role'), params.texts('apps')),
  'gate.users.totp': async ({ gate }, params) => {
    const name = params.text('name');
    return params.flag('enabled') ? gate.addTotp(name) : gate.removeTotp(name).then(done);
  },
  'gate.tokens.list': ({ gate }) => gate.tokens(),
  'gate.tokens.create': ({ gate }, params) =>
    gate.createToken({
      app: params.text('app'),
      name: params.text('name'),
      expiresAt: params.numberOrNull('expiresAt'),
      paths: params.texts('paths'),
      methods: params.texts('methods'),
      cidrs: params.texts('cidrs'),
    }),
  'gate.tokens.revoke': ({ gate }, params) => gate.revokeToken(params.text('token')),
  'gate.sessions.list': ({ gate }) => gate.sessions(),
  'gate.sessions.revoke': ({ gate }, params) => {
    const user = params.textOrNull('user');
    return gate.revokeSessions(user === null ? { id: params.text('id') } : { user });
  },
  'tls.plan': async ({ tls }) => tls.plan(),
  'tls.renew': ({ tls }, params) => tls.renew(params.text('name')),
  'tls.revoke': ({ tls }, params) => {
    const name = params.text('name');
    return tls.revoke(name, params.oneOf('reason', revocationReasons));
  },
  'tls.account.rollover': ({ tls }) => tls.rollover(),
};

/** Never throws for what a caller can do wrong: that is in the answer. */
export async function answerRpc(operations: Operations, request: Params): Promise<RpcAnswer> {
  const { jsonrpc, method: name, params = {} } = request;
  const id = idOf(request['id']);
  const error = (code: number, message: string): RpcAnswer => ({ jsonrpc: '2.0', id, error: { code, message } });
  if (jsonrpc !== '2.0' || typeof name !== 'string')
    return error(rpcErrors.request, 'a JSON-RPC 2.0 request is accepted');
  const method = Object.hasOwn(methods, name) ? methods[name]! : null;
  if (method === null) return error(rpcErrors.method, `no method is called ${name}`);
  if (typeof params !== 'object' || params === null || Array.isArray(params)) {
    return error(rpcErrors.params, 'params: an object with named members');
  }
  try {
    const reader = new Reader(params as Params);
    // A method reads every member that it takes before it does anything.
    const result = method(operations, reader);
    return { jsonrpc: '2.0', id, result: await result };
  } catch (caught) {
    if (caught instanceof UsageError) return error(rpcErrors.params, caught.message);
    if (!(caught instanceof Fault)) throw caught;
    const { message, code } = caught;
    return { jsonrpc: '2.0', id, error: { code: rpcErrors.failed, message, data: { fault: code } } };
  }
}

const done = (): { readonly done: true } => ({ done: true });

function idOf(id: unknown): RpcId {
  return typeof id === 'string' || typeof id === 'number' ? id : null;
}

/** The members of one call. */
class Reader {
  readonly #params: Params;

  constructor(params: Params) {
    this.#params = params;
  }

  text(name: string): string {
    const value = this.#params[name];
    if (typeof value !== 'string') throw new UsageError(`${name}: a string`);
    return value;
  }

  textOrNull(name: string): string | null {
    return this.#params[name] === undefined || this.#params[name] === null ? null : this.text(name);
  }

  texts(name: string): readonly string[] {
    const value = this.#params[name] ?? [];
    if (!Array.isArray(value) || !value.every((each) => typeof each === 'string')) {
      throw new UsageError(`${name}: a list of strings`);
    }
    return value;
  }

  role(name: string): 'owner' | 'user' {
    const value = this.#params[name];
    if (value !== 'owner' && value !== 'user') throw new UsageError(`${name}: "owner" or "user"`);
    return value;
  }

  oneOf<T extends string>(name: string, accepted: readonly T[]): T {
    const value = accepted.find((each) => each === this.#params[name]);
    if (value === undefined) throw new UsageError(`${name}: one of ${accepted.join(', ')}`);
    return value;
  }

  flag(name: string): boolean {
    const value = this.#params[name];
    if (typeof value !== 'boolean') throw new UsageError(`${name}: true or false`);
    return value;
  }

  /** The member must be there: nothing is switched by leaving something out. */
  booleanOrNull(name: string): boolean | null {
    const value = this.#params[name];
    if (value !== null && typeof value !== 'boolean') throw new UsageError(`${name}: true, false or null`);
    return value;
  }

  numberOrNull(name: string): number | null {
    const value = this.#params[name] ?? null;
    if (value !== null && !(typeof value === 'number' && Number.isSafeInteger(value))) {
      throw new UsageError(`${name}: a whole number, or null`);
    }
    return value;
  }
}

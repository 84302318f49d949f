// node:http at the price of what is used. As an ES module its every export is evaluated when it is loaded, among them a
// WebSocket and fetch implementation behind getters: 45 ms and 16 MB in each process, for nothing.
// Invariant: the only place that loads node:http; types are imported from it as types.
export const { createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http');

/** The same for requests over TLS. */
export const secureRequest: typeof request = (...args: unknown[]) =>
  (process.getBuiltinModule('node:https').request as (...args: unknown[]) => import('node:http').ClientRequest)(
    ...args,
  );

/** node:https is loaded when it is first needed, which it hardly ever is. */
export const createTlsServer: typeof import('node:https').createServer = (...args: unknown[]) =>
  (process.getBuiltinModule('node:https').createServer as (...args: unknown[]) => import('node:https').Server)(...args);

// The control socket: HTTP on a unix socket in the state directory, for its owner only.
// Invariant: mode 0600 before anyone can connect; a stale socket file of a process that is gone never stands in the way.
import { chmodSync, rmSync } from 'node:fs';
import type { RequestListener, Server } from 'node:http';
import { Fault } from '../base/fault.ts';
import { createServer } from '../base/node-http.ts';

/** In the state directory. */
export const socketName = 'turnpike.sock';

export class ControlSocket {
  readonly path: string;
  readonly #server: Server;

  private constructor(path: string, server: Server) {
    this.path = path;
    this.#server = server;
  }

  /** The state store's lock already proves that no other process serves this directory. */
  static async listen(path: string, handler: RequestListener): Promise<ControlSocket> {
    rmSync(path, { force: true });
    // A command may wait for a drain of ten minutes and more.
    const server = createServer({ requestTimeout: 0, keepAliveTimeout: 1000 }, handler);
    const umask = process.umask(0o177);
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen(path, resolve);
        process.umask(umask);
      });
      chmodSync(path, 0o600);
    } catch (error) {
      process.umask(umask);
      const detail = error instanceof Error ? error.message : String(error);
      throw new Fault('bind-failed', `control socket ${path}: ${detail}`, { cause: error });
    }
    return new ControlSocket(path, server);
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
    rmSync(this.path, { force: true });
  }
}

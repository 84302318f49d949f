// Telling systemd (or another manager with its protocol) that we are ready, reloading or stopping: sd_notify(3).
// Invariant: without NOTIFY_SOCKET nothing happens; a failed notification is logged and never stops the service.
import { execFile } from 'node:child_process';
import type { Log } from '../base/log.ts';

export type ServiceMoment = 'READY' | 'RELOADING' | 'STOPPING';

export class ServiceManager {
  readonly #environment: NodeJS.ProcessEnv;
  readonly #log: Log;

  constructor(environment: NodeJS.ProcessEnv, log: Log) {
    this.#environment = environment;
    this.#log = log;
  }

  notify(moment: ServiceMoment): void {
    if (this.#environment['NOTIFY_SOCKET'] === undefined) return;
    // Node has no unix datagram sockets; the program that systemd brings for scripts does it (NotifyAccess=all).
    execFile('systemd-notify', [`${moment}=1`], { timeout: 5000 }, (error) => {
      if (error !== null) this.#log.warn('notify-failed', { moment, error: error.message });
    });
  }
}

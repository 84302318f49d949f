// Events as JSON lines (pino), pretty on a terminal when asked for.
// Invariant: `event` is a constant name; members never hold a secret, cookie, token or query string.
import { pino } from 'pino';

export type LogLevel = 'error' | 'warn' | 'info' | 'debug';

/** `log.info('worker-ready', { pid })`. */
export interface Log {
  error(event: string, members?: object): void;
  warn(event: string, members?: object): void;
  info(event: string, members?: object): void;
  debug(event: string, members?: object): void;
  /** A log whose every line carries these members. */
  child(members: object): Log;
  setLevel(level: LogLevel | 'silent'): void;
}

export function createLog(level: LogLevel | 'silent', members: object = {}, fd = 2): Log {
  const logger = pino(
    {
      level,
      base: members,
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      messageKey: 'event',
    },
    pino.destination({ dest: fd, sync: true }),
  );
  return wrap(logger);
}

function wrap(logger: pino.Logger): Log {
  return {
    error: (event, members = {}) => logger.error(members, event),
    warn: (event, members = {}) => logger.warn(members, event),
    info: (event, members = {}) => logger.info(members, event),
    debug: (event, members = {}) => logger.debug(members, event),
    child: (members) => wrap(logger.child(members)),
    setLevel: (level) => {
      logger.level = level;
    },
  };
}

/** A log that says nothing, for tests and libraries. */
export const silentLog: Log = createLog('silent');

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Fault } from '../../src/base/fault.ts';
import { silentLog } from '../../src/base/log.ts';
import { createControlHandler } from '../../src/control/server.ts';
import type { Operations } from '../../src/process/operations.ts';
import { run } from '../support/command.ts';
import { cleanReport, fakeOperations, idleStatus, noChanges } from '../support/fake-operations.ts';

let directory: string;
let server: Server | null = null;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-cmd-'));
  mkdirSync(join(directory, '.turnpike'));
  writeFileSync(join(directory, 'config.toml'), 'workers = 1\n');
});
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((done) => server?.close(done) ?? done(null));
  server = null;
  rmSync(directory, { recursive: true });
});

async function serve(over: Partial<Operations> = {}): Promise<void> {
  const listening = createServer(createControlHandler(fakeOperations(over), silentLog));
  server = listening;
  await new Promise<void>((done) => listening.listen(join(directory, '.turnpike/turnpike.sock'), done));
}

const problem = {
  file: 'config.toml',
  line: 3,
  column: 1,
  key: 'entrypoints.web.protocol',
  message: '"htp" is not a protocol',
  accepted: '"http" or "https"',
};

describe('status', () => {
  it('is one screen for people and the same facts as JSON', async () => {
    await serve();
    const screen = await run(['status'], directory);
    expect(screen.code).toBe(0);
    expect(screen.out).toContain('Turnpike 1.2.3');
    expect(screen.out).toMatch(/web +\*:8080 +http +3 +10 +0/);
    expect(screen.out).toMatch(/app\.test +run +4 +127\.0\.0\.1:3001 +2/);
    const json = await run(['status', '--json'], directory);
    expect(JSON.parse(json.out)).toEqual(idleStatus);
  });

  it('says which port an entrypoint cannot have', async () => {
    const problem = 'entrypoint games (config.toml:3) cannot listen on *:3979: another socket holds the port';
    await serve({
      status: async () => ({ ...idleStatus, entrypoints: [{ ...idleStatus.entrypoints[0]!, problem }] }),
    });
    const { out } = await run(['status'], directory);
    expect(out).toContain(`! ${problem} (tried every second)`);
  });

  it('says first what needs attention, and how to end it', async () => {
    const [service] = idleStatus.services;
    await serve({
      status: async () => ({
        ...idleStatus,
        lastReload: { at: Date.now(), outcome: 'refused', problems: [problem], fault: null },
        services: [{ ...service!, state: 'paused', backends: [{ address: '127.0.0.1:3001', state: 'down' as const }] }],
      }),
    });
    const { out } = await run(['status'], directory);
    const attention = out.split('\n').filter((line) => line.startsWith('! '));
    expect(attention).toEqual([
      '! the reload just now was refused (1 problem); the older configuration is served. See: turnpike check',
      '! app.test: 127.0.0.1:3001 down (none left: clients get 503)',
      '! app.test is paused. Undo: turnpike service resume app.test',
    ]);
    expect(out.indexOf('! ')).toBeLessThan(out.indexOf('ENTRYPOINT'));
  });

  it('has colours on a terminal only, and not with NO_COLOR', async () => {
    await serve();
    expect((await run(['status'], directory)).out).not.toContain('\u001b');
    expect((await run(['status'], directory, { isTTY: true })).out).toContain('\u001b');
    expect((await run(['status'], directory, { isTTY: true, env: { NO_COLOR: '1' } })).out).not.toContain('\u001b');
  });
});

describe('reload and diff', () => {
  it('a refused reload exits with 1 and lists every problem on stderr', async () => {
    await serve({
      reload: async () => ({
        outcome: 'refused',
        revision: 7,
        file: 'config.toml',
        problems: [problem, { ...problem, line: 9 }],
        warnings: [],
        fault: null,
        changes: null,
        needsRestart: [],
      }),
    });
    const { code, out, err } = await run(['reload'], directory);
    expect(code).toBe(1);
    expect(out).toBe('');
    expect(err).toContain(
      'config.toml:3:1: entrypoints.web.protocol: "htp" is not a protocol (accepted: "http" or "https")',
    );
    expect(err).toContain('config.toml:9:1:');
    expect(err).toContain('2 problems in config.toml\nNothing was changed: revision 7 is served on.');
  });

  it('a reload that could not bind says who to ask', async () => {
    await serve({
      reload: async () => ({
        outcome: 'refused',
        revision: 7,
        file: 'config.toml',
        problems: [],
        warnings: [],
        fault: { code: 'bind-failed', message: 'entrypoint web: *:80 is taken' },
        changes: null,
        needsRestart: [],
      }),
    });
    const { code, err } = await run(['reload'], directory);
    expect(code).toBe(1);
    expect(err).toContain('entrypoint web: *:80 is taken (bind-failed)');
    expect(err).toContain('ss -ltnp');
  });

  it('an applied reload prints what changed', async () => {
    await serve({
      reload: async () => ({
        outcome: 'applied',
        revision: 8,
        file: 'config.toml',
        problems: [],
        warnings: [],
        fault: null,
        changes: {
          ...noChanges,
          empty: false,
          hosts: [{ kind: 'added', name: 'new.test', details: ['config.toml:20'] }],
        },
        needsRestart: ['workers'],
      }),
    });
    const { code, out, err } = await run(['reload'], directory);
    expect(code).toBe(0);
    expect(out).toBe('+ host new.test\n    config.toml:20\nApplied: revision 8 is served by every worker.\n');
    expect(err).toBe('workers changed; it takes effect after a restart.\n');
  });

  it('diff names connections that would close and switched services that stay', async () => {
    await serve({
      diff: async () => ({
        file: 'config.toml',
        problems: [],
        warnings: [],
        changes: {
          ...noChanges,
          empty: false,
          entrypoints: [{ kind: 'changed', name: 'web', details: ['rebinds *:8080 → *:9090'] }],
        },
        needsRestart: [],
        overrides: [{ service: 'app.test', addresses: ['127.0.0.1:2'], declared: ['127.0.0.1:1'], since: 0 }],
        closes: [{ entrypoint: 'web', connections: 1, why: 'its listener moves' }],
      }),
    });
    const { code, out } = await run(['diff'], directory);
    expect(code).toBe(0);
    expect(out).toContain('~ entrypoint web\n    rebinds *:8080 → *:9090');
    expect(out).toContain('1 open connection of web would close: its listener moves');
    expect(out).toContain('turnpike service switch app.test --to-config');
  });

  it('diff of another file asks for its absolute path', async () => {
    const asked: (string | null)[] = [];
    const { diff } = fakeOperations();
    await serve({
      diff: (file) => {
        asked.push(file);
        return diff(file);
      },
    });
    expect((await run(['diff', '--with', 'new config.toml'], directory)).out).toBe('A reload would change nothing.\n');
    expect(asked).toEqual([join(directory, 'new config.toml')]);
  });
});

describe('service switch', () => {
  const argv = ['service', 'switch', 'app.test', '--to', '127.0.0.1:3002'];

  it('reports on stdout, tells progress on stderr, exits with 0 when nothing was lost', async () => {
    await serve({
      switchService: async (_request, progress) => {
        progress({ phase: 'probing', elapsedMs: 1, left: null, detail: '127.0.0.1:3002' });
        progress({ phase: 'committed', elapsedMs: 2, left: null, detail: null });
        progress({ phase: 'draining', elapsedMs: 3, left: 2, detail: null });
        progress({ phase: 'draining', elapsedMs: 4, left: 2, detail: null });
        progress({ phase: 'draining', elapsedMs: 5, left: 1, detail: null });
        return cleanReport;
      },
    });
    const { code, out, err } = await run(argv, directory);
    expect(code).toBe(0);
    expect(err).toBe(
      'probing the new backends: 127.0.0.1:3002\nswitched: every new request goes to the new backends\ndraining, 2 left\ndraining, 1 left\n',
    );
    expect(out).toContain('app.test: 127.0.0.1:3001 → 127.0.0.1:3002, nothing was lost');
    expect(out).toContain('100 on generation 4 (old), 20 on generation 5 (new)');
  });

  it('exits with 1 when anything was lost, with the whole report', async () => {
    await serve({ switchService: async () => ({ ...cleanReport, forcedCloses: 2, clean: false }) });
    const text = await run(argv, directory);
    expect(text.code).toBe(1);
    expect(text.out).toContain('2 forced closes, 0 errors');
    const json = await run([...argv, '--json'], directory);
    expect(json.code).toBe(1);
    expect(JSON.parse(json.out)).toMatchObject({ forcedCloses: 2, clean: false });
  });

  it('says that nothing was changed when a probe fails', async () => {
    await serve({ switchService: async () => Promise.reject(new Fault('probe-failed', '127.0.0.1:3002 refuses')) });
    const { code, out, err } = await run(argv, directory);
    expect(code).toBe(1);
    expect(out).toBe('');
    expect(err).toContain('127.0.0.1:3002 refuses (probe-failed)\nNothing was changed.');
  });

  it('points to status when Turnpike ends before it reported', async () => {
    await serve({
      switchService: (_request, progress) => {
        progress({ phase: 'draining', elapsedMs: 1, left: 1, detail: null });
        setImmediate(() => server?.closeAllConnections());
        return new Promise(() => {});
      },
    });
    const { code, err } = await run(argv, directory);
    expect(code).toBe(1);
    expect(err).toContain('turnpike status');
  });
});

describe('service pause, resume, stop, start', () => {
  it.each([
    ['pause', 'turnpike service resume app.test'],
    ['resume', 'app.test runs'],
    ['stop', 'turnpike service start app.test'],
    ['start', 'app.test runs'],
  ])('%s says what is so now', async (verb, text) => {
    await serve();
    const { code, out } = await run(['service', verb, 'app.test'], directory);
    expect(code).toBe(0);
    expect(out).toContain(text);
  });

  it('an unknown service fails and points to the names', async () => {
    await serve({ pauseService: async () => Promise.reject(new Fault('unknown-service', 'no service "x"')) });
    const { code, err } = await run(['service', 'pause', 'x'], directory);
    expect(code).toBe(1);
    expect(err).toBe('no service "x" (unknown-service)\nSee the names with:  turnpike status\n');
  });
});

describe('tls', () => {
  it('ca prints the PEM and nothing else', async () => {
    const pem = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
    await serve({ caPem: async () => pem });
    expect((await run(['tls', 'ca'], directory)).out).toBe(pem);
  });

  it('ca fails with the key to set when the internal CA is off', async () => {
    await serve();
    const { code, err } = await run(['tls', 'ca'], directory);
    expect(code).toBe(1);
    expect(err).toContain('[tls.internal_ca] enabled = true');
  });
});

describe('explain', () => {
  it('a wrong question is wrong usage', async () => {
    await serve();
    const { code, err } = await run(['explain', 'app.test/x'], directory);
    expect(code).toBe(2);
    expect(err).toContain('a URL with http:// or https:// is accepted');
  });

  it('ends with the outcome and the reason of the access log', async () => {
    await serve();
    const { code, out } = await run(['explain', 'http://unknown.test:8080/'], directory);
    expect(code).toBe(0);
    expect(out).toContain('✗ host');
    expect(out.trimEnd().split('\n').slice(-2)).toEqual(['→ 404 no such host', '  reason: unknown-host']);
  });
});

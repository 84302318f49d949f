// The pages of the gate in a real browser: set up, log in, use apps, log out; with and without scripts, dark and light.
// Invariant: no page writes an error to the console, violates its own policy, or shuts anybody out.

import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BrowserContext } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { run } from '../support/command.ts';
import { TwoMachines } from '../support/namespaces.ts';
import { Turnpike } from '../support/turnpike.ts';
import { Stage } from './stage.ts';

const home = 'http://10.77.0.1:8000';
const notes = 'http://10.77.0.1:3001/';
const photos = 'http://10.77.0.1:3002/';
const password = 'correct horse battery';
const appFile = fileURLToPath(new URL('./app.ts', import.meta.url));

let machines: TwoMachines;
let p: Turnpike;
let stage: Stage;
let user: BrowserContext;
let photosApp: ChildProcess;

const startApp = (name: string, port: number): ChildProcess =>
  machines.run(machines.here, [process.execPath, appFile, name, String(port)]);

beforeAll(async () => {
  machines = new TwoMachines();
  machines.connect('10.77.0');
  startApp('notes', 3001);
  photosApp = startApp('photos', 3002);
  const config = `workers = 2
[entrypoints.web]
address = ":80"
protocol = "http"
[external_routes."10.77.0.1"]
to = ["127.0.0.1:9"]
[log]
access = false
format = "json"
[tls.internal_ca]
enabled = false
[gate]
port = 8000
`;
  p = await Turnpike.start({ config, netns: machines.here });
  for (const [id, title, port] of [
    ['notes', 'Notes', 3001],
    ['photos', 'Photos', 3002],
  ] as const) {
    const file = join(p.directory, `${id}.yml`);
    writeFileSync(
      file,
      `app:
  id: ${id}
  name: ${title}
  version: 1.0.0
  description: ${title} of the whole family, kept at home.
  ports:
    - { host: ${port}, container: 80, bind: 127.0.0.1, auth: gated }
  interfaces:
    main: { type: ui, port: ${port} }
`,
    );
    for (const verb of [
      ['apply', '--file', file],
      ['deploy', id],
    ]) {
      const { code, out, err } = await run(['apps', ...verb, '--config', p.configFile], p.directory);
      expect(code, out + err).toBe(0);
    }
  }
  stage = await Stage.start(machines);
  user = await stage.context();
}, 60_000);

afterAll(async () => {
  await stage?.close();
  await p?.stop();
  machines?.end();
});

it('the first user is made by the link that is printed, and sees the apps', { timeout: 30_000 }, async () => {
  const link = /(http:\/\/\S+\/\.turnpike\/setup\?code=\S+)/.exec(p.output)![1]!;
  const page = await user.newPage();
  await page.goto(link.replace('localhost', '10.77.0.1'));
  await stage.look(page, 'setup');
  await page.getByLabel('Name').fill('anna');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { name: 'Apps' }).waitFor();
  expect(await page.locator('.tile h2').allTextContents()).toEqual(['Notes', 'Photos']);
  await stage.look(page, 'apps');
  await page.close();
});

it('one login opens two apps on two ports, and their WebSockets', { timeout: 30_000 }, async () => {
  const context = await stage.context();
  const page = await context.newPage();
  await page.goto(notes);
  await stage.look(page, 'login');
  await page.getByLabel('Name').fill('anna');
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('alert').waitFor();
  await stage.look(page, 'login-refused');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('notes for anna').waitFor();
  await page.getByText('echo hi').waitFor();
  await page.goto(photos);
  await page.getByText('photos for anna').waitFor();
  await page.getByText('echo hi').waitFor();
  await context.close();
});

it('an app that forbids to be framed is shown inside the dashboard', { timeout: 30_000 }, async () => {
  const page = await user.newPage();
  await page.goto(home);
  await page.getByRole('listitem').filter({ hasText: 'Notes' }).getByRole('link', { name: 'Open here' }).click();
  const frame = page.frameLocator('iframe');
  await frame.getByText('notes for anna').waitFor();
  await frame.getByText('echo hi').waitFor();
  await stage.look(page, 'frame');
  await page.close();
});

it('the owner turns logins off and on, makes and revokes tokens, adds users, looks at traffic', {
  timeout: 60_000,
}, async () => {
  const page = await user.newPage();
  await page.goto(home);
  const tile = page.getByRole('listitem').filter({ hasText: 'Notes' });
  const set = async (choice: string, says: string): Promise<void> => {
    await tile.getByLabel('Access control').selectOption({ label: choice });
    await tile.getByRole('button', { name: 'Set' }).click();
    await tile.getByText(says).waitFor();
  };
  await set('Open to everybody', 'Open to everybody.');
  expect(await machines.curl(notes)).toContain('notes for nobody');
  await set('As declared', 'Asks for a login.');
  expect(await machines.curl('-o', '/dev/null', '-w', '%{http_code}', notes)).toBe('401');

  await page.getByRole('link', { name: 'Tokens' }).click();
  await page.getByLabel('Name').fill('backup');
  await page.getByRole('button', { name: 'Create' }).click();
  const token = await page.locator('code').textContent();
  await stage.look(page, 'tokens');
  expect(await machines.curl('-H', `Authorization: Bearer ${token}`, notes)).toContain('notes for token/backup');
  await page.getByRole('button', { name: 'Revoke' }).click();
  await page.getByText('There are no tokens.').waitFor();
  expect(
    await machines.curl('-o', '/dev/null', '-w', '%{http_code}', '-H', `Authorization: Bearer ${token}`, notes),
  ).toBe('401');

  await page.getByRole('link', { name: 'Users' }).click();
  await page.getByLabel('Name').fill('ben');
  await page.getByLabel('Password').fill(password);
  await page.getByLabel('Apps, separated').fill('photos');
  await page.getByRole('button', { name: 'Add' }).click();
  await page.getByRole('cell', { name: 'ben', exact: true }).waitFor();
  await stage.look(page, 'users');
  await page.getByRole('link', { name: 'Sessions' }).click();
  await page.getByText('(this one)').waitFor();
  await stage.look(page, 'sessions');
  await page.getByRole('link', { name: 'Operations' }).click();
  await page.getByRole('heading', { name: 'Live traffic' }).waitFor();
  await stage.look(page, 'operations');
  await page.goto(`${home}/nowhere`);
  await stage.look(page, 'not-found');
  await page.close();
});

it('without scripts a user logs in, and sees and may do no more than is theirs', { timeout: 30_000 }, async () => {
  const context = await stage.context({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(photos);
  await page.getByLabel('Name').fill('ben');
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('photos for ben').waitFor();
  await page.goto(home);
  expect(await page.locator('.tile h2').allTextContents()).toEqual(['Photos']);
  expect(await page.getByRole('navigation').getByRole('link').allTextContents()).toEqual(['Apps', 'Sessions']);
  expect(await page.getByLabel('Access control').count()).toBe(0);
  await page.goto(`${home}/users`);
  expect(await page.getByRole('cell').count()).toBe(0);
  await page.goto(notes);
  await page.getByText('not open to you').waitFor();
  await context.close();
});

it('a page waits for an app that is down, and becomes the app', { timeout: 30_000 }, async () => {
  const gone = new Promise((resolve) => photosApp.once('exit', resolve));
  photosApp.kill('SIGKILL');
  await gone;
  const page = await user.newPage();
  await page.goto(photos);
  await page.getByRole('heading', { name: 'is not running' }).waitFor();
  await stage.look(page, 'retry');
  photosApp = startApp('photos', 3002);
  await page.getByText('photos for anna').waitFor({ timeout: 20_000 });
  await page.close();
});

it('a logout in one tab ends the stream in the other within a second', { timeout: 30_000 }, async () => {
  const one = await user.newPage();
  await one.goto(notes);
  await one.getByText('echo hi').waitFor();
  const two = await user.newPage();
  await two.goto(`${home}/.turnpike/logout`);
  await stage.look(two, 'logout');
  const began = performance.now();
  await two.getByRole('button', { name: 'Log out', exact: true }).click();
  await one.getByText('closed 1008').waitFor({ timeout: 1500 });
  expect(performance.now() - began).toBeLessThan(1500);
  await one.goto(notes);
  await one.getByRole('button', { name: 'Log in' }).waitFor();
});

it('errors of the proxy itself are plain pages', { timeout: 30_000 }, async () => {
  const page = await user.newPage();
  const seen = async (url: string): Promise<number> => (await page.goto(url))!.status();
  expect(await seen('http://10.77.0.1/')).toBe(502);
  await stage.look(page, 'error-502');
  expect(await seen('http://[fd77::1]/')).toBe(404);
  await stage.look(page, 'error-404');
  await p.service('10.77.0.1', 'stop');
  expect(await seen('http://10.77.0.1/')).toBe(503);
  await stage.look(page, 'error-503');
  await page.close();
});

it('nothing went wrong in any page', () => {
  expect(stage.complaints).toEqual([]);
});

// What does a login in front of an app cost a request?
// Invariant: both send as many bytes of cookies; the gate's is a live session, checked and taken out for each request.
import type { ControlClient } from '../../src/control/client.ts';
import { type Contestant, controlOf, turnpikeWith } from '../contestants.ts';
import { wrk } from '../load.ts';
import { underLoad } from '../question.ts';

const app = '127.0.0.1';
const user = { name: 'bench', role: 'owner', apps: [], password: 'a password for the bench' };
const open: Contestant = turnpikeWith('turnpike', '');
const gated: Contestant = turnpikeWith('turnpike gated', 'gate = "gated"');
/** By contestant. */
const cookies = new Map<string, string>([[open.name, `an_apps_session_=${'x'.repeat(43)}`]]);

export const question = underLoad({
  name: 'gate',
  asks: 'small responses, HTTP/1.1 keep-alive, 64 connections: without and with a login in front of the app',
  contestants: [open, gated],
  async check(contestant, ground) {
    const url = `http://${app}:${contestant.port}/`;
    if (contestant.name === gated.name) {
      await expectStatus(url, '', 401);
      cookies.set(gated.name, await logIn(url, controlOf(ground)));
    }
    await expectStatus(url, cookies.get(contestant.name)!, 200);
  },
  load: ({ name, port }, seconds) =>
    wrk(`http://${app}:${port}/`, { connections: 64, seconds, headers: [`Cookie: ${cookies.get(name)}`] }),
});

/** The one before may still be on its way out. */
async function expectStatus(url: string, cookie: string, status: number): Promise<void> {
  let seen = 0;
  for (let i = 0; i < 50 && seen !== status; i++) {
    const answer = await fetch(url, { headers: { cookie, connection: 'close' } });
    await answer.arrayBuffer();
    seen = answer.status;
    if (seen !== status) await new Promise((resolve) => setTimeout(resolve, 100));
  }
  if (seen !== status) throw new Error(`${url}: ${seen} instead of ${status}`);
}

/** The socket is there a moment after the first request is answered. */
async function users(control: ControlClient): Promise<readonly { readonly name: string }[]> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await control.call('gate.users.list', {});
    } catch (error) {
      if (attempt === 50) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** By the form, as a browser does. */
async function logIn(url: string, control: ControlClient): Promise<string> {
  if ((await users(control)).length === 0) await control.call('gate.users.add', user);
  const page = await fetch(`${url}.turnpike/login`);
  const mark = page.headers.getSetCookie()[0]!.split(';', 1)[0]!;
  const token = /name="token" value="([^"]+)"/.exec(await page.text())![1]!;
  const body = new URLSearchParams({ token, user: user.name, password: user.password });
  const answer = await fetch(`${url}.turnpike/login`, {
    method: 'POST',
    body,
    headers: { cookie: mark },
    redirect: 'manual',
  });
  const session = answer.headers.getSetCookie().find((line) => line.startsWith('turnpike_session='));
  if (session === undefined) throw new Error(`no login: ${answer.status}`);
  return session.split(';', 1)[0]!;
}

// A login by an issuer from the button to the session: the pages, the supervisor's office and an issuer, without a socket of
// ours between them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import { hashOf } from '../../src/gate/credentials.ts';
import { Gatekeeper } from '../../src/gate/gatekeeper.ts';
import { answerVisit } from '../../src/gate/visit.ts';
import type { VisitReply, VisitRequest } from '../../src/gate/visit-request.ts';
import { defaultGateSettings } from '../../src/model/gate-policy.ts';
import { GateLedger } from '../../src/process/gate-ledger.ts';
import { GateOffice, type OfficeQuestion } from '../../src/process/gate-office.ts';
import { Passwords } from '../../src/process/gate-passwords.ts';
import { SingleSignOn } from '../../src/process/gate-sso.ts';
import { GateStore } from '../../src/process/gate-store.ts';
import { newUser } from '../../src/process/gate-users.ts';
import { StateStore } from '../../src/process/state-store.ts';
import { TestDesk } from '../support/gate-desk.ts';
import { HandClock } from '../support/hand-clock.ts';
import { Issuer } from '../support/issuer.ts';

const origin = 'https://login.test';
const visit = 'v'.repeat(43);
const settings = { ...defaultGateSettings, singleSignOn: 'Home' };

let issuer: Issuer;
let directory: string;
let state: StateStore;
let ledger: GateLedger;
let office: GateOffice;
let keeper: Gatekeeper;

beforeAll(async () => {
  issuer = await Issuer.start();
  directory = mkdtempSync(join(tmpdir(), 'turnpike-sso-'));
  writeFileSync(join(directory, 'secret'), issuer.secret);
  state = StateStore.open(directory);
});

beforeEach(async () => {
  issuer.silent = false;
  const clock = new HandClock();
  clock.advance(Date.now());
  ledger = new GateLedger(
    state.tables((database) => new GateStore(database)),
    async () => {},
  );
  await ledger.change({ users: { gone: [...ledger.users.keys()] }, sessions: { gone: [...ledger.sessions.keys()] } });
  const declared = {
    name: 'Home',
    issuer: issuer.url,
    clientId: issuer.clientId,
    clientSecretFile: join(directory, 'secret'),
    scopes: ['openid'],
    usernameClaim: 'preferred_username',
    groupsClaim: 'groups',
    allowedUsers: ['anna', 'ben'],
    allowedGroups: [],
    allowedDomains: [],
    ownerGroups: [],
  };
  const sso = new SingleSignOn(declared, clock, silentLog, 0.5);
  office = new GateOffice({
    clock,
    log: silentLog,
    ledger,
    passwords: new Passwords({ memory: 1024, passes: 1, parallelism: 1 }),
    lifetimes: () => settings,
    sso: () => sso,
    throttled: () => {},
  });
  const desk = new TestDesk();
  // As the supervisor does: what goes wrong there is told to nobody.
  desk.answer = (question) => office.answer(question as OfficeQuestion).catch(() => null);
  keeper = new Gatekeeper(desk, clock, settings);
  keeper.follow(settings, 'key');
});

afterEach(() => {
  office.close();
});

afterAll(async () => {
  state.close();
  await issuer.close();
  rmSync(directory, { recursive: true });
});

const get = (target: string, over: Partial<VisitRequest> = {}): Promise<VisitReply> =>
  answerVisit(
    {
      method: 'GET',
      target,
      form: null,
      host: 'login.test',
      secure: true,
      address: '192.0.2.1',
      ownOrigin: origin,
      origin: null,
      fetchSite: null,
      visits: [visit],
      sessions: [],
      session: null,
      isOurs: () => false,
      isGateHost: true,
      isDashboard: false,
      ...over,
    },
    keeper,
  );

/** Follows the button of the login page, and what the issuer answers when this person agrees. Returns the way back. */
async function agree(name: string, subject = name): Promise<string> {
  const away = await get('/.turnpike/sso?rd=/wiki');
  const back = new URL(issuer.agree(away.location!, { sub: subject, preferred_username: name }));
  expect(back.origin).toBe(origin);
  return back.pathname + back.search;
}

const outcome = ({ status, location, cookies }: VisitReply): unknown => ({ status, location, cookies: cookies.length });
const refused = { status: 403, location: null, cookies: 0 };

it('ends with a session of the person that the issuer knows, back where the browser came from', async () => {
  const reply = await get(await agree('anna'));
  expect(outcome(reply)).toEqual({ status: 303, location: '/wiki', cookies: 1 });
  const id = /^__Host-turnpike_session=([^;]+)/.exec(reply.cookies[0]!)![1]!;
  expect(ledger.sessions.get(hashOf(id))).toMatchObject({ user: 'anna', host: 'login.test', secure: true });
  expect(ledger.users.get('anna')).toMatchObject({ role: 'user', apps: [], password: null });
  expect(outcome(await get(await agree('renamed', 'anna')))).toEqual(refused);
  expect(ledger.sessions.size).toBe(1);
});

it.each<[string, (back: string) => string, Partial<VisitRequest>]>([
  ['an invented state', (back) => back.replace(/state=[^&]+/, 'state=invented'), {}],
  ['no state', (back) => back.replace(/&?state=[^&]+/, ''), {}],
  ['an invented code', (back) => back.replace(/code=[^&]+/, 'code=invented'), {}],
  ['the mark of another browser', (back) => back, { visits: ['w'.repeat(43)] }],
  ['no mark', (back) => back, { visits: [] }],
  ['two marks', (back) => back, { visits: [visit, 'w'.repeat(43)] }],
])('with %s there is no session and no user', async (_, change, over) => {
  expect(outcome(await get(change(await agree('anna')), over))).toEqual(refused);
  expect([ledger.users.size, ledger.sessions.size]).toEqual([0, 0]);
});

it('does not count twice', async () => {
  const back = await agree('anna');
  expect((await get(back)).status).toBe(303);
  expect(outcome(await get(back))).toEqual(refused);
  expect(ledger.sessions.size).toBe(1);
});

it('tells strangers, and whoever has the name of somebody here, that they are not let in, and no more', async () => {
  await ledger.change({ users: { put: [newUser('ben', 'owner', [], null, 0)] } });
  for (const name of ['eve', 'ben']) {
    const reply = await get(await agree(name));
    expect(outcome(reply)).toEqual(refused);
    expect(reply.page!.html).not.toMatch(/127\.0\.0\.1|claim|OAUTH|Error|sub/);
  }
  expect([[...ledger.users.keys()], ledger.sessions.size]).toEqual([['ben'], 0]);
});

it('says that the issuer cannot be reached, and works once it can', async () => {
  issuer.silent = true;
  const reply = await get('/.turnpike/sso');
  expect(outcome(reply)).toEqual({ status: 503, location: null, cookies: 0 });
  expect(reply.page!.html).not.toMatch(/127\.0\.0\.1|timed out/);
  issuer.silent = false;
  expect((await get(await agree('anna'))).status).toBe(303);
});

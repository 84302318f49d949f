// Logins by an OpenID Connect issuer, against one that checks what real ones check.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log.ts';
import type { DeclaredOidc } from '../../src/config/declared-gate.ts';
import { userOf } from '../../src/process/gate-office.ts';
import { judge, SingleSignOn, type SsoPurpose } from '../../src/process/gate-sso.ts';
import { newUser } from '../../src/process/gate-users.ts';
import { HandClock } from '../support/hand-clock.ts';
import { Issuer } from '../support/issuer.ts';

let issuer: Issuer;
let directory: string;
let clock: HandClock;
let sso: SingleSignOn;

const anna = {
  sub: '42',
  preferred_username: 'Anna',
  groups: ['family', 'admins'],
  email: 'anna@home.example',
  email_verified: true,
};
const away = 'a'.repeat(43);
const purpose: SsoPurpose = {
  address: '192.0.2.1',
  visit: 'mark',
  redirectUri: 'https://login.test/.turnpike/sso/callback',
  returnTo: '/x',
  awayVisit: away,
};

const declared = (over: Partial<DeclaredOidc> = {}): DeclaredOidc => ({
  name: 'Home',
  issuer: issuer.url,
  clientId: issuer.clientId,
  clientSecretFile: join(directory, 'secret'),
  scopes: ['openid', 'profile'],
  usernameClaim: 'preferred_username',
  groupsClaim: 'groups',
  allowedUsers: [],
  allowedGroups: ['family'],
  allowedDomains: [],
  ownerGroups: ['admins'],
  ...over,
});

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'turnpike-sso-'));
  issuer = await Issuer.start();
  writeFileSync(join(directory, 'secret'), `${issuer.secret}\n`);
});

beforeEach(() => {
  issuer.wrong = {};
  issuer.forges = false;
  issuer.methods = null;
  issuer.silent = false;
  clock = new HandClock();
  sso = new SingleSignOn(declared(), clock, silentLog);
});

afterAll(async () => {
  await issuer.close();
  rmSync(directory, { recursive: true });
});

describe('a login by the issuer', () => {
  it('tells who somebody is by issuer and subject, with the claims of both endpoints', async () => {
    const sent = await sso.begin(purpose);
    const query = new URL(sent).searchParams;
    expect([query.get('scope'), query.get('redirect_uri'), query.get('response_type')]).toEqual([
      'openid profile',
      purpose.redirectUri,
      'code',
    ]);
    const ended = await sso.end(issuer.agree(sent, anna), 'mark');
    expect(ended!.person).toEqual({ issuer: issuer.url, subject: '42', name: 'anna', owner: true });
    expect(ended!.purpose).toMatchObject({ returnTo: '/x', awayVisit: away });
  });

  it('counts once, for the browser that was sent, within ten minutes', async () => {
    const back = issuer.agree(await sso.begin(purpose), anna);
    expect(await sso.end(back, 'mark')).not.toBe(null);
    expect(await sso.end(back, 'mark')).toBe(null);
    expect(await sso.end(issuer.agree(await sso.begin(purpose), anna), 'another browser')).toBe(null);
    const late = issuer.agree(await sso.begin(purpose), anna);
    clock.advance(10 * 60_000);
    expect(await sso.end(late, 'mark')).toBe(null);
    expect(await sso.end(`${purpose.redirectUri}?code=x&state=invented`, 'mark')).toBe(null);
    expect(await sso.end(purpose.redirectUri, 'mark')).toBe(null);
  });

  it('with a code or an error that was put into the way back is none', async () => {
    const back = new URL(issuer.agree(await sso.begin(purpose), anna));
    back.searchParams.set('code', 'another');
    expect(await sso.end(back.href, 'mark')).toBe(null);
    const refused = new URL(issuer.agree(await sso.begin(purpose), anna));
    refused.searchParams.delete('code');
    refused.searchParams.set('error', 'access_denied');
    expect(await sso.end(refused.href, 'mark')).toBe(null);
  });

  it.each([
    ['issuer', { iss: 'https://evil.test' }],
    ['audience', { aud: 'somebody-else' }],
    ['nonce', { nonce: 'another' }],
    ['age', { exp: 1, iat: 0 }],
  ])('with a token of the wrong %s is none', async (_, wrong) => {
    const back = issuer.agree(await sso.begin(purpose), anna);
    issuer.wrong = wrong;
    expect(await sso.end(back, 'mark')).toBe(null);
  });

  it('with a token that another key has signed is none', async () => {
    const back = issuer.agree(await sso.begin(purpose), anna);
    issuer.forges = true;
    expect(await sso.end(back, 'mark')).toBe(null);
  });

  it.each([
    [['client_secret_basic']],
    [['client_secret_basic', 'client_secret_post']],
    [['client_secret_post']],
  ] as const)('proves who we are as the issuer takes it: %j', async (methods) => {
    issuer.methods = methods;
    expect(await sso.end(issuer.agree(await sso.begin(purpose), anna), 'mark')).not.toBe(null);
  });

  it('fails with a wrong secret, and not any more when the file has the right one', async () => {
    const file = join(directory, 'another');
    writeFileSync(file, 'wrong');
    const mistaken = new SingleSignOn(declared({ clientSecretFile: file }), clock, silentLog);
    expect(await mistaken.end(issuer.agree(await mistaken.begin(purpose), anna), 'mark')).toBe(null);
    writeFileSync(file, issuer.secret);
    expect(await mistaken.end(issuer.agree(await mistaken.begin(purpose), anna), 'mark')).not.toBe(null);
  });

  it('is not pushed out by whoever begins again and again elsewhere', async () => {
    const mine = await sso.begin(purpose);
    const theirs = [];
    for (let i = 0; i < 21; i++) theirs.push(await sso.begin({ ...purpose, address: `2001:db8::${i}` }));
    expect(await sso.end(issuer.agree(mine, anna), 'mark')).not.toBe(null);
    expect(await sso.end(issuer.agree(theirs[0]!, anna), 'mark')).toBe(null);
    expect(await sso.end(issuer.agree(theirs[1]!, anna), 'mark')).not.toBe(null);
  });

  it('remembers nothing that leads nowhere', async () => {
    const sent = await sso.begin({ ...purpose, returnTo: `/${'x'.repeat(2048)}`, awayVisit: 'x'.repeat(2048) });
    expect((await sso.end(issuer.agree(sent, anna), 'mark'))!.purpose).toMatchObject({ returnTo: '/', awayVisit: '' });
  });

  it('does not wait for an issuer that is silent', async () => {
    issuer.silent = true;
    const hurried = new SingleSignOn(declared(), clock, silentLog, 0.1);
    await expect(hurried.begin(purpose)).rejects.toThrow('timed out');
    issuer.silent = false;
    const sent = await hurried.begin(purpose);
    issuer.silent = true;
    expect(await hurried.end(issuer.agree(sent, anna), 'mark')).toBe(null);
  });

  it('cannot begin where the issuer does not answer, and can once it does', async () => {
    const gone = new SingleSignOn(declared({ issuer: 'http://127.0.0.1:9' }), clock, silentLog);
    await expect(gone.begin(purpose)).rejects.toThrow();
    await expect(gone.begin(purpose)).rejects.toThrow();
  });
});

describe('who may log in', () => {
  const may = (over: Partial<DeclaredOidc>, claims: object = anna) =>
    judge(claims, 'i', '42', declared({ allowedGroups: [], ...over }))?.name ?? null;
  it('is told by user, group or verified address; one is enough', () => {
    expect(may({ allowedUsers: ['ANNA'] })).toBe('anna');
    expect(may({ allowedGroups: ['family'] })).toBe('anna');
    expect(may({ allowedDomains: ['home.example'] })).toBe('anna');
    expect(may({ allowedUsers: ['ben'], allowedGroups: ['others'], allowedDomains: ['example'] })).toBe(null);
    expect(may({ allowedDomains: ['home.example'] }, { ...anna, email_verified: false })).toBe(null);
    expect(may({ allowedDomains: ['home.example'] }, { ...anna, email_verified: 'true' })).toBe(null);
    expect(may({ allowedUsers: ['anna'] }, { ...anna, preferred_username: ['anna'] })).toBe(null);
    expect(may({ allowedGroups: ['family'] }, { ...anna, groups: 'family' })).toBe(null);
    expect(may({ allowedUsers: [''] }, { ...anna, preferred_username: '' })).toBe(null);
  });

  it('an owner by the groups that are named; where none are, the operator says it', () => {
    const owner = (ownerGroups: readonly string[]): unknown => judge(anna, 'i', '42', declared({ ownerGroups }))?.owner;
    expect([owner(['admins']), owner(['others']), owner([])]).toEqual([true, false, null]);
  });

  it('nobody takes over a user by choosing a name at the issuer, and rights to apps stay', () => {
    const person = { issuer: 'i', subject: '42', name: 'anna', owner: false };
    const local = newUser('anna', 'owner', [], null, 0);
    expect(userOf(person, new Map([['anna', local]]), 1)).toBe(null);
    const made = userOf(person, new Map(), 1)!;
    expect(made).toMatchObject({ name: 'anna', role: 'user', password: null, sso: { issuer: 'i', subject: '42' } });
    const known = { ...made, apps: ['wiki'] };
    const owner = { ...known, role: 'owner' as const };
    expect(userOf({ ...person, owner: null }, new Map([['anna', owner]]), 2)).toBe(owner);
    expect(userOf({ ...person, owner: false }, new Map([['anna', owner]]), 2)).toEqual(known);
    expect(userOf({ ...person, name: 'renamed', owner: true }, new Map([['anna', known]]), 2)).toEqual({
      ...known,
      role: 'owner',
    });
    expect(userOf({ ...person, subject: '43' }, new Map([['anna', known]]), 2)).toBe(null);
    expect(userOf({ ...person, issuer: 'j' }, new Map([['anna', known]]), 2)).toBe(null);
    expect(userOf({ ...person, name: 'no name' }, new Map(), 2)).toBe(null);
  });
});

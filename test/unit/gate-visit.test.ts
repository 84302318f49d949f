// The gate's own pages as functions: forms, logins, logouts, and logins taken over to another name.
import { beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';
import { hashOf } from '../../src/gate/credentials.ts';
import { formToken } from '../../src/gate/form-token.ts';
import { Gatekeeper } from '../../src/gate/gatekeeper.ts';
import { returnPath, returnUrl } from '../../src/gate/return-path.ts';
import { answerVisit } from '../../src/gate/visit.ts';
import type { VisitReply, VisitRequest } from '../../src/gate/visit-request.ts';
import { defaultGateSettings } from '../../src/model/gate-policy.ts';
import { TestDesk } from '../support/gate-desk.ts';

const origin = 'https://app1.test';
const visit = 'v'.repeat(43);
const newId = 'n'.repeat(43);

let desk: TestDesk;
let keeper: Gatekeeper;

beforeEach(() => {
  desk = new TestDesk();
  desk.user('anna', { role: 'owner' });
  desk.answer = ({ topic }) => (topic === 'login' || topic === 'setup' ? { kind: 'ok', id: newId } : null);
  keeper = new Gatekeeper(desk, systemClock, defaultGateSettings);
  keeper.follow(defaultGateSettings, 'key');
});

const request = (over: Partial<VisitRequest> = {}): VisitRequest => ({
  method: 'GET',
  target: '/.turnpike/login',
  form: null,
  host: 'app1.test',
  secure: true,
  address: '192.0.2.1',
  ownOrigin: origin,
  origin: null,
  fetchSite: null,
  visits: [visit],
  sessions: [],
  session: null,
  isOurs: ({ host, protocol }) => host === 'app2.test' && protocol === 'https:',
  isGateHost: false,
  isDashboard: false,
  ...over,
});

const token = (): string => formToken(keeper.formKey, 'app1.test', visit);

function post(target: string, members: Record<string, string>, over: Partial<VisitRequest> = {}): Promise<VisitReply> {
  const form = new URLSearchParams({ token: token(), ...members });
  return answerVisit(request({ method: 'POST', target: `/.turnpike/${target}`, form, origin, ...over }), keeper);
}

const logIn = (over: Partial<VisitRequest> = {}, rd = '/ok'): Promise<VisitReply> =>
  post('login', { user: 'anna', password: 'secret', rd }, over);

describe('where a login leads back to', () => {
  it.each([
    '//evil.test',
    '/\\evil.test',
    '/%09/evil.test\t',
    '/\t/evil.test',
    'https://app1.test.evil.test/',
    'https://evilapp1.test/',
    'https://app1.test@evil.test/',
    'javascript:alert(1)',
    '/a\r\nSet-Cookie: x=1',
    '/%0d%0aX: y',
    '///evil.test',
    '/./\\evil.test',
    '/.//evil.test',
    '/.turnpike/login?rd=/',
    '\\\\evil.test',
    'http:evil.test',
    'https:/evil.test',
    '/a/..//evil.test',
    '',
    'evil.test',
    `/${'x'.repeat(3000)}`,
    '/\u0000',
    '/\u2028',
    ' /ok',
    '/%5c%5cevil.test/%0A',
    'https://app2.test/x',
    'data:text/html,x',
    '/.turnpike/logout',
    '/x/../.turnpike/login',
    '/%2e/.turnpike/logout',
  ])('%j is not followed', async (wanted) => {
    const { location } = await logIn({}, wanted);
    expect(new URL(location!, origin).host).toBe('app1.test');
    expect(location).toBe('/');
  });

  it.each(['/ok', '/ok?a=b', '/a%2Fb?next=//x', '/ok?u=https://evil.test/'])('%s is', async (wanted) => {
    expect((await logIn({}, wanted)).location).toBe(wanted);
  });

  it('a fragment is not for us to keep', () => {
    expect(returnPath('/ok?a=b#c', origin)).toBe('/ok?a=b');
  });

  it('other names only where they are ours', () => {
    const ours = (url: URL): boolean => url.host === 'app2.test';
    expect(returnUrl('https://app2.test/x?y', ours)?.href).toBe('https://app2.test/x?y');
    for (const wanted of [
      'https://app2.test.evil.test/',
      'https://x@app2.test/',
      'https://app2.test\\@evil.test/',
      '//app2.test/',
      'https://app2.test:99/',
    ]) {
      expect(returnUrl(wanted, ours), wanted).toBe(null);
    }
  });
});

describe('a login', () => {
  it('sets a new id in a cookie that scripts, other sites and plain http do not get', async () => {
    const old = 'o'.repeat(43);
    const { status, cookies } = await logIn({ sessions: [hashOf(old)] });
    expect(status).toBe(303);
    const [cookie] = cookies;
    expect(cookies).toHaveLength(1);
    expect(cookie).toBe(`__Host-turnpike_session=${newId}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax; Secure`);
    expect(desk.asked[0]!.ask).toMatchObject({
      caller: { replaces: [hashOf(old)], address: '192.0.2.1', host: 'app1.test' },
    });
    expect((await logIn({ secure: false, ownOrigin: 'http://app1.test', origin: null })).cookies[0]).toBe(
      `turnpike_session=${newId}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax`,
    );
  });

  it.each([
    ['a foreign Origin', { origin: 'https://evil.test' }],
    ['Origin null', { origin: 'null' }],
    ['the other scheme', { origin: 'http://app1.test' }],
    ['Sec-Fetch-Site: cross-site', { origin: null, fetchSite: 'cross-site' }],
    ['Sec-Fetch-Site: same-site', { origin: null, fetchSite: 'same-site' }],
    ['no mark in the browser', { visits: [] }],
    ['two marks', { visits: [visit, 'w'.repeat(43)] }],
    ['the mark of another browser', { visits: ['w'.repeat(43)] }],
    ['another host', { host: 'app2.test' }],
    ['no form', { form: null }],
    ['a wrong token', { form: new URLSearchParams({ token: 'x', user: 'anna', password: 'secret' }) }],
  ] as [string, Partial<VisitRequest>][])('is refused with %s', async (_, over) => {
    expect((await logIn(over)).status).toBe(403);
    expect(desk.asked).toEqual([]);
  });

  it('that fails says so without a session, keeps the name, and never the password', async () => {
    desk.answer = () => ({ kind: 'refused', why: 'password' });
    const reply = await logIn();
    expect([reply.status, reply.cookies]).toEqual([403, []]);
    expect(reply.page!.html).toContain('The name or the password is wrong.');
    expect(reply.page!.html).toContain('value="anna"');
    expect(reply.page!.html).not.toContain('secret');
    desk.answer = () => ({ kind: 'throttled', retryAfterSeconds: 42 });
    expect(await logIn()).toMatchObject({ status: 429, retryAfterSeconds: 42, cookies: [] });
    desk.answer = () => null;
    expect(await logIn()).toMatchObject({ status: 503, cookies: [] });
    desk.answer = () => ({ kind: 'refused', why: 'code' });
    expect((await logIn()).page!.html).toContain('one-time-code');
  });

  it('page escapes what it is given', async () => {
    desk.answer = () => ({ kind: 'refused', why: 'password' });
    const reply = await post('login', { user: '"><script>x</script>', password: 'p', rd: '/"><b>' });
    expect(reply.page!.html).not.toMatch(/<script>x|"><b>/);
  });

  it('two tabs share the mark of their browser', async () => {
    const first = await answerVisit(request({ visits: [] }), keeper);
    const mark = /turnpike_visit=([^;]+)/.exec(first.cookies[0]!)![1]!;
    const second = await answerVisit(request({ visits: [mark] }), keeper);
    expect(second.cookies).toEqual([]);
    const tokenOf = (reply: VisitReply): string => /name="token" value="([^"]+)"/.exec(reply.page!.html)![1]!;
    expect(tokenOf(first)).toBe(tokenOf(second));
  });
});

describe('a logout', () => {
  it('deletes the cookie, once, and ends the session at the supervisor', async () => {
    desk.session('live', 'anna');
    const session = [...keeper.credentials.sessions()][0]!;
    desk.answer = () => 'ended';
    const reply = await post('logout', { which: 'everywhere' }, { session });
    expect(reply.cookies).toEqual(['__Host-turnpike_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax; Secure']);
    expect(desk.asked).toEqual([{ topic: 'logout', ask: { session: session.row.hash, everywhere: true } }]);
  });

  it('by GET, or from another site, has no effect', async () => {
    desk.session('live', 'anna');
    const session = [...keeper.credentials.sessions()][0]!;
    const shown = await answerVisit(request({ target: '/.turnpike/logout', session }), keeper);
    expect([shown.status, shown.cookies]).toEqual([200, []]);
    expect((await post('logout', {}, { session, origin: 'https://evil.test' })).status).toBe(403);
    expect(desk.asked).toEqual([]);
  });

  it('that could not be finished does not say that it was', async () => {
    desk.session('live', 'anna');
    const session = [...keeper.credentials.sessions()][0]!;
    desk.answer = () => null;
    expect(await post('logout', {}, { session })).toMatchObject({ status: 503, cookies: [] });
  });
});

describe('a login on one name for the others', () => {
  const away = { isGateHost: true, host: 'app1.test' };
  const mark = hashOf('m'.repeat(43));

  it('leads back with a code, made out to the browser that was sent here', async () => {
    desk.answer = ({ topic }) => (topic === 'handOver' ? { code: 'c'.repeat(43) } : { kind: 'ok', id: newId });
    const reply = await post('login', { user: 'anna', password: 'p', rd: 'https://app2.test/x?y=1', v: mark }, away);
    expect(reply.location).toBe(`https://app2.test/.turnpike/callback?code=${'c'.repeat(43)}`);
    expect(desk.asked[1]).toEqual({
      topic: 'handOver',
      ask: { session: hashOf(newId), visit: mark, to: { host: 'app2.test', secure: true, returnTo: '/x?y=1' } },
    });
  });

  it('goes nowhere else, and from other names than the gate’s not at all', async () => {
    for (const [rd, over] of [
      ['https://evil.test/', away],
      ['http://app2.test/', away],
      ['https://app2.test:8443/', away],
      ['https://app2.test/', {}],
    ] as const) {
      const reply = await post('login', { user: 'anna', password: 'p', rd, v: mark }, over);
      expect(reply.location, rd).toBe('/');
    }
  });

  it('lets the form lead on to that name and no other', async () => {
    const shown = await answerVisit(
      request({ ...away, target: `/.turnpike/login?rd=${encodeURIComponent('https://app2.test/x')}&v=${mark}` }),
      keeper,
    );
    expect(shown.page!.policy).toContain("form-action 'self' https://app2.test;");
    const other = await answerVisit(
      request({ ...away, target: `/.turnpike/login?rd=${encodeURIComponent('https://evil.test/x')}&v=${mark}` }),
      keeper,
    );
    expect(other.page!.policy).toContain("form-action 'self';");
  });

  it('is finished on the other name by the browser that began it', async () => {
    const code = 'c'.repeat(43);
    desk.answer = () => ({ id: newId, returnTo: '/x?y=1' });
    const target = `/.turnpike/callback?code=${code}`;
    const reply = await answerVisit(request({ target }), keeper);
    expect([reply.status, reply.location]).toEqual([303, '/x?y=1']);
    expect(desk.asked[0]).toMatchObject({ topic: 'redeem', ask: { code, visit: hashOf(visit) } });
    expect((await answerVisit(request({ target, visits: [] }), keeper)).status).toBe(403);
    desk.answer = () => null;
    expect(await answerVisit(request({ target }), keeper)).toMatchObject({ status: 403, cookies: [] });
  });
});

describe('a login by an issuer', () => {
  beforeEach(() => {
    keeper.follow({ ...defaultGateSettings, singleSignOn: 'Log in with <Home>' }, 'key');
  });

  it('is offered on the page, and sends the browser there and back', async () => {
    const page = await answerVisit(request({ target: '/.turnpike/login?rd=/x%3Fa' }), keeper);
    expect(page.page!.html).toContain('href="/.turnpike/sso?rd=%2Fx%3Fa&#38;v=">Log in with &#60;Home&#62;</a>');
    desk.answer = () => ({ url: 'https://id.test/authorize?x' });
    const away = await answerVisit(request({ target: '/.turnpike/sso?rd=/x' }), keeper);
    expect([away.status, away.location]).toEqual([303, 'https://id.test/authorize?x']);
    expect(desk.asked[0]).toEqual({
      topic: 'ssoBegin',
      ask: {
        address: '192.0.2.1',
        visit: hashOf(visit),
        redirectUri: `${origin}/.turnpike/sso/callback`,
        returnTo: '/x',
        awayVisit: '',
      },
    });
    desk.answer = () => ({ kind: 'ok', id: newId, returnTo: '/x', awayVisit: '' });
    const back = await answerVisit(request({ target: '/.turnpike/sso/callback?code=c&state=s' }), keeper);
    expect([back.status, back.location, back.cookies[0]?.split(';', 1)[0]]).toEqual([
      303,
      '/x',
      `__Host-turnpike_session=${newId}`,
    ]);
    desk.answer = () => ({ kind: 'ok', id: newId, returnTo: 'https://evil.test/', awayVisit: '' });
    expect((await answerVisit(request({ target: '/.turnpike/sso/callback?code=c&state=s' }), keeper)).location).toBe(
      '/',
    );
  });

  it('is none without the mark of the browser, for strangers, and where there is no issuer', async () => {
    const target = '/.turnpike/sso/callback?code=c&state=s';
    expect(await answerVisit(request({ target, visits: [] }), keeper)).toMatchObject({ status: 403, cookies: [] });
    expect(desk.asked).toEqual([]);
    desk.answer = () => ({ kind: 'refused', why: 'stranger' });
    expect(await answerVisit(request({ target }), keeper)).toMatchObject({ status: 403, cookies: [] });
    desk.answer = () => null;
    expect(await answerVisit(request({ target }), keeper)).toMatchObject({ status: 503, cookies: [] });
    expect(await answerVisit(request({ target: '/.turnpike/sso' }), keeper)).toMatchObject({ status: 503 });
    keeper.follow(defaultGateSettings, 'key');
    expect((await answerVisit(request({ target: '/.turnpike/sso' }), keeper)).location).toBe('/.turnpike/login');
  });
});

it('nothing else is there, and no other method', async () => {
  for (const target of [
    '/.turnpike/',
    '/.turnpike/x',
    '/.turnpike/login/',
    '/.turnpike/setup',
    '/.turnpike/setup?code=short',
  ]) {
    expect((await answerVisit(request({ target }), keeper)).status, target).toBe(404);
  }
  expect((await answerVisit(request({ method: 'PUT' }), keeper)).status).toBe(405);
  expect((await post('callback', {})).status).toBe(404);
});

describe('the dashboard', () => {
  const live = () => {
    const id = desk.session('dash', 'anna', { secure: true, host: 'app1.test' });
    return keeper.credentials.session(hashOf(id))!;
  };
  const at = (over: Partial<VisitRequest>) => answerVisit(request({ target: '/', isDashboard: true, ...over }), keeper);

  it('is nowhere else, and asks for a login', async () => {
    expect((await at({ isDashboard: false, session: live() })).status).toBe(404);
    expect(await at({ target: '/users?x=1' })).toMatchObject({
      status: 303,
      location: '/.turnpike/login?rd=%2Fusers%3Fx%3D1',
    });
    expect((await at({ target: '/nothing', session: live() })).status).toBe(404);
    expect(desk.asked).toEqual([]);
  });

  it.each([
    ['another origin', { origin: 'https://app2.test' }],
    ['another site', { fetchSite: 'same-site' }],
    ['no form token', { form: new URLSearchParams({ do: 'access' }) }],
    ['another browser', { visits: ['x'.repeat(43)] }],
  ] as const)('takes no order from %s', async (_what, over) => {
    const form = new URLSearchParams({ token: token(), do: 'access' });
    const reply = await at({ method: 'POST', form, origin, session: live(), ...over });
    expect(reply.status).toBe(403);
    expect(desk.asked).toEqual([]);
  });

  it('passes an order on without the form token, and leads back when it is done', async () => {
    desk.answer = () => ({ problem: null, token: null });
    const session = live();
    const form = new URLSearchParams({ token: token(), do: 'access', app: 'x' });
    expect(await at({ method: 'POST', form, origin, session })).toMatchObject({ status: 303, location: '/' });
    const order = { do: 'access', app: 'x' };
    expect(desk.asked).toEqual([{ topic: 'dashboard', ask: { session: session.row.hash, page: 'apps', order } }]);
  });
});

it.each(['//', '//[', '//a:99999/', '//x/.turnpike/login', '*'])(
  '%s is no page of ours, and no bug',
  async (target) => {
    expect((await answerVisit(request({ target }), keeper)).status).toBe(404);
  },
);

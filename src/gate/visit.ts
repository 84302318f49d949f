// The gate's own addresses under `/.turnpike/`: what is asked there, and what is answered.
// Invariant: a form is acted on only when it came from a page of ours on this name in this browser; a session is made by
// the supervisor alone and its id goes nowhere but into a Set-Cookie.
import { randomBytes } from 'node:crypto';
import { clearSession, isId, setSession, setVisit } from './cookies.ts';
import { hashOf } from './credentials.ts';
import { visitDashboard } from './dashboard-visit.ts';
import type { Caller, LoginAnswer, SsoAnswer } from './desk.ts';
import { formToken, isFormToken } from './form-token.ts';
import type { Gatekeeper } from './gatekeeper.ts';
import { canonicalOrigin } from './origin.ts';
import type { Page } from './pages/document.ts';
import { loginPage, logoutPage, noticePage, setupPage } from './pages/login-page.ts';
import { reservedPath, returnPath, returnUrl } from './return-path.ts';
import type { VisitReply, VisitRequest } from './visit-request.ts';

const refusals = {
  password: 'The name or the password is wrong.',
  code: 'Enter the code that your authenticator shows now.',
  setup: 'This link is no longer valid. A new one is printed when Turnpike starts, as long as there is no user.',
  weak: 'The password must have at least 10 characters.',
  name: 'A name has 1 to 64 lower-case letters, digits, or . _ @ + -',
} as const satisfies Record<Extract<LoginAnswer, { kind: 'refused' }>['why'], string>;

const ssoRefusals = {
  sso: 'That login was used already, took too long, or was not finished.',
  stranger: 'You are known there, but may not log in here.',
  name: 'Your name there is somebody else here, or cannot be a name here.',
} as const satisfies Record<Extract<SsoAnswer, { kind: 'refused' }>['why'], string>;

export async function answerVisit(request: VisitRequest, keeper: Gatekeeper): Promise<VisitReply> {
  const { method } = request;
  // Put together, not resolved: a target that begins with two slashes is a path (RFC 9112 §3.2.1), never another host.
  const url = URL.parse(request.ownOrigin + request.target);
  if (url === null) return plain(404, 'Page not found', 'There is no such page.');
  if (!url.pathname.startsWith(reservedPath)) return showDashboard(request, url, keeper);
  const name = url.pathname.slice(reservedPath.length);
  const reads = method === 'GET' || method === 'HEAD';
  if (!reads && method !== 'POST') return plain(405, 'Not possible', 'This address takes GET and POST.');
  if (!reads && !isOwnForm(request, keeper)) {
    return plain(
      403,
      'Please try again',
      'This form did not come from this site, or was open for too long.',
      `${reservedPath}login`,
    );
  }
  switch (name) {
    case 'login':
      return reads ? showLogin(request, url.searchParams, keeper) : takeLogin(request, keeper);
    case 'logout':
      return reads ? showLogout(request, keeper) : takeLogout(request, keeper);
    case 'setup':
      return reads ? showSetup(request, url.searchParams, keeper) : takeSetup(request, keeper);
    case 'sso':
      if (reads) return leaveForIssuer(request, url.searchParams, keeper);
      break;
    case 'sso/callback':
      if (reads) return comeFromIssuer(request, url.href, keeper);
      break;
    case 'callback':
      if (reads) return takeCallback(request, url.searchParams, keeper);
  }
  return plain(404, 'Page not found', 'There is no such page.');
}

/** What the gate's own host, or port, has beside the reserved addresses. */
function showDashboard(request: VisitRequest, url: URL, keeper: Gatekeeper): Promise<VisitReply> | VisitReply {
  const notFound = (): VisitReply => plain(404, 'Page not found', 'There is no such page.');
  if (!request.isDashboard) return notFound();
  return visitDashboard(
    request,
    url,
    {
      withForm: (make, status) => withForm(request, make, status, keeper),
      redirect: (location) => redirect(location, []),
      notFound,
      refused: () => plain(403, 'Please try again', 'This form did not come from this site, or was open for too long.'),
      late: () => plain(503, 'Please try again', 'The dashboard could not be shown.'),
      ownForm: isOwnForm(request, keeper),
    },
    keeper,
  );
}

/** A form of a page of ours, sent from the same origin by the browser that got it. */
function isOwnForm({ form, origin, fetchSite, ownOrigin, visits, host }: VisitRequest, keeper: Gatekeeper): boolean {
  if (form === null || visits.length !== 1) return false;
  if (origin !== null && canonicalOrigin(origin) !== ownOrigin) return false;
  if (fetchSite !== null && fetchSite !== 'same-origin') return false;
  return isFormToken(form.get('token') ?? '', keeper.formKey, host, visits[0]!);
}

// ---- login -----------------------------------------------------------------------------------------------------

async function showLogin(request: VisitRequest, query: URLSearchParams, keeper: Gatekeeper): Promise<VisitReply> {
  const wanted = query.get('rd');
  const visit = query.get('v') ?? '';
  // Who is logged in here goes on at once; on another name, with a session for that one.
  if (request.session !== null) return goOn(request, request.session.row.hash, wanted, visit, [], keeper);
  return withForm(request, (token) => loginForm(request, keeper, token, wanted, visit, '', null, false), 200, keeper);
}

async function takeLogin(request: VisitRequest, keeper: Gatekeeper): Promise<VisitReply> {
  const form = request.form!;
  const user = form.get('user') ?? '';
  const wanted = form.get('rd');
  const visit = form.get('v') ?? '';
  const ask = { user, password: form.get('password') ?? '', code: form.get('code') ?? '', caller: callerOf(request) };
  const answer = await keeper.desk.ask('login', ask);
  if (answer?.kind === 'ok') {
    const cookie = setSession(answer.id, request.secure, keeper.lifetimes.sessionAbsoluteMs);
    return goOn(request, hashOf(answer.id), wanted, visit, [cookie], keeper);
  }
  const askCode = answer?.kind === 'refused' && answer.why === 'code';
  const page = (token: string): Page =>
    loginForm(request, keeper, token, wanted, visit, user, problemOf(answer), askCode);
  return { ...withForm(request, page, statusOf(answer), keeper), retryAfterSeconds: waitOf(answer) };
}

function loginForm(
  request: VisitRequest,
  keeper: Gatekeeper,
  token: string,
  wanted: string | null,
  visit: string,
  user: string,
  problem: string | null,
  askCode: boolean,
): Page {
  const away = request.isGateHost ? returnUrl(wanted, request.isOurs) : null;
  return loginPage({
    formToken: token,
    returnTo: away?.href ?? returnPath(wanted, request.ownOrigin),
    visit: isId(visit) ? visit : '',
    user,
    problem,
    askCode,
    onward: away?.origin ?? null,
    singleSignOn: keeper.lifetimes.singleSignOn,
  });
}

/** To where the login was wanted for: a path here, or another name that gets a session of its own. */
async function goOn(
  request: VisitRequest,
  session: string,
  wanted: string | null,
  visit: string,
  cookies: readonly string[],
  keeper: Gatekeeper,
): Promise<VisitReply> {
  const away = request.isGateHost && isId(visit) ? returnUrl(wanted, request.isOurs) : null;
  if (away === null || away.origin === request.ownOrigin) {
    return redirect(returnPath(pathAt(wanted, request.ownOrigin), request.ownOrigin), cookies);
  }
  const to = { host: away.hostname, secure: away.protocol === 'https:', returnTo: away.pathname + away.search };
  const answer = await keeper.desk.ask('handOver', { session, visit, to });
  if (answer === null) return plain(503, 'Please try again', 'The login could not be finished.');
  return redirect(`${away.origin}${reservedPath}callback?code=${answer.code}`, cookies);
}

/** A whole URL of this origin counts as its path. */
function pathAt(wanted: string | null, origin: string): string | null {
  return wanted?.startsWith(`${origin}/`) ? wanted.slice(origin.length) : wanted;
}

async function takeCallback(request: VisitRequest, query: URLSearchParams, keeper: Gatekeeper): Promise<VisitReply> {
  const code = query.get('code') ?? '';
  const [visit] = request.visits;
  const again = `${reservedPath}login`;
  const stale = plain(
    403,
    'Please log in again',
    'This login was used already, took too long, or began elsewhere.',
    again,
  );
  if (!isId(code) || visit === undefined || request.visits.length > 1) return stale;
  const answer = await keeper.desk.ask('redeem', { code, visit: hashOf(visit), caller: callerOf(request) });
  if (answer === null) return stale;
  const cookie = setSession(answer.id, request.secure, keeper.lifetimes.sessionAbsoluteMs);
  return redirect(returnPath(answer.returnTo, request.ownOrigin), [cookie]);
}

// ---- an issuer -------------------------------------------------------------------------------------------------

async function leaveForIssuer(request: VisitRequest, query: URLSearchParams, keeper: Gatekeeper): Promise<VisitReply> {
  const [visit] = request.visits;
  const again = redirect(`${reservedPath}login`, []);
  if (keeper.lifetimes.singleSignOn === null || visit === undefined || request.visits.length > 1) return again;
  const answer = await keeper.desk.ask('ssoBegin', {
    address: request.address,
    visit: hashOf(visit),
    redirectUri: `${request.ownOrigin}${reservedPath}sso/callback`,
    returnTo: query.get('rd') ?? '/',
    awayVisit: query.get('v') ?? '',
  });
  if (answer !== null) return redirect(answer.url, []);
  return unreachable;
}

async function comeFromIssuer(request: VisitRequest, url: string, keeper: Gatekeeper): Promise<VisitReply> {
  const [visit] = request.visits;
  const answer: SsoAnswer | null =
    visit === undefined || request.visits.length > 1
      ? { kind: 'refused', why: 'sso' }
      : await keeper.desk.ask('ssoEnd', { url, visit: hashOf(visit), caller: callerOf(request) });
  if (answer === null) return unreachable;
  if (answer.kind === 'refused') {
    return plain(403, 'Not logged in', ssoRefusals[answer.why], `${reservedPath}login`);
  }
  const cookie = setSession(answer.id, request.secure, keeper.lifetimes.sessionAbsoluteMs);
  return goOn(request, hashOf(answer.id), answer.returnTo, answer.awayVisit, [cookie], keeper);
}

// ---- logout ----------------------------------------------------------------------------------------------------

function showLogout(request: VisitRequest, keeper: Gatekeeper): VisitReply {
  const { session } = request;
  if (session === null) return redirect(`${reservedPath}login`, []);
  return withForm(request, (token) => logoutPage(session.user, token), 200, keeper);
}

async function takeLogout(request: VisitRequest, keeper: Gatekeeper): Promise<VisitReply> {
  const done = redirect(`${reservedPath}login`, [clearSession(request.secure)]);
  if (request.session === null) return done;
  const everywhere = request.form!.get('which') === 'everywhere';
  const answer = await keeper.desk.ask('logout', { session: request.session.row.hash, everywhere });
  return answer === null ? plain(503, 'Please try again', 'The logout could not be finished.') : done;
}

// ---- first user ------------------------------------------------------------------------------------------------

function showSetup(request: VisitRequest, query: URLSearchParams, keeper: Gatekeeper): VisitReply {
  const secret = query.get('code') ?? '';
  if (!isId(secret)) return plain(404, 'Page not found', 'There is no such page.');
  return withForm(request, (token) => setupPage(secret, token, null), 200, keeper);
}

async function takeSetup(request: VisitRequest, keeper: Gatekeeper): Promise<VisitReply> {
  const form = request.form!;
  const secret = form.get('secret') ?? '';
  const ask = { secret, user: form.get('user') ?? '', password: form.get('password') ?? '', caller: callerOf(request) };
  const answer = await keeper.desk.ask('setup', ask);
  if (answer?.kind === 'ok') {
    return redirect('/', [setSession(answer.id, request.secure, keeper.lifetimes.sessionAbsoluteMs)]);
  }
  const page = (token: string): Page => setupPage(secret, token, problemOf(answer));
  return { ...withForm(request, page, statusOf(answer), keeper), retryAfterSeconds: waitOf(answer) };
}

// ---- answers ---------------------------------------------------------------------------------------------------

function callerOf({ address, host, secure, sessions }: VisitRequest): Caller {
  return { address, host, secure, replaces: sessions };
}

function problemOf(answer: LoginAnswer | null): string {
  if (answer?.kind === 'refused') return refusals[answer.why];
  if (answer?.kind === 'throttled') return 'Too many failed logins came from your address. Please wait a while.';
  return 'The login could not be finished. Please try again.';
}

function statusOf(answer: LoginAnswer | null): number {
  if (answer === null) return 503;
  return answer.kind === 'throttled' ? 429 : 403;
}

function waitOf(answer: LoginAnswer | null): number {
  return answer?.kind === 'throttled' ? answer.retryAfterSeconds : 0;
}

/** A page with a form: the browser gets a mark, unless it has one. (Two tabs must not take it from each other.) */
function withForm(
  request: VisitRequest,
  make: (token: string) => Page,
  status: number,
  keeper: Gatekeeper,
): VisitReply {
  const known = request.visits.length === 1 ? request.visits[0]! : null;
  const visit = known ?? newVisit();
  const cookies = known === null ? [setVisit(visit, request.secure)] : [];
  return { ...empty, status, cookies, page: make(formToken(keeper.formKey, request.host, visit)) };
}

export function newVisit(): string {
  return randomBytes(32).toString('base64url');
}

function redirect(location: string, cookies: readonly string[]): VisitReply {
  return { ...empty, status: 303, location, cookies };
}

function plain(status: number, title: string, sentence: string, href: string | null = null): VisitReply {
  const link = href === null ? null : { href, label: 'Log in' };
  return { ...empty, status, page: noticePage(title, sentence, link) };
}

const empty = { location: null, cookies: [], page: null, retryAfterSeconds: 0 } as const;

const unreachable = plain(
  503,
  'Please try again',
  'The service that you log in with cannot be reached.',
  `${reservedPath}login`,
);

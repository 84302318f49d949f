// The pages on which somebody logs in, logs out, or becomes the first user. They work without scripts.
// Invariant: nothing that was typed comes back but the name; a wrong name and a wrong password look the same.
import { type Markup, type Page, page, text } from './document.ts';

export interface LoginPage {
  readonly formToken: string;
  /** Where to go afterwards, as the form sends it back. */
  readonly returnTo: string;
  /** Hash of the browser's mark on the name that sent it here; '' at home. */
  readonly visit: string;
  readonly user: string;
  readonly problem: string | null;
  /** Ask for the code of the authenticator, too. */
  readonly askCode: boolean;
  /** Origin that the form leads on to. */
  readonly onward: string | null;
  /** Text of the way by an issuer; null: there is none. */
  readonly singleSignOn: string | null;
}

export function loginPage(login: LoginPage): Page {
  const code = login.askCode ? field('code', 'Code from your authenticator', 'text', 'one-time-code', true) : '';
  return page({
    title: 'Log in',
    formTargets: login.onward === null ? [] : [login.onward],
    body: {
      html: `<h1>Log in</h1>${problem(login.problem)}
<form method="post" action="/.turnpike/login">${hidden('token', login.formToken)}${hidden('rd', login.returnTo)}${hidden('v', login.visit)}
${field('user', 'Name', 'text', 'username', login.user === '', login.user)}${field('password', 'Password', 'password', 'current-password', login.user !== '' && !login.askCode)}${code}
<button>Log in</button></form>${ssoLink(login)}`,
    },
  });
}

function ssoLink({ singleSignOn, returnTo, visit }: LoginPage): string {
  if (singleSignOn === null) return '';
  const query = new URLSearchParams({ rd: returnTo, v: visit }).toString();
  return `<p><a href="${text(`/.turnpike/sso?${query}`)}">${text(singleSignOn)}</a></p>`;
}

export function logoutPage(user: string, formToken: string): Page {
  return page({
    title: 'Log out',
    body: {
      html: `<h1>Log out</h1><p>You are logged in as ${text(user)}.</p>
<form method="post" action="/.turnpike/logout">${hidden('token', formToken)}
<p><button name="which" value="here">Log out</button></p>
<p><button name="which" value="everywhere" class="quiet">Log out everywhere</button></p></form>`,
    },
  });
}

export function setupPage(secret: string, formToken: string, wrong: string | null): Page {
  return page({
    title: 'First user',
    body: {
      html: `<h1>First user</h1>${problem(wrong)}<p>Whoever is named here owns this machine's apps.</p>
<form method="post" action="/.turnpike/setup">${hidden('token', formToken)}${hidden('secret', secret)}
${field('user', 'Name', 'text', 'username', true)}${field('password', 'Password, at least 10 characters', 'password', 'new-password', false)}
<button>Create</button></form>`,
    },
  });
}

/** Something to read, and nothing to do but to go on. */
export function noticePage(
  title: string,
  sentence: string,
  link: { readonly href: string; readonly label: string } | null,
): Page {
  const onward = link === null ? '' : `<p><a href="${text(link.href)}">${text(link.label)}</a></p>`;
  return page({ title, body: { html: `<h1>${text(title)}</h1><p>${text(sentence)}</p>${onward}` } });
}

function problem(sentence: string | null): string {
  return sentence === null ? '' : `<p class="bad" role="alert">${text(sentence)}</p>`;
}

function hidden(name: string, value: string): string {
  return `<input type="hidden" name="${name}" value="${text(value)}">`;
}

function field(
  name: string,
  label: string,
  type: 'text' | 'password',
  autocomplete: string,
  focus: boolean,
  value = '',
): Markup['html'] {
  const more = type === 'text' ? ' autocapitalize="none" spellcheck="false"' : '';
  return `<label for="${name}">${text(label)}</label><input id="${name}" name="${name}" type="${type}" autocomplete="${autocomplete}" value="${text(value)}"${more}${focus ? ' autofocus' : ''}>`;
}

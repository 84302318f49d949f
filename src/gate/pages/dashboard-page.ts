// The dashboard's pages: apps, sessions, tokens, users, operations, and an app in a frame. They work without scripts.
// Invariant: forms are drawn only for what whoever looks may do; the supervisor judges again.
import type {
  AppTile,
  DashboardPage,
  DashboardView,
  LaunchWay,
  OperationsView,
  SessionLine,
  TokenLine,
  UserLine,
} from '../dashboard.ts';
import { type Page, page, text } from './document.ts';

const titles: Readonly<Record<DashboardPage, string>> = {
  apps: 'Apps',
  sessions: 'Sessions',
  tokens: 'Tokens',
  users: 'Users',
  operations: 'Operations',
};

export function dashboardPage(
  at: DashboardPage,
  view: DashboardView,
  ownOrigin: string,
  now: number,
  formToken: string,
): Page {
  const draw: Readonly<Record<DashboardPage, () => string>> = {
    apps: () => apps(view, ownOrigin, formToken),
    sessions: () => sessions(view, now, formToken),
    tokens: () => tokens(view, now, formToken),
    users: () => users(view, formToken),
    operations: () => operations(view.operations),
  };
  const problem = view.problem === null ? '' : `<p class="bad" role="alert">${text(view.problem)}</p>`;
  return page({
    title: titles[at],
    wide: true,
    body: { html: `${top(at, view)}<main id="main"><h1>${titles[at]}</h1>${problem}${draw[at]()}</main>` },
  });
}

/** An app beside the way back. */
export function framePage(tile: AppTile, way: LaunchWay, view: DashboardView, ownOrigin: string): Page {
  const href = hrefOf(way, ownOrigin);
  return page({
    title: tile.title,
    wide: true,
    frames: [new URL(href).origin],
    body: {
      html: `${top('apps', view)}<main id="main" class="frame"><h1 class="bar">${text(tile.title)} <a href="${text(href)}">Open by itself</a></h1>
<iframe src="${text(href)}" title="${text(tile.title)}"></iframe></main>`,
    },
  });
}

function top(at: DashboardPage, { user, owner }: DashboardView): string {
  const shown: readonly DashboardPage[] = owner
    ? ['apps', 'sessions', 'tokens', 'users', 'operations']
    : ['apps', 'sessions'];
  const links = shown.map((each) => {
    const here = each === at ? ' aria-current="page"' : '';
    return `<a href="${each === 'apps' ? '/' : `/${each}`}"${here}>${titles[each]}</a>`;
  });
  return `<a class="skip" href="#main">Skip to content</a><header><strong>Turnpike</strong><nav aria-label="Pages">${links.join('')}</nav>
<span class="who">${text(user)} <a href="/.turnpike/logout">Log out</a></span></header>`;
}

// ---- apps ------------------------------------------------------------------------------------------------------

function apps(view: DashboardView, ownOrigin: string, formToken: string): string {
  if (view.apps.length === 0) return '<p class="soft">No app is open to you yet.</p>';
  return `<ul class="tiles">${view.apps.map((tile) => appTile(tile, view.owner, ownOrigin, formToken)).join('')}</ul>`;
}

const states = { up: 'Running', down: 'Not running', held: 'Changing', unknown: 'Not watched' } as const;

function appTile(tile: AppTile, owner: boolean, ownOrigin: string, formToken: string): string {
  const { app, title, description, state, ways, faults } = tile;
  const links = ways.map(
    (way) =>
      `<a class="launch" href="${text(hrefOf(way, ownOrigin))}">${text(ways.length === 1 ? 'Open' : way.label)}</a>`,
  );
  if (ways.length > 0) links.push(`<a href="/open?app=${encodeURIComponent(app)}">Open here</a>`);
  const said = description === null ? '' : `<p class="soft">${text(description)}</p>`;
  const wrong = faults.map((fault) => `<p class="bad">${text(fault)}</p>`).join('');
  return `<li class="tile"><h2>${text(title)}</h2><p class="state ${state}">${states[state]}</p>${said}
<p>${loginSentence(tile)}</p>${wrong}<p class="links">${links.join(' ')}</p>${owner && tile.login !== null ? accessForm(tile, formToken) : ''}</li>`;
}

function loginSentence({ login, override, policy, rationale }: AppTile): string {
  if (login === null) {
    const why: Readonly<Record<string, string>> = {
      none: 'Not behind the gate.',
      local: 'For this machine alone.',
      absent: 'Nothing is said about its access.',
    };
    return `${why[policy] ?? 'Not behind the gate.'}${rationale === null ? '' : ` ${text(rationale)}`}`;
  }
  const what = login ? 'Asks for a login.' : 'Open to everybody.';
  const set = override === null ? '' : ' Set by an owner, whatever the app declares.';
  return `${what}${set}${!login && override === null && rationale !== null ? ` ${text(rationale)}` : ''}`;
}

function accessForm({ app, title, override }: AppTile, formToken: string): string {
  const choices: readonly (readonly [value: string, label: string, chosen: boolean])[] = [
    ['declared', 'As declared', override === null],
    ['on', 'Ask for a login', override === true],
    ['off', 'Open to everybody', override === false],
  ];
  const options = choices.map(
    ([value, label, chosen]) => `<option value="${value}"${chosen ? ' selected' : ''}>${label}</option>`,
  );
  const id = `access-${text(app)}`;
  return `<form class="row" method="post" action="/">${hidden(formToken, 'access')}<input type="hidden" name="app" value="${text(app)}">
<label for="${id}">Access control<span class="hidden"> of ${text(title)}</span></label><select id="${id}" name="enabled">${options.join('')}</select><button class="quiet">Set</button></form>`;
}

function hrefOf({ origin, port, path }: LaunchWay, ownOrigin: string): string {
  if (origin !== null) return origin + path;
  const url = new URL(path, ownOrigin);
  url.port = String(port);
  return url.href;
}

// ---- who may -----------------------------------------------------------------------------------------------------

function sessions({ sessions: rows }: DashboardView, now: number, formToken: string): string {
  const line = ({ id, user, address, host, lastUsedAt, createdAt, own }: SessionLine): readonly string[] => [
    text(user) + (own ? ' <span class="soft">(this one)</span>' : ''),
    text(address),
    text(host),
    ago(now, lastUsedAt),
    ago(now, createdAt),
    button('/sessions', formToken, 'end-session', { id }, 'End', `the session of ${user} from ${address}`),
  ];
  return tableOf(
    'Sessions',
    ['User', 'Address', 'Name', 'Last used', 'Since', ''],
    rows.map(line),
    'Nobody is logged in.',
  );
}

function tokens(view: DashboardView, now: number, formToken: string): string {
  const made =
    view.token === null
      ? ''
      : `<div class="made" role="status"><p>The new token. It is shown this once:</p><p><code>${text(view.token)}</code></p></div>`;
  const line = ({ id, app, name, scope, expiresAt, lastUsedAt }: TokenLine): readonly string[] => [
    text(name),
    text(app),
    text(scope),
    expiresAt === null ? 'never' : day(expiresAt),
    lastUsedAt === 0 ? 'never' : ago(now, lastUsedAt),
    button('/tokens', formToken, 'revoke-token', { id }, 'Revoke', `the token ${name} of ${app}`),
  ];
  const gated = view.apps.filter(({ login }) => login !== null);
  const options = gated.map(({ app, title }) => `<option value="${text(app)}">${text(title)}</option>`).join('');
  const form =
    gated.length === 0
      ? ''
      : `<h2>New token</h2><form method="post" action="/tokens" class="fields">${hidden(formToken, 'create-token')}
<p><label for="app">App</label><select id="app" name="app">${options}</select></p>
<p><label for="name">Name</label><input id="name" name="name" required pattern="[A-Za-z0-9._\\-]{1,64}" autocomplete="off"></p>
<p><label for="days">Days until it expires, or nothing</label><input id="days" name="days" inputmode="numeric" pattern="[0-9]{0,4}" value="90"></p>
<p><button>Create</button></p></form>`;
  const heading = ['Name', 'App', 'Opens', 'Expires', 'Last used', ''];
  return `${made}${tableOf('Tokens', heading, view.tokens.map(line), 'There are no tokens.')}${form}`;
}

function users({ users: rows }: DashboardView, formToken: string): string {
  const line = ({ name, role, apps: open, totp, sessions: count }: UserLine): readonly string[] => [
    text(name),
    role,
    role === 'owner' ? 'all' : text(open.join(', ') || 'none'),
    totp ? 'yes' : 'no',
    String(count),
    button('/users', formToken, 'remove-user', { name }, 'Remove', `the user ${name}`),
  ];
  return `${tableOf('Users', ['Name', 'Role', 'Apps', 'Second factor', 'Sessions', ''], rows.map(line), 'There are no users.')}
<h2>New user</h2><form method="post" action="/users" class="fields">${hidden(formToken, 'add-user')}
<p><label for="name">Name</label><input id="name" name="name" required autocapitalize="none" autocomplete="off"></p>
<p><label for="password">Password, at least 10 characters</label><input id="password" name="password" type="password" required minlength="10" autocomplete="new-password"></p>
<p><label for="role">Role</label><select id="role" name="role"><option value="user">user: the apps named below</option><option value="owner">owner: everything</option></select></p>
<p><label for="apps">Apps, separated by spaces</label><input id="apps" name="apps" autocomplete="off"></p>
<p><button>Add</button></p></form>`;
}

function operations(view: OperationsView | null): string {
  if (view === null) return '<p class="soft">Only owners see this.</p>';
  const totals = view.totals.map(([label, value]) => `<div><dt>${text(label)}</dt><dd>${text(value)}</dd></div>`);
  const tables = view.tables.map(
    ({ title, heading, rows, nothing }) =>
      `<h2>${text(title)}</h2>${tableOf(
        title,
        heading,
        rows.map((row) => row.map(text)),
        nothing,
      )}`,
  );
  return `<p class="soft">Version ${text(view.version)}, revision ${view.revision}, ${view.workers} workers. <a href="/operations">Look again</a></p>
<dl class="totals">${totals.join('')}</dl>${tables.join('')}`;
}

// ---- parts -----------------------------------------------------------------------------------------------------

/** Cells are markup. */
function tableOf(
  title: string,
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  nothing: string,
): string {
  if (rows.length === 0) return `<p class="soft">${text(nothing)}</p>`;
  const head = heading.map((each) => (each === '' ? '<td></td>' : `<th scope="col">${text(each)}</th>`)).join('');
  const body = rows.map((row) => `<tr>${row.map((cell) => `<td>${cell}</td>`).join('')}</tr>`).join('');
  return `<div class="table" tabindex="0" role="group" aria-label="${text(title)}"><table><thead><tr>${head}</tr></thead><tbody>${body}</tbody></table></div>`;
}

function hidden(formToken: string, order: string): string {
  return `<input type="hidden" name="token" value="${text(formToken)}"><input type="hidden" name="do" value="${order}">`;
}

function button(
  action: string,
  formToken: string,
  order: string,
  fields: Readonly<Record<string, string>>,
  label: string,
  what: string,
): string {
  const more = Object.entries(fields).map(
    ([name, value]) => `<input type="hidden" name="${name}" value="${text(value)}">`,
  );
  return `<form method="post" action="${action}">${hidden(formToken, order)}${more.join('')}<button class="quiet">${label}<span class="hidden"> ${text(what)}</span></button></form>`;
}

function ago(now: number, then: number): string {
  const minutes = Math.max(0, Math.floor((now - then) / 60_000));
  if (minutes < 1) return 'just now';
  if (minutes < 120) return `${minutes} min ago`;
  return minutes < 2 * 24 * 60 ? `${Math.floor(minutes / 60)} h ago` : `${Math.floor(minutes / 1440)} days ago`;
}

const day = (time: number): string => new Date(time).toISOString().slice(0, 10);

// The dashboard, as it is visited: pages for whoever is logged in, and the orders of their forms.
// Invariant: nothing is shown without a live session, and an order is passed on only from a form of ours.
import { type DashboardPage, type DashboardView, dashboardPages } from './dashboard.ts';
import type { Gatekeeper } from './gatekeeper.ts';
import { dashboardPage, framePage } from './pages/dashboard-page.ts';
import type { Page } from './pages/document.ts';
import { reservedPath } from './return-path.ts';
import type { VisitReply, VisitRequest } from './visit-request.ts';

/** What the visit has for every page with a form. */
export interface DashboardForms {
  /** A page with a form token of this browser's. */
  withForm(make: (token: string) => Page, status: number): VisitReply;
  redirect(location: string): VisitReply;
  notFound(): VisitReply;
  refused(): VisitReply;
  late(): VisitReply;
  readonly ownForm: boolean;
}

/** @param url  not one of the reserved addresses */
export async function visitDashboard(
  request: VisitRequest,
  url: URL,
  forms: DashboardForms,
  keeper: Gatekeeper,
): Promise<VisitReply> {
  const { method, session } = request;
  const page = pageAt(url.pathname);
  if (page === null) return forms.notFound();
  if (session === null)
    return forms.redirect(`${reservedPath}login?rd=${encodeURIComponent(url.pathname + url.search)}`);
  const reads = method === 'GET' || method === 'HEAD';
  if (!reads && !forms.ownForm) return forms.refused();
  const order = reads ? null : orderOf(request.form!);
  const ask = { session: session.row.hash, page: page === 'open' ? 'apps' : page, order } as const;
  const view = await keeper.desk.ask('dashboard', ask);
  if (view === null) return forms.late();
  if (page === 'open') return openApp(request, url, view, forms);
  // A page that is loaded again must not do again what was done.
  if (order !== null && view.problem === null && view.token === null) return forms.redirect(pathOf(page));
  const status = view.problem === null ? 200 : 422;
  return forms.withForm((token) => dashboardPage(page, view, request.ownOrigin, keeper.now, token), status);
}

/** An app inside the dashboard: `/open?app=NAME`. */
function openApp(request: VisitRequest, url: URL, view: DashboardView, forms: DashboardForms): VisitReply {
  const tile = view.apps.find(({ app }) => app === url.searchParams.get('app'));
  const [way] = tile?.ways ?? [];
  if (tile === undefined || way === undefined) return forms.notFound();
  return forms.withForm(() => framePage(tile, way, view, request.ownOrigin), 200);
}

function orderOf(form: URLSearchParams): Readonly<Record<string, string>> {
  return Object.fromEntries([...form].filter(([name]) => name !== 'token'));
}

function pageAt(path: string): DashboardPage | 'open' | null {
  if (path === '/') return 'apps';
  const name = path.slice(1);
  if (name === 'open') return name;
  return dashboardPages.find((page) => page === name && page !== 'apps') ?? null;
}

export const pathOf = (page: DashboardPage): string => (page === 'apps' ? '/' : `/${page}`);

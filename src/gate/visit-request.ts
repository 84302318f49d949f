// A request for one of the gate's own addresses, and what is answered: the words between http/ and the pages.
// Invariant: plain facts; what a browser says of itself (Origin, cookies) is named as such.
import type { LiveSession } from './credentials.ts';
import type { Page } from './pages/document.ts';

export interface VisitRequest {
  readonly method: string;
  /** As sent, from `/.turnpike/` on. */
  readonly target: string;
  /** The body of a form; null: there was none. */
  readonly form: URLSearchParams | null;
  readonly host: string;
  readonly secure: boolean;
  readonly address: string;
  readonly ownOrigin: string;
  /** The Origin and Sec-Fetch-Site fields. */
  readonly origin: string | null;
  readonly fetchSite: string | null;
  /** Marks in the browser's cookie; the first one counts. */
  readonly visits: readonly string[];
  /** Hashes of the session ids that it brings. */
  readonly sessions: readonly string[];
  /** The one of them that is alive. */
  readonly session: LiveSession | null;
  /** Names that a login here may lead back to. */
  readonly isOurs: (url: URL) => boolean;
  /** People log in here for other names, too. */
  readonly isGateHost: boolean;
  /** The dashboard is here. */
  readonly isDashboard: boolean;
}

export interface VisitReply {
  readonly status: number;
  readonly location: string | null;
  readonly cookies: readonly string[];
  readonly page: Page | null;
  readonly retryAfterSeconds: number;
}

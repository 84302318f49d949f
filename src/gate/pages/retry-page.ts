// The page for people while an app does not run: it asks again by itself, and shows the app when that answers.
// Invariant: asks less and less often; anything that is not this answer again, a 503 of the app's own included, is shown by
// loading the page, so nothing can go round in a loop.
import { type Page, page, text } from './document.ts';

/** Marks this answer. */
export const downField = 'X-Turnpike-Down';
export const retryAfterSeconds = 5;

const script = `(() => {
  let wait = 1000;
  const ask = async () => {
    try {
      const answer = await fetch(location.href, { method: 'HEAD', cache: 'no-store', redirect: 'manual' });
      if (!answer.headers.has('${downField}')) return location.reload();
    } catch {}
    wait = Math.min(wait * 1.5, 15000);
    setTimeout(ask, wait);
  };
  setTimeout(ask, wait);
})();`;

/** @param ancestors  who may frame the app, and so the page in its place */
export function retryPage(app: string, ancestors: string): Page {
  return page({
    title: `${app} is not running`,
    script,
    ancestors,
    head: { html: `<noscript><meta http-equiv="refresh" content="${retryAfterSeconds}"></noscript>` },
    body: {
      html: `<h1>${text(app)} is not running</h1><p role="status">This page opens the app as soon as it answers.</p>
<p class="soft">It is starting, restarting, or has been stopped.</p>`,
    },
  });
}

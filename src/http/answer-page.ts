// The page that a person sees when Turnpike itself has to answer.
// Invariant: one self-contained document: no script, no request to anywhere; every inserted text is escaped.
import { createHash } from 'node:crypto';

const style = `:root{color-scheme:light dark;--paper:#f6f5f1;--card:#fff;--ink:#1d2329;--soft:#667079;--line:#e3e1da;--a:#f2b632;--b:#23282d}
@media (prefers-color-scheme:dark){:root{--paper:#15181b;--card:#1d2125;--ink:#eceff1;--soft:#98a2ab;--line:#2c3238;--b:#0d0f11}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.5rem;background:var(--paper);color:var(--ink);font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{width:100%;max-width:34rem;background:var(--card);border:1px solid var(--line);border-radius:14px;overflow:hidden;box-shadow:0 12px 32px rgb(0 0 0/.07)}
.bar{height:12px;background:repeating-linear-gradient(-45deg,var(--a) 0 22px,var(--b) 22px 44px)}
.text{padding:2rem 2.2rem 1.6rem}
.status{margin:0;color:var(--soft);font-size:.9rem;font-variant-numeric:tabular-nums;letter-spacing:.06em}
h1{margin:.15rem 0 .7rem;font-size:1.65rem;line-height:1.2;letter-spacing:-.01em}
p{margin:0 0 .8rem}
footer{padding:.85rem 2.2rem;border-top:1px solid var(--line);color:var(--soft);font-size:.8rem;overflow-wrap:anywhere}`;

const styleHash = createHash('sha256').update(style).digest('base64');

/** Content-Security-Policy of the page: its one style block and nothing else. */
export const pagePolicy = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'`;

export function answerPage(status: number, title: string, sentence: string, hint: string, requestId: string): string {
  const footer = requestId === '' ? '' : `<footer>Request ${escapeHtml(requestId)}</footer>`;
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="robots" content="noindex"><title>${escapeHtml(title)}</title><style>${style}</style></head>
<body><main><div class="bar"></div><div class="text"><p class="status">${status}</p><h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(sentence)}</p>${hint === '' ? '' : `<p>${escapeHtml(hint)}</p>`}</div>${footer}</main></body></html>
`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

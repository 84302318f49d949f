// The frame of every page of the gate.
// Invariant: one self-contained document that asks nobody for anything; what is inserted is escaped by `text`, and only
// what this file and its neighbours wrote is markup.
import { createHash } from 'node:crypto';

/** Markup that was put together here. */
export interface Markup {
  readonly html: string;
}

const style = `:root{color-scheme:light dark;--paper:#f6f5f1;--card:#fff;--ink:#1d2329;--soft:#5a646d;--line:#d9d6cd;--key:#1f5fbf;--keyink:#fff;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--paper:#15181b;--card:#1d2125;--ink:#eceff1;--soft:#a3adb6;--line:#3a4249;--key:#8ab4f8;--keyink:#10151b;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.5rem;background:var(--paper);color:var(--ink);font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{width:100%;max-width:26rem;background:var(--card);border:1px solid var(--line);border-radius:14px;padding:2rem 2.2rem}
h1{margin:0 0 .6rem;font-size:1.5rem;line-height:1.2}
p{margin:0 0 1rem}
label{display:block;margin:0 0 .25rem;font-weight:600}
input{display:block;width:100%;margin:0 0 1rem;padding:.6rem .7rem;font:inherit;color:inherit;background:var(--paper);border:1px solid var(--line);border-radius:8px}
button{padding:.6rem 1.1rem;font:inherit;font-weight:600;color:var(--keyink);background:var(--key);border:0;border-radius:8px;cursor:pointer}
input:focus-visible,button:focus-visible,a:focus-visible{outline:3px solid var(--key);outline-offset:2px}
a{color:var(--key)}
.bad{color:var(--bad);font-weight:600}
.soft{color:var(--soft)}`;

const styleSource = hashSource(style);

export interface PageOptions {
  readonly title: string;
  readonly body: Markup;
  /** One inline script; null: none. */
  readonly script?: string | null;
  /** Origins besides this one to which a form may lead on. */
  readonly formTargets?: readonly string[];
  /** Who may frame the page; nobody, if it is not said. */
  readonly ancestors?: string;
  /** Markup for the head, such as a refresh for browsers without scripts. */
  readonly head?: Markup;
}

export interface Page {
  readonly html: string;
  /** Its Content-Security-Policy. */
  readonly policy: string;
}

export function page({
  title,
  body,
  script = null,
  formTargets = [],
  ancestors = "'none'",
  head = { html: '' },
}: PageOptions): Page {
  const scripts = script === null ? '' : ` script-src ${hashSource(script)}; connect-src 'self';`;
  const forms = ["'self'", ...formTargets].join(' ');
  return {
    html: `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="robots" content="noindex"><title>${text(title)}</title><style>${style}</style>${head.html}</head>
<body><main>${body.html}</main>${script === null ? '' : `<script>${script}</script>`}</body></html>
`,
    policy: `default-src 'none'; style-src ${styleSource};${scripts} base-uri 'none'; form-action ${forms}; frame-ancestors ${ancestors}`,
  };
}

/** Text for an element or a quoted attribute. */
export function text(value: string): string {
  return value.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

function hashSource(source: string): string {
  return `'sha256-${createHash('sha256').update(source).digest('base64')}'`;
}

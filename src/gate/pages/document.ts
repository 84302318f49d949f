// The frame of every page of the gate.
// Invariant: one self-contained document that asks nobody for anything; what is inserted is escaped by `text`, and only
// what this file and its neighbours wrote is markup.
import { createHash } from 'node:crypto';

/** Markup that was put together here. */
export interface Markup {
  readonly html: string;
}

const style = `:root{color-scheme:light dark;--paper:#f6f5f1;--card:#fff;--ink:#1d2329;--soft:#5a646d;--line:#d9d6cd;--key:#1f5fbf;--keyink:#fff;--bad:#b3261e;--good:#2e7d32;--edge:#85806f}
@media (prefers-color-scheme:dark){:root{--paper:#15181b;--card:#1d2125;--ink:#eceff1;--soft:#a3adb6;--line:#3a4249;--key:#8ab4f8;--keyink:#10151b;--bad:#ff8a80;--good:#81c784;--edge:#7d8790}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.5rem;background:var(--paper);color:var(--ink);font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{width:100%;max-width:26rem;background:var(--card);border:1px solid var(--line);border-radius:14px;padding:2rem 2.2rem}
h1{margin:0 0 .6rem;font-size:1.5rem;line-height:1.2}
p{margin:0 0 1rem}
label{display:block;margin:0 0 .25rem;font-weight:600}
input{display:block;width:100%;margin:0 0 1rem;padding:.6rem .7rem;font:inherit;color:inherit;background:var(--paper);border:1px solid var(--edge);border-radius:8px}
button{padding:.6rem 1.1rem;font:inherit;font-weight:600;color:var(--keyink);background:var(--key);border:0;border-radius:8px;cursor:pointer}
input:focus-visible,button:focus-visible,a:focus-visible{outline:3px solid var(--key);outline-offset:2px}
a{color:var(--key)}
.quiet{color:var(--key);background:none;border:1px solid var(--key)}
main>:last-child,form>p:last-child{margin-bottom:0}
.bad{color:var(--bad);font-weight:600}
.soft{color:var(--soft)}`;

/** Of the dashboard, beside the other. */
const wideStyle = `body{display:block;place-items:normal;padding:0}
header{display:flex;flex-wrap:wrap;gap:.4rem 1.5rem;align-items:center;padding:.8rem 1.5rem;background:var(--card);border-bottom:1px solid var(--line)}
nav{display:flex;flex-wrap:wrap;gap:.2rem}
nav a{padding:.35rem .7rem;border-radius:8px;color:inherit;text-decoration:none}
nav a:hover{text-decoration:underline}
nav a[aria-current]{background:var(--paper);font-weight:600}
.who{margin-left:auto}
main{max-width:70rem;margin:0 auto;padding:1.5rem;background:none;border:0;border-radius:0}
h1{margin-bottom:1.2rem}
h2{margin:2rem 0 .8rem;font-size:1.15rem;line-height:1.3}
.tiles{list-style:none;display:grid;grid-template-columns:repeat(auto-fill,minmax(19rem,1fr));gap:1rem;margin:0;padding:0}
.tile{display:flex;flex-direction:column;background:var(--card);border:1px solid var(--line);border-radius:14px;padding:1.2rem 1.3rem}
.tile h2{margin:0 0 .2rem}
.tile p{margin:0 0 .7rem}
.state::before{content:"";display:inline-block;width:.65rem;height:.65rem;margin-right:.5rem;border-radius:50%;background:var(--soft)}
.state.up::before{background:var(--good)}
.state.down::before{background:var(--bad)}
.links{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;margin-top:auto}
.launch{padding:.45rem 1rem;border-radius:8px;background:var(--key);color:var(--keyink);font-weight:600;text-decoration:none}
.row{display:flex;flex-wrap:wrap;gap:.4rem .6rem;align-items:center;border-top:1px solid var(--line);padding-top:.8rem;margin-top:.2rem}
.row label{flex-basis:100%;margin:0}
select{padding:.5rem .6rem;font:inherit;color:inherit;background:var(--paper);border:1px solid var(--edge);border-radius:8px;max-width:100%}
select:focus-visible,.table:focus-visible{outline:3px solid var(--key);outline-offset:2px}
td .quiet,.row .quiet{padding:.4rem .8rem}
.fields{max-width:26rem}
.table{overflow-x:auto;background:var(--card);border:1px solid var(--line);border-radius:14px}
table{border-collapse:collapse;width:100%}
th,td{padding:.6rem .9rem;text-align:left;vertical-align:middle}
tr+tr td,thead+tbody td{border-top:1px solid var(--line)}
th{color:var(--soft);font-weight:600;white-space:nowrap}
.totals{display:flex;flex-wrap:wrap;gap:.8rem;margin:1rem 0}
.totals div{background:var(--card);border:1px solid var(--line);border-radius:14px;padding:.7rem 1.1rem}
dt{color:var(--soft)}
dd{margin:0;font-size:1.3rem;font-weight:600}
code{font:.95em ui-monospace,monospace;overflow-wrap:anywhere}
.made{background:var(--card);border:2px solid var(--key);border-radius:14px;padding:1rem 1.3rem;margin-bottom:1.2rem}
.made p:last-child{margin:0}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.skip{position:absolute;left:-999px}
.skip:focus{left:1rem;top:1rem;background:var(--card);padding:.5rem 1rem}
.frame{max-width:none;padding:0}
.bar{display:flex;gap:1rem;align-items:baseline;margin:0;padding:.7rem 1.5rem;font-size:1.1rem}
.bar a{font-size:.95rem;font-weight:400}
iframe{display:block;width:100%;height:calc(100vh - 7rem);min-height:24rem;border:0;border-top:1px solid var(--line);background:#fff}`;

const styles = { narrow: style, wide: style + wideStyle } as const;
const styleSources = { narrow: hashSource(styles.narrow), wide: hashSource(styles.wide) } as const;

export interface PageOptions {
  readonly title: string;
  readonly body: Markup;
  /** One inline script; null: none. */
  readonly script?: string | null;
  /** Origins besides this one to which a form may lead on. */
  readonly formTargets?: readonly string[];
  /** Who may frame the page; nobody, if it is not said. */
  readonly ancestors?: string;
  /** The body brings its own main element, and the whole width is its. */
  readonly wide?: boolean;
  /** Origins that the page frames. */
  readonly frames?: readonly string[];
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
  wide = false,
  frames = [],
}: PageOptions): Page {
  const scripts = script === null ? '' : ` script-src ${hashSource(script)}; connect-src 'self';`;
  const framed = frames.length === 0 ? '' : ` frame-src ${frames.join(' ')};`;
  const width = wide ? 'wide' : 'narrow';
  const content = wide ? body.html : `<main>${body.html}</main>`;
  const forms = ["'self'", ...formTargets].join(' ');
  return {
    html: `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="robots" content="noindex"><title>${text(title)}</title><style>${styles[width]}</style>${head.html}</head>
<body>${content}${script === null ? '' : `<script>${script}</script>`}</body></html>
`,
    policy: `default-src 'none'; style-src ${styleSources[width]};${scripts}${framed} base-uri 'none'; form-action ${forms}; frame-ancestors ${ancestors}`,
  };
}

/** Text for an element or a quoted attribute. */
export function text(value: string): string {
  return value.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

function hashSource(source: string): string {
  return `'sha256-${createHash('sha256').update(source).digest('base64')}'`;
}

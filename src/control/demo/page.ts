// The page of a demo backend: its colour, and a line of dots that shows every answer since it was opened.
// Invariant: one file without outside references; asks only its own origin.

export function page(name: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${name} answered</title>
<style>
  :root { --blue: #1d4ed8; --green: #15803d; }
  body { margin: 0; min-height: 100vh; display: grid; place-content: center; gap: 1.5rem; text-align: center;
         font: 1.1rem/1.5 system-ui, sans-serif; color: #fff; background: var(--now); transition: background .3s; padding: 1rem; }
  h1 { font-size: 3rem; margin: 0; }
  #log { display: flex; flex-wrap: wrap; gap: .3rem; justify-content: center; max-width: 40rem; }
  #log i { width: .8rem; height: .8rem; border-radius: 50%; border: 2px solid #fff; }
  code { background: #0004; padding: .1em .4em; border-radius: .3em; }
</style>
<body style="--now: var(--${name})">
<h1 id="who">${name} answered</h1>
<p>This page came through Turnpike. It asks again twice a second.<br>Switch the backend and watch: no request fails.</p>
<div id="log"></div>
<p id="sum">0 answers, 0 failed</p>
<script>
  let answers = 0, failed = 0;
  const log = document.getElementById('log');
  async function ask() {
    let who = null;
    try {
      const answer = await fetch('/whoami');
      if (answer.ok) who = (await answer.json()).backend;
    } catch {}
    who === null ? failed++ : answers++;
    const dot = document.createElement('i');
    dot.style.background = who === null ? '#dc2626' : 'var(--' + who + ')';
    dot.title = who ?? 'failed';
    log.append(dot);
    if (log.childElementCount > 120) log.firstChild.remove();
    if (who !== null) {
      document.body.style.setProperty('--now', 'var(--' + who + ')');
      document.getElementById('who').textContent = document.title = who + ' answered';
    }
    document.getElementById('sum').textContent = answers + ' answers, ' + failed + ' failed';
    setTimeout(ask, 500);
  }
  ask();
</script>
`;
}

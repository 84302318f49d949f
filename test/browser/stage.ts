// Chromium on another machine than Turnpike, and what went wrong in its pages.
// Invariant: every console error and every violation of a Content-Security-Policy is kept, whichever page it came from.
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import type { TwoMachines } from '../support/namespaces.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export class Stage {
  readonly complaints: string[] = [];
  readonly shots: string;
  readonly #browser: Browser;

  private constructor(browser: Browser, directory: string) {
    this.#browser = browser;
    this.shots = process.env['TURNPIKE_SHOTS'] ?? join(directory, 'shots');
    mkdirSync(this.shots, { recursive: true });
  }

  static async start({ there }: TwoMachines): Promise<Stage> {
    const directory = mkdtempSync(join(tmpdir(), 'turnpike-browser-'));
    const wrapper = join(directory, 'chromium');
    writeFileSync(wrapper, `#!/bin/sh\nexec ip netns exec ${there} chromium "$@"\n`, { mode: 0o755 });
    const args = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'];
    return new Stage(await chromium.launch({ executablePath: wrapper, args }), directory);
  }

  async context(options: Parameters<Browser['newContext']>[0] = {}): Promise<BrowserContext> {
    const context = await this.#browser.newContext({ viewport: { width: 1100, height: 760 }, ...options });
    context.setDefaultTimeout(10_000);
    context.on('console', (message) => {
      // Pages that are answered with 4xx and 5xx are part of the tests.
      const expected = /^Failed to load resource: the server responded with a status of|WebSocket connection/;
      if (message.type() === 'error' && !expected.test(message.text())) this.complaints.push(message.text());
    });
    context.on('weberror', (error) => this.complaints.push(String(error.error())));
    return context;
  }

  /** In light and dark; and nobody is shut out by how it is made. */
  async look(page: Page, name: string): Promise<void> {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: join(this.shots, `${name}-${colorScheme}.png`), fullPage: true });
      await page.evaluate(axe);
      const found = (await page.evaluate('axe.run()')) as {
        violations: { id: string; impact: string; nodes: { html: string }[] }[];
      };
      const violations = found.violations.map(({ id, impact, nodes }) => `${id} (${impact}): ${nodes[0]?.html}`);
      expect(violations, `${name} in ${colorScheme}`).toEqual([]);
    }
  }

  async close(): Promise<void> {
    await this.#browser.close();
  }
}

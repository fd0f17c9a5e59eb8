/**
 * A page in its looks: axe finds nothing, and nothing is wider than the screen. `PICTURES=1` writes what it looks like
 * to `screenshots/`.
 */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { root } from '../house/source-files.ts';
import { amount, isSoak } from '../runner/soak.ts';
import { LOOKS, look, repeatedButtons, scrollsSideways, violations } from './browser.ts';

const FOLDER = join(root, 'test', 'console', 'screenshots');

let inspected = 0;

/**
 * Looks at the page as it is, and leaves it light and wide. A quick run looks at each page in one look, in turn; a long one in all.
 */
export async function inspect(t: Test, page: Page, name: string): Promise<void> {
  inspected += 1;
  t.same(await repeatedButtons(page), [], `${name}: no two buttons have the same name`);
  const quick = LOOKS.slice(inspected % LOOKS.length, (inspected % LOOKS.length) + 1);
  for (const one of process.env.PICTURES === '1' ? LOOKS : amount({ quick, soak: LOOKS })) {
    await look(page, one);
    const found = await violations(page);
    t.same(found, [], `${name} ${one.scheme} ${one.size}: axe finds nothing`);
    t.notOk(await scrollsSideways(page), `${name} ${one.size}: fits`);
    if (process.env.PICTURES === '1') await takePicture(page, `${name}-${one.scheme}-${one.size}.png`);
  }
  await look(page, { scheme: 'light', size: 'wide' });
}

/** The same in a long run only: for a variation of a page that `inspect` looks at in every run. */
export async function inspectVariation(t: Test, page: Page, name: string): Promise<void> {
  if (isSoak() || process.env.PICTURES === '1') await inspect(t, page, name);
}

async function takePicture(page: Page, name: string): Promise<void> {
  await mkdir(FOLDER, { recursive: true });
  await page.screenshot({ path: join(FOLDER, name) });
}

/** Actions of the tests in the editor of a plugin and on its page. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import type { Answer, CalledService } from '../deploy/service-fixture.ts';
import type { SourceFile } from './compiler.ts';
import { go } from './console-fixture.ts';

/** Between two keys of a fast typist, milliseconds. */
const KEY_MS = 15;
/** Spreads the pauses evenly, without a pattern. */
const JITTER_STEP = 37;
const README = { path: 'readme.md', contentText: '---\nname: Draft\ndescription: Is edited\n---\nNothing yet.\n' };

/** Creates a plugin whose draft has these files. @returns its id */
export async function makeDraft(service: CalledService, slug: string, files: readonly SourceFile[]): Promise<string> {
  const { body: plugin } = await service.call('POST', '/api/plugins', { slug, displayName: slug });
  const { status, body } = await service.call('POST', `/api/plugins/${plugin.id}/draft`, { files: [README, ...files] });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return plugin.id;
}

/** Loads the editor of a plugin as a new document, with a compiler of its own. */
export async function openEditor(page: Page, service: CalledService, id: string): Promise<void> {
  await openFiles(page, service, id);
  await page.locator('.monaco-editor .view-line').first().waitFor();
}

/** As `openEditor`, until the page shows which files there are. The editor is not loaded yet. */
export async function openFiles(page: Page, service: CalledService, id: string): Promise<void> {
  await page.goto(`${service.url}/plugins/${id}/edit`);
  await page.getByLabel('File', { exact: true }).waitFor();
}

/** Waits until the page says that the draft is saved. @throws Error with what it says instead */
export async function waitForSave(page: Page): Promise<void> {
  const refusal = page.locator('.publish-faults');
  await page.getByText('The draft is saved.').or(refusal).first().waitFor();
  if (await refusal.isVisible()) throw new Error(`The draft is refused: ${await refusal.innerText()}`);
}

/** Opens the editor of a plugin within the document, which keeps its compiler. */
export async function followToEditor(page: Page, id: string): Promise<void> {
  await go(page, 'My plugins');
  await page.getByRole('heading', { level: 1, name: 'My plugins' }).waitFor();
  // The list may be a second old, and so not have the plugin yet. The console's router follows the history.
  await page.evaluate(`history.pushState(null, '', '/plugins/${id}/edit')`);
  await page.locator('.monaco-editor .view-line').first().waitFor();
}

/** Puts the text in place of what the editor holds. */
export async function write(page: Page, text: string): Promise<void> {
  await page.locator('.monaco-editor .view-lines').first().click();
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(text);
}

/** Types at the end of the file, key by key, half to one and a half times as fast as the mean. @returns milliseconds */
export async function typeKeys(page: Page, text: string): Promise<number> {
  await page.locator('.monaco-editor .view-lines').first().click();
  await page.keyboard.press('Control+End');
  const start = performance.now();
  const pressed: Promise<void>[] = [];
  for (const [at, key] of [...text].entries()) {
    // Not awaited: the next key comes whether the page has drawn this one or not.
    pressed.push(page.keyboard.press(key === '\n' ? 'Enter' : key));
    const next = KEY_MS * (at + 0.5 + ((at * JITTER_STEP) % 100) / 100);
    await sleep(Math.max(0, start + next - performance.now()));
  }
  await Promise.all(pressed);
  return performance.now() - start;
}

/** Statements of one line each, full of names that the editor completes and of brackets and quotes that it closes. */
export function composeText(minChars: number): string {
  let text = '';
  for (let line = 1; text.length < minChars; line += 1)
    text += `const say${line} = (word: string) => [word.trim(), { at: ${line}, of: "message" }];\n`;
  return text;
}

/** Waits for the given number of compiler errors. @returns them as listed below the editor */
export async function listErrors(page: Page, count: number): Promise<string[]> {
  const list = page.getByRole('region', { name: `${count} compiler ${count === 1 ? 'error' : 'errors'}` });
  await list.waitFor();
  const lines = await list.getByRole('listitem').allInnerTexts();
  return lines.map((line) => line.replaceAll(/\s+/g, ' ')).toSorted();
}

/** @returns the text of a file of the draft, as the service has it */
export async function readDraftFile(service: CalledService, id: string, path: string): Promise<string> {
  const { body } = await service.call('GET', `/api/plugins/${id}/versions/draft/files`);
  return body.items.find((file: Answer['body']) => file.path === path).contentText;
}

/** @returns the paths of all files of the draft, as the service has it */
export async function listDraftPaths(service: CalledService, id: string): Promise<string[]> {
  const { body } = await service.call('GET', `/api/plugins/${id}/versions/draft/files?limit=1000`);
  if (body.nextCursor !== null) {
    const more = await service.call('GET', `/api/plugins/${id}/versions/draft/files?cursor=${body.nextCursor}`);
    body.items.push(...more.body.items);
  }
  return body.items.map((file: Answer['body']) => file.path);
}

/**
 * Takes the README's pictures: `node test/console/readme-pictures.ts`. It starts a service of its own, publishes
 * examples, and writes to docs/pictures, twice as fine as a screen.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { readPackage } from '../../examples/demo-packages.ts';
import { type ServiceFixture, startServiceFixture } from '../deploy/service-fixture.ts';
import { root } from '../house/source-files.ts';
import { eventually } from '../runner/eventually.ts';
import { signIn, startBrowser } from './browser.ts';
import { installationThat, publish, publishFrontDesk } from './front-desk.ts';

const VIEW = { width: 1280, height: 800 };
const SCALE = 2;
const QUALITY = 82;
const EXAMPLES = ['house-style', 'message-guard', 'todo-policy', 'summarizer', 'ssh-guard', 'quiet-hours', 'weather'];

const ends: (() => unknown)[] = [];
const ending = { teardown: (end: () => unknown) => void ends.unshift(end) };
try {
  await takeAll();
} finally {
  for (const end of ends) await end();
}

async function takeAll(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'bulkhead-pictures-'));
  ending.teardown(() => rm(folder, { recursive: true }));
  const service = await startServiceFixture(ending, { DATA_DIR: join(folder, 'data') });
  const plugin = await publishFrontDesk(service);
  for (const name of EXAMPLES) await publishExample(service, name);
  const desk = await install(service, 'front-desk');
  const session = await openSession(service);
  const browser = await startBrowser(ending);
  const signedIn = await openFine(browser, service);
  const show = async (path: string, name: string, until: (page: Page) => Promise<unknown>) => {
    await signedIn.goto(service.url + path);
    await until(signedIn);
    await picture(signedIn, name);
  };
  await show('/catalog', 'catalog', (page) => page.locator('.entry-card').nth(EXAMPLES.length).waitFor());
  await show(`/playground/${session}`, 'playground', tryIt);
  await publish(service, plugin, '1.1.0', 'host.llm, "host.http:api.example.com"');
  await show(`/installations/${desk}`, 'consent', (page) => page.getByText('1.1.0 asks for more access').waitFor());
}

async function publishExample(service: ServiceFixture, slug: string): Promise<void> {
  const { files } = await readPackage(slug);
  const texts = files.map(({ path, bytes }) => ({ path, contentText: bytes.toString('utf8') }));
  const readme = texts.find(({ path }) => path === 'readme.md')?.contentText ?? '';
  const displayName = /^name: (.*)$/m.exec(readme)?.[1] ?? slug;
  const { body } = await service.call('POST', '/api/plugins', { slug, displayName });
  const published = await service.call('POST', `/api/plugins/${body.id}/versions`, { semVer: '1.0.0', files: texts });
  assert.equal(published.status, 201, JSON.stringify(published.body));
  await service.call('POST', `/api/plugins/${body.id}/listing`);
}

async function install(service: ServiceFixture, slug: string): Promise<string> {
  const { body } = await service.call('POST', '/api/installations', { slug });
  await service.call('POST', `/api/installations/${body.id}/configure`, { secrets: { key: 'k3y' } });
  await installationThat(service, ({ status }) => status === 'ready');
  return body.id;
}

/** @returns a session with a transcript */
async function openSession(service: ServiceFixture): Promise<string> {
  const { body: session } = await service.session('POST', '/sessions', { agentId: 'ann', agentName: 'Ann' });
  const messages = [
    { role: 'user', text: 'Where is my order 4711?' },
    { role: 'assistant', text: 'It left the warehouse this morning and should be with you tomorrow.' },
  ];
  await service.session('POST', `/sessions/${session.id}/messages`, { messages });
  return session.id;
}

async function tryIt(page: Page): Promise<void> {
  await page.getByRole('textbox', { name: 'Message', exact: true }).fill('Thanks, that is quick');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('table', { name: 'Links of the chain' }).waitFor();
  await eventually(async () => (await page.locator('.said').count()) === 3);
}

async function openFine(browser: Browser, service: ServiceFixture): Promise<Page> {
  const context = await browser.newContext({ viewport: VIEW, deviceScaleFactor: SCALE, reducedMotion: 'reduce' });
  await signIn(context, service);
  const page = await context.newPage();
  await page.goto(service.url);
  await page.getByRole('button', { name: 'local' }).waitFor();
  return page;
}

/** As WebP: a third of the PNG. */
async function picture(page: Page, name: string): Promise<void> {
  await page.evaluate('document.fonts.ready.then(() => 0)');
  const driver = await page.context().newCDPSession(page);
  const { data } = await driver.send('Page.captureScreenshot', { format: 'webp', quality: QUALITY });
  const bytes = Buffer.from(data, 'base64');
  await writeFile(join(root, 'docs', 'pictures', `${name}.webp`), bytes);
  console.log(`${name}.webp: ${Math.round(bytes.length / 1024)} KiB`);
}

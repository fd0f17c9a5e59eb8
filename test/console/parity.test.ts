/** Everything that the REST interface does can be done in the console. */
import { createWriteStream } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Page, Response } from 'playwright-core';
import t from 'tap';
import { ZipFile } from 'yazl';
import { startServiceOnTestDatabase } from '../deploy/service-fixture.ts';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { openConsole, shareBrowser } from './browser.ts';
import type { ConsoleFixture } from './console-fixture.ts';
import { packageFiles } from './front-desk.ts';
import { pageActions } from './page-actions.ts';

t.test('every operation of the OpenAPI document has its place on a page, and works there', async (t) => {
  // A delivery that failed waits until it is tried on its page.
  const service = await startServiceOnTestDatabase(t, { DELIVERY_WAITS: '600,600' });
  const { paths } = (await service.call('GET', '/api/openapi.json')).body;
  const operations = Object.entries<object>(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const placed = pageActions.map(({ operation }) => operation);
  t.same(placed.toSorted(), operations.toSorted(), 'the table has each operation once, and no other');

  const { page, complaints } = await openConsole(await shareBrowser(t), `${service.url}/api/docs`);
  const fixture: ConsoleFixture = { page, service, ...(await packages(await temporaryFolder(t))) };
  for (const { operation, where, does } of pageActions) {
    const answered = answersTo(page, operation);
    await does(fixture);
    t.ok(await answered(), `${operation}: ${where}`);
  }
  t.same(complaints, [], 'the browser complains about nothing');
});

/** Listens for answers to the operation from now on. @returns waits for one that is no refusal */
function answersTo(page: Page, operation: string): () => Promise<boolean> {
  const [method, path = ''] = operation.split(' ');
  const pattern = new RegExp(`^/api${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`);
  let isAnswered = false;
  const listen = (response: Response) => {
    const isIt = response.request().method() === method && pattern.test(new URL(response.url()).pathname);
    if (isIt && response.status() < 400) isAnswered = true;
  };
  page.on('response', listen);
  return async () => {
    await eventually(() => isAnswered);
    page.off('response', listen);
    return isAnswered;
  };
}

async function packages(folder: string): Promise<Pick<ConsoleFixture, 'folder' | 'zip'>> {
  const files = packageFiles('host.storage, host.agents');
  const [source, zip] = [join(folder, 'front-desk'), join(folder, 'front-desk.zip')];
  await mkdir(source);
  const packed = new ZipFile();
  for (const { path, contentText } of files) {
    await writeFile(join(source, path), contentText);
    packed.addBuffer(Buffer.from(contentText), path);
  }
  packed.end();
  await pipeline(packed.outputStream, createWriteStream(zip));
  return { folder: source, zip };
}

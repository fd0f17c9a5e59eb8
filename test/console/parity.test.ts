/** Everything that the REST interface does can be done in the console. */
import { createWriteStream } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Page, Response } from 'playwright-core';
import t from 'tap';
import { ZipFile } from 'yazl';
import { eventually } from '../runner/eventually.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { openConsole, shareBrowser } from './browser.ts';
import { type ConsoleFixture, startConsoleService } from './console-fixture.ts';
import { packageFiles } from './front-desk.ts';
import { pageActions } from './page-actions.ts';

t.test('every operation of the OpenAPI document has its place on a page, and works there', async (t) => {
  // A delivery that failed waits until it is tried on its page.
  const service = await startConsoleService(t, { DELIVERY_WAITS: '600,600' });
  const { paths } = (await service.call('GET', '/api/openapi.json')).body;
  const operations = Object.entries<object>(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const placed = pageActions.map(({ operation }) => operation);
  t.same(placed.toSorted(), operations.toSorted(), 'the table has each operation once, and no other');

  const { page, complaints } = await openConsole(await shareBrowser(t), `${service.url}/api/docs`);
  const sent = await recordFields(page);
  const fixture: ConsoleFixture = { page, service, ...(await packages(await temporaryFolder(t))) };
  for (const { operation, where, does } of pageActions) {
    const answered = answersTo(page, operation);
    await does(fixture);
    t.ok(await answered(), `${operation}: ${where}`);
  }
  for (const { operation } of pageActions) {
    const [method = '', path = ''] = operation.split(' ');
    const missing = listBodyFields(paths[path]?.[method.toLowerCase()])
      .map((field) => `${operation} ${field}`)
      .filter((field) => !sent.has(field) && !Object.hasOwn(SENT_ELSEWHERE, field));
    t.same(missing, [], `${operation}: the page can send each field`);
  }
  t.same(complaints, [], 'the browser complains about nothing');
});

/** Fields that the actions above do not send, and where the console sends them. */
const SENT_ELSEWHERE: Readonly<Record<string, string>> = {
  'POST /sign-in code': 'a sign-in link',
  'POST /plugins/{id}/draft replaces': 'Plugin: Edit files, Save as draft',
  'POST /installations pinnedVersionId': 'Catalog entry: Install, Stay on',
  'PATCH /installations/{id} hookOrder': 'Installations: Run earlier, Run later',
  'PATCH /installations/{id} required': 'Installation: Require this plugin',
};

interface Operation {
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: Schema }>>;
  };
}
interface Schema {
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly anyOf?: readonly Schema[];
}

/** Lists the fields of a JSON body. */
function listBodyFields(operation: Operation | undefined): string[] {
  const schema = operation?.requestBody?.content['application/json']?.schema;
  const shapes = schema === undefined ? [] : [schema, ...(schema.anyOf ?? [])];
  return shapes.flatMap(({ properties }) => Object.keys(properties ?? {}));
}

/** Records the fields of the bodies that the page sends, each after its operation. */
async function recordFields(page: Page): Promise<ReadonlySet<string>> {
  const sent = new Set<string>();
  await page.exposeFunction('recordBody', (method: string, url: string, body: string) => {
    const place = pageActions.find(({ operation }) => isOf(method, url, operation));
    for (const field of Object.keys(JSON.parse(body) ?? {})) sent.add(`${place?.operation} ${field}`);
  });
  // The driver does not know the body of a request that the page has cloned.
  await page.addInitScript(`const send = fetch;
    globalThis.fetch = (request, options) => {
      if (request instanceof Request && request.headers.get('content-type') === 'application/json')
        request.clone().text().then((body) => recordBody(request.method, request.url, body));
      return send(request, options);
    };`);
  return sent;
}

function isOf(method: string, url: string, operation: string): boolean {
  const [wanted, path = ''] = operation.split(' ');
  const pattern = new RegExp(`^/api${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`);
  return method === wanted && pattern.test(new URL(url).pathname);
}

/** Listens for answers to the operation from now on. @returns waits for one that is no refusal */
function answersTo(page: Page, operation: string): () => Promise<boolean> {
  let isAnswered = false;
  const listen = (response: Response) => {
    if (isOf(response.request().method(), response.url(), operation) && response.status() < 400) isAnswered = true;
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

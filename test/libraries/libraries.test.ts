/**
 * npm libraries as published, through the service's own builder, in jailed children: each answers what it answers in Node, also with
 * untrusted words and an untrusted record. The vendors' SDKs ask scripted servers behind declared hosts, and are refused elsewhere.
 *
 * The soak runs all of them and compares with docs/libraries.md, which `UPDATE_LIBRARIES=1` writes. The quick run takes the few
 * that other tests have installed.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { stop as stopEsbuild } from 'esbuild';
import t, { type Test } from 'tap';
import { HostCallRefusal } from '../../supervisor/children/child-errors.ts';
import { serve } from '../fixtures/listening-server.ts';
import { root } from '../house/source-files.ts';
import { temporaryFolder } from '../runner/harness.ts';
import { isSoak, soakTest } from '../runner/soak.ts';
import { testJail } from '../supervisor/children/jailed-child.ts';
import { pluginWith } from '../supervisor/host/http-target.ts';
import { bundleLibrary } from './bundle-library.ts';
import { installLibraries, LIBRARIES, readVersion } from './installed-libraries.ts';
import { describeRun, type LibraryResult, librariesPage } from './libraries-page.ts';
import { type LibraryCase, libraryCases } from './library-cases.ts';
import { RECORD, runPublished, WORDS } from './published-library.ts';
import { type SdkCase, sdkCases } from './sdk-cases.ts';

/** Installed for other tests as well. */
const QUICK: readonly string[] = ['zod', 'openai'];
/** Libraries that are tried, and the share of them that must work. */
const TRIED_MIN = 128;
const WORKING_SHARE_MIN = 120 / 128;
const PAGE = join(root, 'docs/libraries.md');
t.teardown(() => stopEsbuild());

if (isSoak()) await installLibraries();
const folder = isSoak() ? LIBRARIES : join(root, 'test');
const isTried = ([name]: readonly [string, unknown]): boolean => isSoak() || QUICK.includes(name);
const jail = await testJail(t);
const results: LibraryResult[] = [];

// Libraries for browsers look for it; plugins have it.
Object.assign(globalThis, { self: globalThis });

/** The result of the library in Node. */
async function runInNode(test: Test, bundled: string): Promise<unknown> {
  const path = join(await temporaryFolder(test), 'library.mjs');
  await writeFile(path, bundled);
  const { run } = (await import(pathToFileURL(path).href)) as {
    run: (words: readonly string[], record: unknown) => Promise<unknown>;
  };
  return toJson(await run([...WORDS], JSON.parse(RECORD)));
}

const toJson = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

async function tryLibrary(test: Test, use: LibraryCase): Promise<string | null> {
  const bundled = await bundleLibrary(use, folder);
  const expected = await runInNode(test, bundled);
  return describeRun(await runPublished(test, { jail, bundled }), expected);
}

async function trySdk(test: Test, use: SdkCase): Promise<string | null> {
  const server = await serve(test, async (request, response) => {
    const { type = 'application/json', body } = use.answer(request, (await request.toArray()).join(''));
    response.writeHead(200, { 'content-type': type }).end(body);
  });
  const plugin = await pluginWith(test, ['vendor.test']);
  plugin.dns.set('vendor.test', ['127.0.0.1']);
  plugin.allow(`vendor.test:${server.port}`);
  const outcome = await runPublished(test, {
    jail,
    bundled: await bundleLibrary(use, folder),
    capabilities: ['host.http:vendor.test'],
    base: `http://vendor.test:${server.port}`,
    handlers: {
      onHostCall: async ({ member, args: [id, url, init] }) => {
        if (member === 'http.readBody') return plugin.read(String(id));
        if (member === 'http.closeBody') return plugin.closeBody(String(id));
        return plugin.open(String(id), String(url), init as Parameters<typeof plugin.open>[2]).catch((error: Error) => {
          throw new HostCallRefusal('failed', error.message);
        });
      },
    },
  });
  return describeRun(outcome, use.expected);
}

function addResult(test: Test, name: string, failure: string | null): void {
  results.push({ name, version: readVersion(name), failure });
  if (failure === null) test.pass(name);
  // The soak counts: a library that does not work is a row of the page.
  else if (isSoak()) test.comment(`${name}: ${failure}`);
  else test.fail(`${name}: ${failure}`);
}

t.test('libraries answer what they answer in Node', async (t) => {
  for (const [name, use] of Object.entries(libraryCases).filter(isTried)) addResult(t, name, await tryLibrary(t, use));
});

t.test('the vendors’ SDKs reach declared hosts and no others', async (t) => {
  for (const [name, use] of Object.entries(sdkCases).filter(isTried)) {
    const failure = await trySdk(t, use);
    addResult(t, name, failure);
    t.equal(failure, null, name);
  }
});

soakTest(t, 'the page of libraries says what was found', async (t) => {
  const working = results.filter(({ failure }) => failure === null);
  t.ok(results.length >= TRIED_MIN, `${results.length} libraries`);
  t.ok(working.length / results.length >= WORKING_SHARE_MIN, `${working.length} work`);
  const page = librariesPage(results);
  if (process.env.UPDATE_LIBRARIES === '1') writeFileSync(PAGE, page);
  t.equal(readFileSync(PAGE, 'utf8'), page, 'UPDATE_LIBRARIES=1 writes docs/libraries.md');
});

/**
 * Runs the test files that `TEST_FILES` lists, a line each, one after the other in this process: a small file spends most of
 * its processor time on importing the service and on the first fixture.
 *
 * A file's `t` is a test of its own here, so its teardowns run before the next file begins, and it does not end before the file
 * has defined all its tests: tap's outermost test ends where a file awaits something when all tests until there are over.
 */
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { setCurrentTest } from './current-test.ts';
import { readOwnProcessorTime } from './processor-time.ts';
import { amount } from './soak.ts';

/**
 * A file that takes longer hangs: it fails, and the next one begins. The slowest takes two minutes, on a busy machine six; in a
 * soak run more than an hour. Milliseconds.
 */
const FILE_TIMEOUT_MS = { quick: 900_000, soak: 14_400_000 };
const CURRENT_TEST = new URL('current-test.ts', import.meta.url).href;

registerHooks({
  resolve(specifier, context, nextResolve) {
    const importer = context.parentURL ?? '';
    if (specifier !== 'tap' || !importer.endsWith('.test.ts')) return nextResolve(specifier, context);
    return { url: describeModule(importer), format: 'module', shortCircuit: true };
  },
});

/** The address of a module whose default export is the current test. Each file has one of its own, so none gets another's. */
function describeModule(importer: string): string {
  const lines = [
    `// ${importer}`,
    `import { getCurrentTest } from ${JSON.stringify(CURRENT_TEST)};`,
    'const test = getCurrentTest();',
    'export { test as default };',
  ];
  return `data:text/javascript,${encodeURIComponent(lines.join('\n'))}`;
}

// tap names the folders of tests after the arguments: all files make too long a name.
const files = (process.env.TEST_FILES ?? '').split('\n');
for (const file of files) {
  await t.test(file, { timeout: amount(FILE_TIMEOUT_MS) }, async (test) => {
    setCurrentTest(test);
    await import(pathToFileURL(resolve(file)).href);
  });
  t.comment(`processor time ${readOwnProcessorTime()}`);
}

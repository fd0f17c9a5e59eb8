/**
 * Runs the test files of its arguments one after the other in this process: a small file spends most of its processor time on
 * importing the service and on the first fixture.
 *
 * A file's `t` is a test of its own here, so its teardowns run before the next file begins.
 */
import { registerHooks } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { setCurrentTest } from './current-test.ts';
import { readOwnProcessorTime } from './processor-time.ts';

const FILE_TEST = new URL('file-test.ts', import.meta.url).href;

registerHooks({
  resolve(specifier, context, nextResolve) {
    const importer = context.parentURL ?? '';
    if (specifier !== 'tap' || !importer.endsWith('.test.ts')) return nextResolve(specifier, context);
    return { url: `${FILE_TEST}?of=${encodeURIComponent(importer)}`, format: 'module-typescript', shortCircuit: true };
  },
});

// Each file has its own time limit.
t.setTimeout(0);
for (const file of process.argv.slice(2)) {
  await t.test(file, async (test) => {
    setCurrentTest(test);
    await import(pathToFileURL(resolve(file)).href);
  });
  t.comment(`processor time ${readOwnProcessorTime()}`);
}

/** A file that fails outside its tests must not end the run: it counts as one failure of that file, and the next file runs. */
import { join } from 'node:path';
import t from 'tap';
import { runTogether } from './run-file.ts';

const ROOT = join(import.meta.dirname, '../..');
const PASSES = `import t from 'tap';\nt.test('a test', async (t) => t.pass());\n`;

t.test('a teardown that fails with what is no error is a failure of its file', async (t) => {
  const folder = t.testdir({
    'leaves-badly.test.ts': `${PASSES}t.teardown(() => Promise.reject({}));\n`,
    'next.test.ts': PASSES,
  });
  const files = ['leaves-badly.test.ts', 'next.test.ts'].map((name) => join(folder, name));
  const outcomes = await runTogether(files, ROOT);
  t.match(outcomes, [
    { name: files[0], passed: 1, report: /unhandled error/ },
    { name: files[1], passed: 1, failed: 0 },
  ]);
  t.ok((outcomes[0]?.failed ?? 0) > 0);
});

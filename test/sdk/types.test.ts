/** The ambient types an author compiles against: exact for what exists, absent for what does not. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';
import { temporaryFolder } from '../harness.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

/** What the compiler complains about; empty when all is well. */
async function complaints(project: string): Promise<string> {
  const tsc = join(root, 'node_modules/.bin/tsc');
  return run(tsc, ['-p', project], { cwd: root }).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  );
}

t.test('what is right compiles, what is wrong does not', async (t) => {
  // Every wrong line is marked @ts-expect-error, and TypeScript complains about a mark with nothing wrong below it.
  t.equal(await complaints('test/plugins/types'), '');
});

t.test('the example packages compile', async (t) => {
  t.equal(await complaints('examples'), '');
});

t.test('every example of the reference compiles', async (t) => {
  const reference = await readFile(join(root, 'sdk/REFERENCE.md'), 'utf8');
  const blocks = [...reference.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = '']) => code);
  t.ok(blocks.length > 25, `${blocks.length} examples found`);
  const directory = await temporaryFolder(t);
  for (const [index, code] of blocks.entries()) await writeFile(join(directory, `example-${index}.ts`), code);
  const config = { extends: join(root, 'sdk/tsconfig.plugin.json'), include: ['*.ts'] };
  await writeFile(join(directory, 'tsconfig.json'), JSON.stringify(config));
  t.equal(await complaints(directory), '');
});

/** Programs are found as a shell finds them. */
import { mkdir, writeFile } from 'node:fs/promises';
import { delimiter, join, relative } from 'node:path';
import t from 'tap';
import { findProgram } from '../../service/settings/search-path.ts';
import { temporaryFolder } from '../runner/harness.ts';

t.test('the first file that can be executed, by its absolute path', async (t) => {
  const folder = await temporaryFolder(t);
  const [folders, texts, programs] = ['folders', 'texts', 'programs'].map((name) => join(folder, name));
  await mkdir(join(folders ?? '', 'tool'), { recursive: true });
  for (const [path = '', mode] of [
    [texts, 0o600],
    [programs, 0o700],
  ] as const) {
    await mkdir(path);
    await writeFile(join(path, 'tool'), '', { mode });
  }
  const program = join(programs ?? '', 'tool');
  t.equal(findProgram('tool', [folders, texts, programs].join(delimiter)), program);
  t.equal(findProgram('tool', relative(process.cwd(), programs ?? '')), program);
  t.equal(findProgram('tool', [folders, join(folder, 'missing')].join(delimiter)), null);
});

/** What docs/package-format.md says about hashes, done as it says. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import t from 'tap';
import { hashFileTree, sortByPathBytes } from '../../sdk/contract/file-tree.ts';
import { root } from '../house/source-files.ts';
import { temporaryFolder } from '../runner/harness.ts';

t.test('the lines of the page compute sourceSha256', async (t) => {
  const page = await readFile(join(root, 'docs/package-format.md'), 'utf8');
  const [, script = ''] = /## The hash of a version[\s\S]*?```sh\n([\s\S]*?)```/.exec(page) ?? [];
  t.equal(script.trim().split('\n').length, 3);
  const contents = {
    'readme.md': '---\nname: A\n---\n',
    'index.ts': '',
    'lib/b c.ts': 'x\n',
    'lib-a.ts': 'y',
    'assets/ä/😀.bin': '\0\xff',
    'assets/z': 'z',
    'Ab.md': 'last before lower case',
  };
  const folder = await temporaryFolder(t);
  const files = [];
  for (const [path, content] of Object.entries(contents)) {
    const bytes = Buffer.from(content, 'latin1');
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), bytes);
    files.push({ path, sha256: createHash('sha256').update(bytes).digest('hex') });
  }
  const printed = execFileSync('bash', ['-c', script], { cwd: folder, encoding: 'utf8' });
  t.equal(printed, `${hashFileTree(sortByPathBytes(files))}  -\n`);
  t.notMatch(script, '-printf', 'only GNU find has it');
});

/** Files that one user built are served by another: in an image, root builds and an unprivileged user serves. */
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { buildIfStale } from '../../console/built-folder.ts';
import { temporaryFolder } from '../runner/harness.ts';

t.test('a built folder can be read by everybody', async (t) => {
  const dist = join(await temporaryFolder(t), 'dist');
  await buildIfStale(dist, 'sources', async (outDir) => writeFileSync(join(outDir, 'index.html'), 'page'));
  t.equal(statSync(dist).mode & 0o777, 0o755);
  t.equal(statSync(join(dist, 'index.html')).mode & 0o444, 0o444);
});

/** Files that one user built are served by another: in an image, root builds and an unprivileged user serves. */
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { buildIfStale } from '../../console/built-folder.ts';
import { temporaryFolder } from '../runner/harness.ts';

t.test('a built folder can be read by everybody, whatever the umask of the builder', async (t) => {
  const dist = join(await temporaryFolder(t), 'dist');
  const umask = process.umask(0o077);
  t.teardown(() => process.umask(umask));
  await buildIfStale(dist, 'sources', async (outDir) => {
    mkdirSync(join(outDir, 'assets'));
    writeFileSync(join(outDir, 'assets/page.js'), 'page');
  });
  for (const folder of [dist, join(dist, 'assets')]) t.equal(statSync(folder).mode & 0o777, 0o755);
  t.equal(statSync(join(dist, 'assets/page.js')).mode & 0o777, 0o644);
});

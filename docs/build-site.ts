/**
 * Builds the documentation site into `dist/`, unless what is there was built from these very pages. `npm start` runs it
 * beside the console's. With `--check` it builds nothing and fails when a link leads nowhere.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { keepBuilt, sourcesHash } from '../console/built-folder.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const SOURCES = [
  ...['docs/*.{md,ts}', 'docs/site/**/*.*', 'docs/pictures/*', 'console/built-folder.ts', 'console/public/icon.svg'],
  ...[
    'README.md',
    'CHANGELOG.md',
    'sdk/*.{md,ts}',
    'sdk/contract/*.ts',
    'sdk/generate/*.ts',
    'examples/**/*.*',
    'package.json',
    'package-lock.json',
  ],
];

// What builds it is loaded only when there is something to build.
if (process.argv.includes('--check')) await check();
else await keepBuilt(join(root, 'docs/dist'), sourcesHash(root, SOURCES), writeSite);

async function writeSite(outDir: string): Promise<void> {
  const writing = await import('./site/writing.ts');
  await writing.writeSite(outDir);
}

async function check(): Promise<void> {
  const { makeSite } = await import('./site/site.ts');
  const { faults } = makeSite();
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length > 0 ? 1 : 0;
}

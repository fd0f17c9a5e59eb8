/**
 * Builds the documentation site into `docs/dist/`, unless its sources have not changed. `npm start` runs it. With `--check` it builds
 * nothing and exits with 1 if a link is broken.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildIfStale, hashSources } from '../console/built-folder.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const SOURCES = [
  'docs/*.{md,ts}',
  'docs/site/**/*.*',
  'docs/pictures/*',
  'console/built-folder.ts',
  'console/public/icon.svg',
  'README.md',
  'CHANGELOG.md',
  'sdk/*.{md,ts}',
  'sdk/contract/*.ts',
  'examples/**/*.*',
  'package.json',
  'package-lock.json',
];

// The builder's packages are loaded only if there is something to build.
if (process.argv.includes('--check')) await checkLinks();
else await buildIfStale(join(root, 'docs/dist'), hashSources(root, SOURCES), buildSite);

async function buildSite(outDir: string): Promise<void> {
  const { writeSite } = await import('./site/write-site.ts');
  await writeSite(outDir);
}

async function checkLinks(): Promise<void> {
  const { makeSite } = await import('./site/site.ts');
  const { faults } = makeSite();
  for (const fault of faults) console.error(fault);
  process.exitCode = faults.length > 0 ? 1 : 0;
}

/** Writes the site into a folder: pages, their files, and compressed copies of both. */
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import MiniSearch from 'minisearch';
import { compress } from '../../console/built-folder.ts';
import { type Assets, layOut } from './layout.ts';
import { root } from './pages.ts';
import { type Found, searchOptions } from './search-words.ts';
import { makeSite, type Page, type Site } from './site.ts';

const ICON = 'console/public/icon.svg';
const BROWSER = fileURLToPath(new URL('browser/', import.meta.url));
/** Characters of the content hash in a file name. */
const HASH_CHARS = 8;

/** @param outDir an empty folder */
export async function writeSite(outDir: string): Promise<void> {
  const assetsDir = join(outDir, 'assets');
  mkdirSync(assetsDir);
  const site = makeSite(hashedAddress);
  const index = Buffer.from(searchIndex(site));
  const assets: Assets = {
    ...(await bundle(assetsDir)),
    icon: hashedAddress(ICON),
    searchIndex: `/docs/assets/search-${hashContent(index)}.json`,
  };
  writeFileSync(join(outDir, assets.searchIndex.replace('/docs/', '')), index);
  for (const file of [...site.pictures, ICON]) {
    copyFileSync(join(root, file), join(assetsDir, basename(hashedAddress(file))));
  }
  const release = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version;
  for (const page of [...site.pages, NOT_FOUND]) {
    const file = join(outDir, formatFileName(page));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, layOut(page, site, assets, release));
  }
  compress(outDir, '**/*.{html,js,css,json,svg}');
}

/** `/docs/x` is `x.html`, `/docs` itself `index.html`. */
const formatFileName = ({ href }: Page): string => `${href === '/docs' ? 'index' : href.slice('/docs/'.length)}.html`;

const NOT_FOUND: Page = {
  title: 'No such page',
  description: '',
  section: '',
  href: '/docs/404',
  file: '',
  headings: [],
  passages: [],
  targets: [],
  html: '<h1>There is no such page</h1>\n<p>It may have moved. Search for it, or start from <a href="/docs">all pages</a>.</p>\n',
};

const hashContent = (content: Uint8Array): string =>
  createHash('sha256').update(content).digest('hex').slice(0, HASH_CHARS);

function hashedAddress(file: string): string {
  const hash = hashContent(readFileSync(join(root, file)));
  return `/docs/assets/${basename(file, extname(file))}-${hash}${extname(file)}`;
}

/** Bundles styles, fonts and scripts, named by content hash. */
async function bundle(outdir: string): Promise<Pick<Assets, 'style' | 'scheme' | 'script'>> {
  const { metafile } = await build({
    entryPoints: ['style.css', 'scheme.ts', 'main.ts'].map((name) => join(BROWSER, name)),
    outdir,
    bundle: true,
    minify: true,
    metafile: true,
    format: 'esm',
    target: 'es2022',
    logLevel: 'error',
    entryNames: '[name]-[hash]',
    assetNames: '[name]-[hash]',
    loader: { '.woff2': 'file' },
  });
  const findOutput = (name: string): string => {
    const path = Object.keys(metafile.outputs).find((output) => basename(output).startsWith(`${name}-`));
    return `/docs/assets/${basename(path ?? '')}`;
  };
  return { style: findOutput('style'), scheme: findOutput('scheme'), script: findOutput('main') };
}

function searchIndex({ pages }: Site): string {
  const index = new MiniSearch<Found>(searchOptions);
  for (const page of pages.filter(({ href }) => href !== '/docs')) {
    index.addAll(
      page.passages.map(({ heading, text }) => ({
        id: heading.level === 1 ? page.href : `${page.href}#${heading.id}`,
        page: page.title,
        heading: heading.text,
        text: text.replaceAll(/\s+/g, ' ').trim(),
      })),
    );
  }
  return JSON.stringify(index);
}

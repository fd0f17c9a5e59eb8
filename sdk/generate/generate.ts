/**
 * Writes what is derived from the protocol rows and kept in the repository.
 *
 * `npm run -s generate` writes the files; with `--check` it writes nothing and fails when one of them is stale.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { globalsText } from './globals.ts';
import { referenceText } from './reference.ts';

const generated = [
  { name: 'sdk/globals.d.ts', url: new URL('../globals.d.ts', import.meta.url), text: globalsText },
  { name: 'sdk/REFERENCE.md', url: new URL('../REFERENCE.md', import.meta.url), text: referenceText },
];

const check = process.argv.includes('--check');
for (const { name, url, text } of generated) {
  const wanted = text();
  const found = await readFile(url, 'utf8').catch(() => '');
  if (found === wanted) continue;
  if (check) {
    console.error(`${name} is stale: run npm run -s generate and commit it.`);
    process.exitCode = 1;
  } else {
    await writeFile(url, wanted);
    console.log(`wrote ${name}`);
  }
}

/** A package of as many files as are allowed, at paths as long as are allowed, leaves the loop of the API to other requests. */
import { writeFile } from 'node:fs/promises';
import t from 'tap';
import { FILES_MAX, type Package } from '../../../api/package/package-files.ts';
import { type PackageSource, readPackage } from '../../../api/package/reader.ts';
import { findUnusedFiles } from '../../../api/package/unused-files.ts';
import { openBlobs } from '../../../db/files/blobs.ts';
import { PATH_MAX_DEPTH } from '../../../sdk/contract/package-paths.ts';
import { temporaryFolder } from '../../runner/harness.ts';
import { amount } from '../../runner/soak.ts';
import { measureLongestPiece, SHARE_MAX } from './longest-piece.ts';
import { craftZip } from './zip-crafting.ts';

/** Bytes of each path, of the 1,024 that are allowed: the list stays below the limit of a body. */
const PATH_BYTES = 780;

const blobs = await openBlobs(await temporaryFolder(t));

/** Every folder is another one. The letters of two bytes fold more slowly than those of ASCII. */
function nameFiles(letter: string): string[] {
  const bytes = Math.floor(PATH_BYTES / PATH_MAX_DEPTH) - 'ff9999/'.length;
  const name = letter.repeat(bytes / Buffer.byteLength(letter));
  return Array.from({ length: FILES_MAX }, (_, file) =>
    Array.from({ length: PATH_MAX_DEPTH }, (_, depth) => `${name}${depth.toString(16)}${file}`).join('/'),
  );
}

async function readAll(source: PackageSource): Promise<Package> {
  await using staging = await blobs.stage();
  return await readPackage(source, staging, 'ann');
}

/** A letter of one byte and one of two. Each takes seconds of a core; what is slower is in every run. */
const LETTERS = amount({ quick: ['é'], soak: ['a', 'é'] });

for (const letter of LETTERS) {
  const paths = nameFiles(letter);
  // The last file is refused, so that the share is that of the checks: files are stored after them.
  const clashing = [...paths.slice(1), paths.at(-1)?.toUpperCase() ?? ''];

  t.test(`a list of files with paths of ${letter}`, async (t) => {
    const files = clashing.map((path) => ({ path, contentText: '' }));
    const share = await measureLongestPiece(() =>
      t.rejects(readAll({ kind: 'files', files }), { message: /letter case does not count/ }),
    );
    t.ok(share < SHARE_MAX, `the longest piece is ${share} of the work`);
  });

  t.test(`a zip with paths of ${letter}`, async (t) => {
    const path = `${await temporaryFolder(t)}/package.zip`;
    await writeFile(path, craftZip(clashing.map((name) => ({ name, content: '' }))));
    const share = await measureLongestPiece(() =>
      t.rejects(readAll({ kind: 'zip', path }), { message: /letter case does not count/ }),
    );
    t.ok(share < SHARE_MAX, `the longest piece is ${share} of the work`);
  });

  t.test(`unused files with paths of ${letter}`, async (t) => {
    const files = paths.map((path) => ({ path, sha256: '', sizeBytes: 0, stagedAt: '' }));
    const share = await measureLongestPiece(async () => {
      const [sentence] = await findUnusedFiles({ files, sourceSha256: '', sizeBytes: 0 }, 'ann');
      t.match(sentence, `and ${FILES_MAX - 3} more`);
    });
    t.ok(share < SHARE_MAX, `the longest piece is ${share} of the work`);
  });
}

t.test('each path is encoded once for the order of the files, not in each comparison', async (t) => {
  const count = 1_000;
  // A step that shares no factor with the count: the list is far from any order.
  const files = Array.from({ length: count }, (_, index) => ({ path: `${(index * 617) % count}.md`, contentText: '' }));
  const encoded = t.capture(Buffer, 'from', Buffer.from);
  await readAll({ kind: 'files', files });
  // The path, and the content.
  t.ok(encoded().length < 3 * count, `${encoded().length} texts are encoded`);
});

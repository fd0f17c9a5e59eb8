/** Zips read as a publish reads them, for the tests of zips that break a rule or have false fields. */
import { writeFile } from 'node:fs/promises';
import type { Test } from 'tap';
import type { Package } from '../../../api/package/package-files.ts';
import { readPackage } from '../../../api/package/reader.ts';
import { type Blobs, openBlobs } from '../../../db/files/blobs.ts';
import { Problem } from '../../../sdk/contract/errors.ts';
import { type Teardown, temporaryFolder } from '../../runner/harness.ts';
import { INDEX, README } from './packages.ts';
import type { CraftedEntry } from './zip-crafting.ts';

/** The smallest good package, entry by entry. */
export const plain: CraftedEntry[] = [
  { name: 'readme.md', content: README },
  { name: 'index.ts', content: INDEX },
];

export interface ZipReader {
  readonly folder: string;
  /** @returns the package, or the problem it was refused with */
  read(zip: Buffer): Promise<Package | Problem>;
  refused(t: Test, name: string, zip: Buffer, says: RegExp): Promise<void>;
}

export async function openZipReader(test: Teardown): Promise<ZipReader> {
  const folder = await temporaryFolder(test);
  const blobs: Blobs = await openBlobs(folder);
  async function read(zip: Buffer): Promise<Package | Problem> {
    await using staging = await blobs.stage();
    const path = staging.scratch();
    await writeFile(path, zip);
    return await readPackage({ kind: 'zip', path }, staging, 'ann').catch((error: unknown) => {
      if (error instanceof Problem) return error;
      throw error;
    });
  }
  async function refused(t: Test, name: string, zip: Buffer, says: RegExp): Promise<void> {
    const found = await read(zip);
    if (!(found instanceof Problem)) return void t.fail(`${name}: it passed`);
    t.equal(found.code, 'invalid_package', name);
    t.match(found.message, says, name);
  }
  return { folder, read, refused };
}

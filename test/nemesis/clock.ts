/** A clock that a file shifts while the process runs: libfaketime, where Debian's package can be had. */
import { globSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { canFetchPackages } from '../../deploy/debian-packages.ts';
import { fetchTestPackages } from '../runner/programs.ts';

const LIBRARY = 'usr/lib/*/faketime/libfaketime.so.1';

export interface SteppingClock {
  readonly file: string;
  /** Environment of the process whose clock it is. */
  readonly env: Readonly<Record<string, string>>;
}

/** @param file path of the file to write the shift to. @returns null: this machine has no libfaketime */
export async function openSteppingClock(file: string): Promise<SteppingClock | null> {
  const library = await findLibrary();
  if (library === null) return null;
  await writeFile(file, '+0s\n');
  return {
    file,
    env: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_CACHE_DURATION: '1',
      // Timers and leases count by it, as on a real machine.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
  };
}

async function findLibrary(): Promise<string | null> {
  const [installed] = globSync(`/${LIBRARY}`);
  if (installed !== undefined) return installed;
  if (process.env.SANDBOX_FETCH === 'off' || !canFetchPackages()) return null;
  const [folder] = await fetchTestPackages(['libfaketime']);
  return (folder === undefined ? undefined : globSync(join(folder, LIBRARY))[0]) ?? null;
}

/** Finds programs in the folders of `PATH`. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Returns the absolute path of a program. Null: no folder of `PATH` contains it. */
export function findProgram(name: string): string | null {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not in this folder.
    }
  }
  return null;
}

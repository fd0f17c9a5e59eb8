/** Finds programs in the folders of `PATH`. */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, resolve } from 'node:path';

/** Returns the absolute path of a program. Null: no folder of `PATH` contains it. */
export function findProgram(name: string, searchPath = process.env.PATH ?? ''): string | null {
  for (const folder of searchPath.split(delimiter)) {
    const path = resolve(folder, name);
    if (isProgram(path)) return path;
  }
  return null;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    // A folder is executable, too.
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** The libraries of `test/libraries/package.json`, for the soak only: half a gigabyte that no other test needs. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installPackages } from '../runner/installed-packages.ts';

export const LIBRARIES = fileURLToPath(new URL('.', import.meta.url));

export const installLibraries = (): Promise<void> => installPackages(LIBRARIES);

/** The version of a library that `package.json` asks for. */
export function readVersion(name: string): string {
  const { devDependencies } = JSON.parse(readFileSync(join(LIBRARIES, 'package.json'), 'utf8')) as {
    devDependencies: Readonly<Record<string, string>>;
  };
  return devDependencies[name] ?? '';
}

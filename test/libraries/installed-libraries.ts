/** Installs `test/libraries/package.json` beside itself, for the soak only: half a gigabyte that no other test needs. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

export const LIBRARIES = fileURLToPath(new URL('.', import.meta.url));
/** Inside the installed packages: the hash of the lock file they were installed from. */
const STAMP = join(LIBRARIES, 'node_modules', '.lock-hash');
const OUTPUT_MAX_BYTES = 10_000_000;

/** Does nothing while the lock file is the one of the last install. */
export async function installLibraries(): Promise<void> {
  const hash = createHash('sha256')
    .update(readFileSync(join(LIBRARIES, 'package-lock.json')))
    .digest('hex');
  if (existsSync(STAMP) && readFileSync(STAMP, 'utf8') === hash) return;
  // None of the packages needs its install script.
  await promisify(execFile)('npm', ['ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'], {
    cwd: LIBRARIES,
    maxBuffer: OUTPUT_MAX_BYTES,
  });
  writeFileSync(STAMP, hash);
}

/** The version of a library that `package.json` asks for. */
export function readVersion(name: string): string {
  const { devDependencies } = JSON.parse(readFileSync(join(LIBRARIES, 'package.json'), 'utf8')) as {
    devDependencies: Readonly<Record<string, string>>;
  };
  return devDependencies[name] ?? '';
}

/** Installs a `package.json` of its own that few tests need, beside itself. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Inside the installed packages: the hash of the lock file they were installed from. */
const STAMP = join('node_modules', '.lock-hash');
const OUTPUT_MAX_BYTES = 10_000_000;

/** Does nothing while the lock file is the one of the last install. */
export async function installPackages(folder: string): Promise<void> {
  const stamp = join(folder, STAMP);
  const hash = createHash('sha256')
    .update(readFileSync(join(folder, 'package-lock.json')))
    .digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return;
  // None of the packages needs its install script.
  await promisify(execFile)('npm', ['ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'], {
    cwd: folder,
    maxBuffer: OUTPUT_MAX_BYTES,
  });
  writeFileSync(stamp, hash);
}

/** Installs a `package.json` of its own that few tests need, beside itself. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** Git ignores its folders of this name. */
const UNFINISHED = fileURLToPath(new URL(`../.install-${process.pid}`, import.meta.url));
/** Inside the installed packages: the hash of the lock file they were installed from. */
const STAMP = '.lock-hash';
const MANIFESTS = ['package.json', 'package-lock.json'];
const OUTPUT_MAX_BYTES = 10_000_000;

/**
 * Does nothing while the lock file is the one of the last install. The packages grow in a folder of this process and are renamed
 * into place when they are complete: the files of a run that need them may install them at the same time.
 */
export async function installPackages(folder: string): Promise<void> {
  const installed = join(folder, 'node_modules');
  const hash = createHash('sha256')
    .update(readFileSync(join(folder, 'package-lock.json')))
    .digest('hex');
  if (isInstalled(installed, hash)) return;
  // A process of this id may have been killed here.
  rmSync(UNFINISHED, { recursive: true, force: true });
  mkdirSync(UNFINISHED);
  try {
    for (const name of MANIFESTS) cpSync(join(folder, name), join(UNFINISHED, name));
    const packages = join(UNFINISHED, 'node_modules');
    // None of the packages needs its install script.
    const flags = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'];
    await promisify(execFile)('npm', ['ci', '--prefix', UNFINISHED, ...flags], {
      cwd: UNFINISHED,
      maxBuffer: OUTPUT_MAX_BYTES,
    });
    writeFileSync(join(packages, STAMP), hash);
    if (existsSync(installed) && !isInstalled(installed, hash)) renameSync(installed, join(UNFINISHED, 'old'));
    renameUnlessInstalled(packages, installed, hash);
  } finally {
    rmSync(UNFINISHED, { recursive: true, force: true });
  }
}

function isInstalled(packages: string, hash: string): boolean {
  const stamp = join(packages, STAMP);
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === hash;
}

function renameUnlessInstalled(packages: string, installed: string, hash: string): void {
  try {
    renameSync(packages, installed);
  } catch (error) {
    // Another file of the run has installed the same meanwhile.
    if (!isInstalled(installed, hash)) throw error;
  }
}

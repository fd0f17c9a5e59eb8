/**
 * Installs `test/package.json` into `test/node_modules`, where Node finds it from every test. `npm test` and the checks run it
 * first; it does nothing while both lock files are the ones of the last install.
 *
 * The packages grow in a folder of this process and are renamed into place when they are complete, so an interrupted install
 * leaves nothing half done and two runs at once do not disturb each other.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { delimiter, dirname, join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TEST = join(ROOT, 'test');
const INSTALLED = join(TEST, 'node_modules');
/** Inside the installed packages: the hash of the lock files they were installed from. */
const STAMP = '.lock-hash';
/** Folders outside of test/ whose files import test packages: adapters and examples of agent frameworks. */
const LINKED = ['sdk/adapters', 'examples/runtimes'];
/** Matches the folder of an installation under way: `.install-` and the process id. */
const UNFINISHED = /^\.install-(\d+)$/;
const PROGRESS_MS = 5_000;
/** Size of the folder that an install makes, without the packages that the root has. Measured with `du -sm` in November 2026. */
const ABOUT_MB = 620;
/** npm's error codes for a registry that does not answer. */
const OFFLINE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT)\b/;
const ERROR_LINES = 20;

try {
  await installTestPackages();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function installTestPackages(): Promise<void> {
  const hash = lockHash();
  if (!isInstalled(hash)) {
    removeUnfinished();
    const folder = join(TEST, `.install-${process.pid}`);
    try {
      await installInto(folder);
      const packages = join(folder, 'node_modules');
      removeDuplicates(packages);
      writeFileSync(join(packages, STAMP), hash);
      moveIntoPlace(packages, hash);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  for (const folder of LINKED) link(join(ROOT, folder, 'node_modules'));
}

/** The root's lock file counts, too: packages that the root has in the same version are not installed twice. */
function lockHash(): string {
  const hash = createHash('sha256');
  for (const folder of [ROOT, TEST]) hash.update(readFileSync(join(folder, 'package-lock.json')));
  return hash.digest('hex');
}

function isInstalled(hash: string): boolean {
  const stamp = join(INSTALLED, STAMP);
  return existsSync(stamp) && readFileSync(stamp, 'utf8') === hash;
}

/** Removes what installs left behind that were killed. */
function removeUnfinished(): void {
  for (const name of readdirSync(TEST)) {
    const pid = UNFINISHED.exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`)) rmSync(join(TEST, name), { recursive: true, force: true });
  }
}

async function installInto(folder: string): Promise<void> {
  mkdirSync(folder);
  for (const name of ['package.json', 'package-lock.json']) cpSync(join(TEST, name), join(folder, name));
  const total = countPackages(join(folder, 'package-lock.json'));
  console.log(`Installing ${total} test packages, ${ABOUT_MB} MB: now, and again when their versions change.`);
  const started = Date.now();
  const seconds = (): number => Math.round((Date.now() - started) / 1000);
  let fetched = 0;
  const progress = setInterval(() => {
    console.log(`Test packages: ${fetched} of ${total} fetched, ${seconds()} s`);
  }, PROGRESS_MS);
  try {
    await runNpm(folder, () => {
      fetched += 1;
    });
  } finally {
    clearInterval(progress);
  }
  console.log(`Test packages installed in ${seconds()} s.`);
}

interface LockedPackage {
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
}

/** The packages of a lock file that are for this platform. */
function countPackages(lockFile: string): number {
  const { packages } = JSON.parse(readFileSync(lockFile, 'utf8')) as { packages: Record<string, LockedPackage> };
  const { '': _, ...installed } = packages;
  const isOurs = ({ os, cpu }: LockedPackage): boolean =>
    (os?.includes(process.platform) ?? true) && (cpu?.includes(process.arch) ?? true);
  return Object.values(installed).filter(isOurs).length;
}

/** @param onFetch called for each package that npm has */
async function runNpm(folder: string, onFetch: () => void): Promise<void> {
  // None of the packages needs its install script.
  const flags = ['ci', '--prefix', folder, '--ignore-scripts', '--prefer-offline', '--loglevel', 'http'];
  // npm's own pauses between attempts are 10 s and more: too long to hear that the machine is offline.
  flags.push('--fetch-retry-mintimeout', '1000', '--fetch-retry-maxtimeout', '5000');
  const npm = process.env.npm_execpath;
  const [program, args] = npm?.endsWith('npm-cli.js') ? [process.execPath, [npm, ...flags]] : ['npm', flags];
  // With the pinned Node: npm warns about packages that do not support the one it runs with.
  const PATH = `${dirname(process.execPath)}${delimiter}${process.env.PATH ?? ''}`;
  const child = spawn(program, args, {
    cwd: folder,
    env: { ...process.env, PATH },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const errors: string[] = [];
  createInterface(child.stderr).on('line', (line) => {
    if (/^npm http .*\.tgz /.test(line)) onFetch();
    else if (/^npm (error|ERR!) /.test(line)) errors.push(line);
  });
  const code = await new Promise<number | string>((resolve) => {
    child.once('error', (error) => resolve(String(error)));
    child.once('close', (exitCode, signal) => resolve(exitCode ?? String(signal)));
  });
  if (code === 0) return;
  const offline = OFFLINE.exec(errors.join('\n'))?.[0];
  if (offline !== undefined) {
    throw new Error(
      `The test packages cannot be installed: npm does not reach its registry (${offline}). Tests need them once: connect to the network and run the command again.`,
    );
  }
  throw new Error(
    `The test packages cannot be installed: npm ci ended with ${code}.\n${errors.slice(-ERROR_LINES).join('\n')}`,
  );
}

/** A test and the product share one copy of each package: two copies of zod would not accept each other's schemas. */
function removeDuplicates(packages: string): void {
  for (const name of packageNames(packages)) {
    const version = versionOf(join(packages, name));
    if (version === versionOf(join(ROOT, 'node_modules', name))) rmSync(join(packages, name), { recursive: true });
  }
}

function packageNames(packages: string): string[] {
  return readdirSync(packages)
    .filter((name) => !name.startsWith('.'))
    .flatMap((name) =>
      name.startsWith('@') ? readdirSync(join(packages, name)).map((inner) => `${name}/${inner}`) : [name],
    );
}

function versionOf(folder: string): string | null {
  const manifest = join(folder, 'package.json');
  if (!existsSync(manifest)) return null;
  const { name, version } = JSON.parse(readFileSync(manifest, 'utf8')) as { name: string; version: string };
  return `${name}@${version}`;
}

function moveIntoPlace(packages: string, hash: string): void {
  const old = join(dirname(packages), 'old');
  if (existsSync(INSTALLED) && !isInstalled(hash)) renameSync(INSTALLED, old);
  try {
    renameSync(packages, INSTALLED);
  } catch (error) {
    // Another run has installed the same meanwhile.
    if (!isInstalled(hash)) throw error;
  }
}

function link(path: string): void {
  try {
    symlinkSync(relative(dirname(path), INSTALLED), path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

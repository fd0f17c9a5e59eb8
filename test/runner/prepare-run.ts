/** Resources that all files of a run share: created before the first file, removed after the last. */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { RUN_FOLDER_VARIABLE, writeChildPrograms } from './child-program.ts';
import { removeForeignVariables } from './environment.ts';
import { completeSearchPath, type SearchPathOptions } from './programs.ts';
import { SERVER_VARIABLE, startTestServer } from './server.ts';
import { endStrays } from './strays.ts';
import { chooseTemporaryFolder } from './temporary-folder.ts';
import { BROWSER_VARIABLE, unpackBrowser } from './unpacked-browser.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
/**
 * Compiled modules of test files and of the processes they start. Kept between runs; `npm ci` removes it. A copy of this
 * checkout uses them, too, if its processes find this folder in its own `node_modules`.
 */
const COMPILE_CACHE = join(root, 'node_modules', '.cache', 'test-compile-cache');
/** Only its owner lists it; everyone may open what they know the name of. */
const FOLDER_MODE = 0o711;
/** The builders of the folders that the API serves. They do nothing if the folders are up to date. */
const SITE_BUILDERS = ['console/build-console.ts', 'docs/build-site.ts'];

interface PrepareOptions {
  readonly isWhole: boolean;
  /** Those that the run looks for; missing ones are fetched. */
  readonly programs: SearchPathOptions;
}

export interface PreparedRun {
  /**
   * Stops and removes what was made, and what is left of the files. Safe to call twice.
   *
   * @param graceMs how long the last processes may take to end
   * @returns the commands of processes that were left
   */
  end(graceMs?: number): Promise<string[]>;
}

/**
 * Makes everything, and tells the test files by environment variables where it is. A run of single files leaves the
 * sites and the browser to those of them that need these.
 */
export async function prepareRun({ isWhole, programs }: PrepareOptions): Promise<PreparedRun> {
  removeForeignVariables(process.env);
  process.env.NODE_COMPILE_CACHE = COMPILE_CACHE;
  // Finds modules by their path from the cache's folder.
  process.env.NODE_COMPILE_CACHE_PORTABLE = '1';
  const folder = await mkdtemp(join(await chooseTemporaryFolder(), 'bulkhead-test-run-'));
  // Some processes of tests run as another user.
  await chmod(folder, FOLDER_MODE);
  // `tmpdir` of this process and of the test files.
  process.env.TMPDIR = folder;
  const starting = startTestServer();
  const parts = [
    starting,
    writeChildPrograms(folder),
    completeSearchPath(programs),
    ...(isWhole ? [...SITE_BUILDERS.map(build), setBrowser(folder)] : []),
  ];
  const endOnce = async (graceMs?: number): Promise<string[]> => {
    const stopped = starting.then((server) => server.stop());
    await stopped.catch(() => undefined);
    const strays = await endStrays(folder, root, graceMs);
    await rm(folder, { recursive: true, force: true });
    await stopped;
    return strays.map(({ pid, command }) => `${pid} ${command}`);
  };
  let ending: Promise<string[]> | undefined;
  const end = (graceMs?: number): Promise<string[]> => {
    ending ??= endOnce(graceMs);
    return ending;
  };
  try {
    await Promise.all(parts);
  } catch (error) {
    // What still runs has files in the folder.
    await Promise.allSettled(parts);
    await end().catch(() => undefined);
    throw error;
  }
  process.env[SERVER_VARIABLE] = (await starting).url;
  process.env[RUN_FOLDER_VARIABLE] = folder;
  return { end };
}

async function build(script: string): Promise<void> {
  await promisify(execFile)(process.execPath, [script], { cwd: root });
}

async function setBrowser(folder: string): Promise<void> {
  process.env[BROWSER_VARIABLE] = await unpackBrowser(folder);
}

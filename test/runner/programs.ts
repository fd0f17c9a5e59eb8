/**
 * Programs that single tests need: the machine's own, or else Debian's, unpacked into a cache of this checkout. A test of a
 * program that cannot be had is skipped by name.
 */
import { existsSync, readFileSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { canFetchPackages, fetchPackages } from '../../deploy/debian-packages.ts';
import { findProgram } from '../../service/settings/search-path.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDER = join(ROOT, 'node_modules', '.cache', 'test-programs');
/** Where Debian keeps its servers; an ordinary user's search path lacks it. */
const SERVER_FOLDER = '/usr/sbin';
/** The package of each program. */
const packages: Readonly<Record<string, string>> = {
  bwrap: 'bubblewrap',
  haproxy: 'haproxy',
  openssl: 'openssl',
  pgbouncer: 'pgbouncer',
  prometheus: 'prometheus',
  promtool: 'prometheus',
  'ssh-keygen': 'openssh-server',
  sshd: 'openssh-server',
};

/** Programs of a database that survives its machine; only long tests need them. */
const highAvailabilityPackages: typeof packages = { etcd: 'etcd-server', patroni: 'patroni' };

/** A call that looks for a program by its name. */
const LOOKUP = /\b(?:findProgram|whyMissing)\('([\w-]+)'\)/g;
/** The path of a source file, which is imported or started as a process: `new URL('holder.ts', import.meta.url)` has no `./`. */
const SOURCE_PATH = /'([^'\n]+\.tsx?)'/g;

export interface SearchPathOptions {
  /** Whether etcd, HAProxy and Patroni are needed too. */
  readonly highAvailability?: boolean;
  /** The files that run; of the programs, only those are fetched that these look for. Default: all programs. */
  readonly files?: readonly string[] | undefined;
}

/** Fetches what is missing and adds it to the search path of this process. `SANDBOX_FETCH=off` prevents the fetching. */
export async function completeSearchPath({ highAvailability = false, files }: SearchPathOptions = {}): Promise<void> {
  process.env.PATH = [process.env.PATH, SERVER_FOLDER].join(delimiter);
  const needed = { ...packages, ...(highAvailability ? highAvailabilityPackages : {}) };
  const wanted = files === undefined ? Object.keys(needed) : findWantedPrograms(files).filter((name) => name in needed);
  const missing = wanted.filter((program) => findProgram(program) === null);
  if (missing.length === 0 || process.env.SANDBOX_FETCH === 'off' || !canFetchPackages()) return;
  const names = new Set(missing.map((program) => needed[program] ?? program));
  const found = await fetchTestPackages([...names]);
  const folders = found.flatMap((folder) => [join(folder, 'usr', 'bin'), join(folder, 'usr', 'sbin')]);
  process.env.PATH = [process.env.PATH, ...folders].join(delimiter);
}

/** The programs that files look for, or what they import or start does. */
export function findWantedPrograms(files: readonly string[]): string[] {
  const reached = new Set(files.map((file) => resolve(ROOT, file)));
  const programs = new Set<string>();
  for (const path of reached) {
    const text = readFileSync(path, 'utf8');
    for (const [, program = ''] of text.matchAll(LOOKUP)) programs.add(program);
    for (const [, to = ''] of text.matchAll(SOURCE_PATH)) {
      const source = resolve(dirname(path), to);
      if (existsSync(source)) reached.add(source);
    }
  }
  return [...programs].sort();
}

/** Unpacks packages of Debian into the cache. @returns the folders of those that could be had */
export function fetchTestPackages(names: readonly string[]): Promise<string[]> {
  return fetchPackages(FOLDER, names, { onNotice: console.log });
}

/** Why a test of this program is skipped; false where the program is there. */
export function whyMissing(program: string): string | false {
  return findProgram(program) === null && `no ${program}: apt-get install ${packages[program] ?? program}`;
}

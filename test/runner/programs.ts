/**
 * Programs that single tests need: the machine's own, or else Debian's, unpacked into a cache of this checkout. A test of a
 * program that cannot be had is skipped by name.
 */
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { canFetchPackages, fetchPackages } from '../../deploy/debian-packages.ts';
import { findProgram } from '../../service/settings/search-path.ts';

const FOLDER = fileURLToPath(new URL('../../node_modules/.cache/test-programs', import.meta.url));
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

/**
 * Fetches what is missing and adds it to the search path of this process. `SANDBOX_FETCH=off` prevents the fetching.
 *
 * @param highAvailability whether etcd, HAProxy and Patroni are needed too
 */
export async function completeSearchPath({ highAvailability = false } = {}): Promise<void> {
  process.env.PATH = [process.env.PATH, SERVER_FOLDER].join(delimiter);
  const needed = { ...packages, ...(highAvailability ? highAvailabilityPackages : {}) };
  const missing = Object.keys(needed).filter((program) => findProgram(program) === null);
  if (missing.length === 0 || process.env.SANDBOX_FETCH === 'off' || !canFetchPackages()) return;
  const names = new Set(missing.map((program) => needed[program] ?? program));
  const found = await fetchTestPackages([...names]);
  const folders = found.flatMap((folder) => [join(folder, 'usr', 'bin'), join(folder, 'usr', 'sbin')]);
  process.env.PATH = [process.env.PATH, ...folders].join(delimiter);
}

/** Unpacks packages of Debian into the cache. @returns the folders of those that could be had */
export function fetchTestPackages(names: readonly string[]): Promise<string[]> {
  return fetchPackages(FOLDER, names, { onNotice: console.log });
}

/** Why a test of this program is skipped; false where the program is there. */
export function whyMissing(program: string): string | false {
  return findProgram(program) === null && `no ${program}: apt-get install ${packages[program] ?? program}`;
}

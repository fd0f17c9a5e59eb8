/** Chooses how to start PostgreSQL: never as root, and so that it stops when its parent dies. */
import { spawnSync } from 'node:child_process';

/** A program that does not answer within this time counts as missing. Milliseconds. */
const PROBE_TIMEOUT_MS = 10_000;
/** The user `nobody`, which every distribution has. initdb requires that its user id has a name. */
const NOBODY = '65534';

export interface Launcher {
  /** Command and arguments placed before the program. */
  readonly prefix: readonly string[];
  /** User id that must own the data directory; null: the current user. */
  readonly owner: number | null;
}

/** The kernel sends SIGINT, PostgreSQL's fast shutdown, when this process dies, even by SIGKILL. */
const dieWithParent = ['setpriv', '--pdeathsig', 'INT'];

/**
 * First choice as root: a user namespace that maps root to `nobody`. PostgreSQL sees an ordinary user while files still
 * belong to root, so a checkout under /root (mode 0700) works without chown.
 */
const namespaced = ['unshare', '--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`];
/**
 * Second choice as root, where user namespaces are disabled (many containers): another user id that keeps only
 * CAP_DAC_OVERRIDE, to traverse directories such as /root. `no_setuid_fixup` makes access(2) honour it too.
 */
const dropped = [
  ...dieWithParent,
  `--reuid=${NOBODY}`,
  `--regid=${NOBODY}`,
  '--clear-groups',
  '--securebits=+no_setuid_fixup',
  '--inh-caps=-all,+dac_override',
  '--ambient-caps=-all,+dac_override',
  '--bounding-set=-all,+dac_override',
  '--',
];

/** Best first. Without setpriv (not Debian), the next start finds and stops an orphaned server instead. */
export const rootLaunchers: readonly Launcher[] = [
  { prefix: [...namespaced, '--', ...dieWithParent, '--'], owner: 0 },
  { prefix: [...namespaced, '--'], owner: 0 },
  { prefix: dropped, owner: Number(NOBODY) },
];
export const userLaunchers: readonly Launcher[] = [
  { prefix: [...dieWithParent, '--'], owner: null },
  { prefix: [], owner: null },
];

/**
 * Returns the first launcher that can run `postgres --version` here.
 *
 * @param candidates best first
 * @throws Error when none works
 */
export function chooseLauncher(
  postgres: string,
  candidates: readonly Launcher[] = process.getuid?.() === 0 ? rootLaunchers : userLaunchers,
): Launcher {
  for (const candidate of candidates) {
    const [program = postgres, ...args] = [...candidate.prefix, postgres, '--version'];
    const { status } = spawnSync(program, args, { stdio: 'ignore', timeout: PROBE_TIMEOUT_MS });
    if (status === 0) return candidate;
  }
  throw new Error(
    'PostgreSQL does not run as root, and neither a user namespace nor another user id is available here. Run as an ordinary user, or set DATABASE_URL.',
  );
}

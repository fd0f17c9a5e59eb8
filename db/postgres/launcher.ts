/** How PostgreSQL is started: never as root, and never outliving the process that started it. */
import { spawnSync } from 'node:child_process';

/** A program that cannot be probed in this time is as good as missing, milliseconds. */
const PROBE_TIMEOUT_MS = 10_000;
/** Debian and every other distribution has this user (`nobody`); initdb insists on a name for its user id. */
const NOBODY = '65534';

export interface Launcher {
  /** Words put before the program's own. */
  readonly prefix: readonly string[];
  /** Who must own the data directory: null means whoever runs this process. */
  readonly owner: number | null;
}

/** The kernel sends SIGINT, PostgreSQL's fast shutdown, when our process dies in whatever way. */
const dieWithParent = ['setpriv', '--pdeathsig', 'INT'];

/**
 * As root. First choice: a user namespace in which our own user id has another number. PostgreSQL sees an ordinary
 * user, while files still belong to root, so a checkout under /root (mode 0700) works and nothing is chowned.
 */
const namespaced = ['unshare', '--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`];
/**
 * Second choice, where user namespaces are switched off (many containers): another user id. It keeps one capability,
 * passing directories such as /root, and can gain no other. `no_setuid_fixup` lets access(2) honour that one too.
 */
const dropped = [
  ...dieWithParent,
  ...['--reuid', NOBODY, '--regid', NOBODY, '--clear-groups', '--securebits', '+no_setuid_fixup'],
  ...['--inh-caps', '-all,+dac_override', '--ambient-caps', '-all,+dac_override'],
  ...['--bounding-set', '-all,+dac_override', '--'],
];

/** Ways to start, best first. Without setpriv (not Debian) an orphan is found and stopped at the next start instead. */
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
 * Picks the first way that works here, by trying.
 *
 * @param postgres path of the program
 * @param candidates ways to try, best first
 * @throws with one sentence when none works
 */
export function chooseLauncher(
  postgres: string,
  candidates: readonly Launcher[] = process.getuid?.() === 0 ? rootLaunchers : userLaunchers,
): Launcher {
  for (const candidate of candidates) {
    const [program = postgres, ...words] = [...candidate.prefix, postgres, '--version'];
    const { status } = spawnSync(program, words, { stdio: 'ignore', timeout: PROBE_TIMEOUT_MS });
    if (status === 0) return candidate;
  }
  throw new Error(
    'PostgreSQL does not run as root, and neither a user namespace nor another user id is available here: run as an ordinary user, or set DATABASE_URL.',
  );
}

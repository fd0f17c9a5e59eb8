/** The order of a run: the longest files first, some at a time. */
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { IdleMeter } from './processor-time.ts';
import { amount, isSoak } from './soak.ts';

/** Files at once on a busy machine. With four, ten processes wait for two slow processors, and answers miss the budgets of the product. */
const countJobs = (): number => Math.max(amount({ quick: 2, soak: 3 }), availableParallelism());
/** Files at once on a machine that is idle beside those: most wait for other processes and for timers. */
const countJobsWhenIdle = (): number => Math.max(amount({ quick: 9, soak: 3 }), availableParallelism());
/** One more file begins where this share of the processors' time was idle for this long. Milliseconds. */
const IDLE_SHARE = 0.15;
const IDLE_MS = 1_000;

/**
 * The files that take longest, the longest first: begun last, one of them alone would keep the run waiting. A room stands for
 * the processes that its small files share.
 */
const LONGEST: readonly string[] = [
  'test/sdk',
  'test/api',
  'test/console',
  'test/supervisor',
  'test/storm',
  'test/deploy',
  'test/db',
  'test/conform',
  'test/docs',
  'test/bench',
  'test/house',
  'test/runner',
  'test/sandbox-child',
  'test/examples',
  'test/corpora',
  'test/end-to-end',
];

/** The same for a soak run, where each of them has a process of its own: minutes each, the first one a quarter of an hour. */
const LONGEST_IN_SOAK: readonly string[] = [
  'test/model/model.test.ts',
  'test/sdk/adapter-fuzz.test.ts',
  'test/supervisor/children/spawn-cycles.test.ts',
  'test/storm/service.test.ts',
  'test/storm/supervisor.test.ts',
  'test/conform/check-runtime.test.ts',
  'test/sandbox-child/message.test.ts',
];

/**
 * Files that only a soak run has, and a run that names them: storms, which kill processes for minutes, large or many packages
 * that say little more than the small ones of other files, a crash loop whose parts other files prove, costs that do not grow
 * with the rows, a second client of a protocol, and a real Prometheus, whose rules and queries a quick run checks without a
 * service. The whole quick run has to stay below 15 minutes.
 */
export const SOAK_ONLY: readonly string[] = [
  'test/storm/service.test.ts',
  'test/storm/supervisor.test.ts',
  'test/storm/two-apis.test.ts',
  'test/storm/database-away.test.ts',
  'test/storm/updates.test.ts',
  'test/storm/fail-points-supervisor.test.ts',
  'test/storm/rolling-update.test.ts',
  'test/supervisor/delivery/recovered.test.ts',
  'test/supervisor/mcp/mcp-programs.test.ts',
  'test/corpora/foreign-lists.test.ts',
  'test/bench/only.test.ts',
  'test/bench/postgres.test.ts',
  'test/deploy/debian-packages.test.ts',
  'test/deploy/prometheus.test.ts',
  'test/api/package/hard-code.test.ts',
  'test/api/package/large-code.test.ts',
  'test/api/package/many-files.test.ts',
  'test/corpora/zips.test.ts',
  'test/api/package/large-uploads.test.ts',
  'test/api/installations/crash-loop.test.ts',
  'test/db/sessions/inbox.test.ts',
  'test/db/records/filtered-pages.test.ts',
];

/**
 * Files that run at the end, one at a time. A plugin that just used up a core starts again with what the others leave, which on a
 * busy machine takes longer than a hook's budget; a debugger's answers come late there, too. A check of a whole service needs the
 * times within which a deployment answers.
 */
const ALONE: readonly string[] = [
  'test/conform/conform.test.ts',
  'test/supervisor/children/hung-code.test.ts',
  'test/supervisor/children/inspector.test.ts',
];
/** Files that have the machine to themselves in a soak run: their long versions have tight bounds in time. */
const ALONE_IN_SOAK: readonly string[] = [
  'test/supervisor/children/cold-starts.test.ts',
  'test/storm/rolling-update.test.ts',
  'test/storm/updates.test.ts',
  'test/deploy/replace.test.ts',
  'test/deploy/high-availability.test.ts',
  'test/supervisor/cluster/two-supervisors.test.ts',
  'test/nemesis/nemesis.test.ts',
];

/** Rooms whose small files share processes: of a small file, the imports take longer than the tests. */
const SHARED_ROOMS = /^test\/(api|db|deploy|examples|sdk|service|supervisor)\//;
/** Rooms with few small files, which share processes with each other. */
const SMALL_ROOMS = /^test\/(bench|conform|console|docs|house|runner|sandbox-child|storm)\//;
/**
 * Files that share a process, others than those of their room. Most start their services in processes of their own; those of
 * the console share a browser. A file that measures its whole process (memory, open files, processor time) is the first of
 * its group, one that changes it the last.
 */
const TOGETHER: readonly (readonly string[])[] = [
  [
    // These share a service, too, until parity.test.ts. The first one needs an account without plugins.
    'test/console/console.test.ts',
    'test/console/live.test.ts',
    'test/console/outage-and-focus.test.ts',
    'test/console/long-lists.test.ts',
    'test/console/browser-conditions.test.ts',
    'test/console/consent.test.ts',
    'test/console/typed-values.test.ts',
    'test/console/hostile-readme.test.ts',
    'test/console/parity.test.ts',
    'test/console/oidc.test.ts',
    'test/console/built-folder.test.ts',
  ],
  [
    'test/supervisor/host/http-attacks.test.ts',
    'test/supervisor/host/ssh.test.ts',
    'test/supervisor/calls/required.test.ts',
    'test/supervisor/delivery/deliveries.test.ts',
  ],
  // These share a service, too.
  ['test/sdk/author.test.ts', 'test/sdk/terminal.test.ts', 'test/sdk/inner-loop.test.ts'],
  // They import three frameworks for agents.
  [
    'test/sdk/adapters.test.ts',
    'test/sdk/serve.test.ts',
    'test/sdk/adapter-guard.test.ts',
    'test/sdk/adapter-calls.test.ts',
    'test/sdk/adapter-turns.test.ts',
    'test/sdk/adapter-refusals.test.ts',
    'test/sdk/adapter-agent-tools.test.ts',
    'test/sdk/adapter-provider-content.test.ts',
    'test/sdk/adapter-openai-responses.test.ts',
    'test/sdk/adapter-fuzz.test.ts',
  ],
  ['test/api/package/zip-rules.test.ts', 'test/api/plugins/races.test.ts', 'test/api/plugins/lifecycle.test.ts'],
  [
    'test/supervisor/children/spawn-cycles.test.ts',
    'test/storm/updates.test.ts',
    'test/supervisor/children/updates.test.ts',
    'test/model/model.test.ts',
  ],
  [
    'test/storm/fail-points-api.test.ts',
    'test/storm/fail-points-supervisor.test.ts',
    'test/storm/database-away.test.ts',
    'test/storm/service.test.ts',
  ],
  [
    'test/supervisor/children/child-connection.test.ts',
    'test/supervisor/cluster/two-supervisors.test.ts',
    'test/supervisor/children/crash.test.ts',
  ],
  ['test/supervisor/jail/jail.test.ts', 'test/supervisor/jail/walls.test.ts', 'test/supervisor/jail/sandbox.test.ts'],
  [
    'test/supervisor/calls/revoked-writes.test.ts',
    'test/supervisor/host/workspace.test.ts',
    'test/supervisor/records/tracing.test.ts',
  ],
  [
    'test/examples/ssh-guard.test.ts',
    'test/end-to-end/demo.test.ts',
    'test/end-to-end/webhooks.test.ts',
    'test/libraries/libraries.test.ts',
    'test/simulation/cluster-simulation.test.ts',
  ],
  [
    'test/api/package/uploads.test.ts',
    'test/api/installations/secret-canaries.test.ts',
    'test/nemesis/nemesis.test.ts',
  ],
  [
    'test/conform/conform.test.ts',
    'test/conform/check-runtime.test.ts',
    'test/conform/account.test.ts',
    'test/conform/mutations.test.ts',
  ],
  [
    'test/corpora/zips.test.ts',
    'test/corpora/foreign-lists.test.ts',
    'test/corpora/semver.test.ts',
    'test/corpora/yaml.test.ts',
    'test/bench/cleanup.test.ts',
    'test/corpora/test262/test262.test.ts',
    // They read the same sources.
    'test/house/architecture.test.ts',
    'test/house/dependencies.test.ts',
  ],
  // Three of them install the packages of an object store.
  [
    'test/deploy/cluster-record.test.ts',
    'test/db/files/shared-blobs.test.ts',
    'test/db/files/blob-streams.test.ts',
    'test/deploy/recovery.test.ts',
    'test/deploy/data-dir-owner.test.ts',
    // Each check of a backup drops what a killed one left on the server, and that of cluster-record.test.ts would do it for these.
    'test/deploy/interrupted-checks.test.ts',
    'test/db/backup/lost-blobs.test.ts',
  ],
  ['test/deploy/local.test.ts', 'test/deploy/prometheus.test.ts', 'test/deploy/no-bubblewrap.test.ts'],
  [
    'test/deploy/replace.test.ts',
    'test/deploy/database-faults.test.ts',
    'test/deploy/debian-packages.test.ts',
    'test/deploy/npm-start.test.ts',
  ],
];
const listAlone = () => amount({ quick: ALONE, soak: [...ALONE, ...ALONE_IN_SOAK] });
const listLongest = () => amount({ quick: LONGEST, soak: LONGEST_IN_SOAK });
/** Every file and room that this schedule names. */
export const NAMED: readonly string[] = [
  ...LONGEST,
  ...LONGEST_IN_SOAK,
  ...ALONE,
  ...ALONE_IN_SOAK,
  ...SOAK_ONLY,
  ...TOGETHER.flat(),
];
/**
 * Few enough that no process runs longer than the longest files. Each further process costs more than a second of processor
 * time: its imports, and a first fixture that V8 has not compiled yet.
 */
const FILES_PER_PROCESS = 26;

/** Which files run in one process, one after the other: small ones of one room, and the long ones named above. */
export function groupFiles(files: readonly string[]): string[][] {
  // A soak run has long ones, in which the imports do not count.
  if (isSoak()) return files.map((file) => [file]);
  const alone = listAlone();
  const isSmall = (file: string): boolean => SMALL_ROOMS.test(file);
  const named = [...LONGEST, ...alone, ...TOGETHER.flat()];
  const isShared = (file: string): boolean => (SHARED_ROOMS.test(file) || isSmall(file)) && !named.includes(file);
  const byRoom = Object.groupBy(files.filter(isShared), (file) => (isSmall(file) ? 'small' : findRoom(file)));
  const groups = Object.values(byRoom).flatMap((inRoom = []) => {
    const processes = Math.ceil(inRoom.length / FILES_PER_PROCESS);
    // Dealt out in turn: neighbours by name are often similar, and similarly long.
    return Array.from({ length: processes }, (_, process) => inRoom.filter((_, at) => at % processes === process));
  });
  const together = TOGETHER.map((group) => group.filter((file) => files.includes(file) && !alone.includes(file)));
  const isAlone = (file: string): boolean => !isShared(file) && !together.flat().includes(file);
  return [...together.filter(({ length }) => length > 0), ...groups, ...files.filter(isAlone).map((file) => [file])];
}

/** `test/db` of `test/db/postgres/pool.test.ts`. */
export function findRoom(file: string): string {
  return file.split('/').slice(0, 2).join('/');
}

export interface Job<T> {
  readonly name: string;
  start(): Promise<T>;
}

/** Runs all jobs, some at a time, and reports each as it ends. */
export async function inOrder<T>(jobs: readonly Job<T>[], report: (result: T) => void): Promise<void> {
  const longest = listLongest();
  const rank = ({ name }: Job<T>): number => (longest.includes(name) ? longest.indexOf(name) : longest.length);
  const last = listAlone();
  const isLast = ({ name }: Job<T>): boolean => last.includes(name);
  const run = async (some: readonly Job<T>[], atOnce: number, whenIdle: number): Promise<void> => {
    const queue = some.values();
    const underWay = new Set<Promise<void>>();
    const start = (job: Job<T>): void => {
      const done = job.start().then(report);
      underWay.add(done);
      done.finally(() => underWay.delete(done)).catch(() => undefined);
    };
    const idle = new IdleMeter();
    for (const job of queue) {
      while (underWay.size >= atOnce) {
        await Promise.race([...underWay, sleep(IDLE_MS, undefined, { ref: false })]);
        if (underWay.size < whenIdle && idle.readShare(IDLE_MS) > IDLE_SHARE) break;
      }
      start(job);
    }
    await Promise.all(underWay);
  };
  const first = jobs.filter((job) => !isLast(job)).toSorted((a, b) => rank(a) - rank(b));
  await run(first, countJobs(), countJobsWhenIdle());
  await run(jobs.filter(isLast), 1, 1);
}

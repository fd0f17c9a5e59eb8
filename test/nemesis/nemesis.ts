/** `npm run nemesis`: two APIs, three supervisors and one PostgreSQL under load, while faults come by a printed seed. */
import { randomInt } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { abortOnSignals, INTERRUPTED_EXIT_CODE } from '../../conform/interruption.ts';
import { completeSearchPath } from '../runner/programs.ts';
import { chooseTemporaryFolder } from '../runner/temporary-folder.ts';
import { faults } from './faults.ts';
import { startPatroniServer, whyNoPatroni } from './patroni-server.ts';
import { formatReport } from './print-report.ts';
import { runNemesis } from './run-nemesis.ts';

/** Compiled modules of the processes, which start often. `npm ci` removes it. */
const COMPILE_CACHE = fileURLToPath(new URL('../../node_modules/.cache/test-compile-cache', import.meta.url));
const SEED_MAX = 2 ** 31 - 1;
const DEFAULT_MINUTES = 30;

const USAGE = `Usage: npm run nemesis -- [--minutes N] [--seed S] [--fault NAME]… [--patience F] [--patroni] [--keep]

Runs two APIs and three supervisors on one PostgreSQL, as separate processes with a folder each, under load:
counters, webhooks over both APIs, events and required guards. Meanwhile faults come, and at the end the
invariants of several owners are judged. Exits with 1 if one is broken, and with 130 after Ctrl-C, when the faults
under way are over and all processes have ended.

  --minutes N   how long faults come; default ${DEFAULT_MINUTES}
  --seed S      repeats the choice of the faults; default: by chance, and printed
  --fault NAME  only this fault; may be given several times
  --patience F  multiplies the time limits, for a machine that is busy with other work; default 1
  --patroni     two PostgreSQL under Patroni with etcd and HAProxy: the machine of the primary is killed
  --keep        keep the folder with logs and ledgers; after a broken invariant it is kept anyway
  --help        this text

Faults:
${faults.map(({ name }) => `  ${name}`).join('\n')}`;

const INTERRUPTED =
  'Interrupted: the faults under way end, then all processes. A second Ctrl-C ends this at once and leaves processes.';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: String(DEFAULT_MINUTES) },
    seed: { type: 'string' },
    fault: { type: 'string', multiple: true, default: [] },
    patience: { type: 'string', default: '1' },
    patroni: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

async function main(interrupted: AbortSignal): Promise<number> {
  const seed = Number(values.seed ?? randomInt(SEED_MAX));
  const [minutes, patience] = [Number(values.minutes), Number(values.patience)];
  const unknown = values.fault.filter((name) => !faults.some((fault) => fault.name === name));
  if (unknown.length > 0) throw new Error(`There is no fault ${unknown.join(', ')}.\n\n${USAGE}`);
  if (!Number.isInteger(seed) || !(minutes > 0) || !(patience > 0))
    throw new Error(`--seed is a whole number, --minutes and --patience are more than 0.\n\n${USAGE}`);
  console.log(`seed ${seed}, ${minutes} minutes: repeat with --seed ${seed}`);
  process.env.NODE_COMPILE_CACHE = COMPILE_CACHE;
  await completeSearchPath({ highAvailability: values.patroni });
  const why = values.patroni && whyNoPatroni();
  if (why) throw new Error(`--patroni: ${why}.`);
  const folder = await mkdtemp(join(await chooseTemporaryFolder(), 'bulkhead-nemesis-'));
  const server = values.patroni ? { startServer: startPatroniServer } : {};
  const options = { seed, minutes, patience, folder, only: values.fault, interrupted, ...server };
  const report = await runNemesis({ ...options, onProgress: (line) => console.log(line) }).catch(async (error) => {
    if (interrupted.aborted && !values.keep) await rm(folder, { recursive: true, force: true });
    else console.log(`Logs and ledgers: ${folder}`);
    throw error;
  });
  const isKept = report.findings.every((finding) => finding.isKept);
  console.log(formatReport(report));
  if (isKept && !values.keep) await rm(folder, { recursive: true, force: true });
  else console.log(`Logs and ledgers: ${folder}`);
  return isKept ? 0 : 1;
}

if (values.help) console.log(USAGE);
else {
  const interrupted = abortOnSignals();
  const onAbort = (): void => console.error(INTERRUPTED);
  interrupted.addEventListener('abort', onAbort, { once: true });
  try {
    process.exitCode = await main(interrupted);
  } catch (error) {
    if (!interrupted.aborted) console.error(error instanceof Error ? error.message : String(error));
    process.exitCode = interrupted.aborted ? INTERRUPTED_EXIT_CODE : 1;
  }
}

/** `npm run -s token -- <user> [--operator]`: prints a bearer token for a user. */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { accountOf, setOperator } from './accounts.ts';
import { DataDirInUseError } from './data-dir.ts';
import { findEmbedded, startEmbedded } from './embedded.ts';
import { openIssuer, userName } from './identity.ts';
import { migrate } from './migrate.ts';
import { openPool } from './pool.ts';
import { parseSettings, readEnvironment, type SharedSettings, sharedSettings } from './settings.ts';

const USAGE = `Usage: npm run -s token -- <user> [--operator]

Prints a bearer token for that user, and nothing else. The account is made if it is new. Works while the service runs
and while it does not.

  --operator   the account becomes an operator's
  --help       this text`;
/** A service that holds DATA_DIR has its database up by then, milliseconds. */
const SERVICE_START_MS = 60_000;
const POLL_MS = 200;

interface Located {
  readonly url: string;
  /** Ends what was started for this command only. */
  release(): Promise<void>;
}

try {
  await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { operator: { type: 'boolean', default: false }, help: { type: 'boolean', default: false } },
  });
  if (values.help) return console.log(USAGE);
  const [user] = positionals;
  if (positionals.length !== 1 || !userName.safeParse(user).success || user === undefined) {
    throw new Error(`Give one user name of 1 to 200 characters.\n\n${USAGE}`);
  }
  const settings = parseSettings(sharedSettings, readEnvironment());
  if (settings.OIDC_ISSUER !== undefined) {
    throw new Error(`OIDC_ISSUER is set: tokens come from ${settings.OIDC_ISSUER}.`);
  }
  const database = await locate(settings);
  try {
    await makeAccount(database.url, user, values.operator);
  } finally {
    await database.release();
  }
  const issuer = await openIssuer(settings.DATA_DIR);
  console.log(await issuer.issue(user));
}

/** The running service's database; where none runs, the embedded one is started for the moment. */
async function locate({ DATABASE_URL, DATA_DIR }: SharedSettings): Promise<Located> {
  if (DATABASE_URL !== undefined) return { url: DATABASE_URL, release: async () => undefined };
  const started = Date.now();
  for (;;) {
    const url = await findEmbedded(DATA_DIR);
    if (url !== null) return { url, release: async () => undefined };
    try {
      const own = await startEmbedded({ dataDir: DATA_DIR, purpose: 'command' });
      return { url: own.url, release: () => own.stop() };
    } catch (error) {
      // A service is just starting: its address will be there soon.
      if (!(error instanceof DataDirInUseError) || Date.now() - started > SERVICE_START_MS) throw error;
      await sleep(POLL_MS);
    }
  }
}

async function makeAccount(url: string, user: string, operator: boolean): Promise<void> {
  await migrate(url);
  const database = openPool(url, { name: 'bulkhead-token', connections: 1, onError: () => undefined });
  try {
    const account = await accountOf(database.pool, user);
    if (operator && !account.operator) await setOperator(database.pool, account.id, true);
  } finally {
    await database.close();
  }
}

/** `npm run -s token -- <user> [--operator]`: prints a bearer token for a user. */
import { parseArgs } from 'node:util';
import { findOrCreateAccount } from '../db/accounts/accounts.ts';
import { appointOperator } from '../db/accounts/moderation.ts';
import { migrate } from '../db/postgres/migrate.ts';
import { openPool } from '../db/postgres/pool.ts';
import { openIssuer, userName } from '../service/identity/tokens.ts';
import { parseSettings, readEnvironment, sharedSettings } from '../service/settings/settings.ts';
import { locateDatabase } from './command-database.ts';

const USAGE = `Usage: npm run -s token -- <user> [--operator]

Prints only a bearer token for that user. Creates the account if it is new. Works whether or not the
service runs.

  --operator   the account becomes an operator's
  --help       this text`;

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
  const database = await locateDatabase(settings);
  try {
    await makeAccount(database.url, user, values.operator);
  } finally {
    await database.release();
  }
  const issuer = await openIssuer(settings.DATA_DIR);
  console.log(await issuer.issue(user));
}

async function makeAccount(url: string, user: string, operator: boolean): Promise<void> {
  await migrate(url);
  const database = openPool(url, { name: 'bulkhead-token', connections: 1, onError: () => undefined });
  try {
    const account = await findOrCreateAccount(database.pool, user);
    if (operator) await appointOperator(database.pool, account);
  } finally {
    await database.close();
  }
}

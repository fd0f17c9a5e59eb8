/** Issues the bearer token of the token command. */
import { parseArgs } from 'node:util';
import { findOrCreateAccount } from '../db/accounts/accounts.ts';
import { changeOperator } from '../db/accounts/moderation.ts';
import { requireMatchingDataDir } from '../db/files/data-dir-record.ts';
import { migrate } from '../db/postgres/migrate.ts';
import { openPool } from '../db/postgres/pool.ts';
import { issueSignInLink } from '../service/identity/console-sessions.ts';
import { openIssuer, userName } from '../service/identity/tokens.ts';
import { parseSettings, publicUrl, type readEnvironment, sharedSettings } from '../service/settings/settings.ts';
import { locateDatabase } from './command-database.ts';
import { actAsOwner } from './data-dir-owner.ts';

const USAGE = `Usage: npm run -s token -- <user> [--operator] [--link]

Prints only a bearer token for that user. Creates the account if it is new. Works whether or not the
service runs.

  --link       print a link that signs in to the console instead: once, within five minutes
  --operator   the account becomes an operator's
  --help       this text`;

/**
 * @param args the arguments of the command
 * @returns the token, the sign-in link or the usage, whichever is asked for
 * @throws with the sentence for the user
 */
export async function issueToken(args: readonly string[], readSettings: typeof readEnvironment): Promise<string> {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      operator: { type: 'boolean', default: false },
      link: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return USAGE;
  const [user] = positionals;
  if (positionals.length !== 1 || !userName.safeParse(user).success || user === undefined) {
    throw new Error(`Give one user name of 1 to 200 characters.\n\n${USAGE}`);
  }
  const settings = parseSettings(sharedSettings, readSettings());
  if (settings.OIDC_ISSUER !== undefined) {
    throw new Error(`OIDC_ISSUER is set: tokens come from ${settings.OIDC_ISSUER}.`);
  }
  actAsOwner(settings.DATA_DIR);
  const database = await locateDatabase(settings);
  try {
    const link = await makeAccount(database.url, {
      user,
      dataDir: settings.DATA_DIR,
      operator: values.operator,
      linkTo: values.link ? publicUrl(settings) : null,
    });
    if (link !== null) return link;
  } finally {
    await database.release();
  }
  const issuer = await openIssuer(settings.DATA_DIR);
  return issuer.issue(user);
}

interface Wanted {
  readonly user: string;
  readonly dataDir: string;
  readonly operator: boolean;
  /** Address of the console that a sign-in link is wanted for. Null: none is. */
  readonly linkTo: string | null;
}

/** @returns the sign-in link, if one is wanted */
async function makeAccount(url: string, { user, dataDir, operator, linkTo }: Wanted): Promise<string | null> {
  await migrate(url);
  const database = openPool(url, { name: 'bulkhead-token', connections: 1, onError: () => undefined });
  try {
    // A token of a new key would be accepted nowhere.
    await requireMatchingDataDir(database.pool, dataDir, true);
    const account = await findOrCreateAccount(database.pool, user);
    if (operator) await changeOperator(database.pool, account.name, true);
    return linkTo === null ? null : await issueSignInLink(database.pool, account.id, linkTo);
  } finally {
    await database.close();
  }
}

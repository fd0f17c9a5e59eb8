/** Issues the bearer token of the token command. */
import { parseArgs } from 'node:util';
import { findOrCreateAccount } from '../db/accounts/accounts.ts';
import { changeOperator } from '../db/accounts/moderation.ts';
import { requireCluster } from '../db/cluster/cluster-record.ts';
import { migrate } from '../db/postgres/migrate.ts';
import { openPool } from '../db/postgres/pool.ts';
import { label } from '../sdk/contract/manifest.ts';
import { issueSignInLink } from '../service/identity/console-sessions.ts';
import { issueRecordedToken } from '../service/identity/recorded-tokens.ts';
import { openIssuer, TOKEN_NAME_MAX_CHARS, userName } from '../service/identity/tokens.ts';
import {
  parseSettings,
  publicUrl,
  type readEnvironment,
  type SharedSettings,
  sharedSettings,
} from '../service/settings/settings.ts';
import { describeMember } from '../service/storage/membership.ts';
import { locateDatabase } from './command-database.ts';
import { actAsOwner } from './data-dir-owner.ts';

const tokenName = label(TOKEN_NAME_MAX_CHARS);

const USAGE = `Usage: npm run -s token -- <user> [--name <name>] [--operator] [--link]

Prints only a bearer token for that user. Creates the account if it is new. Works whether or not the
service runs.

  --name       shown in lists of tokens, such as laptop; by default token
  --link       print a link that signs in to the console instead: once, within five minutes
  --operator   the account becomes an operator's
  --help       this text

To list and revoke tokens: npm run -s operator -- tokens <user>`;

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
      name: { type: 'string', default: 'token' },
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
  const name = tokenName.safeParse(values.name);
  if (!name.success) throw new Error(`--name ${name.error.issues[0]?.message}.`);
  const database = await locateDatabase(settings);
  try {
    return await issue(database.url, {
      user,
      name: name.data,
      settings,
      operator: values.operator,
      linkTo: values.link ? publicUrl(settings) : null,
    });
  } finally {
    await database.release();
  }
}

interface Wanted {
  readonly user: string;
  /** The name of the token. */
  readonly name: string;
  readonly settings: SharedSettings;
  readonly operator: boolean;
  /** Address of the console that a sign-in link is wanted for. Null: a token is wanted. */
  readonly linkTo: string | null;
}

/** @returns the sign-in link or the token */
async function issue(url: string, { user, name, settings, operator, linkTo }: Wanted): Promise<string> {
  await migrate(url);
  const { pool, close } = openPool(url, { name: 'bulkhead-token', connections: 1, onError: () => undefined });
  try {
    // A token of a new key would be accepted nowhere.
    const member = await describeMember(pool, settings);
    await requireCluster(pool, member);
    const account = await findOrCreateAccount(pool, user);
    if (operator) await changeOperator(pool, account.name, true);
    if (linkTo !== null) return await issueSignInLink(pool, account.id, linkTo);
    return await issueRecordedToken(pool, await openIssuer(settings.DATA_DIR, member.keys), { subject: user, name });
  } finally {
    await close();
  }
}

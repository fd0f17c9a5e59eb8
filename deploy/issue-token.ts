/** Issues the bearer token of the token command. */
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { findOrCreateAccount } from '../db/accounts/accounts.ts';
import { changeOperator } from '../db/accounts/moderation.ts';
import { requireClusterForCommand } from '../db/cluster/cluster-record.ts';
import { explainDenied } from '../db/files/data-dir.ts';
import { migrate } from '../db/postgres/migrate.ts';
import { openPool } from '../db/postgres/pool.ts';
import { label } from '../sdk/contract/manifest.ts';
import { issueSignInLink } from '../service/identity/console-sessions.ts';
import { issueRecordedToken } from '../service/identity/recorded-tokens.ts';
import { type Scope, scopeNames, scopes } from '../service/identity/scopes.ts';
import { openIssuer, TOKEN_NAME_MAX_CHARS, userName } from '../service/identity/tokens.ts';
import { createDatabaseFault, requireWholeRestore } from '../service/lifecycle/start-faults.ts';
import {
  parseSettings,
  publicUrl,
  type readEnvironment,
  type SharedSettings,
  sharedSettings,
} from '../service/settings/settings.ts';
import { describeMember } from '../service/storage/membership.ts';
import { type Located, locateDatabase } from './command-database.ts';
import { actAsOwner } from './data-dir-owner.ts';

/**
 * Stricter than `userName`, which also accepts what identity providers choose: two names that look the same must not be two accounts.
 * Macs and other systems type `ö` as one character or as two; the composed form (NFC) is stored.
 */
const accountName = z
  .string()
  .normalize('NFC')
  .pipe(userName.refine((name) => name.trim() === name, 'must not start or end with white space'));
const tokenName = label(TOKEN_NAME_MAX_CHARS);

const SCOPE_LINES = scopeNames.map((name) => `    ${name.padEnd(16)} ${scopes[name]}`).join('\n');
const USAGE = `Usage: npm run -s token -- <user> [--name <name>] [--scopes <scopes>] [--operator] [--link]

Prints only a bearer token for that user, which expires after 30 days. Creates the account if it is
new. Works whether or not the service runs.

  --name       shown in lists of tokens, such as laptop; by default token
  --scopes     what the token may do, such as sessions:read,account:read; by default all that its user may
  --link       print a link that signs in to the console instead: once, within five minutes
  --operator   the account becomes an operator's
  --help       this text

Scopes:
${SCOPE_LINES}

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
      scopes: { type: 'string' },
      operator: { type: 'boolean', default: false },
      link: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return USAGE;
  const [given] = positionals;
  if (positionals.length !== 1 || given === undefined) throw new Error(`Give one user name.\n\n${USAGE}`);
  const named = accountName.safeParse(given);
  if (!named.success) throw new Error(`The user name ${named.error.issues[0]?.message}.`);
  const user = named.data;
  const granted = values.scopes === undefined ? null : parseScopes(values.scopes);
  if (granted && (values.operator || values.link))
    throw new Error('--scopes limits a token that is printed. Leave out --operator and --link.');
  const settings = parseSettings(sharedSettings, readSettings());
  if (settings.OIDC_ISSUER !== undefined) {
    throw new Error(`OIDC_ISSUER is set: tokens come from ${settings.OIDC_ISSUER}.`);
  }
  actAsOwner(settings.DATA_DIR);
  const name = tokenName.safeParse(values.name);
  if (!name.success) throw new Error(`--name ${name.error.issues[0]?.message}.`);
  // The repeated restore of an older release's backup needs a database without tables.
  await requireWholeRestore(settings.DATA_DIR);
  let database: Located | undefined;
  try {
    database = await locateDatabase(settings);
    return await issue(database, {
      user,
      name: name.data,
      scopes: granted,
      settings,
      operator: values.operator,
      linkTo: values.link ? publicUrl(settings) : null,
    });
  } catch (error) {
    throw await explainDenied(error, settings.DATA_DIR);
  } finally {
    await database?.release();
  }
}

/** @throws with the sentence for the user */
function parseScopes(text: string): readonly Scope[] {
  const given = text.split(/[\s,]+/).filter((name) => name !== '');
  const known = scopeNames.filter((name) => given.includes(name));
  const unknown = given.filter((name) => !(known as string[]).includes(name));
  if (unknown.length === 0 && known.length > 0) return known;
  const fault = unknown.length > 0 ? `There is no scope ${unknown.join(', ')}.` : 'Give at least one scope.';
  throw new Error(`${fault} Scopes: ${scopeNames.join(', ')}.`);
}

interface Wanted {
  readonly user: string;
  /** The name of the token. */
  readonly name: string;
  /** Null: it may do all that its user may. */
  readonly scopes: readonly Scope[] | null;
  readonly settings: SharedSettings;
  readonly operator: boolean;
  /** Address of the console that a sign-in link is wanted for. Null: a token is wanted. */
  readonly linkTo: string | null;
}

/** @returns the sign-in link or the token */
async function issue(
  { url, setting }: Located,
  { user, name, scopes: granted, settings, operator, linkTo }: Wanted,
): Promise<string> {
  await migrate(url, { onWait: console.error }).catch((error: unknown) => {
    throw createDatabaseFault(setting, error);
  });
  const { pool, close } = openPool(url, { name: 'bulkhead-token', connections: 1, onError: () => undefined });
  try {
    // A token of a new key would be accepted nowhere.
    const member = await describeMember(pool, settings);
    await requireClusterForCommand(pool, member);
    const account = await findOrCreateAccount(pool, user);
    // Two names may look the same in a list, and a new account is empty.
    if (account.name !== user)
      console.error(
        `“${user}” is an account of another issuer. This is for “${account.name}”, of the built-in issuer.`,
      );
    if (operator) await changeOperator(pool, account.name, true);
    if (linkTo !== null) return await issueSignInLink(pool, account.id, linkTo);
    const issuer = await openIssuer(settings.DATA_DIR, member.keys);
    return await issueRecordedToken(pool, issuer, { subject: user, name, scopes: granted });
  } finally {
    await close();
  }
}

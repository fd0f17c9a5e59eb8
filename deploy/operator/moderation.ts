/** Operator commands that verify authors and block plugins, and list these actions. */
import type { Pool } from 'pg';
import { type Account, findAccountByName } from '../../db/accounts/accounts.ts';
import { changeBlock, verifyAuthor } from '../../db/accounts/moderation.ts';
import { listActions } from '../../db/accounts/operator-actions.ts';
import { hasRow, listValues } from '../../db/postgres/rows.ts';
import { isStorable } from '../../db/postgres/storable-json.ts';
import { findNearName } from '../../service/text/near-name.ts';
import {
  afterOption,
  formatNext,
  makePrintable,
  type OperatorCommand,
  type ParsedArgs,
  readNumber,
  UsageError,
} from './command.ts';

/** Maximum length of a reason, which users see in one line. Characters. */
const REASON_MAX_CHARS = 500;
/** Maximum number of names, the newest ones, that are compared with an unknown one. */
const COMPARED_MAX = 10_000;
/** Maximum number of listed actions. */
const ACTIONS_MAX = 1_000;
/** The greatest number that `readNumber` reads: far more actions than there are. */
const ACTION_ID_MAX = 999_999_999;

const verification = (verified: boolean, doc: string): OperatorCommand => ({
  subjects: ['user'],
  doc,
  async run({ subjects: [given = ''] }, context) {
    const { pool } = await context.currentDatabase();
    const { name: user } = await requireAccount(pool, given);
    await verifyAuthor(pool, user, verified);
    const sentence = verified
      ? `“${user}” is verified: everything they publish shows their identity.`
      : `“${user}” is no longer verified.`;
    return { sentence, fields: { user, verified } };
  },
});
export const verify = verification(true, 'show the user’s identity on everything they publish (tier "verified")');
export const unverify = verification(false, 'stop showing the user’s identity');

export const block: OperatorCommand = {
  subjects: ['slug'],
  doc: 'remove a plugin from the catalog and stop it in every account; users see the reason',
  options: { reason: { type: 'string', value: 'reason', isRequired: true, doc: 'shown to users' } },
  async run(args, context) {
    const [slug = ''] = args.subjects;
    const reason = readReason(args, 'block', 'users see');
    const { pool } = await context.currentDatabase();
    const done = await changeBlock(pool, slug, reason);
    if (!done) throw await createUnknownPluginError(pool, slug);
    const notified = done.changed ? countNotified(done.installations) : 'as before';
    return { sentence: `“${slug}” is blocked: ${reason} (${notified})`, fields: { ...done } };
  },
};

export const unblock: OperatorCommand = {
  subjects: ['slug'],
  doc: 'allow a blocked plugin to run again',
  async run({ subjects: [slug = ''] }, context) {
    const { pool } = await context.currentDatabase();
    const done = await changeBlock(pool, slug, null);
    if (!done) throw await createUnknownPluginError(pool, slug);
    const sentence = done.changed
      ? `“${slug}” is no longer blocked (${countNotified(done.installations)}).`
      : `“${slug}” was not blocked.`;
    return { sentence, fields: { ...done } };
  },
};

export const actions: OperatorCommand = {
  subjects: [],
  doc: 'the actions of operators: time, name, action and reason, newest first',
  options: {
    limit: { type: 'string', value: 'number', doc: `maximum number of lines; ${ACTIONS_MAX} by default` },
    after: afterOption,
  },
  async run(args, context) {
    const limit = readNumber(args, 'limit', ACTIONS_MAX, ACTIONS_MAX);
    const after = readNumber(args, 'after', null, ACTION_ID_MAX);
    const found = await listActions((await context.database()).pool, limit + 1, after);
    const shown = found.slice(0, limit);
    const nextCursor = found.length > limit ? (shown.at(-1)?.id ?? null) : null;
    const lines = shown.map(({ at, by, action, subject, reason }) =>
      makePrintable(`${at}  ${by}  ${action} ${subject}${reason === null ? '' : `: ${reason}`}`),
    );
    if (nextCursor !== null) lines.push(formatNext(nextCursor));
    const sentence = lines.length === 0 ? 'No operator actions yet.' : lines.join('\n');
    return { sentence, fields: { actions: shown, nextCursor } };
  },
};

/** @throws UsageError */
export function readReason(args: ParsedArgs, command: string, seenBy: string): string {
  const text = args.options.reason;
  const reason = typeof text === 'string' ? text.trim() : '';
  if (reason === '') throw new UsageError(`${command} needs --reason "…", which ${seenBy}.`);
  if (reason.length > REASON_MAX_CHARS || !isStorable(reason)) {
    throw new UsageError(`The reason must be one text of at most ${REASON_MAX_CHARS} characters.`);
  }
  return reason;
}

/**
 * The token command stores names in the composed form (NFC); identity providers may choose others.
 *
 * @throws Error that names the account with nearly the same name
 */
export async function requireAccount(pool: Pool, user: string): Promise<Account> {
  const found = (await findAccountByName(pool, user)) ?? (await findAccountByName(pool, user.normalize('NFC')));
  if (found !== null) return found;
  const suggestion = await suggestName(pool, 'SELECT name FROM accounts', user);
  throw new Error(
    `No account is named “${user}”.${suggestion} An account is created when its user signs in for the first time.`,
  );
}

/** @throws Error that names the plugin with nearly the same slug */
export async function requirePlugin(pool: Pool, slug: string): Promise<void> {
  if (!(await hasRow(pool, 'SELECT 1 FROM plugins WHERE slug = $1', [slug])))
    throw await createUnknownPluginError(pool, slug);
}

const createUnknownPluginError = async (pool: Pool, slug: string): Promise<Error> =>
  new Error(`No plugin has the slug “${slug}”.${await suggestName(pool, 'SELECT slug FROM plugins', slug)}`);

/** @param select the names that exist @returns '' if none of those that are compared is near */
async function suggestName(pool: Pool, select: string, name: string): Promise<string> {
  const near = findNearName(name, await listValues<string>(pool, `${select} ORDER BY id DESC LIMIT ${COMPARED_MAX}`));
  return near === null ? '' : ` Did you mean “${near}”?`;
}

const countNotified = (count: number): string => `${count} installation${count === 1 ? '' : 's'} notified`;

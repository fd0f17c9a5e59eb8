/** Operator commands that verify authors and block plugins, and list these actions. */
import type { Pool } from 'pg';
import { type Account, findAccountByName } from '../../db/accounts/accounts.ts';
import { changeBlock, verifyAuthor } from '../../db/accounts/moderation.ts';
import { listActions } from '../../db/accounts/operator-actions.ts';
import { isStorable } from '../../db/postgres/storable-json.ts';
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
    const done = await changeBlock((await context.currentDatabase()).pool, slug, reason);
    if (!done) throw unknownPlugin(slug);
    const notified = done.changed ? countNotified(done.installations) : 'as before';
    return { sentence: `“${slug}” is blocked: ${reason} (${notified})`, fields: { ...done } };
  },
};

export const unblock: OperatorCommand = {
  subjects: ['slug'],
  doc: 'allow a blocked plugin to run again',
  async run({ subjects: [slug = ''] }, context) {
    const done = await changeBlock((await context.currentDatabase()).pool, slug, null);
    if (!done) throw unknownPlugin(slug);
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

/** The token command stores names in the composed form (NFC); identity providers may choose others. @throws Error */
export async function requireAccount(pool: Pool, user: string): Promise<Account> {
  const found = (await findAccountByName(pool, user)) ?? (await findAccountByName(pool, user.normalize('NFC')));
  if (found === null)
    throw new Error(`No account is named “${user}”. An account is created when its user signs in for the first time.`);
  return found;
}

const unknownPlugin = (slug: string): Error => new Error(`No plugin has the slug “${slug}”.`);
const countNotified = (count: number): string => `${count} installation${count === 1 ? '' : 's'} notified`;

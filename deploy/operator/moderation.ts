/** An operator's word on authors and plugins, and the record of it. */
import { blockPlugin, unblockPlugin, verifyAuthor } from '../../db/accounts/moderation.ts';
import { listActions } from '../../db/accounts/operator-actions.ts';
import { isStorable } from '../../db/postgres/storable-text.ts';
import { type Given, numberOf, type OperatorCommand, printable, UsageError } from './command.ts';

/** Users read the reason in one line. Characters. */
const REASON_MAX_CHARS = 500;
/** Actions shown at once. */
const ACTIONS_MAX = 1_000;

const verification = (verified: boolean, doc: string): OperatorCommand => ({
  subjects: ['user'],
  doc,
  async run({ subjects: [user = ''] }, place) {
    if (!(await verifyAuthor((await place.database()).pool, user, verified))) {
      throw new Error(`There is no account “${user}”: one is made by its first sign-in.`);
    }
    const sentence = verified
      ? `“${user}” is verified: everything they publish shows their identity.`
      : `“${user}” is no longer verified.`;
    return { sentence, fields: { user, verified } };
  },
});
export const verify = verification(true, 'show the user’s identity on everything they publish (tier "verified")');
export const unverify = verification(false, 'no longer do so');

export const block: OperatorCommand = {
  subjects: ['slug'],
  doc: 'take a plugin out of the catalog and stop it in every account; users read the reason',
  options: { reason: { type: 'string', value: 'reason', doc: 'what users are told' } },
  async run(given, place) {
    const [slug = ''] = given.subjects;
    const reason = readReason(given);
    const done = await blockPlugin((await place.database()).pool, slug, reason);
    if (!done) throw unknownPlugin(slug);
    return { sentence: `“${slug}” is blocked; ${told(done.installations)}: ${reason}`, fields: { ...done } };
  },
};

export const unblock: OperatorCommand = {
  subjects: ['slug'],
  doc: 'let it run again',
  async run({ subjects: [slug = ''] }, place) {
    const done = await unblockPlugin((await place.database()).pool, slug);
    if (!done) throw unknownPlugin(slug);
    return { sentence: `“${slug}” is not blocked; ${told(done.installations)}.`, fields: { ...done } };
  },
};

export const actions: OperatorCommand = {
  subjects: [],
  doc: 'what operators did: when, who, what and why, newest first',
  options: { limit: { type: 'string', value: 'number', doc: `at most so many; ${ACTIONS_MAX} by default` } },
  async run(given, place) {
    const limit = numberOf(given, 'limit', ACTIONS_MAX, ACTIONS_MAX);
    const found = await listActions((await place.database()).pool, limit);
    const lines = found.map(({ at, by, action, subject, reason }) =>
      printable(`${at}  ${by}  ${action} ${subject}${reason === null ? '' : `: ${reason}`}`),
    );
    const sentence = lines.length === 0 ? 'No operator did anything yet.' : lines.join('\n');
    return { sentence, fields: { actions: found } };
  },
};

function readReason(given: Given): string {
  const text = given.options.reason;
  const reason = typeof text === 'string' ? text.trim() : '';
  if (reason === '') throw new UsageError('A block needs --reason "…": its users are told.');
  if (reason.length > REASON_MAX_CHARS || !isStorable(reason)) {
    throw new UsageError(`The reason must be one text of at most ${REASON_MAX_CHARS} characters.`);
  }
  return reason;
}

const unknownPlugin = (slug: string): Error => new Error(`There is no plugin “${slug}”.`);
const told = (count: number): string => `${count} installation${count === 1 ? '' : 's'} told`;

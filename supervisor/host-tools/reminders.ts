/** Reminders as a service of the host: scheduled here, delivered by `DueReminders`. */
import { randomUUIDv7 } from 'node:crypto';
import {
  deleteReminder,
  findReminder,
  insertReminder,
  type ReminderKey,
  type ReminderRow,
} from '../../db/sessions/reminders.ts';
import { findSession, type Session } from '../../db/sessions/sessions.ts';
import type { Trigger } from '../../db/sessions/turns.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { runHookOrThrow } from '../sessions/hooks.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { createReusedProblem, digestOf } from '../sessions/turn-answers.ts';
import { refuse, requireZone } from './recurrence.ts';

/** Maximum number of reminders of an account that are not over. */
const REMINDERS_MAX = 1_000;
/** How far in the past the first time of a reminder may be, for requests that arrive late. Milliseconds. */
const PAST_MAX_MS = 60_000;

export interface NewReminder extends Pick<ReminderRow, 'text' | 'repeat' | 'zone' | 'to'> {
  readonly id?: string | undefined;
  readonly at: string;
}
/** A reminder as runtimes and agents see it. */
type ReminderAnswer = Omit<ReminderRow, 'digest' | 'position' | 'accountId' | 'sessionId' | 'occurrence' | 'attempts'>;

export function describeReminder(row: ReminderRow): ReminderAnswer {
  const { id, text, to, zone, repeat, startsAt, nextAt, lastAt, lastOutcome, createdAt } = row;
  // The row keeps the number that its last time had.
  const remaining = nextAt === null && row.remaining !== null ? 0 : row.remaining;
  return { id, text, to, zone, repeat, startsAt, nextAt, remaining, lastAt, lastOutcome, createdAt };
}

/** @throws Problem `bad_request`, `cancelled`, `id_reused`, `not_found`, `too_many`, `quota_exceeded` */
export function scheduleReminder(
  services: SessionServices,
  session: Session,
  { id: reminderId = randomUUIDv7(), ...wanted }: NewReminder,
  trigger: Trigger,
): Promise<ReminderAnswer> {
  const key = { sessionId: session.id, reminderId };
  const digest = digestOf([wanted.text, wanted.at, wanted.repeat, wanted.zone, wanted.to]);
  return services.turnLocks.run(`reminder ${session.id} ${reminderId}`, async () => {
    const known = await findScheduled(services, key, digest);
    if (known) return known;
    requireFuture(wanted.at, 'is in the past. Give a time to come');
    requireZone(wanted.zone);
    const readRule = (at: string) =>
      wanted.repeat === null ? null : services.recurrences.read(session.accountId, wanted.repeat, at, wanted.zone);
    let recurrence = await readRule(wanted.at);
    const context = { notifyId: reminderId, notify: wanted };
    const answer = await runHookOrThrow(services, session, 'middleware.notifySchedule', context, trigger);
    await services.faultPoint('reminder.judged');
    const { text, at } = answer.context.notify;
    const { zone, to } = wanted;
    // A plugin may have moved the first time, from which a rule counts.
    if (at !== wanted.at) {
      requireFuture(at, 'was moved into the past by a plugin');
      recurrence = await readRule(at);
    }
    const { rule: repeat, count: remaining } = recurrence ?? { rule: null, count: null };
    const fields = { text, to, zone, repeat, startsAt: at, remaining };
    const made = await insertReminder(services.pool, key, fields, { digest, maxReminders: REMINDERS_MAX });
    await services.faultPoint('reminder.written');
    return made ? describeReminder(made) : explainMissing(services, key, digest);
  });
}

/** The reminder of an earlier request with this id. @throws Problem `id_reused` if that request was another one */
async function findScheduled(
  { pool }: SessionServices,
  key: ReminderKey,
  digest: string,
): Promise<ReminderAnswer | null> {
  const known = await findReminder(pool, key);
  if (known && known.digest !== digest) throw createReusedProblem('a reminder');
  return known && describeReminder(known);
}

/** A reminder that was not added. @returns the one that another supervisor has added meanwhile @throws Problem */
async function explainMissing(services: SessionServices, key: ReminderKey, digest: string): Promise<ReminderAnswer> {
  const known = await findScheduled(services, key, digest);
  if (known) return known;
  if (!(await findSession(services.pool, key.sessionId)))
    throw new Problem('not_found', 'You have no session with this id.');
  throw new Problem('too_many', `The account has ${REMINDERS_MAX} reminders that are not over. Cancel some.`);
}

/** @throws Problem `bad_request` */
function requireFuture(at: string, message: string): void {
  if (Date.parse(at) >= Date.now() - PAST_MAX_MS) return;
  throw refuse('at', message);
}

/** @throws Problem `not_found` */
export async function requireReminder({ pool }: SessionServices, key: ReminderKey): Promise<ReminderRow> {
  const found = await findReminder(pool, key);
  if (!found) throw createUnknownProblem();
  return found;
}

/** Cancels what is to come. Returns the reminder as it was. @throws Problem `not_found` */
export async function cancelReminder(services: SessionServices, key: ReminderKey): Promise<ReminderAnswer> {
  const found = await requireReminder(services, key);
  if (!(await deleteReminder(services.pool, key))) throw createUnknownProblem();
  return describeReminder(found);
}

const createUnknownProblem = () =>
  new Problem('not_found', 'The session has no reminder with this id. List its reminders.');

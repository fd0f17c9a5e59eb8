/** Delivers the reminders that are due, of the accounts that this supervisor owns. */

import type { z } from 'zod';
import { isInterruption } from '../../db/postgres/database-errors.ts';
import type { FencedPool } from '../../db/postgres/pool.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { asAccount } from '../../db/postgres/shares.ts';
import { findConversationKey, findReplyAddress } from '../../db/sessions/conversations.ts';
import {
  advanceReminder,
  type DueReminder,
  listDueReminders,
  postponeReminder,
  type ReminderRow,
} from '../../db/sessions/reminders.ts';
import { appendMessages, type NewMessage, type Session } from '../../db/sessions/sessions.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import type { attachments } from '../../sdk/contract/payloads.ts';
import { skipNotFound } from '../../service/http/errors.ts';
import { within } from '../../service/timing/within.ts';
import { toJudgement } from '../calls/judgement.ts';
import { holdAttachments } from '../calls/message-hook.ts';
import type { OwnedWork, Ownership } from '../cluster/ownership.ts';
import { runMessageHook, runSessionHook } from '../sessions/hooks.ts';
import { queueReply } from '../sessions/replies.ts';
import type { SessionServices } from '../sessions/session-services.ts';
import { digestOf } from '../sessions/turn-answers.ts';
import type { Following } from './recurrence.ts';

/** Interval between two scans for due reminders. Milliseconds. */
const SCAN_MS = 1_000;
/** Maximum reminders of one account per scan, so that those of other accounts are delivered in between. */
const PER_ACCOUNT = 5;
const PER_SCAN = 100;
/** Accounts whose reminders are delivered at once. Most deliveries wait for a plugin. */
const ACCOUNTS_AT_ONCE = 64;
/** An account's turn begins no further reminder after this time. Milliseconds. */
const TURN_MS = 2_000;
/**
 * Backoff while a required plugin does not run, the next time cannot be computed, or the delivery fails with an unexpected error:
 * the first delay in seconds, which doubles with each attempt up to the maximum, and the number of attempts.
 */
const RETRY_S = 15;
const RETRY_MAX_S = 900;
const ATTEMPTS_MAX = 12;
/** The message of a reminder that is found later than this after its time has `late` in its data. Milliseconds. */
const LATE_MS = 60_000;
/** The value of `to` for a reminder to the agent of the session. */
export const TO_AGENT = 'agent';
/** `from` of the messages. */
const SENDER = 'reminder';

export interface DueDeps {
  readonly services: SessionServices;
  readonly ownership: Pick<Ownership, 'begin' | 'listShards'>;
  /** Interval between two scans. Milliseconds. Default: `SCAN_MS`. */
  readonly reminderScanMs?: number | undefined;
  onError(error: Error): void;
}

export class DueReminders {
  readonly #deps: DueDeps;
  /** Accounts whose reminders are being delivered. */
  readonly #busy = new Map<string, Promise<void>>();
  /** Accounts that had a turn. They get the next one when no other account has due reminders. */
  readonly #served = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #isScanning = false;
  #isStopped = false;

  constructor(deps: DueDeps) {
    this.#deps = deps;
    this.#timer = setInterval(() => void this.scan(), deps.reminderScanMs ?? SCAN_MS);
  }

  async scan(): Promise<void> {
    if (this.#isScanning || this.#busy.size >= ACCOUNTS_AT_ONCE) return;
    this.#isScanning = true;
    try {
      let due = await this.#listDue([...this.#busy.keys(), ...this.#served]);
      if (due.length === 0 && this.#served.size > 0) {
        this.#served.clear();
        due = await this.#listDue([...this.#busy.keys()]);
      }
      for (const [accountId, reminders] of Map.groupBy(due, (reminder) => reminder.accountId))
        this.#begin(accountId, reminders);
    } catch (error) {
      this.#deps.onError(error as Error);
    } finally {
      this.#isScanning = false;
    }
  }

  #listDue(leftOut: readonly string[]): Promise<DueReminder[]> {
    const { services, ownership } = this.#deps;
    const shards = ownership.listShards();
    return listDueReminders(services.pool, { shards, leftOut, perAccount: PER_ACCOUNT, limit: PER_SCAN });
  }

  #begin(accountId: string, reminders: readonly DueReminder[]): void {
    const { ownership, onError } = this.#deps;
    // The database may answer a scan after the stop.
    if (this.#isStopped || this.#busy.size >= ACCOUNTS_AT_ONCE) return;
    const work = ownership.begin(accountId);
    if (!work) return;
    this.#served.add(accountId);
    const running = asAccount(accountId, () => this.#deliverAll(reminders, work))
      .catch(onError)
      .finally(() => {
        work.end();
        this.#busy.delete(accountId);
      });
    this.#busy.set(accountId, running);
  }

  /** Begins no further deliveries, and waits for the running ones, at most the grace time in milliseconds. */
  async stop(graceMs: number): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await within(Promise.all(this.#busy.values()), graceMs);
  }

  /** Delivers reminders in the order of their times. */
  async #deliverAll(reminders: readonly DueReminder[], work: OwnedWork): Promise<void> {
    const { services, onError } = this.#deps;
    const writes = { pool: services.pool, fence: work.fence };
    const endsAt = performance.now() + TURN_MS;
    for (const reminder of reminders) {
      if (this.#isStopped || work.isLeaving() || performance.now() > endsAt) return;
      await deliverReminder(services, reminder, writes, onError);
    }
  }
}

/** @throws an error that the account's other reminders would meet, too */
async function deliverReminder(
  services: SessionServices,
  reminder: DueReminder,
  writes: FencedPool,
  onError: (error: Error) => void,
): Promise<void> {
  const { accountId, sessionId, nextAt, foundAt } = reminder;
  // Null: the session was deleted, and its reminders with it.
  const session = await services.sessions.get(accountId, sessionId).catch(skipNotFound);
  if (!session || nextAt === null) return;
  // A later reminder may have the same id, and after a restore from a backup the same position.
  const messageId = `reminder-${digestOf([sessionId, reminder.position, reminder.createdAt])}-${reminder.occurrence}`;
  let following: Following;
  try {
    // Not this process's clock: one that is ahead would take times for missed that have not come.
    following = await services.recurrences.follow(accountId, reminder, nextAt, Date.parse(foundAt));
  } catch (cause) {
    // The rule may still have a next time: on a busy machine, an ordinary rule can exceed the time limit, too.
    onError(new Error(`the next time of reminder ${reminder.id} of session ${sessionId} was not computed`, { cause }));
    const over = { nextAt: null, remaining: reminder.remaining, missed: 0 };
    return retryLater(writes, reminder, { following: over, messageId, why: NOT_COMPUTED });
  }
  const attempted = async (): Promise<string | null> => {
    const judged = await judgeReminder(services, session, reminder, messageId);
    await services.faultPoint('reminder.due-judged');
    if (judged === 'stopped') return NOT_JUDGED;
    await deliverMessage(session, reminder, writes, following, judged);
    return null;
  };
  const why = await attempted().catch(async (error: Error) => {
    if (isAccountWide(error)) throw error;
    if (!isQuotaExceeded(error)) {
      onError(new Error(`reminder ${reminder.id} of session ${sessionId} was not delivered`, { cause: error }));
      return NOT_DELIVERED;
    }
    // This time of the reminder fails instead of waiting for room: it would come later than its user set it.
    await inTransaction(writes, (tx) => advanceReminder(tx, reminder, { ...following, outcome: 'failed' }));
    return null;
  });
  if (why !== null) return retryLater(writes, reminder, { following, messageId, why });
  await services.faultPoint('reminder.delivered');
}

/** Whether the account's other reminders would fail with this error, too. The next scan finds all of them again. */
function isAccountWide(error: unknown): boolean {
  return error instanceof Problem ? error.code === 'unavailable' : isInterruption(error);
}

const isQuotaExceeded = (error: unknown): boolean => error instanceof Problem && error.code === 'quota_exceeded';

/** A message for the transcript, and the files that plugins added to it. */
interface JudgedReminder extends NewMessage {
  readonly attachments: z.infer<typeof attachments>;
  readonly guards: string;
}

/** Runs the hooks of a reminder. @returns null: a plugin cancelled it. `stopped`: a required plugin did not run */
async function judgeReminder(
  services: SessionServices,
  session: Session,
  { id, text, to, repeat, zone, nextAt }: ReminderRow,
  messageId: string,
): Promise<JudgedReminder | null | 'stopped'> {
  const noticeId = `${messageId}:vetoed`;
  const notify = { id, text, to, at: nextAt, repeat, zone };
  const delivery = await runSessionHook(services, session, 'middleware.notifyDeliver', { notify }, 'schedule', {
    noticeId,
  });
  if (delivery.cancelled) return delivery.cancelled.cause === 'failure' ? 'stopped' : null;
  const due = (delivery.context as { notify: typeof notify }).notify.text;
  const none: JudgedReminder['attachments'] = [];
  const message = { id: messageId, text: due, attachments: none };
  const isForAgent = to === TO_AGENT;
  const hook = isForAgent ? 'inboundMessage' : 'outboundMessage';
  // What a channel's session sends goes to its conversation, whatever recipient was given.
  const key = isForAgent || session.channelId === null ? null : await findConversationKey(services.pool, session.id);
  const target = key ?? to;
  const context = isForAgent ? { message: { ...message, from: SENDER } } : { message, target };
  const answer = await runMessageHook(services, session, `middleware.${hook}`, context, 'schedule', { noticeId });
  if (answer.cancelled) return answer.cancelled.cause === 'failure' ? 'stopped' : null;
  const { guards } = answer;
  const { text: judged, attachments } = answer.context.message;
  const role = isForAgent ? 'user' : 'assistant';
  return { id: messageId, text: judged, attachments, role, judgement: toJudgement(hook, answer), guards };
}

/** Adds the message, queues it for the channel, and sets the next time, in one transaction. */
async function deliverMessage(
  session: Session,
  reminder: DueReminder,
  writes: FencedPool,
  following: Following,
  judged: JudgedReminder | null,
): Promise<void> {
  const { id, to, nextAt, foundAt } = reminder;
  const isLate = Date.parse(foundAt) - Date.parse(nextAt ?? '') > LATE_MS;
  const data = {
    kind: 'reminder',
    notifyId: id,
    to,
    from: SENDER,
    dueAt: nextAt,
    ...(isLate ? { late: true, missed: following.missed } : {}),
  };
  await inTransaction(writes, async (tx) => {
    const outcome = judged ? 'delivered' : 'cancelled';
    if (!(await advanceReminder(tx, reminder, { ...following, outcome }))) return;
    const lost = { role: 'notice', text: ENDED, data: { kind: 'reminder_failed', notifyId: id } } as const;
    const notices = following.isLost ? [lost] : [];
    if (!judged) {
      await appendMessages(tx, session.id, notices);
      return;
    }
    const attachments = await holdAttachments(tx, session, judged.attachments);
    const address = judged.role === 'assistant' ? await findReplyAddress(tx, session.id) : null;
    await appendMessages(tx, session.id, [{ ...judged, data: { ...data, attachments } }, ...notices]);
    if (address) await queueReply(tx, address, { ...judged, attachments, trigger: 'schedule' });
  });
}

/** Notices in the transcript for a reminder that was given up. */
const NOT_JUDGED = 'A reminder was not delivered: a plugin that the account requires did not run.';
const NOT_DELIVERED =
  'A reminder was not delivered, because of an internal error. The operator finds the error in the log of the supervisor.';
const NOT_COMPUTED =
  'A reminder was not delivered and has ended: its next time could not be computed. Schedule it again with a simpler rule.';
/** Notice for a reminder whose last time was due. */
const ENDED =
  'A reminder that repeats has ended: its rule comes true too rarely for its next time to be computed. Schedule it again with a simpler rule.';

interface Retry {
  /** What follows when the reminder is given up. */
  readonly following: Following;
  readonly messageId: string;
  readonly why: string;
}

/** Postpones this time of a reminder, or ends it as failed after the last attempt. */
async function retryLater(
  writes: FencedPool,
  reminder: ReminderRow,
  { following, messageId, why }: Retry,
): Promise<void> {
  if (reminder.attempts + 1 < ATTEMPTS_MAX) {
    const seconds = Math.min(RETRY_MAX_S, RETRY_S * 2 ** reminder.attempts);
    return inTransaction(writes, (tx) => postponeReminder(tx, reminder, seconds));
  }
  const data = { kind: 'reminder_failed', notifyId: reminder.id };
  const text = following.isLost ? `${why} ${ENDED}` : why;
  const notice = { id: `${messageId}:failed`, role: 'notice', text, data } as const;
  const end = (hasNotice: boolean): Promise<void> =>
    inTransaction(writes, async (tx) => {
      const isEnded = await advanceReminder(tx, reminder, { ...following, outcome: 'failed' });
      if (isEnded && hasNotice) await appendMessages(tx, reminder.sessionId, [notice]);
    });
  await end(true).catch((error: unknown) => {
    if (!isQuotaExceeded(error)) throw error;
    // The transcript has no room for the notice.
    return end(false);
  });
}

/** `notify__…`: reminders for agents. */
import { z } from 'zod';
import { pageReminders } from '../../db/sessions/reminders.ts';
import { timestamp } from '../../sdk/contract/payloads.ts';
import { storedId, storedText } from '../../service/http/schemas.ts';
import { TO_AGENT } from './due-reminders.ts';
import { defineTool, type HostTool, pageFields, removeOnce } from './host-tool.ts';
import { cancelReminder, describeReminder, scheduleReminder } from './reminders.ts';

const TEXT_MAX_CHARS = 10_000;
const TO_MAX_CHARS = 500;
const REPEAT_MAX_CHARS = 200;
const ZONE_MAX_CHARS = 64;

/** Fields that requests and tools share. */
export const newReminderFields = {
  text: storedText(TEXT_MAX_CHARS).min(1, 'must not be empty'),
  at: timestamp.describe('The first time. ISO 8601 with an offset, such as 2026-01-05T09:00:00Z.'),
  repeat: z
    .string()
    .max(REPEAT_MAX_CHARS)
    .nullable()
    .default(null)
    .describe(
      'An RRULE of RFC 5545 for the times after the first, such as FREQ=WEEKLY;BYDAY=MO,FR;COUNT=10. Null: once.',
    ),
  zone: z
    .string()
    .max(ZONE_MAX_CHARS)
    .default('UTC')
    .describe('The time zone of IANA in which the rule counts, such as Europe/Berlin.'),
  to: storedText(TO_MAX_CHARS)
    .min(1)
    .default('user')
    .describe(
      `\`${TO_AGENT}\`: the agent gets it as a message to work on. Any other text: it is sent to the session’s channel and shown in the transcript.`,
    ),
};

export const notifyTools: readonly HostTool[] = [
  defineTool({
    name: 'notify__schedule',
    description: 'Schedules a reminder, once or repeated.',
    input: z.strictObject(newReminderFields),
    isRepeatable: true,
    run: (services, session, fields, { requestId }) =>
      scheduleReminder(services, session, { ...fields, id: requestId }, 'agent'),
  }),
  defineTool({
    name: 'notify__list',
    description: 'Lists the reminders of this conversation, oldest first. Without `nextAt`, a reminder is over.',
    input: z.strictObject(pageFields),
    isRepeatable: true,
    run: async ({ pool }, { id: sessionId }, query) => {
      const { items, nextCursor } = await pageReminders(pool, { sessionId, ...query });
      return { reminders: items.map(describeReminder), nextCursor };
    },
  }),
  defineTool({
    name: 'notify__cancel',
    description: 'Cancels what is to come of a reminder.',
    input: z.strictObject({ id: storedId.describe('As notify__schedule or notify__list returned it.') }),
    isRepeatable: true,
    run: async (services, { id: sessionId }, { id: reminderId }, call) => ({
      cancelled: await removeOnce(call, reminderId, () => cancelReminder(services, { sessionId, reminderId })),
    }),
  }),
];

/** The representations of channels, deliveries and events. */

import { z } from 'zod';
import type { Channel } from '../../db/channels/channels.ts';
import type { Delivery } from '../../db/channels/delivery-history.ts';
import { withoutSessions } from '../../service/http/console-requests.ts';
import { anyJson, timestamp } from '../../service/http/schemas.ts';
import { describeWait } from './delivery-wait.ts';

export const BODY_SHOWN_BYTES = 65_536;

export const channelResource = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    webhookUrl: z.string().describe('Give it to the vendor. A replaced address stops working at once.'),
    agentId: z.string().describe('The agent that answers in the channel.'),
    connectedAt: timestamp,
  })
  .meta({ id: 'Channel', description: 'A connected vendor inbox of an installation.' });

/** @param webhookUrl the base address of webhooks, without a slash at the end */
export function showChannel(
  { id, name, routingId, agentId, connectedAt }: Omit<Channel, 'installationId'>,
  webhookUrl: string,
): z.output<typeof channelResource> {
  return { id, name, webhookUrl: `${webhookUrl}/webhook/plugin/${routingId}`, agentId, connectedAt };
}

const deliveryFields = {
  id: z.string(),
  channelId: z.string(),
  direction: z.enum(['in', 'out']).describe('in: a webhook request; out: an agent’s reply.'),
  state: z.enum(['pending', 'delivered', 'dead']),
  attempts: z.number(),
  receivedAt: timestamp,
  nextAttemptAt: timestamp
    .nullable()
    .describe('Null while the delivery waits for its installation, and after it is finished.'),
  lastError: z.string().nullable(),
  finishedAt: timestamp.nullable(),
  attempting: z.boolean().describe('Whether an attempt is under way.'),
  setAside: z
    .boolean()
    .describe(
      'It failed twice, or after a replay once, or another replayed one of its queue did: others pass it, and it is attempted on its own schedule.',
    ),
  waitReason: z.string().nullable().describe('Why a pending delivery waits, in one sentence.'),
  waitsFor: z.string().nullable().describe('The delivery that comes first.'),
  method: z.string(),
  query: z.string(),
  bodyBytes: z.number(),
};
export const deliveryResource = z
  .object(deliveryFields)
  .meta({ id: 'Delivery', description: 'One webhook request or reply, with its result.' });
export const deliveryDetail = z
  .strictObject({
    ...deliveryFields,
    headers: z.array(z.tuple([z.string(), z.string()])).describe('As received, in order.'),
    body: z.string().describe('Text if it is UTF-8, else base64.'),
    bodyEncoding: z.enum(['text', 'base64']),
    bodyTruncated: z.boolean().describe(`Whether only the first ${BODY_SHOWN_BYTES} bytes are shown.`),
  })
  .meta({ id: 'DeliveryDetail', description: 'A delivery with its headers and body.' });

export function showDelivery(row: Delivery): z.output<typeof deliveryResource> {
  return { ...row, waitReason: describeWait(row, Date.now()), waitsFor: row.waitsFor?.id ?? null };
}

export function showDeliveryDetail(row: Delivery & { readonly body: Buffer }): z.output<typeof deliveryDetail> {
  const truncated = row.bodyBytes > row.body.byteLength;
  const text = decodeBody(row.body, truncated);
  return {
    ...showDelivery(row),
    headers: withoutSessions(row.headers).map(([name, value]) => [name, value]),
    body: text ?? row.body.toString('base64'),
    bodyEncoding: text === null ? 'base64' : 'text',
    bodyTruncated: truncated,
  };
}

/** Null: not UTF-8. A truncated body may end inside a character. */
function decodeBody(body: Buffer, cut: boolean): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body, { stream: cut });
  } catch {
    return null;
  }
}

export const replayed = z
  .strictObject({ replayed: z.number().describe('How many were made pending again.') })
  .meta({ id: 'Replayed', description: 'The result of replaying many deliveries.' });

export const eventResource = z
  .strictObject({
    id: z.string(),
    type: z.string(),
    state: z.enum(['pending', 'delivered', 'skipped', 'dead']),
    attempts: z.number(),
    occurredAt: timestamp,
    nextAttemptAt: timestamp.nullable(),
    lastError: z.string().nullable(),
    finishedAt: timestamp.nullable(),
    data: anyJson,
  })
  .meta({ id: 'Event', description: 'One lifecycle notification to a plugin, with its result.' });

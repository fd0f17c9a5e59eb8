/** Validates requests about channels, their deliveries and events: parameters, queries and bodies. */
import { z } from 'zod';
import { agentName, pageQuery, storedId, storedText } from '../../service/http/schemas.ts';

const CHANNEL_NAME_MAX_CHARS = 100;

export const newChannel = z.object({
  name: storedText(CHANNEL_NAME_MAX_CHARS).min(1, 'must not be empty').describe('For the user to tell channels apart.'),
  agentId: storedId
    .optional()
    .describe('The agent that answers in the channel. Default: an agent with the id of the channel.'),
  agentName: agentName.optional(),
});
export const channelParams = z.object({ id: z.string(), channelId: z.string() });

export const deliveryParams = z.object({ id: z.string(), deliveryId: z.string() });
export const deliveryQuery = pageQuery.extend({
  channelId: storedId.optional(),
  state: z.enum(['pending', 'delivered', 'dead'], 'must be pending, delivered or dead').optional(),
});
export const replayBody = z.object({
  state: z.enum(['delivered', 'dead'], 'must be delivered or dead'),
  channelId: storedId.optional(),
});

export const eventParams = z.object({ id: z.string(), eventId: z.string() });
export const eventQuery = pageQuery.extend({
  state: z.enum(['pending', 'delivered', 'skipped', 'dead'], 'must be pending, delivered, skipped or dead').optional(),
});

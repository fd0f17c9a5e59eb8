/** The representation of an agent. */

import { z } from 'zod';
import { timestamp } from '../../service/http/schemas.ts';

export const agentResource = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    instructions: z.string(),
    model: z.string().nullable().describe('The preferred model; null: any.'),
    installationId: z.string().nullable().describe('The installation that created it. No other may change it.'),
    slug: z.string().nullable().describe('The slug of that installation’s plugin.'),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'Agent', description: 'An agent that a plugin created in the account with host.agents.' });

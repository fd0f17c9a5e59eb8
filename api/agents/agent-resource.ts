/** Agents as the interface shows them. */

import { z } from 'zod';
import type { OwnedAgent } from '../../db/accounts/agents.ts';
import { timestamp } from '../../service/http/schemas.ts';

export const agentResource = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    instructions: z.string(),
    model: z.string().nullable().describe('The model it wants to be run with; null: whichever.'),
    installationId: z.string().nullable().describe('The installation that made it and alone may change it.'),
    slug: z.string().nullable().describe('Of that installation’s plugin.'),
    createdAt: timestamp,
    updatedAt: timestamp,
  })
  .meta({ id: 'Agent', description: 'An agent that a plugin keeps in the account, through host.agents.' });

export const showAgent = ({ createdAt, updatedAt, ...row }: OwnedAgent): z.output<typeof agentResource> => ({
  ...row,
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
});

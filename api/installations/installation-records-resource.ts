/** The representations of what is recorded about an installation: set-up events, model usage, audit entries. */
import { z } from 'zod';
import { timestamp } from '../../service/http/schemas.ts';

export const setupEvent = z
  .strictObject({ eventId: z.string().describe('The same on every attempt to deliver it.') })
  .meta({ id: 'SetupEvent', description: 'The event that was sent.' });

const usage = {
  answers: z.number().describe('Whole ones; tokens of those that broke off are counted all the same.'),
  inputTokens: z.number(),
  outputTokens: z.number(),
  cost: z.number().describe('At the prices in MODELS_FILE, in the operator’s currency; 0 where none is given.'),
};
export const usageResource = z
  .strictObject({
    total: z.strictObject(usage),
    today: z.strictObject(usage).describe('Since midnight, UTC.'),
    models: z.array(z.strictObject({ model: z.string(), ...usage })),
    days: z.array(z.strictObject({ day: z.iso.date(), ...usage })).describe('Newest first, without empty ones.'),
  })
  .meta({ id: 'Usage', description: 'What an installation spent of the operator’s models through host.llm.' });

export const auditEntryResource = z
  .strictObject({
    id: z.string(),
    at: timestamp,
    installationId: z.string(),
    sessionId: z.string().nullable(),
    invocationId: z.string().nullable(),
    member: z.string().describe('What was called, such as llm.complete.'),
    outcome: z.enum(['ok', 'denied', 'failed', 'timeout', 'cancelled']),
    durationMs: z.number(),
    argumentsSha256: z.string().nullable().describe('Tells equal calls from different ones, and nothing else.'),
    detail: z.string().nullable(),
  })
  .meta({ id: 'AuditEntry', description: 'One call of a plugin through host, made or denied. Kept for 30 days.' });

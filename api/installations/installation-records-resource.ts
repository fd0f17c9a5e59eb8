/** The representations of an installation's set-up events, model usage and audit entries. */
import { z } from 'zod';
import { timestamp } from '../../service/http/schemas.ts';

export const setupEvent = z
  .strictObject({ eventId: z.string().describe('The same on every attempt to deliver it.') })
  .meta({ id: 'SetupEvent', description: 'The event that was sent.' });

const usage = {
  answers: z.number().describe('Complete ones. The tokens of interrupted ones are counted, too.'),
  inputTokens: z.number(),
  outputTokens: z.number(),
  cost: z.number().describe('At the prices in MODELS_FILE, in the operator’s currency; 0 without a price.'),
};
export const usageResource = z
  .strictObject({
    total: z.strictObject(usage),
    today: z.strictObject(usage).describe('Since midnight, UTC.'),
    models: z.array(z.strictObject({ model: z.string(), ...usage })),
    days: z.array(z.strictObject({ day: z.iso.date(), ...usage })).describe('Newest first, without empty ones.'),
  })
  .meta({ id: 'Usage', description: 'The usage of the operator’s models by an installation, through host.llm.' });

export const auditEntryResource = z
  .strictObject({
    id: z.string(),
    at: timestamp,
    installationId: z.string(),
    sessionId: z.string().nullable(),
    invocationId: z.string().nullable(),
    member: z.string().describe('The called member, such as llm.complete.'),
    outcome: z.enum(['ok', 'denied', 'failed', 'timeout', 'cancelled']),
    durationMs: z.number(),
    argumentsSha256: z
      .string()
      .nullable()
      .describe('Equal for calls with equal arguments. Null for a call that was refused before it ran.'),
    detail: z.string().nullable(),
  })
  .meta({ id: 'AuditEntry', description: 'One call of a plugin through host, made or denied. Kept for 30 days.' });

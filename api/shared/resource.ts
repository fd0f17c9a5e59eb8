/** Shapes that several resources share, and the small ones that no folder of their own needs. */
import { z } from 'zod';
import { logLevels } from '../../sdk/contract/protocol.ts';

export const moment = z.iso.datetime();
/** What was checked when it was written, and is not looked through again on every read. */
export const anyJson = z.unknown().meta({ description: 'Any JSON value.' });

/** The body of an answer that has none. */
export const nothing = z.undefined();

export const accountResource = z
  .strictObject({ id: z.string(), name: z.string(), operator: z.boolean() })
  .meta({ id: 'Account', description: 'The account a request acts as.' });

export const setupEvent = z
  .strictObject({ eventId: z.string().describe('The same on every attempt to deliver it.') })
  .meta({ id: 'SetupEvent', description: 'The event that was sent.' });

export const logLineResource = z
  .strictObject({
    id: z.string(),
    at: moment,
    level: z.enum(logLevels),
    message: z.string(),
    data: anyJson.nullable(),
    installationId: z.string(),
    sessionId: z.string().nullable(),
    source: z.string().describe('The handler that wrote it, or system: the host about the plugin.'),
    invocationId: z.string().nullable(),
    versionId: z.string().nullable(),
    semVer: z.string().nullable(),
    truncated: z.boolean(),
  })
  .meta({ id: 'LogLine', description: 'A line a plugin wrote through host.log, or the host about it.' });

const spent = {
  answers: z.number().describe('Whole ones; tokens of those that broke off are counted all the same.'),
  inputTokens: z.number(),
  outputTokens: z.number(),
  cost: z.number().describe('At the prices in MODELS_FILE, in the operator’s currency; 0 where none is given.'),
};
export const usageResource = z
  .strictObject({
    total: z.strictObject(spent),
    today: z.strictObject(spent).describe('Since midnight, UTC.'),
    models: z.array(z.strictObject({ model: z.string(), ...spent })),
    days: z.array(z.strictObject({ day: z.iso.date(), ...spent })).describe('Newest first, without empty ones.'),
  })
  .meta({ id: 'Usage', description: 'What an installation spent of the operator’s models through host.llm.' });

export const auditEntryResource = z
  .strictObject({
    id: z.string(),
    at: moment,
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

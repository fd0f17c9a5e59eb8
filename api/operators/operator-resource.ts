/** Requests and representations of the operator routes. */

import { z } from 'zod';
import { runtimeStates } from '../../db/installations/installation-runtimes.ts';
import { isStorable, UNSTORABLE } from '../../db/postgres/storable-json.ts';
import { jsonBody, page, storedText, timestamp } from '../../service/http/schemas.ts';

/** Maximum number of rows in an answer: a summary for people, not an export. */
export const ROWS_MAX = 200;
/** Also the limit of the operator commands. Characters. */
const REASON_MAX_CHARS = 500;

const SEARCH_MAX_CHARS = 200;

const count = z.number().int().nonnegative();

export const fleetResource = z
  .strictObject({
    children: z.array(
      z.strictObject({
        installationId: z.string(),
        slug: z.string(),
        account: z.string(),
        semVer: z.string().nullable(),
        state: z.enum(runtimeStates),
        restarts: count,
        rssBytes: count.nullable(),
        startedAt: timestamp.nullable(),
        lastExit: z.string().nullable().describe('Why its last child ended unexpectedly.'),
        failedUpdate: z
          .string()
          .nullable()
          .describe('One sentence about the last update, if it failed: an older version runs.'),
      }),
    ),
  })
  .meta({ id: 'Fleet' });

export const costsQuery = z.object({
  hours: z.coerce
    .number({ error: 'must be a whole number' })
    .int('must be a whole number')
    .min(1, 'must be at least 1')
    .max(744, 'must be at most 744')
    .default(24),
  search: storedText(SEARCH_MAX_CHARS)
    .optional()
    .describe('Part of the slug, the name or the author’s name. Default: all plugins.'),
});
export const costsResource = z
  .strictObject({
    plugins: z.array(
      z.strictObject({
        slug: z.string(),
        displayName: z.string(),
        author: z.string(),
        verified: z.boolean(),
        blockedReason: z.string().nullable(),
        installations: count,
        calls: count,
        failures: count.describe('Errors and timeouts.'),
        p50Ms: z.number().nullable(),
        p95Ms: z.number().nullable(),
        restarts: count,
        processorMs: z.number().nonnegative(),
      }),
    ),
  })
  .meta({ id: 'PluginCosts' });

export const queuesResource = z
  .strictObject({
    queues: z.array(
      z.strictObject({
        name: z.string(),
        waiting: count.describe('Without deliveries set aside and work of paused installations.'),
        oldestSeconds: z.number().nonnegative(),
        dead: count.nullable().describe('Dead letters; null for queues without any.'),
      }),
    ),
    deadLetters: z.array(
      z.strictObject({
        id: z.string(),
        kind: z.enum(['delivery', 'event']),
        installationId: z.string(),
        slug: z.string().nullable(),
        what: z.string(),
        attempts: count,
        at: timestamp,
        lastError: z.string().nullable(),
      }),
    ),
  })
  .meta({ id: 'Queues' });

/** @param seenBy who sees the reason */
const reasonBody = (seenBy: string) =>
  jsonBody({
    reason: z
      .string({ error: `must state the reason: ${seenBy}` })
      .refine((reason) => reason.trim() !== '', `must state the reason: ${seenBy}`)
      .max(REASON_MAX_CHARS, `must be at most ${REASON_MAX_CHARS} characters`)
      .refine(isStorable, UNSTORABLE),
  });
export const blockBody = reasonBody('users of the plugin see it');
export const suspensionBody = reasonBody('the user sees it');
export const moderated = z
  .strictObject({ slug: z.string(), blockedReason: z.string().nullable(), installations: count })
  .meta({ id: 'ModeratedPlugin' });
export const verifiedResource = z.strictObject({ name: z.string(), verified: z.boolean() }).meta({ id: 'Author' });
export const nameParams = z.object({ name: z.string() });

export const knownAccount = z
  .strictObject({
    name: z.string(),
    issuer: z.string().describe('Who issues its tokens: bulkhead, or the address of an OpenID Connect issuer.'),
    operator: z.boolean(),
    verified: z.boolean(),
    suspendedReason: z.string().nullable().describe('Why an operator suspended it; null: it is not suspended.'),
    createdAt: timestamp,
  })
  .meta({ id: 'KnownAccount', description: 'An account, for operators.' });
export const accountPage = page(knownAccount);

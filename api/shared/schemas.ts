/** What requests look like, as zod schemas: validation, types and OpenAPI come from here. */
import { z } from 'zod';
import { isStorable } from '../../db/postgres/storable-text.ts';
import { label } from '../../sdk/contract/manifest.ts';
import { logLevels } from '../../sdk/contract/protocol.ts';
import { isLogId } from '../logs/log-tail.ts';

/** Page sizes of lists, rows. */
export const LIMIT_DEFAULT = 100;
export const LIMIT_MAX = 1000;
/** A slug is part of tool names, which models' interfaces keep short. Characters. */
const SLUG_MAX_CHARS = 64;
const DISPLAY_NAME_MAX_CHARS = 100;
const DESCRIPTION_MAX_CHARS = 1000;

const UNSTORABLE = 'must hold no NUL and no half surrogate pair';
const text = (max: number) => z.string().max(max, `must be at most ${max} characters`).refine(isStorable, UNSTORABLE);
/** An id of ours or somebody else's typing: what it is not, it is unknown. */
const id = text(200).min(1, 'must not be empty');

export const idParams = z.object({ id: z.string() });
export const versionParams = z.object({ id: z.string(), versionId: z.string() });
export const slugParams = z.object({ slug: z.string() });
export const pageQuery = z.object({
  limit: z.coerce
    .number({ error: 'must be a whole number' })
    .int('must be a whole number')
    .min(1, 'must be at least 1')
    .max(LIMIT_MAX, `must be at most ${LIMIT_MAX}`)
    .default(LIMIT_DEFAULT),
  cursor: text(1000).optional(),
});
const flag = z.enum(['true', 'false'], 'must be true or false').transform((value) => value === 'true');

export const newPlugin = z.object({
  slug: z
    .string()
    .max(SLUG_MAX_CHARS, `must be at most ${SLUG_MAX_CHARS} characters`)
    .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, 'must be lower-case letters and digits, with single hyphens between them'),
  displayName: label(DISPLAY_NAME_MAX_CHARS),
  description: text(DESCRIPTION_MAX_CHARS).default(''),
});
export const pluginQuery = z.object({ includeFiles: flag.default(false) });
/** `contentText` is judged by the package reader: what is not text has an answer of its own. */
const file = z.object({ path: z.string(), contentText: z.string() });
export const filesBody = z.object({ files: z.array(file) });
export const publishBody = filesBody.extend({ semVer: z.string() });
/** Read by api/package/upload.ts; here for the document. */
export const uploadParts = z.object({
  semVer: z.string(),
  file: z.string().meta({ contentMediaType: 'application/zip', description: 'The package, up to 256 MB.' }),
});
export const delistBody = z.object({ deprecationMessage: text(1000).optional() }).nullish();

export const versionPolicy = z.enum(['Latest', 'Pinned', 'Draft'], 'must be Latest, Pinned or Draft');
export const newInstallation = z.object({
  slug: text(200),
  versionPolicy: versionPolicy.default('Latest'),
  pinnedVersionId: id.optional(),
  versionId: id
    .optional()
    .describe(
      'The version whose access was shown and consented to. Where the policy means another one by now, and that asks ' +
        'for more, the answer is 409 `not_pending` and nothing is installed. Absent: the consent is to what the policy means.',
    ),
});
export const installationChanges = z.object({
  versionPolicy: versionPolicy.optional(),
  pinnedVersionId: id.optional(),
  hookOrder: z.number().int('must be a whole number').min(-1_000_000).max(1_000_000).optional(),
});
const SETTINGS_MAX = 1000;
const few = (value: object) => Object.keys(value).length <= SETTINGS_MAX;
const values = <T extends z.ZodType>(value: T) =>
  z.record(z.string(), value).refine(few, `must hold at most ${SETTINGS_MAX} entries`);
/** Longest values are the manifest's business; this only keeps what cannot be stored away. */
const value = z.string({ error: 'must be a string' }).refine(isStorable, UNSTORABLE);
export const configuration = z.object({
  settings: values(value.nullable()).optional(),
  secrets: values(value.nullable()).optional(),
});
export const acceptBody = z.object({ versionId: id });

export const catalogQuery = pageQuery.extend({ q: text(200).optional() });
const levels = z.enum(logLevels, `must be one of ${logLevels.join(', ')}`);
const logFilter = {
  installationId: id,
  sessionId: id.optional(),
  levels: z.preprocess((given) => (typeof given === 'string' ? [given] : given), z.array(levels).max(10)).optional(),
};
export const logQuery = pageQuery.extend(logFilter);
export const logStreamQuery = z.object(logFilter);
/** The other headers stay as they are. */
export const logStreamHeaders = z.looseObject({
  'last-event-id': z.string().refine(isLogId, 'must be the id of a log line').optional(),
});

const named = text(100).min(1, 'must not be empty');
export const newChannel = z.object({
  name: named.describe('For the user to tell channels apart.'),
  agentId: id.optional().describe('The agent that answers in it; without one, an agent of the channel’s own id.'),
  agentName: text(200).optional(),
});
export const channelParams = z.object({ id: z.string(), channelId: z.string() });
export const deliveryParams = z.object({ id: z.string(), deliveryId: z.string() });
export const eventParams = z.object({ id: z.string(), eventId: z.string() });
export const deliveryQuery = pageQuery.extend({
  channelId: id.optional(),
  state: z.enum(['pending', 'delivered', 'dead'], 'must be pending, delivered or dead').optional(),
});
export const eventQuery = pageQuery.extend({
  state: z.enum(['pending', 'delivered', 'skipped', 'dead'], 'must be pending, delivered, skipped or dead').optional(),
});
export const replayBody = z.object({
  state: z.enum(['delivered', 'dead'], 'must be delivered or dead'),
  channelId: id.optional(),
});

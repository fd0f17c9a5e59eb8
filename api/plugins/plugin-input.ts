/** Validates requests about plugins: parameters, queries and bodies. */
import { z } from 'zod';
import { boundedList } from '../../sdk/contract/bounded-list.ts';
import { SLUG_MAX_CHARS } from '../../sdk/contract/full-names.ts';
import { label } from '../../sdk/contract/manifest.ts';
import { storedText } from '../../service/http/schemas.ts';
import { FILES_MAX } from '../package/package-files.ts';

const DISPLAY_NAME_MAX_CHARS = 100;
const DESCRIPTION_MAX_CHARS = 1000;
const DEPRECATION_MAX_CHARS = 1000;

export const versionParams = z.object({ id: z.string(), versionId: z.string() });

export const newPlugin = z.object({
  slug: z
    .string()
    .max(SLUG_MAX_CHARS, `must be at most ${SLUG_MAX_CHARS} characters`)
    .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, 'must be lower-case letters and digits, with single hyphens between them'),
  displayName: label(DISPLAY_NAME_MAX_CHARS),
  description: storedText(DESCRIPTION_MAX_CHARS).default(''),
});
export const changedPlugin = z.object({
  displayName: label(DISPLAY_NAME_MAX_CHARS).optional(),
  description: storedText(DESCRIPTION_MAX_CHARS).optional(),
});

const flag = z.enum(['true', 'false'], 'must be true or false').transform((value) => value === 'true');
export const pluginQuery = z.object({ includeFiles: flag.default(false) });

/** `contentText` is checked by the package reader, because binary content has its own problem code. */
const file = z.object({ path: z.string(), contentText: z.string() });
const filesBody = z.object({ files: boundedList(file, FILES_MAX) });
export const draftBody = filesBody.extend({
  replaces: z
    .string()
    .nullable()
    .optional()
    .describe(
      '`sourceSha256` of the draft that the client edited. Null: the plugin had no draft. The service answers 409 `draft_changed` if the current draft is another one. Default: the new draft replaces any.',
    ),
});
export const publishBody = filesBody.extend({ semVer: z.string() });

/** For the OpenAPI document only; api/package/upload.ts reads the parts. */
export const uploadParts = z.object({
  semVer: z.string(),
  file: z.string().meta({ contentMediaType: 'application/zip', description: 'The package, up to 256 MB.' }),
});

export const delistBody = z.object({ deprecationMessage: storedText(DEPRECATION_MAX_CHARS).nullish() }).nullish();

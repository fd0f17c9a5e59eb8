/** Validates the bodies of requests about installations. */
import { z } from 'zod';
import { isStorable, UNSTORABLE } from '../../db/postgres/storable-json.ts';
import { boundedRecord } from '../../sdk/contract/bounded-record.ts';
import { SLUG_MAX_CHARS } from '../../sdk/contract/full-names.ts';
import { storedId, storedText } from '../../service/http/schemas.ts';

const SETTINGS_MAX = 1000;

export const versionPolicy = z.enum(['Latest', 'Pinned', 'Draft'], 'must be Latest, Pinned or Draft');

const required = z
  .boolean('must be true or false')
  .describe(
    'true: an operation that one of the plugin’s hooks must see stops when the plugin cannot run, fails or times out. ' +
      'false: the operation continues without the plugin.',
  );

/** Null, which GET returns for the other policies, is the same as none: clients send back what they read. */
const pinnedVersionId = storedId.nullish().describe('The version to pin, with the policy Pinned only.');

export const newInstallation = z.object({
  slug: storedText(SLUG_MAX_CHARS),
  versionPolicy: versionPolicy.default('Latest'),
  pinnedVersionId,
  required: required.default(false),
  versionId: storedId
    .optional()
    .describe(
      'The version that the user consented to. If the policy now selects another version with more capabilities, or a ' +
        'required plugin now lacks one of its hooks, the response is 409 `not_pending` and nothing is installed. ' +
        'Default: the version that the policy selects.',
    ),
});

export const installationChanges = z.object({
  versionPolicy: versionPolicy.optional(),
  pinnedVersionId,
  hookOrder: z.number().int('must be a whole number').min(-1_000_000).max(1_000_000).optional(),
  required: required.optional(),
});

/** Rejects only what the database cannot store. The manifest's limits of each value are checked later. */
const value = z.string({ error: 'must be a string' }).refine(isStorable, UNSTORABLE).nullable();
const values = boundedRecord(value, SETTINGS_MAX);
export const configuration = z.object({
  settings: values.optional(),
  secrets: values.optional(),
  versionId: storedId
    .optional()
    .describe(
      'The version whose secrets the user was shown. If values of secrets are given and this is neither the running version nor ' +
        'that of the update under way, the response is 400 `bad_request` and nothing is saved. Default: the running version.',
    ),
});

export const acceptBody = z.object({ versionId: storedId });
export const changesQuery = z.object({
  versionId: storedId
    .optional()
    .describe(
      'The version that the user is asked about. If the update is another one meanwhile, the response is 409 `not_pending`. ' +
        'Default: the version of the update.',
    ),
});

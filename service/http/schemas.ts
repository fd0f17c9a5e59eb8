/** Schemas that the routes of both applications share: pages, ids, texts and times. */
import { z } from 'zod';
import { isStorable, UNSTORABLE } from '../../db/postgres/storable-json.ts';

const LIMIT_DEFAULT = 100;
export const LIMIT_MAX = 1000;
/** A cursor may have a path of 1,024 bytes and an id, in base64url. */
const CURSOR_MAX_CHARS = 1600;
const ID_MAX_CHARS = 200;

/** A text that the database can store. */
export const storedText = (maxChars: number) =>
  z.string().max(maxChars, `must be at most ${maxChars} characters`).refine(isStorable, UNSTORABLE);

/** An id chosen by the caller, or a Bulkhead id as the caller typed it. */
export const storedId = storedText(ID_MAX_CHARS).min(1, 'must not be empty');

export const idParams = z.object({ id: z.string() });

/** Details of a route that lists with `readFilteredPage`. */
export const FILTERED_PAGES =
  'Large items end a page before limit. Where a filter finds few, a page may be short or empty although others follow: continue while there is a nextCursor.';

/** JavaScript reads other texts as numbers, too, such as `1e2` and the empty one. */
const readDigits = (text: unknown): unknown => (/^-?\d+$/.test(String(text)) ? Number(text) : text);

/** `?limit=` of a list. */
export const pageLimit = (byDefault = LIMIT_DEFAULT) =>
  z.preprocess(
    readDigits,
    z
      .number({ error: 'must be a whole number' })
      .int('must be a whole number')
      .min(1, 'must be at least 1')
      .max(LIMIT_MAX, `must be at most ${LIMIT_MAX}`)
      .default(byDefault),
  );

/** `?limit=&cursor=` of a list. */
export const pageQuery = z.object({
  limit: pageLimit(),
  cursor: storedText(CURSOR_MAX_CHARS).optional(),
});

/** A boolean of a query. It comes as text, and is documented as a boolean, so that a generated client takes one. */
export const queryFlag = z.stringbool().meta({ type: 'boolean' });

/** The response of a list. `nextCursor` is null on the last page. */
export const page = <T extends z.ZodType>(item: T) =>
  z.strictObject({ items: z.array(item), nextCursor: z.string().nullable() });

/** A JSON object as a body. A request without a body sends an empty object, so errors name the missing fields. */
export const jsonBody = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.preprocess((body) => body ?? {}, z.object(shape));

export const timestamp = z.iso.datetime();

/** Validated when it was written; reads do not validate it again. */
export const anyJson = z.unknown().meta({ description: 'Any JSON value.' });

/** A JSON object that was validated when it was written. */
export const anyObject = z
  .custom<Readonly<Record<string, unknown>>>()
  .meta({ type: 'object', additionalProperties: { description: 'Any JSON value.' } });

/** An empty response body. */
export const noContent = z.undefined();

/** The bytes of a file, sent as a stream or a buffer. */
export const fileBytes = z.unknown().meta({ description: 'The exact bytes of the file.' });

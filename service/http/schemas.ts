/** Schemas that the routes of both applications share: pages, ids, texts and times. */
import { z } from 'zod';
import { isStorable, UNSTORABLE } from '../../db/postgres/storable-json.ts';

/** Items of a page, if the request sets no limit. */
export const LIMIT_DEFAULT = 100;
/** Maximum number of items of a page. */
export const LIMIT_MAX = 1000;
/** A cursor may contain a path of 1,024 bytes and an id, in base64url. */
const CURSOR_MAX_CHARS = 1600;
/** As `id` of sdk/contract/payloads.ts, which plugins send. */
const ID_MAX_CHARS = 200;
const AGENT_NAME_MAX_CHARS = 200;

/** A text that the database can store. */
export const storedText = (maxChars: number) =>
  z.string().max(maxChars, `must be at most ${maxChars} characters`).refine(isStorable, UNSTORABLE);

const storedIdOf = (maxChars: number) => storedText(maxChars).min(1, 'must not be empty');

/** An id chosen by the caller, such as an agent's, or a Bulkhead id as the caller typed it. Upper and lower case differ. */
export const storedId = storedIdOf(ID_MAX_CHARS);

/** Clients of HTTP remove these parts of an address before they send it, so no request could name what has such an id. */
const isAddressable = (id: string): boolean => id !== '.' && id !== '..';
const UNADDRESSABLE = 'must not be “.” or “..”, because clients of HTTP remove such a part of an address';

export const newIdOf = (maxChars: number) => storedIdOf(maxChars).refine(isAddressable, UNADDRESSABLE);

/** An id of the caller's own for something new, of which addresses are made. */
export const newId = newIdOf(ID_MAX_CHARS);

export const agentName = storedText(AGENT_NAME_MAX_CHARS);

/** An id in a path is not checked: one that does not exist is a 404. */
export const idParams = z.object({ id: z.string() });

/** Text for the `details` of routes that list with `readFilteredPage`. */
export const FILTERED_PAGES =
  'A page may have fewer items than limit, or none, although others follow: large items end a page early, and a filter may find few. Continue while there is a nextCursor.';

/** Reads a whole number of a query. Leaves other texts to be refused: `Number` alone would accept `1e2` and the empty text. */
export const readDigits = (given: unknown): unknown =>
  typeof given === 'string' && /^-?\d+$/.test(given) ? Number(given) : given;

const limit = z
  .number({ error: 'must be a whole number' })
  .int('must be a whole number')
  .min(1, 'must be at least 1')
  .max(LIMIT_MAX, `must be at most ${LIMIT_MAX}`);

/** `?limit=` of a list. */
export const pageLimit = (byDefault = LIMIT_DEFAULT) => z.preprocess(readDigits, limit.default(byDefault));

/** `?limit=&cursor=` of a list. */
export const pageQuery = z.object({
  limit: pageLimit(),
  cursor: storedText(CURSOR_MAX_CHARS).optional(),
});

/** `?limit=&cursor=` of a list that `pageWholeList` answers. */
export const wholeListQuery = z.object({
  limit: z
    .preprocess(readDigits, limit.optional())
    .describe(`Default: the whole list in one response; with a cursor, ${LIMIT_DEFAULT}.`),
  cursor: storedText(CURSOR_MAX_CHARS).optional(),
});
export type WholeListQuery = z.output<typeof wholeListQuery>;

/** A boolean in a query string. Documented as a boolean, so that generated clients accept one. */
export const queryFlag = z.stringbool().meta({ type: 'boolean' });

/** The response of a list. `nextCursor` is null on the last page. */
export const page = <T extends z.ZodType>(item: T) =>
  z.strictObject({ items: z.array(item), nextCursor: z.string().nullable() });

/** A JSON object as a body. A missing body counts as an empty object, so that errors name the missing fields. */
export const jsonBody = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.preprocess((body) => body ?? {}, z.object(shape));

/** Whether a schema of a body is one of `jsonBody`. The framework validates a missing body as null, so these accept null. */
export const isJsonBody = (schema: unknown): boolean => schema instanceof z.ZodPipe;

export const timestamp = z.iso.datetime();

/** Any JSON value. Validated when it was written, so responses do not validate it again. */
export const anyJson = z.unknown().meta({ description: 'Any JSON value.' });

/** A JSON object that was validated when it was written. */
export const anyObject = z
  .custom<Readonly<Record<string, unknown>>>()
  .meta({ type: 'object', additionalProperties: { description: 'Any JSON value.' } });

/** An empty response body. */
export const noContent = z.undefined();

/** The bytes of a file, sent as a stream or a buffer. */
export const fileBytes = z.unknown().meta({ description: 'The exact bytes of the file.' });

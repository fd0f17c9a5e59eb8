/** Reading what a caller sent: a schema, and every fault named by its field. */
import { z } from 'zod';
import { isStorable } from '../../db/postgres/storable-text.ts';
import { Problem, type ProblemLocation } from '../../sdk/contract/errors.ts';

/** Faults listed at most: enough to mend a request, no mirror of a hostile one. */
const FAULTS_MAX = 20;
const DEFAULT_LIMIT = 100;
const LIMIT_MAX = 1_000;

/** A text that the database can hold. */
export const storedText = (max: number) =>
  z.string().max(max).refine(isStorable, 'must hold no U+0000 and no half surrogate pair');
/** An id of the agent runtime. */
export const storedId = storedText(200).min(1);

/** `?limit=&cursor=` of a list. */
export const pageQuery = z.object({
  limit: z.coerce.number().int().min(1).max(LIMIT_MAX).default(DEFAULT_LIMIT),
  cursor: z.string().max(1_000).optional(),
});

/** Checks a part of a request. @throws Problem `bad_request` */
export function read<Schema extends z.ZodType>(schema: Schema, value: unknown, where = ''): z.output<Schema> {
  const checked = schema.safeParse(value);
  if (checked.success) return checked.data;
  const errors: ProblemLocation[] = checked.error.issues.slice(0, FAULTS_MAX).map((issue) => ({
    field: [...(where ? [where] : []), ...issue.path.map(String)].join('.') || 'body',
    message: issue.message,
  }));
  const first = errors[0];
  throw new Problem('bad_request', `${first?.field}: ${first?.message}.`, { errors });
}

/** Checks a JSON body. No body counts as an empty object, so that a missing field is what is complained about. */
export const readBody = <Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> =>
  read(schema, body ?? {});

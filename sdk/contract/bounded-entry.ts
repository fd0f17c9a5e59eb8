/** The entries of lists and records of untrusted data. */
import { z } from 'zod';

/**
 * Checks one entry of a list or record.
 *
 * @returns the checked entry. Null: it has faults, which are now those of the whole
 */
export function checkEntry(
  schema: z.core.$ZodType,
  [key, value]: readonly [PropertyKey, unknown],
  whole: z.core.ParsePayload,
  context: z.core.ParseContextInternal,
): z.core.ParsePayload | null {
  const entry = schema._zod.run({ value, issues: [] }, context);
  if (entry instanceof Promise) throw new z.core.$ZodAsyncError();
  if (entry.issues.length === 0) return entry;
  whole.issues.push(...z.core.util.prefixIssues(key, entry.issues));
  return null;
}

/** The entries of lists and records of untrusted data. */
import { z } from 'zod';
/**
 * Checks one entry of a list or record.
 *
 * @returns the checked entry. Null: it has faults, which are now those of the whole
 */
export declare function checkEntry(schema: z.core.$ZodType, [key, value]: readonly [PropertyKey, unknown], whole: z.core.ParsePayload, context: z.core.ParseContextInternal): z.core.ParsePayload | null;

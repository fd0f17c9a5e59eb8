/** The envelope of every list. */
import { z } from 'zod';

/** `{items, nextCursor}`; `nextCursor` is null on the last page. */
export const page = <T extends z.ZodType>(item: T) =>
  z.strictObject({ items: z.array(item), nextCursor: z.string().nullable() });

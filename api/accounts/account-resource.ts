/** The representation of an account. */
import { z } from 'zod';

export const accountResource = z
  .strictObject({ id: z.string(), name: z.string(), operator: z.boolean() })
  .meta({ id: 'Account', description: 'The account a request acts as.' });

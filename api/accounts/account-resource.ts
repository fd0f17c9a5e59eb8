/** The representations of an account and of what it keeps. */
import { z } from 'zod';
import { USAGE_KINDS } from '../../sdk/contract/usage-kinds.ts';

export const accountResource = z
  .strictObject({ id: z.string(), name: z.string(), operator: z.boolean() })
  .meta({ id: 'Account', description: 'The account a request acts as.' });

export const storedKindResource = z
  .strictObject({
    kind: z.enum(USAGE_KINDS),
    usedBytes: z.number(),
    limitBytes: z.number().nullable().describe('Null: no quota.'),
    holds: z.string().describe('The things that are counted.'),
    free: z.string().describe('How to make room.'),
  })
  .meta({ id: 'StoredKind', description: 'The bytes of one kind that an account keeps, and its quota.' });

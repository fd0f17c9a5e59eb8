/** The representation of a problem. */
import { z } from 'zod';
import { type ProblemCode, problems } from '../../sdk/contract/errors.ts';

const codes = Object.keys(problems) as [ProblemCode, ...ProblemCode[]];

export const problemResource = z
  .strictObject({
    type: z.string().describe('urn:bulkhead:problem: and the code.'),
    title: z.string(),
    status: z.int(),
    code: z.enum(codes),
    detail: z.string().describe('What happened, where, and what to do next.'),
    requestId: z.string().describe('Also the header x-request-id. The operator finds the cause in the log by it.'),
    errors: z
      .array(
        z.strictObject({
          path: z.string().optional(),
          line: z.int().optional(),
          column: z.int().optional(),
          field: z.string().optional(),
          message: z.string(),
        }),
      )
      .optional()
      .describe('All locations; lines and columns count from 1.'),
  })
  .meta({ id: 'Problem', description: 'Why a request was rejected (RFC 9457).' });

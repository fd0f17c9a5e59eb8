/** Requests and representations of tokens. */
import { z } from 'zod';
import type { IssuedToken } from '../../db/accounts/issued-tokens.ts';
import { label } from '../../sdk/contract/manifest.ts';
import { jsonBody, timestamp } from '../../service/http/schemas.ts';
import { TOKEN_NAME_MAX_CHARS } from '../../service/identity/tokens.ts';

export const tokenResource = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    scopes: z
      .array(z.string())
      .readonly()
      .nullable()
      .describe('The scopes of the token. Null: it allows everything that the account may do.'),
    createdAt: timestamp,
    lastUsedAt: timestamp.nullable().describe('To about five minutes; null: never.'),
    expiresAt: timestamp,
    current: z.boolean().describe('Whether this request was made with it.'),
  })
  .meta({ id: 'Token', description: 'A token that Bulkhead issued. Its text is not kept.' });

export const tokenName = jsonBody({ name: label(TOKEN_NAME_MAX_CHARS) });

export const toTokenResource = (token: IssuedToken, callersId: string | null): z.infer<typeof tokenResource> => ({
  ...token,
  current: token.id === callersId,
});

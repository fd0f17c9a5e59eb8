/** The routes of the caller's tokens. */
import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { pageTokens, renameToken, revokeAllTokens, revokeToken } from '../../db/accounts/issued-tokens.ts';
import { mapPage } from '../../db/postgres/cursors.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { idParams, noContent, page, pageQuery } from '../../service/http/schemas.ts';
import type { Services } from '../services.ts';
import { tokenName, tokenResource, toTokenResource } from './token-resource.ts';

const shapes = {
  list: {
    summary: 'The caller’s tokens that have not expired, newest first',
    details: 'Tokens that Bulkhead issued. An identity provider keeps those that it issues.',
    querystring: pageQuery,
    response: { 200: page(tokenResource) },
  },
  rename: {
    summary: 'Renames a token',
    params: idParams,
    body: tokenName,
    response: { 200: tokenResource },
  },
  revoke: {
    summary: 'Revokes a token',
    details: 'Requests with it are refused at once, and its streams end.',
    params: idParams,
    response: { 204: noContent },
  },
  revokeAll: {
    summary: 'Revokes all of the caller’s tokens',
    details:
      'The one of this request as well, those of an identity provider, and those from before tokens had records.',
    response: { 204: noContent },
  },
} satisfies Record<string, FastifySchema>;

export const unknownToken = () => new Problem('not_found', 'The account has no token with this id.');

export function tokenRoutes({ pool }: Pick<Services, 'pool'>): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Account');

    app.get('/me/tokens', { schema: shapes.list }, async (request) => {
      const { id, tokenId } = requireCaller(request);
      return mapPage(await pageTokens(pool, id, request.query), (token) => toTokenResource(token, tokenId));
    });

    app.patch('/me/tokens/:id', { schema: shapes.rename }, async (request) => {
      const { id, tokenId } = requireCaller(request);
      const renamed = await renameToken(pool, id, request.params.id, request.body.name);
      if (!renamed) throw unknownToken();
      return toTokenResource(renamed, tokenId);
    });

    app.delete('/me/tokens/:id', { schema: shapes.revoke }, async (request, reply) => {
      if (!(await revokeToken(pool, requireCaller(request).id, request.params.id, null))) throw unknownToken();
      return reply.code(204).send();
    });

    app.delete('/me/tokens', { schema: shapes.revokeAll }, async (request, reply) => {
      await revokeAllTokens(pool, requireCaller(request).id, null);
      return reply.code(204).send();
    });
  };
}

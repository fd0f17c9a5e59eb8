/** The routes of the caller's account. */

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { readUsage } from '../../db/accounts/usage.ts';
import { usageKinds } from '../../sdk/contract/usage-kinds.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { page, wholeListQuery } from '../../service/http/schemas.ts';
import { pageWholeList } from '../../service/http/whole-lists.ts';
import type { Services } from '../services.ts';
import { accountResource, storedKindResource } from './account-resource.ts';

export function accountRoutes({ pool }: Pick<Services, 'pool'>): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Account');

    app.get(
      '/me',
      { schema: { summary: 'The caller’s account', response: { 200: accountResource } } },
      async (request) => {
        const { id, name, operator } = requireCaller(request);
        return { id, name, operator };
      },
    );

    app.get(
      '/me/usage',
      {
        schema: {
          summary: 'The storage that the caller’s account uses, with its quotas',
          querystring: wholeListQuery,
          response: { 200: page(storedKindResource) },
        },
      },
      async (request) => {
        const usage = await readUsage(pool, requireCaller(request).id);
        const items = usage.map((one) => ({ ...one, ...usageKinds[one.kind] }));
        return pageWholeList(items, request.query, ({ kind }) => kind);
      },
    );
  };
}

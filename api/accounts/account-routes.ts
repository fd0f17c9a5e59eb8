/** The route of the caller's account. */

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { accountResource } from './account-resource.ts';

export const accountRoutes: FastifyPluginAsyncZod = async (app) => {
  groupRoutes(app, 'Account');
  app.get(
    '/me',
    { schema: { summary: 'The caller’s account', response: { 200: accountResource } } },
    async (request) => {
      const { id, name, operator } = requireCaller(request);
      return { id, name, operator };
    },
  );
};

/** Who the caller is. */

import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { callerOf } from '../../service/http/authentication.ts';
import { accountResource } from './account-resource.ts';

export const accountRoutes: FastifyPluginAsyncZod = async (app) => {
  app.get(
    '/me',
    { schema: { group: 'Account', summary: 'Who the caller is', response: { 200: accountResource } } },
    async (request) => {
      const { id, name, operator } = callerOf(request);
      return { id, name, operator };
    },
  );
};

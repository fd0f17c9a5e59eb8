/** Who the caller is. */
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { callerOf } from '../http/authentication.ts';

const accountResource = z.object({ id: z.string(), name: z.string(), operator: z.boolean() });

export const accountRoutes: FastifyPluginAsyncZod = async (app) => {
  app.get('/me', { schema: { response: { 200: accountResource } } }, async (request) => {
    const { id, name, operator } = callerOf(request);
    return { id, name, operator };
  });
};

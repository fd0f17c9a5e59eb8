/** Routes of the catalog. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { page } from '../../service/http/schemas.ts';
import { LoopSlices } from '../../service/timing/loop-turns.ts';
import type { Services } from '../services.ts';
import { catalogQuery, slugParams } from './catalog-input.ts';
import { readCatalog, readCatalogEntry } from './catalog-queries.ts';
import { catalogEntry, catalogSummary, showEntry, showSummary } from './catalog-resource.ts';

const shapes = {
  list: {
    summary: 'Every listed plugin, and the caller’s own private and delisted ones',
    details:
      'Plugins with many capabilities or a long description end a page before limit: continue while there is a nextCursor.',
    querystring: catalogQuery,
    response: { 200: page(catalogSummary) },
  },
  one: {
    summary: 'One plugin: readme, what it offers and what it can reach',
    params: slugParams,
    response: { 200: catalogEntry },
  },
} satisfies Record<string, FastifySchema>;

export function catalogRoutes(services: Services): FastifyPluginAsyncZod {
  return async (app) => {
    groupRoutes(app, 'Catalog');
    app.get('/marketplace', { schema: shapes.list }, async (request) => {
      const caller = requireCaller(request);
      const found = await readCatalog(services, caller, request.query);
      const slices = new LoopSlices(caller.id);
      const items: ReturnType<typeof showSummary>[] = [];
      for (const row of found.items) {
        await slices.pauseWhenOver();
        items.push(showSummary(row));
      }
      return { items, nextCursor: found.nextCursor };
    });

    app.get('/marketplace/:slug', { schema: shapes.one }, async (request) => {
      const caller = requireCaller(request);
      return showEntry(await readCatalogEntry(services, caller, request.params.slug), caller.id);
    });
  };
}

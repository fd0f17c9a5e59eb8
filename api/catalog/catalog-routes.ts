/** Routes of the catalog. */

import type { FastifySchema } from 'fastify';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { mapPage } from '../../db/postgres/cursors.ts';
import { requireCaller } from '../../service/http/authentication.ts';
import { groupRoutes } from '../../service/http/route-schema.ts';
import { page } from '../../service/http/schemas.ts';
import type { Services } from '../services.ts';
import { catalogQuery, slugParams } from './catalog-input.ts';
import { readCatalog, readCatalogEntry } from './catalog-queries.ts';
import { catalogEntry, catalogSummary, showEntry, showSummary } from './catalog-resource.ts';

const shapes = {
  list: {
    summary: 'Every listed plugin, and the caller’s own private and delisted ones',
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
    app.get('/marketplace', { schema: shapes.list }, async (request) =>
      mapPage(await readCatalog(services, requireCaller(request), request.query), showSummary),
    );

    app.get('/marketplace/:slug', { schema: shapes.one }, async (request) => {
      return showEntry(await readCatalogEntry(services, requireCaller(request), request.params.slug));
    });
  };
}

/** Serves the OpenAPI document and its HTML page. Neither needs a token: they contain no account data. */

import { createHash } from 'node:crypto';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { renderDocumentationPage, STYLE } from './documentation-page.ts';
import type { DocumentBuilder } from './openapi.ts';
import { groupRoutes } from './route-schema.ts';

export const DOCUMENTATION_GROUP = { Documentation: 'This document.' } as const;

const styleHash = createHash('sha256').update(STYLE).digest('base64');
/** The page loads nothing but its own style. */
const POLICY = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** Routes of the document that `buildDocument` makes. */
export const documentationRoutes =
  (buildDocument: DocumentBuilder): FastifyPluginAsyncZod =>
  async (app) => {
    groupRoutes(app, 'Documentation');
    let json: string | undefined;
    let html: string | undefined;

    app.get(
      '/openapi.json',
      {
        schema: {
          summary: 'This interface as OpenAPI 3.1',
          open: true,
          response: { 200: z.unknown() },
        },
      },
      async (_request, reply) => {
        json ??= JSON.stringify(await buildDocument());
        return reply.type('application/json').serializer(String).send(json);
      },
    );

    app.get(
      '/docs',
      {
        schema: {
          summary: 'The same as a page for browsers',
          open: true,
          response: { 200: { content: { 'text/html': { schema: z.string() } } } },
        },
      },
      async (_request, reply) => {
        html ??= renderDocumentationPage(await buildDocument());
        const headers = { 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff' };
        return reply.headers(headers).type('text/html').serializer(String).send(html);
      },
    );
  };

/** The OpenAPI document, and the same for people. Open to everybody: it says nothing of anybody. */
import { createHash } from 'node:crypto';
import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { documentationPage, STYLE } from '../../service/http/documentation-page.ts';
import type { OpenApiDocument } from '../../service/http/openapi.ts';

const styleHash = createHash('sha256').update(STYLE).digest('base64');
/** The page has its own style and nothing else: no script, no image, no other host. */
const POLICY = `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** @param describe makes the document; called when all routes are there */
export function documentationRoutes(describe: () => OpenApiDocument): FastifyPluginAsyncZod {
  return async (app) => {
    let text: string | undefined;
    let html: string | undefined;
    app.get(
      '/openapi.json',
      {
        schema: {
          ...{ group: 'Documentation', summary: 'This interface as OpenAPI 3.1', open: true },
          response: { 200: z.unknown() },
        },
      },
      (_request, reply) => {
        text ??= JSON.stringify(describe());
        return reply.type('application/json').serializer(String).send(text);
      },
    );

    app.get(
      '/docs',
      {
        schema: {
          ...{ group: 'Documentation', summary: 'The same, to be read in a browser', open: true },
          response: { 200: { content: { 'text/html': { schema: z.string() } } } },
        },
      },
      (_request, reply) => {
        html ??= documentationPage(describe());
        void reply.header('content-security-policy', POLICY).type('text/html').serializer(String).send(html);
      },
    );
  };
}

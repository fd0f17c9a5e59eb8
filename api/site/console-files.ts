/** Serves the console: built files that never change under their names, and one page for all other addresses. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance, FastifyReply } from 'fastify';

/** The output of `console/build-console.ts`. */
const DIST = fileURLToPath(new URL('../../console/dist', import.meta.url));
/** Paths of other resources, where an unknown address must answer 404 instead of the page. */
const NO_PAGES = /^\/(api|webhook|assets|docs)(\/|$)/;

/** How files are served whose names contain hashes. */
export const HASHED_FILES = { immutable: true, maxAge: '365d', index: false, preCompressed: true } as const;

export const isConsoleBuilt = (): boolean => existsSync(join(DIST, 'index.html'));

/** @param listConnectOrigins returns the other origins that the page may call, such as the session API and the token issuer */
export async function consoleFiles(app: FastifyInstance, listConnectOrigins: () => readonly string[]): Promise<void> {
  await app.register(fastifyStatic, { root: join(DIST, 'assets'), prefix: '/assets/', ...HASHED_FILES });
  app.get('/icon.svg', { schema: { hide: true } }, (_request, reply) => reply.sendFile('icon.svg', DIST));
  const sendPage = (reply: FastifyReply) => {
    reply.headers({ 'content-security-policy': contentPolicy(listConnectOrigins()), 'cache-control': 'no-cache' });
    return reply.sendFile('index.html', DIST, { cacheControl: false });
  };
  app.get('/', (_request, reply) => sendPage(reply));
  app.get('/*', (request, reply) =>
    NO_PAGES.test(request.url) || !request.headers.accept?.includes('text/html')
      ? reply.callNotFound()
      : sendPage(reply),
  );
}

/** Allows no inline script and no other host's. The component library needs inline styles. */
function contentPolicy(connectOrigins: readonly string[]): string {
  const rules = [
    ["default-src 'self'", "script-src 'self'", "style-src 'self' 'unsafe-inline'", "img-src 'self' data: blob:"],
    [`connect-src 'self' ${connectOrigins.join(' ')}`.trim(), "font-src 'self' data:", "worker-src 'self'"],
    ["object-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ];
  return rules.flat().join('; ');
}

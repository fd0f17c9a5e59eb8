/** The console as the browser gets it: built files that never change under their name, and one page for every address. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

/** What `console/build-console.ts` wrote. */
const DIST = fileURLToPath(new URL('../../console/dist', import.meta.url));
const YEAR_MS = 365 * 24 * 3_600_000;
/** Addresses of something else, where a page would hide that there is nothing. */
const NO_PAGES = /^\/(api|webhook|assets|docs)(\/|$)/;

export const isConsoleBuilt = (): boolean => existsSync(join(DIST, 'index.html'));

/** @param reaches other origins that the page may call, as they are known by now: the session API, the token issuer */
export async function consoleFiles(app: FastifyInstance, reaches: () => readonly string[]): Promise<void> {
  await app.register(fastifyStatic, {
    root: join(DIST, 'assets'),
    prefix: '/assets/',
    // Their names hold their hashes.
    ...{ immutable: true, maxAge: YEAR_MS, index: false, preCompressed: true },
  });
  app.get('/icon.svg', { schema: { hide: true } }, (_request, reply) => reply.sendFile('icon.svg', DIST));
  const page = (request: FastifyRequest, reply: FastifyReply) => {
    if (NO_PAGES.test(request.url) || !request.headers.accept?.includes('text/html')) return reply.callNotFound();
    reply.headers({ 'content-security-policy': contentPolicy(reaches()), 'cache-control': 'no-cache' });
    return reply.sendFile('index.html', DIST, { cacheControl: false });
  };
  app.get('/', page);
  app.get('/*', page);
}

/** No inline script and no other host's. Styles are set inline by the component library, and they can run nothing. */
function contentPolicy(reaches: readonly string[]): string {
  const rules = [
    ["default-src 'self'", "script-src 'self'", "style-src 'self' 'unsafe-inline'", "img-src 'self' data: blob:"],
    [`connect-src 'self' ${reaches.join(' ')}`.trim(), "font-src 'self' data:", "worker-src 'self'"],
    ["object-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
  ];
  return rules.flat().join('; ');
}

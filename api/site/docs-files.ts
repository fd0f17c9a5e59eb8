/** Serves the documentation site that `docs/build-site.ts` built. Needs no token. */
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fastifyStatic from '@fastify/static';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { HASHED_FILES } from './console-files.ts';

const DIST = fileURLToPath(new URL('../../docs/dist', import.meta.url));
const NOT_FOUND = '404.html';
/** Scripts, styles, pictures and fonts of the site only. */
const POLICY = [
  ["default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "font-src 'self'"],
  ["connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
]
  .flat()
  .join('; ');

/**
 * Serves `/docs`, if the site is built.
 *
 * @param sessionApiUrl where the session API has its reference. Null: the page about it is shown
 */
export async function docsFiles(app: FastifyInstance, sessionApiUrl: string | null): Promise<void> {
  if (!existsSync(join(DIST, 'index.html'))) return;
  const pages = new Map(globSync('**/*.html', { cwd: DIST }).map((file) => [file.replace(/\.html$/, ''), file]));
  await app.register(fastifyStatic, { root: join(DIST, 'assets'), prefix: '/docs/assets/', ...HASHED_FILES });
  const sendPage = (reply: FastifyReply, file: string) => {
    reply.headers({ 'content-security-policy': POLICY, 'cache-control': 'no-cache' });
    return reply.sendFile(file, DIST, { cacheControl: false });
  };
  app.get('/docs', { schema: { hide: true } }, (_request, reply) => sendPage(reply, 'index.html'));
  const reference = sessionApiUrl === null ? '/docs/session-api' : `${sessionApiUrl.replace(/\/$/, '')}/docs`;
  app.get('/docs/session-api-reference', { schema: { hide: true } }, (_request, reply) => reply.redirect(reference));
  app.get('/docs/*', { schema: { hide: true } }, (request: FastifyRequest<{ Params: { '*': string } }>, reply) => {
    const name = request.params['*'];
    if (name === '') return reply.redirect('/docs', 301);
    const file = pages.get(name);
    if (file !== undefined && file !== NOT_FOUND) return sendPage(reply, file);
    return request.headers.accept?.includes('text/html') ? sendPage(reply.code(404), NOT_FOUND) : reply.callNotFound();
  });
}

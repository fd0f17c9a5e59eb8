/** Answers requests to unknown addresses (404) and with unsupported methods (405). */
import type { FastifyInstance } from 'fastify';
import { NO_ROUTE, Problem } from '../../sdk/contract/errors.ts';

interface Route {
  readonly method: string;
  readonly pattern: RegExp;
}

/** Records every route that is added from now on, and answers all other requests. */
export function answerUnknownRoutes(app: FastifyInstance): void {
  const routes: Route[] = [];
  const listMethods = (path: string): string[] =>
    routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
  app.addHook('onRoute', ({ method, url }) => {
    const pattern = new RegExp(`^${url.split('/').map(segmentPattern).join('/')}$`);
    for (const one of [method].flat()) routes.push({ method: one, pattern });
  });
  // Fastify's own parsers would read a whole body, without a time limit, before the address is refused. Without a parser the answer
  // is sent at once, and `discardBody` limits what follows. Scopes whose routes read bodies add parsers.
  app.removeAllContentTypeParsers();
  app.setNotFoundHandler((request, reply) => {
    const path = request.url.split('?', 1)[0] ?? '';
    const methods = listMethods(path);
    // A route whose handler finds nothing at the address supports the method.
    if (methods.length === 0 || methods.includes(request.method)) {
      const bare = path.replace(/\/$/, '');
      const hint = bare !== path && listMethods(bare).length > 0 ? ` Use ${bare}, without the slash at its end.` : '';
      throw new Problem('not_found', `${NO_ROUTE}${hint}`);
    }
    const allowed = [...new Set(methods)].sort().join(', ');
    reply.header('allow', allowed);
    throw new Problem('method_not_allowed', `This address does not support ${request.method}. Use ${allowed}.`);
  });
}

const segmentPattern = (segment: string): string =>
  segment.startsWith(':') ? '[^/]+' : segment.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

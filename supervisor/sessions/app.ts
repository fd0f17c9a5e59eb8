/** The session API: what agent runtimes call. Composes routes; `main.ts` listens. */
import { randomUUID } from 'node:crypto';
import cors from '@fastify/cors';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { Problem } from '../../sdk/errors.ts';
import { MIB } from '../../sdk/limits.ts';
import { installCommands } from './commands.ts';
import { installHooks } from './hooks.ts';
import { installLifecycle } from './lifecycle.ts';
import { installMedia } from './media.ts';
import { installProblems } from './problems.ts';
import { installProviders } from './providers.ts';
import { installReplies } from './replies.ts';
import type { SessionServices } from './services.ts';
import { installSkills } from './skills.ts';
import { installStream } from './stream.ts';
import { installTools } from './tools.ts';
import { installTranscripts } from './transcripts.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the authentication hook of the session API. */
    accountId: string;
  }
}

const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]+=*) *$/i;
/** A compaction carries whole conversations. */
const BODY_MAX_BYTES = 16 * MIB;
/** A call may honestly take a provider's 120 s; a connection that is idle longer is closed. Milliseconds. */
const KEEP_ALIVE_MS = 75_000;

/** How long a browser remembers that it may call, seconds. */
const PREFLIGHT_S = 600;

/**
 * Builds the session API.
 *
 * @param consoleOrigin the one other origin whose pages may call it; null: none may
 */
export function buildSessionApi(
  services: SessionServices,
  logger: FastifyBaseLogger,
  consoleOrigin: string | null = null,
): FastifyInstance {
  const app = Fastify({
    loggerInstance: logger,
    // A hook call is logged by nobody: its trace is its answer.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_MAX_BYTES,
    keepAliveTimeout: KEEP_ALIVE_MS,
    genReqId: () => randomUUID(),
    requestIdHeader: false,
    // `forceCloseConnections: idle` lets a drain end as soon as the running calls have.
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: 500 },
  });
  installProblems(app);
  if (consoleOrigin !== null) {
    app.register(cors, { origin: consoleOrigin, methods: ['GET', 'POST', 'DELETE'], maxAge: PREFLIGHT_S });
  }
  app.decorateRequest('accountId', '');
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id);
    const token = BEARER.exec(request.headers.authorization ?? '')?.[1];
    if (token === undefined) {
      throw new Problem('unauthenticated', 'Send the header “Authorization: Bearer <token>”.');
    }
    request.accountId = (await services.signIn.signIn(token)).id;
  });
  installLifecycle(app, services);
  installStream(app, services);
  installTranscripts(app, services);
  installReplies(app, services);
  installHooks(app, services);
  installTools(app, services);
  installCommands(app, services);
  installSkills(app, services);
  installProviders(app, services);
  installMedia(app, services);
  return app;
}

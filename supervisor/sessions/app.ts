/** The session API: what agent runtimes call. Composes routes; `main.ts` listens. */
import { randomUUID } from 'node:crypto';
import cors from '@fastify/cors';
import Fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { MIB } from '../../sdk/contract/limits.ts';
import { callerOf, requireSignIn } from '../../service/http/authentication.ts';
import { AnonymousRateLimiter } from '../../service/http/rate-limits.ts';
import { RELEASE } from '../../service/settings/release.ts';
import { installInspector, isInspectorPath } from '../children/inspector/route.ts';
import { installMcp } from '../mcp/route.ts';
import { installCommands } from './commands.ts';
import { installDraftTrials } from './draft-trials.ts';
import { installHooks } from './hooks.ts';
import { installLifecycle } from './lifecycle.ts';
import { installMedia } from './media-download.ts';
import { installProblems } from './problems.ts';
import { installProviders } from './providers.ts';
import { installReplies } from './replies.ts';
import { traceRequests } from './request-trace.ts';
import type { SessionServices } from './session-services.ts';
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

/** A compaction carries whole conversations. */
const BODY_MAX_BYTES = 16 * MIB;
/** A call may honestly take a provider's 120 s; a connection that is idle longer is closed. Milliseconds. */
const KEEP_ALIVE_MS = 75_000;

/** How long a browser remembers that it may call, seconds. */
const PREFLIGHT_S = 600;

/** The default of `SessionCallers.anonymous`. */
const ANONYMOUS_PER_MINUTE = 600;

/** Who may call, from where. */
export interface SessionCallers {
  /** The one other origin whose pages may call it. Absent: none may. */
  readonly consoleOrigin?: string | undefined;
  /** Reverse proxies whose `X-Forwarded-For` is believed: addresses and networks. Absent: none. */
  readonly trustProxy?: readonly string[] | undefined;
  /** Requests per minute of one address without a valid token. */
  readonly anonymous?: number | undefined;
}

/** Builds the session API. */
export function buildSessionApi(
  services: SessionServices,
  logger: FastifyBaseLogger,
  { consoleOrigin, trustProxy = [], anonymous = ANONYMOUS_PER_MINUTE }: SessionCallers = {},
): FastifyInstance {
  const app = Fastify({
    loggerInstance: logger,
    // A hook call is logged by nobody: its trace is its answer.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: BODY_MAX_BYTES,
    keepAliveTimeout: KEEP_ALIVE_MS,
    trustProxy: trustProxy.length > 0 ? [...trustProxy] : false,
    genReqId: () => randomUUID(),
    requestIdHeader: false,
    // `forceCloseConnections: idle` lets a drain end as soon as the running calls have.
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: 500 },
    ...(services.inspections.allowed ? { http: { shouldUpgradeCallback: isInspectorPath } } : {}),
  });
  installProblems(app);
  if (consoleOrigin !== undefined) {
    app.register(cors, { origin: consoleOrigin, methods: ['GET', 'POST', 'DELETE'], maxAge: PREFLIGHT_S });
  }
  app.decorateRequest('accountId', '');
  app.addHook('onRequest', async (request, reply) => void reply.header('x-request-id', request.id));
  requireSignIn(app, services.signIn, new AnonymousRateLimiter(anonymous));
  app.addHook('onRequest', async (request) => {
    request.accountId = callerOf(request).id;
  });
  app.addHook('onResponse', async (request, reply) => {
    const { method, routeOptions } = request;
    services.metrics.sessionAnswered(method, routeOptions.url, reply.statusCode, reply.elapsedTime);
  });
  app.addHook('onSend', async ({ method }) => {
    if (method !== 'GET') services.faultPoint('session.answering');
  });
  traceRequests(app);
  installRoutes(app, services);
  return app;
}

function installRoutes(app: FastifyInstance, services: SessionServices): void {
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
  installMcp(app, services, RELEASE);
  installDraftTrials(app, services);
  installInspector(app, services.inspections);
}

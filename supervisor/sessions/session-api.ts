/** Builds the session API for agent runtimes. */
import cors from '@fastify/cors';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { MIB } from '../../sdk/contract/limits.ts';
import { createApplication, serveAccounts } from '../../service/http/application.ts';
import { describeConsole } from '../../service/http/console-requests.ts';
import { DOCUMENTATION_GROUP, documentationRoutes } from '../../service/http/documentation-routes.ts';
import { documentRoutes } from '../../service/http/openapi.ts';
import {
  type AccountLimits,
  AnonymousRateLimiter,
  limitAccounts,
  limitAnonymous,
} from '../../service/http/rate-limits.ts';
import { inspectorRoutes, isInspectorPath } from '../children/inspector/route.ts';
import { serveOwnAccounts } from '../cluster/account-router.ts';
import { mailRoutes } from '../host-tools/mail-routes.ts';
import { reminderRoutes } from '../host-tools/reminder-routes.ts';
import { sshHostRoutes } from '../host-tools/ssh-host-routes.ts';
import { sshRoutes } from '../host-tools/ssh-routes.ts';
import { todoRoutes } from '../host-tools/todo-routes.ts';
import { mcpRoutes } from '../mcp/route.ts';
import { toOpenAiError } from './chat-completions.ts';
import { chatRoutes } from './chat-routes.ts';
import { commandRoutes } from './command-routes.ts';
import { draftRoutes } from './draft-routes.ts';
import { hookRoutes } from './hook-routes.ts';
import { mediaRoutes } from './media-routes.ts';
import { providerRoutes } from './provider-routes.ts';
import { sessionRoutes } from './session-routes.ts';
import type { SessionServices } from './session-services.ts';
import { skillRoutes } from './skill-routes.ts';
import { toolRoutes } from './tool-routes.ts';
import { transcriptRoutes } from './transcript-routes.ts';
import { turnRoutes } from './turn-routes.ts';

/** A transcript's messages and a compaction carry whole conversations; calls of hooks and tools set `CALL_BODY_MAX_BYTES`. */
const BODY_MAX_BYTES = 4 * MIB;
/** One account may fill a quarter. While it is parsed and stored, a body takes about four times its bytes. */
const BODIES_IN_FLIGHT = { processBytes: 64 * MIB, accountBytes: 16 * MIB };
/** Idle time after which a kept-alive connection is closed. Milliseconds. */
const KEEP_ALIVE_MS = 75_000;
/** How long a browser caches the CORS preflight. Seconds. */
const PREFLIGHT_S = 600;
const ANONYMOUS_PER_MINUTE = 600;
const UNLIMITED: AccountLimits = { reads: 1e9, writes: 1e9 };

/** Tags of the OpenAPI document. */
const GROUPS = {
  Sessions: 'Conversations of agents and their transcripts.',
  Turns:
    'The steps of an agent’s turn. Plugins judge each step before it takes effect, the service stores it, and a repeated request with the same id returns the stored result.',
  Hooks: 'The points of an agent’s turn at which plugins read, change or cancel something.',
  Tools: 'Tools of plugins and of the host, for the agent’s model.',
  Services: 'Services of the host for agents and people: to-dos, reminders, mail, SSH. Their hooks run by themselves.',
  Commands: 'Commands of plugins, for users.',
  Skills: 'Instructions of plugins that an agent reads when a task calls for them.',
  Providers: 'Models of plugins.',
  Media: 'Files behind the attachments of messages.',
  MCP: 'A session as a server of the Model Context Protocol.',
  Drafts: 'For authors: test your own installed draft.',
  ...DOCUMENTATION_GROUP,
};

export interface SessionApiOptions {
  /** Address at which clients reach the session API, without a slash at the end. Default: none, for tests. */
  readonly url?: string | undefined;
  /** Address of the console and the guides. Pages of its origin may call the session API. Default: no page may. */
  readonly consoleUrl?: string | undefined;
  /** How long the user of an MCP client has to answer a question. Milliseconds. Default: 45 s. */
  readonly mcpQuestionMs?: number | undefined;
  /** Time between interim responses to a request that lasts. Milliseconds. Default: 240 s. */
  readonly interimMs?: number | undefined;
  /** Domain of the console's cookie. Default: the host of the console. */
  readonly cookieDomain?: string | undefined;
  /** Reverse proxies whose `X-Forwarded-For` is used: addresses and networks. Default: none. */
  readonly trustProxy?: readonly string[] | undefined;
  /** Requests per minute of one address without a valid token. Default: 600. */
  readonly anonymousPerMinute?: number | undefined;
  /** Default: no limit, for tests. */
  readonly accountLimits?: AccountLimits | undefined;
}

/** Builds the application; the caller listens, injects and closes. */
export async function buildSessionApi(
  services: SessionServices,
  logger: FastifyBaseLogger,
  {
    url = '/',
    consoleUrl,
    mcpQuestionMs,
    interimMs,
    cookieDomain,
    trustProxy,
    anonymousPerMinute = ANONYMOUS_PER_MINUTE,
    accountLimits = UNLIMITED,
  }: SessionApiOptions = {},
): Promise<FastifyInstance> {
  const app = createApplication({
    logger,
    trustProxy,
    bodyMaxBytes: BODY_MAX_BYTES,
    errorForm: { below: '/v1/', toBody: toOpenAiError },
    interimMs,
    server: {
      keepAliveTimeout: KEEP_ALIVE_MS,
      ...(services.inspections.allowed ? { http: { shouldUpgradeCallback: isInspectorPath } } : {}),
    },
    onResponse: services.metrics.sessionAnswered,
  });
  app.addHook('onSend', async ({ method }) => {
    if (method !== 'GET') await services.faultPoint('session.answering');
  });
  const buildDocument = documentRoutes(app, {
    title: 'Bulkhead session API',
    description: 'The interface for agent runtimes: hooks, tools, commands, skills and models of plugins.',
    prefix: '',
    url,
    guidesUrl: `${consoleUrl ?? ''}/docs`,
    groups: GROUPS,
  });
  const anonymous = new AnonymousRateLimiter(anonymousPerMinute);
  const site = consoleUrl === undefined ? null : describeConsole(consoleUrl, cookieDomain);
  if (site !== null) {
    const { origin } = site;
    await app.register(cors, {
      origin,
      credentials: true,
      methods: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
      maxAge: PREFLIGHT_S,
      // Otherwise it answers OPTIONS without the headers of a preflight with a text that is no problem.
      strictPreflight: false,
    });
  }
  await app.register(async (scope) => {
    const scopes = { read: 'sessions:read', write: 'sessions:write' } as const;
    const { signIn } = services;
    serveAccounts(scope, { signIn, anonymous, bodiesInFlight: BODIES_IN_FLIGHT, site, scopes });
    serveOwnAccounts(scope, services.router);
    limitAccounts(scope, accountLimits);
    await scope.register(sessionRoutes(services));
    await scope.register(transcriptRoutes(services));
    await scope.register(turnRoutes(services));
    await scope.register(hookRoutes(services));
    await scope.register(toolRoutes(services));
    await scope.register(todoRoutes(services));
    await scope.register(reminderRoutes(services));
    await scope.register(mailRoutes(services));
    await scope.register(sshRoutes(services));
    await scope.register(sshHostRoutes(services));
    await scope.register(commandRoutes(services));
    await scope.register(skillRoutes(services));
    await scope.register(providerRoutes(services));
    await scope.register(chatRoutes(services));
    await scope.register(mediaRoutes(services));
    await scope.register(mcpRoutes(services, consoleUrl ?? '', mcpQuestionMs));
    await scope.register(draftRoutes(services));
    await scope.register(inspectorRoutes(services));
  });
  await app.register(async (scope) => {
    limitAnonymous(scope, anonymous);
    await scope.register(documentationRoutes(buildDocument));
  });
  return app;
}

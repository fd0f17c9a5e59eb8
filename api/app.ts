/** Builds the HTTP application from what it works with. Listens to nothing and reads no environment. */
import { randomUUIDv7 } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import helmet, { type FastifyHelmetOptions } from '@fastify/helmet';
import multipart from '@fastify/multipart';
import fastify, { type FastifyBaseLogger, type FastifyInstance, LogController } from 'fastify';
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod';
import { isStorable } from '../db/postgres/storable-text.ts';
import { Problem } from '../sdk/contract/errors.ts';
import { MIB } from '../sdk/contract/limits.ts';
import { requireSignIn } from '../service/http/authentication.ts';
import { answerClientError } from '../service/http/client-errors.ts';
import { answerError } from '../service/http/errors.ts';
import { readJsonBodies } from '../service/http/json-body.ts';
import { noteRoutes } from '../service/http/openapi.ts';
import {
  type AccountLimits,
  AnonymousRateLimiter,
  limitAccounts,
  limitAnonymous,
} from '../service/http/rate-limits.ts';
import { answerUnknownRoutes } from '../service/http/unknown-routes.ts';
import type { SignIn } from '../service/identity/sign-in.ts';
import { withLogIds } from '../service/telemetry/log-ids.ts';
import { accountRoutes } from './accounts/account-routes.ts';
import { type SignInFacts, signInRoutes } from './accounts/sign-in-routes.ts';
import { agentRoutes } from './agents/agent-routes.ts';
import { catalogRoutes } from './catalog/catalog-routes.ts';
import { channelRoutes } from './channels/channel-routes.ts';
import { isWebhook } from './ingress/ingress.ts';
import { installationRoutes } from './installations/installation-routes.ts';
import { updateRoutes } from './installations/update-routes.ts';
import { logRoutes } from './logs/log-routes.ts';
import { operatorRoutes } from './operators/operator-routes.ts';
import { createUploadLimiter } from './package/upload-limiter.ts';
import { agentPluginRoutes } from './plugins/agent-plugin-routes.ts';
import { fileRoutes } from './plugins/file-routes.ts';
import { releaseRoutes } from './plugins/plugin-lifecycle-routes.ts';
import { pluginRoutes } from './plugins/plugin-routes.ts';
import type { Services } from './shared/services.ts';
import { consoleFiles, isConsoleBuilt } from './site/console-files.ts';
import { docsFiles } from './site/docs-files.ts';
import { documentationRoutes } from './site/documentation-routes.ts';
import { landingPage } from './site/landing-page.ts';
import type { Metrics } from './telemetry/metrics.ts';

/** Paths of the REST interface start with it. */
export const API_PREFIX = '/api';
/** Bodies but for packages: nothing else is long. Bytes. */
const BODY_MAX_BYTES = MIB;
/** An upload of 256 MB over a slow line takes its time. Milliseconds. */
const REQUEST_TIMEOUT_MS = 30 * 60_000;
/** A connection on which nothing moves, milliseconds. Above the longest a publish waits for its build. */
const IDLE_TIMEOUT_MS = 120_000;

/** An idle connection is kept for its next request so long: a little over a minute, as proxies do. Milliseconds. */
const KEEP_ALIVE_MS = 72_000;

export interface AppDeps {
  readonly services: Services;
  readonly signIn: SignIn;
  readonly metrics: Pick<Metrics, 'answered'>;
  readonly logger: FastifyBaseLogger;
  readonly limits: AccountLimits & {
    /** Requests per minute of one address without a valid token. */
    readonly anonymous: number;
    readonly uploadsAtOnce: number;
    readonly installationsPerAccount: number;
  };
  /** Reverse proxies whose `X-Forwarded-For` is believed: addresses and networks. Absent: none. */
  readonly trustProxy?: readonly string[];
  /** As users reach the service, without a slash at the end. */
  readonly publicUrl: string;
  /** Answers the webhook address. Absent: there is none. */
  readonly webhooks?: RequestListener;
  /** For the console. Absent: there is none, and tokens are pasted. */
  readonly signInFacts?: SignInFacts;
  /** Told at each step; a test's may end the process there. */
  passes?(step: string): void;
  /** Origins at which the issuer of `signInFacts` is called from the console's page. Absent: its address only. */
  readonly issuerOrigins?: () => readonly string[];
}

/** Builds the application; the caller listens, injects and closes. */
export async function buildApp(deps: AppDeps): Promise<FastifyInstance> {
  const app = fastify({
    loggerInstance: deps.logger,
    genReqId: () => randomUUIDv7(),
    bodyLimit: BODY_MAX_BYTES,
    trustProxy: deps.trustProxy?.length ? [...deps.trustProxy] : false,
    // Two lines a request say nothing that the metrics do not; failures are logged where they are answered.
    logController: new LogController({ disableRequestLogging: true }),
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionTimeout: IDLE_TIMEOUT_MS,
    // While draining, requests on open connections are still answered.
    return503OnClosing: false,
    frameworkErrors: answerError,
    clientErrorHandler: answerClientError,
    routerOptions: { maxParamLength: 200 },
    ...(deps.webhooks ? { serverFactory: withWebhooks(deps.webhooks) } : {}),
  });
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(serializerCompiler);
  app.setErrorHandler(answerError);
  answerUnknownRoutes(app);
  const describe = noteRoutes(app, API_PREFIX, `${deps.publicUrl}${API_PREFIX}`);
  app.addHook('onRequest', async (request, reply) => void reply.header('x-request-id', request.id));
  app.addHook('preHandler', (request, _reply, done) => withLogIds({ requestId: request.id }, done));
  app.addHook('onResponse', async (request, reply) => {
    deps.metrics.answered(request.method, request.routeOptions.url, reply.statusCode, reply.elapsedTime);
  });
  app.addHook('onSend', async ({ method }) => {
    if (method !== 'GET') deps.passes?.('rest.answering');
  });
  await app.register(helmet, protectiveHeaders(deps.publicUrl));
  await app.register((scope) => frontPage(scope, deps));
  await app.register(docsFiles);
  const facts = deps.signInFacts ?? { sessionApiUrl: null, oidc: null };
  await app.register(async (scope) => restInterface(scope, deps), { prefix: API_PREFIX });
  const openToAll = async (scope: FastifyInstance) => {
    limitAnonymous(scope, deps.limits.anonymous);
    await scope.register(signInRoutes(facts));
    await scope.register(documentationRoutes(describe));
  };
  await app.register(openToAll, { prefix: API_PREFIX });
  return app;
}

/** In one server with the rest, but before its framework, which would read and interpret what must stay as it came. */
function withWebhooks(webhooks: RequestListener) {
  return (framework: RequestListener) => {
    const server = createServer((request, response) => {
      (isWebhook(request.url) ? webhooks : framework)(request, response);
    });
    server.requestTimeout = REQUEST_TIMEOUT_MS;
    server.keepAliveTimeout = KEEP_ALIVE_MS;
    return server.setTimeout(IDLE_TIMEOUT_MS);
  };
}

/** The console; where it is not built, what to do instead. */
async function frontPage(app: FastifyInstance, { signInFacts, issuerOrigins, publicUrl }: AppDeps): Promise<void> {
  if (signInFacts === undefined || !isConsoleBuilt()) {
    app.get('/', (_request, reply) => reply.type('text/html').send(landingPage(`${publicUrl}${API_PREFIX}`)));
    return;
  }
  const others = [signInFacts.sessionApiUrl, signInFacts.oidc?.issuer].filter((url) => url != null);
  const origins = others.map((url) => new URL(url).origin);
  await consoleFiles(app, () => [...new Set([...origins, ...(issuerOrigins?.() ?? [])])]);
}

/** Told to go to https, a browser could not use a service that is reached over http. */
function protectiveHeaders(publicUrl: string): FastifyHelmetOptions {
  const isSecure = publicUrl.startsWith('https:');
  return {
    strictTransportSecurity: isSecure,
    contentSecurityPolicy: { directives: { upgradeInsecureRequests: isSecure ? [] : null } },
  };
}

async function restInterface(app: FastifyInstance, deps: AppDeps): Promise<void> {
  const { services, signIn, limits, publicUrl, signInFacts } = deps;
  readJsonBodies(app);
  await app.register(multipart);
  requireSignIn(app, signIn, new AnonymousRateLimiter(limits.anonymous));
  limitAccounts(app, limits);
  app.addHook('preValidation', async ({ params }) => refuseUnstorable(params));
  const uploads = createUploadLimiter(limits.uploadsAtOnce);
  await app.register(accountRoutes);
  await app.register(pluginRoutes(services, uploads));
  await app.register(releaseRoutes(services));
  await app.register(fileRoutes(services));
  await app.register(agentPluginRoutes(services, { publicUrl, sessionApiUrl: signInFacts?.sessionApiUrl ?? null }));
  await app.register(catalogRoutes(services));
  await app.register(installationRoutes(services, limits.installationsPerAccount));
  await app.register(updateRoutes(services));
  await app.register(channelRoutes(services));
  await app.register(agentRoutes(services));
  await app.register(logRoutes(services));
  await app.register(operatorRoutes(services));
}

/** An id that no row can have is unknown, like any other that no row has. */
function refuseUnstorable(params: unknown): void {
  const texts = Object.values(params ?? {}).filter((value) => typeof value === 'string');
  if (!texts.every(isStorable)) throw new Problem('not_found', 'There is no such thing.');
}

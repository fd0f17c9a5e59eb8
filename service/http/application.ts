/** Creates the HTTP application that the REST interface and the session API are built on. */
import { randomUUIDv7 } from 'node:crypto';
import fastify, {
  type FastifyBaseLogger,
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
  type RawServerDefault,
} from 'fastify';
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { asAccount } from '../../db/postgres/shares.ts';
import { isStorable } from '../../db/postgres/storable-json.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { describeFieldFault } from '../../sdk/contract/field-faults.ts';
import type { RequiredScopes } from '../identity/scopes.ts';
import type { SignIn } from '../identity/sign-in.ts';
import { RepeatedErrors } from '../telemetry/repeated-errors.ts';
import { COSTLY_BYTES, waitToBegin } from '../timing/loop-turns.ts';
import { requireCaller, requireSignIn } from './authentication.ts';
import { discardAfterResponse, mayBeCostly, refuseEncodedBody } from './body-reader.ts';
import type { ByteLimits } from './byte-budget.ts';
import { answerClientError, answerUnroutable, findHeadFault, uncheckedHost } from './client-errors.ts';
import { CLIENT_LEFT_STATUS, onceClosed, sentStatus } from './closed-responses.ts';
import { limitConnections } from './connection-limits.ts';
import type { ConsoleSite } from './console-requests.ts';
import { delayCostlyAnswers } from './costly-answers.ts';
import { answerError, type ErrorForm } from './errors.ts';
import { sendInterimResponses } from './interim-responses.ts';
import { readJsonBodies } from './json-body.ts';
import { markCursors } from './list-cursors.ts';
import type { AnonymousRateLimiter } from './rate-limits.ts';
import { RefusalPace } from './refusal-pace.ts';
import { traceRequests } from './request-trace.ts';
import { refuseLongQuery, refuseUnknownFields } from './unknown-fields.ts';
import { answerUnknownRoutes } from './unknown-routes.ts';
import { limitUnreadAnswers } from './unread-answers.ts';

/** The longest path parameter; a longer one is answered with 404. Characters. */
const PARAM_MAX_CHARS = 500;

interface ServerOptions {
  /** Default: nothing is logged. */
  readonly logger?: FastifyBaseLogger;
  readonly bodyMaxBytes: number;
  /** Reverse proxies whose `X-Forwarded-For` is used: addresses and networks. Default: none. */
  readonly trustProxy?: readonly string[] | undefined;
  /** Default: every error is a problem. */
  readonly errorForm?: ErrorForm;
  /** Default: a pace for all refusals of this server. */
  readonly refusals?: Pick<RefusalPace, 'answerUnread'>;
  /**
   * Called when a response has closed, with the route's pattern. The status is that of the answer, or `CLIENT_LEFT_STATUS`.
   * Default: responses are not counted.
   */
  onResponse?(method: string, route: string | undefined, status: number, ms: number): void;
  /** Options of the server below the application. */
  readonly server: FastifyHttpOptions<RawServerDefault>;
}
interface ApplicationOptions extends ServerOptions {
  /** Time between interim responses to a request that lasts. Milliseconds. Default: 240 s. */
  readonly interimMs?: number | undefined;
  onResponse: NonNullable<ServerOptions['onResponse']>;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The route's name in metrics and traces, if it is not its address. */
    readonly label?: string;
  }
}

// Applies to every schema in the process: of requests, of plugins' answers and of host calls.
z.config({ customError: describeFieldFault });

/** Builds the application without routes; the caller adds them, listens and closes. */
export function createApplication(options: ApplicationOptions): FastifyInstance {
  const app = createServer(options);
  traceRequests(app);
  sendInterimResponses(app, options.interimMs);
  return app;
}

/** Builds a server that answers every refusal with a problem, and does not trace its requests. */
export function createServer(options: ServerOptions): FastifyInstance {
  const app = fastify({
    ...options.server,
    http: { ...options.server.http, ...uncheckedHost },
    ...(options.logger ? { loggerInstance: options.logger } : {}),
    genReqId: () => randomUUIDv7(),
    bodyLimit: options.bodyMaxBytes,
    trustProxy: options.trustProxy?.length ? [...options.trustProxy] : false,
    // Metrics count the requests, and failures are logged where they are answered.
    logController: new LogController({ disableRequestLogging: true }),
    // While draining, requests on open connections are still answered, and `ConnectionDrain` closes the idle ones.
    return503OnClosing: false,
    forceCloseConnections: false,
    frameworkErrors: answerError,
    clientErrorHandler: answerClientError,
    routerOptions: { maxParamLength: PARAM_MAX_CHARS },
    // Without these fastify imports its own compilers, 116 modules, which takes 50 ms. Its types name only compilers of JSON Schema.
    schemaController: {
      compilersFactory: {
        buildValidator: () => validatorCompiler as never,
        buildSerializer: () => serializerCompiler as never,
      },
    },
  });
  const outages = new RepeatedErrors({
    report: (error, count) => app.log.error({ err: error, count }, error.message),
  });
  app.decorate('outages', outages);
  app.decorate('errorForm', options.errorForm ?? null);
  app.decorate('refusals', options.refusals ?? new RefusalPace());
  app.addHook('onClose', () => outages.close());
  app.setErrorHandler(answerError);
  answerUnknownRoutes(app);
  answerUnroutable(app.server);
  limitConnections(app.server);
  app.addHook('onRequest', async (request, reply) => {
    if (options.onResponse) countResponse(request, reply, options.onResponse);
    reply.header('x-request-id', request.id);
    const fault = findHeadFault(request.raw);
    if (fault) throw fault;
    if (request.method !== 'GET' && request.method !== 'HEAD') refuseEncodedBody(request, reply);
  });
  app.addHook('onSend', ({ raw }, reply, payload, done) => {
    // Such as a body of a GET.
    if (raw.complete === false) discardAfterResponse(raw, reply.raw);
    done(null, payload);
  });
  return app;
}

/** Not at `onResponse` of the framework: it does not come where the client left before the answer. */
function countResponse(
  { method, routeOptions }: FastifyRequest,
  reply: FastifyReply,
  count: ApplicationOptions['onResponse'],
): void {
  const startedAt = performance.now();
  onceClosed(reply.raw, () => {
    const status = sentStatus(reply.raw) ?? CLIENT_LEFT_STATUS;
    count(method, routeOptions.config.label ?? routeOptions.url, status, performance.now() - startedAt);
  });
}

interface SignInOptions {
  readonly signIn: SignIn;
  /** Limits the requests without a valid token. */
  readonly anonymous: AnonymousRateLimiter;
  /** Limits of the JSON bodies that are read or answered at once. */
  readonly bodiesInFlight: ByteLimits;
  /** The console whose cookie is accepted. Null: none. */
  readonly site: ConsoleSite | null;
  /** The scopes that a token needs, unless it may do all that its account may. */
  readonly scopes: RequiredScopes;
}

/** Makes a scope act for accounts: every request needs a token, and bodies are JSON. */
export function serveAccounts(
  scope: FastifyInstance,
  { signIn, anonymous, bodiesInFlight, site, scopes }: SignInOptions,
): void {
  readJsonBodies(scope, bodiesInFlight);
  requireSignIn(scope, signIn, anonymous, site, scopes);
  scope.addHook('onRequest', async (request) => {
    refuseLongQuery(request.url);
    await waitToBegin(requireCaller(request).id, mayBeCostly(request.headers));
  });
  scope.addHook('preValidation', async (request) => {
    requireStorable(request.params);
    refuseUnknownFields(request);
  });
  // As late as this: the body is read in a separate async context.
  scope.addHook('preHandler', (request, _, done) =>
    asAccount(requireCaller(request).id, done, (request.bodyInFlight?.bytes ?? 0) > COSTLY_BYTES),
  );
  markCursors(scope);
  delayCostlyAnswers(scope);
  limitUnreadAnswers(scope);
}

/** Answers 404 for an id that the database cannot store, such as one with U+0000. */
function requireStorable(params: unknown): void {
  const texts = Object.values(params ?? {}).filter((value) => typeof value === 'string');
  if (!texts.every(isStorable)) throw new Problem('not_found', 'Not found: no resource has this id.');
}

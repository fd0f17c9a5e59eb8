/** Builds the API's HTTP application: REST interface, webhook address, console and documentation. */
import type { RequestListener } from 'node:http';
import helmet, { type FastifyHelmetOptions } from '@fastify/helmet';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import { MIB } from '../sdk/contract/limits.ts';
import { createApplication, serveAccounts } from '../service/http/application.ts';
import { isRead } from '../service/http/authentication.ts';
import { uncheckedHost } from '../service/http/client-errors.ts';
import { type ConsoleSite, describeConsole } from '../service/http/console-requests.ts';
import { DOCUMENTATION_GROUP, documentationRoutes } from '../service/http/documentation-routes.ts';
import { DownloadPlaces } from '../service/http/download-places.ts';
import { readJsonBodies } from '../service/http/json-body.ts';
import { createServer } from '../service/http/node-http.ts';
import { documentRoutes } from '../service/http/openapi.ts';
import { PlaceLimiter } from '../service/http/place-limiter.ts';
import {
  type AccountLimits,
  AnonymousRateLimiter,
  limitAccounts,
  limitAnonymous,
  parseNetwork,
} from '../service/http/rate-limits.ts';
import type { ConsoleSessions } from '../service/identity/console-sessions.ts';
import { REST_SCOPES } from '../service/identity/scopes.ts';
import type { SignIn } from '../service/identity/sign-in.ts';
import { refuseExchange, type TokenExchange } from '../service/identity/token-exchange.ts';
import { accountRoutes } from './accounts/account-routes.ts';
import { delegationRoutes } from './accounts/delegation-routes.ts';
import { exchangeRoutes } from './accounts/exchange-routes.ts';
import { type SignInFacts, signInRoutes } from './accounts/sign-in-routes.ts';
import { signOutRoutes } from './accounts/sign-out-routes.ts';
import { tokenRoutes } from './accounts/token-routes.ts';
import { agentRoutes } from './agents/agent-routes.ts';
import { catalogRoutes } from './catalog/catalog-routes.ts';
import { channelRoutes } from './channels/channel-routes.ts';
import { isWebhook } from './ingress/ingress.ts';
import { installationRoutes } from './installations/installation-routes.ts';
import { updateRoutes } from './installations/update-routes.ts';
import { logRoutes } from './logs/log-routes.ts';
import { operatorAccountRoutes } from './operators/operator-account-routes.ts';
import { operatorRoutes } from './operators/operator-routes.ts';
import { StagingSpace } from './package/staging-space.ts';
import { UPLOAD_MAX_MS } from './package/upload.ts';
import { agentPluginRoutes } from './plugins/agent-plugin-routes.ts';
import { fileRoutes } from './plugins/file-routes.ts';
import { pluginLifecycleRoutes } from './plugins/plugin-lifecycle-routes.ts';
import { pluginRoutes } from './plugins/plugin-routes.ts';
import { VersionFilePages } from './plugins/version-files.ts';
import type { Services } from './services.ts';
import { consoleFiles, isConsoleBuilt } from './site/console-files.ts';
import { docsFiles } from './site/docs-files.ts';
import { renderLandingPage } from './site/landing-page.ts';
import type { Metrics } from './telemetry/metrics.ts';

/** Paths of the REST interface start with it. */
const API_PREFIX = '/api';
/** Maximum size of a body other than a package. Bytes. */
const BODY_MAX_BYTES = MIB;
/** One account may have one of the largest file lists in flight and some calls beside it. */
const BODIES_IN_FLIGHT = { processBytes: 128 * MIB, accountBytes: 24 * MIB };
/** For requests without a token, whose bodies have at most 32 KiB. `accountBytes` is the share of one client network. */
const ANONYMOUS_BODIES_IN_FLIGHT = { processBytes: 16 * MIB, accountBytes: 4 * MIB };
const UPLOAD_RETRY_AFTER_S = 5;
/** A package has up to 1 GiB. One account may download six at once. */
const ARCHIVES_AT_ONCE = 8;
/** A connection without traffic is closed, except while a publish is answered. Longer than any other request takes. Milliseconds. */
const IDLE_TIMEOUT_MS = 120_000;
/**
 * Idle time after which a kept-alive connection is closed: slightly more than the usual minute of proxies.
 * Milliseconds.
 */
const KEEP_ALIVE_MS = 72_000;

/** Tags of the OpenAPI document. */
const GROUPS = {
  Account: 'The account of the caller.',
  Authoring: 'Plugins, their versions and drafts, for their owner.',
  Catalog: 'Plugins that can be installed.',
  Installations: 'Plugins installed in the caller’s account, their configuration and versions.',
  Agents: 'Agents that plugins created in the caller’s account.',
  Channels: 'Vendor inboxes of an installation, their deliveries, and the events sent to the plugin.',
  Logs: 'Lines that plugins wrote through host.log, and lines of the host about them. Kept for 24 hours.',
  Operators: 'Tools for the operators of this service.',
  ...DOCUMENTATION_GROUP,
};

export interface AppDeps {
  readonly services: Services;
  readonly signIn: SignIn;
  readonly consoleSessions: ConsoleSessions;
  /** Exchanges tokens of services. Default: none is exchanged. */
  readonly exchange?: TokenExchange;
  /** Addresses of the issuers of those tokens. Default: none. */
  readonly exchangeIssuers?: readonly string[];
  /** Domain of the console's cookie. Default: the host of `publicUrl`. */
  readonly cookieDomain?: string | undefined;
  readonly metrics: Pick<Metrics, 'answered'>;
  readonly logger: FastifyBaseLogger;
  readonly limits: AccountLimits & {
    /** Requests per minute of one address without a valid token. */
    readonly anonymous: number;
    readonly uploadsAtOnce: number;
    /** Space that uploads leave free on the disk of DATA_DIR. Default: none. Megabytes. */
    readonly minFreeMegabytes?: number;
    readonly pluginsPerAccount: number;
    readonly installationsPerAccount: number;
  };
  /** Reverse proxies whose `X-Forwarded-For` is used: addresses and networks. Default: none. */
  readonly trustProxy?: readonly string[];
  /** Address at which users reach the service, without a slash at the end. */
  readonly publicUrl: string;
  /** Serves the webhook address. Default: no webhook address. */
  readonly webhooks?: RequestListener;
  /** For the console. Default: no console; users paste tokens. */
  readonly signInFacts?: SignInFacts;
  /** Time between interim responses to a request that lasts. Milliseconds. Default: 240 s. */
  readonly interimMs?: number | undefined;
  /** Called at each step. A test may stop the step there. */
  faultPoint?(step: string): Promise<void> | undefined;
  /** Origins of the token issuer that the console's page calls. Default: the origin of its address. */
  readonly issuerOrigins?: () => readonly string[];
}

/** Builds the application; the caller listens, injects and closes. */
export async function buildApp(deps: AppDeps): Promise<FastifyInstance> {
  const { logger, trustProxy, publicUrl, limits } = deps;
  const app = createApplication({
    logger,
    trustProxy,
    bodyMaxBytes: BODY_MAX_BYTES,
    interimMs: deps.interimMs,
    server: {
      requestTimeout: UPLOAD_MAX_MS,
      connectionTimeout: IDLE_TIMEOUT_MS,
      ...(deps.webhooks ? { serverFactory: withWebhooks(deps.webhooks) } : {}),
    },
    onResponse: deps.metrics.answered,
  });
  app.addHook('onSend', async ({ method }) => {
    if (method !== 'GET') await deps.faultPoint?.('rest.answering');
  });
  const buildDocument = documentRoutes(app, {
    title: 'Bulkhead REST interface',
    description:
      'Publishing, installing and running plugins for crews of AI agents. The interface has no idempotency keys: a request that acts again when it is repeated says “Not idempotent” in its description.',
    prefix: API_PREFIX,
    url: `${publicUrl}${API_PREFIX}`,
    guidesUrl: '/docs',
    groups: GROUPS,
  });
  await app.register(helmet, protectiveHeaders(publicUrl));
  await app.register((scope) => frontPage(scope, deps));
  await app.register((scope) => docsFiles(scope, deps.signInFacts?.sessionApiUrl ?? null));
  const site = describeConsole(publicUrl, deps.cookieDomain);
  const anonymous = new AnonymousRateLimiter(limits.anonymous);
  await app.register((scope) => accountScope(scope, deps, site, anonymous), { prefix: API_PREFIX });
  const anonymousScope = async (scope: FastifyInstance) => {
    readJsonBodies(scope, ANONYMOUS_BODIES_IN_FLIGHT, ({ ip }) => parseNetwork(ip));
    limitAnonymous(scope, anonymous);
    const facts = deps.signInFacts ?? { sessionApiUrl: null, oidc: null };
    await scope.register(signInRoutes(facts, deps.consoleSessions, site));
    await scope.register(signOutRoutes(deps.services, deps.signIn, deps.consoleSessions, site));
    await scope.register(documentationRoutes(buildDocument));
  };
  await app.register(anonymousScope, { prefix: API_PREFIX });
  await app.register(async (scope) => {
    limitAnonymous(scope, anonymous);
    await scope.register(exchangeRoutes(deps.exchange ?? refuseExchange));
  });
  return app;
}

/** Passes webhook requests around the framework, which would decode their bodies. */
function withWebhooks(webhooks: RequestListener) {
  return (framework: RequestListener) => {
    const server = createServer(uncheckedHost, (request, response) => {
      (isWebhook(request.url) ? webhooks : framework)(request, response);
    });
    server.requestTimeout = UPLOAD_MAX_MS;
    server.keepAliveTimeout = KEEP_ALIVE_MS;
    return server.setTimeout(IDLE_TIMEOUT_MS);
  };
}

/** Serves the console, or a page with instructions if the console is not built. */
async function frontPage(app: FastifyInstance, { signInFacts, issuerOrigins, publicUrl }: AppDeps): Promise<void> {
  if (signInFacts === undefined || !isConsoleBuilt()) {
    app.get('/', (_request, reply) => reply.type('text/html').send(renderLandingPage(`${publicUrl}${API_PREFIX}`)));
    return;
  }
  const others = [signInFacts.sessionApiUrl, signInFacts.oidc?.issuer].filter((url) => url != null);
  const origins = others.map((url) => new URL(url).origin);
  await consoleFiles(app, () => [...new Set([...origins, ...(issuerOrigins?.() ?? [])])]);
}

/** Omits Strict-Transport-Security over http, where it would make the service unreachable. */
function protectiveHeaders(publicUrl: string): FastifyHelmetOptions {
  const isSecure = publicUrl.startsWith('https:');
  return {
    strictTransportSecurity: isSecure,
    contentSecurityPolicy: { directives: { upgradeInsecureRequests: isSecure ? [] : null } },
  };
}

async function accountScope(
  scope: FastifyInstance,
  deps: AppDeps,
  site: ConsoleSite,
  anonymous: AnonymousRateLimiter,
): Promise<void> {
  const { services, signIn, limits, publicUrl, signInFacts } = deps;
  const signedIn = { signIn, anonymous, bodiesInFlight: BODIES_IN_FLIGHT, site };
  serveAccounts(scope, { ...signedIn, scopes: REST_SCOPES });
  limitAccounts(scope, limits);
  // The next call of the client may be one to its supervisor, which would run it without a change that it does not know yet.
  scope.addHook('onSend', async (request, reply) => {
    const { caller } = request;
    if (isRead(request) || reply.statusCode >= 400 || caller === null) return;
    // What an operator does may concern any account.
    await services.catchUp(caller.operator ? null : caller.id);
  });
  const uploads = new PlaceLimiter({
    places: limits.uploadsAtOnce,
    verb: 'receiving',
    works: 'uploads',
    retryAfterS: UPLOAD_RETRY_AFTER_S,
  });
  const space = new StagingSpace(limits);
  const filePages = new VersionFilePages(services.blobs);
  const archives = new DownloadPlaces(ARCHIVES_AT_ONCE, 'archives');
  await scope.register(accountRoutes(services));
  await scope.register(tokenRoutes(services));
  await scope.register(delegationRoutes(services, deps.exchangeIssuers ?? []));
  await scope.register(pluginRoutes(services, uploads, space, filePages, limits.pluginsPerAccount));
  await scope.register(pluginLifecycleRoutes(services));
  await scope.register(fileRoutes(services, filePages, archives));
  const addresses = { publicUrl, sessionApiUrl: signInFacts?.sessionApiUrl ?? null };
  await scope.register(agentPluginRoutes(services, addresses, archives));
  await scope.register(catalogRoutes(services));
  await scope.register(installationRoutes(services, limits.installationsPerAccount));
  await scope.register(updateRoutes(services));
  await scope.register(channelRoutes(services));
  await scope.register(agentRoutes(services));
  await scope.register(logRoutes(services));
  await scope.register(operatorRoutes(services));
  await scope.register(operatorAccountRoutes(services));
}

/** The API over a real database, real blobs, the real bundler and a real jailed child, for one test file. */
import type { AddressInfo } from 'node:net';
import { runInNewContext } from 'node:vm';
import type { FastifyInstance, InjectOptions } from 'fastify';
import type { Pool } from 'pg';
import { pino } from 'pino';
import tap from 'tap';
import { buildApp } from '../../api/app.ts';
import { AccountOwners } from '../../api/cluster/account-owners.ts';
import { type Bundler, startBundler } from '../../api/package/bundler.ts';
import type { Introspect, Services } from '../../api/services.ts';
import { isSupervisorRunning } from '../../db/cluster/supervisors.ts';
import { type Blobs, openBlobs } from '../../db/files/blobs.ts';
import { openSecretKeys } from '../../db/files/secrets.ts';
import { loadUpdateTarget } from '../../db/installations/account-plugins.ts';
import { mayUpdate } from '../../db/installations/run-rule.ts';
import { completeUpdate, waitForUpdate } from '../../db/installations/updates.ts';
import { type Introspection, requestIntrospection } from '../../db/jobs/introspections.ts';
import { type Queues, startQueues } from '../../db/jobs/queues.ts';
import { type Listener, openListener } from '../../db/postgres/listener.ts';
import { openRegistry } from '../../sandbox-child/registry.ts';
import type { OpenApiDocument } from '../../service/http/openapi.ts';
import { openConsoleSessions, withConsoleSessions } from '../../service/identity/console-sessions.ts';
import { issueRecordedToken } from '../../service/identity/recorded-tokens.ts';
import { SignIn } from '../../service/identity/sign-in.ts';
import { openTokenExchange } from '../../service/identity/token-exchange.ts';
import { openIssuer, openVerifier } from '../../service/identity/tokens.ts';
import type { Loaded } from '../../supervisor/children/child.ts';
import { ChildError } from '../../supervisor/children/child-errors.ts';
import { introspect } from '../../supervisor/children/introspect.ts';
import { type Teardown, temporaryFolder, testDatabase } from '../runner/harness.ts';
import { type AnswerCheck, checkAnswers, loadDocument } from '../service/declared-answers.ts';
import { openSharedSandbox } from '../supervisor/shared-sandbox.ts';

export interface ApiFixture {
  readonly app: FastifyInstance;
  readonly pool: Pool;
  readonly services: Services;
  readonly dataDir: string;
  /** The service's own OpenAPI document. Every response to a client is checked against it. */
  readonly document: OpenApiDocument;
  /** A user's client: every call carries its token. */
  user(name: string): Promise<Client>;
  /** A client with a token that has a record. @param lifetime seconds */
  signIn(user: string, name: string, lifetime?: number): Promise<Client>;
}
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  readonly body: any;
}
export interface Client {
  readonly token: string;
  get(path: string): Promise<Answer>;
  post(path: string, body?: unknown): Promise<Answer>;
  patch(path: string, body?: unknown): Promise<Answer>;
  delete(path: string, body?: unknown): Promise<Answer>;
  send(options: InjectOptions): Promise<Answer>;
}
export interface ApiOptions {
  readonly limits?: {
    reads?: number;
    writes?: number;
    anonymous?: number;
    uploadsAtOnce?: number;
    minFreeMegabytes?: number;
    pluginsPerAccount?: number;
    installationsPerAccount?: number;
  };
  /** Reverse proxies whose `X-Forwarded-For` is used. */
  readonly trustProxy?: readonly string[];
  readonly bundler?: Parameters<typeof startBundler>[0];
  /** In place of the jailed child, where a test is about something else than packages. */
  readonly introspect?: Introspect;
  /** Reads what packages register in this process where their code needs no more than the language: for tests of something else. */
  readonly readsInProcess?: boolean;
  /** How long a package may take to load in its jailed child, milliseconds. */
  readonly loadWithinMs?: number;
  /** Time between interim responses to a request that lasts, milliseconds. */
  readonly interimMs?: number;
  /** Issuers whose tokens services may exchange. */
  readonly exchangeIssuers?: readonly string[];
  /** A token is about to be verified. */
  readonly onVerify?: () => void;
  /** Where a supervisor runs already: the API shares its database and files, and asks it what packages register. */
  readonly beside?: { readonly pool: Pool; readonly dataDir: string };
  /** Replaces parts of what the API works with. */
  readonly prepare?: (services: Services) => Services;
}

export const PUBLIC_URL = 'http://localhost:4000';

let shared: Bundler | undefined;
/** One for all fixtures of a process: its thread imports the bundler and starts an esbuild, which takes 250 ms. */
function shareBundler(): Bundler {
  if (shared) return shared;
  const bundler = startBundler();
  tap.teardown(() => bundler.close());
  shared = bundler;
  return bundler;
}

/** The document is the same for all fixtures of a process, and so are its compiled schemas. */
let documented: Promise<{ document: OpenApiDocument; answers: AnswerCheck }> | undefined;

export async function startApiFixture(t: Teardown, options: ApiOptions = {}): Promise<ApiFixture> {
  const { pool } = options.beside ?? (await testDatabase(t));
  const dataDir = options.beside?.dataDir ?? (await temporaryFolder(t));
  const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
  t.teardown(() => queues.stop());
  const listener = await openListener(pool, () => undefined);
  t.teardown(() => listener.close());
  const owners = await AccountOwners.open(pool, listener, OWNER_MS);
  t.teardown(() => owners.close());
  const blobs = await openBlobs(dataDir);
  const bundler = options.bundler ? startBundler(options.bundler) : shareBundler();
  if (options.bundler) t.teardown(() => bundler.close());
  const prepare = options.prepare ?? ((services) => services);
  const finishUpdate = finishesUpdates(pool, queues, listener);
  const askSupervisor: Introspect = (request) => requestIntrospection({ pool, queues, listener }, request);
  const services = prepare({
    finishUpdate,
    catchUp: (accountId) => owners.catchUp(accountId),
    pool,
    listener,
    queues,
    blobs,
    bundler,
    keys: await openSecretKeys(dataDir),
    webhookUrl: 'http://localhost:4000',
    introspect:
      options.introspect ?? remembering(options.beside ? askSupervisor : await chooseIntrospect(blobs, options)),
  });
  const verifier = await openVerifier({ DATA_DIR: dataDir, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined });
  const watched: typeof verifier.verify = (token) => {
    options.onVerify?.();
    return verifier.verify(token);
  };
  const tokens = { ...verifier, verify: watched };
  const signIn = new SignIn(pool, withConsoleSessions(pool, tokens));
  await signIn.follow(listener);
  const issuer = await openIssuer(dataDir);
  const { exchangeIssuers } = options;
  const app = await buildApp({
    services,
    signIn,
    consoleSessions: openConsoleSessions({ pool, tokens, signIn, consoleClient: null, lifetimeMs: 60_000 }),
    ...(exchangeIssuers
      ? {
          exchange: openTokenExchange({ pool, issuer, issuers: exchangeIssuers, audience: PUBLIC_URL }),
          exchangeIssuers,
        }
      : {}),
    metrics: { answered: () => undefined },
    logger: pino({ level: 'silent' }),
    limits: {
      reads: 100_000,
      writes: 100_000,
      anonymous: 100_000,
      uploadsAtOnce: 100,
      pluginsPerAccount: 1_000,
      installationsPerAccount: 100,
      ...options.limits,
    },
    trustProxy: options.trustProxy ?? [],
    publicUrl: PUBLIC_URL,
    interimMs: options.interimMs,
  });
  t.teardown(() => app.close());
  documented ??= loadDocument(app, '/api/openapi.json').then((document) => ({
    document,
    answers: checkAnswers(document),
  }));
  const { document, answers } = await documented;
  const finishUpdates = async () => {
    const found = await pool.query('SELECT id FROM installations WHERE target_version_id IS NOT NULL ORDER BY id');
    for (const { id } of found.rows) await services.finishUpdate(id);
  };
  return {
    app,
    pool,
    services,
    dataDir,
    document,
    user: async (name) => client({ app, answers, finishUpdates }, await issuer.issue(name)),
    signIn: async (subject, name, lifetime = 3_600) => {
      const token = await issueRecordedToken(pool, issuer, { subject, name, lifetime });
      return client({ app, answers, finishUpdates }, token);
    },
  };
}

/** Lets it be called over a real socket. @returns the port */
export async function listen({ app }: ApiFixture): Promise<number> {
  await app.listen({ port: 0, host: '127.0.0.1' });
  return (app.server.address() as AddressInfo).port;
}

/** The registrations of this process's bundles, by their hash, with the name that each had in stack traces. */
const introspected = new Map<string, { readonly sourceName: string; readonly loaded: Loaded }>();

/** A bundle that loads is loaded once: most tests publish one of a few, each time in a child process. */
function remembering(introspect: Introspect): Introspect {
  return async (request) => {
    const key = `${request.bundleSha256} ${request.hasFetch}`;
    const known = introspected.get(key);
    if (known) return renameSource(known, request.sourceName);
    const answer = await introspect(request);
    const { ok, ...loaded } = structuredClone(answer);
    if (ok) introspected.set(key, { sourceName: request.sourceName, loaded: loaded as Loaded });
    return answer;
  };
}

const chooseIntrospect = async (blobs: Blobs, { readsInProcess, loadWithinMs }: ApiOptions): Promise<Introspect> => {
  const jailed = await jailedIntrospect(blobs, loadWithinMs);
  return readsInProcess ? introspectInProcess(blobs, jailed) : jailed;
};

/** Longer than any registration takes, milliseconds. */
const REGISTRATION_MS = 1_000;
/** Schemas of parameters that have no faults. */
const PLAIN_PARAMETERS = ['{}', '{"type":"object"}'];

/** Spares the start of a child for each bundle, which takes most of the time of a publish. */
function introspectInProcess(blobs: Blobs, jailed: Introspect): Introspect {
  return async (request) => {
    const registry = openRegistry();
    try {
      const bundle = (await blobs.read(request.bundleSha256)).toString('utf8');
      runInNewContext(bundle, { ...registry.globals }, { filename: request.sourceName, timeout: REGISTRATION_MS });
      const sealed = registry.seal(null);
      const schemas = Object.values(sealed.registrations.tools).map(({ parameters }) => JSON.stringify(parameters));
      return schemas.every((schema) => PLAIN_PARAMETERS.includes(schema))
        ? { ok: true, ...sealed }
        : await jailed(request);
    } catch {
      return await jailed(request);
    }
  };
}

/** Does the work of the supervisor's worker for a request of the API, without the queue between. */
async function jailedIntrospect(blobs: Blobs, loadWithinMs?: number): Promise<Introspect> {
  const { jail } = await openSharedSandbox();
  return async ({ bundleSha256, sourceName, hasFetch }): Promise<Introspection> => {
    try {
      const bundle = (await blobs.read(bundleSha256)).toString('utf8');
      return { ok: true, ...(await introspect(jail, bundle, sourceName, { hasFetch, loadWithinMs })) } as Introspection;
    } catch (error) {
      if (!(error instanceof ChildError)) throw error;
      return { ok: false, message: error.message, ...(error.pluginStack ? { stack: error.pluginStack } : {}) };
    }
  };
}

function renameSource(
  known: { readonly sourceName: string; readonly loaded: Loaded },
  sourceName: string,
): Introspection {
  const { places, ...loaded } = structuredClone(known.loaded);
  const renamed = Object.entries(places).map(([name, stack]) => [name, stack.replaceAll(known.sourceName, sourceName)]);
  return { ok: true, ...loaded, places: Object.fromEntries(renamed) } as Introspection;
}

/** Longer than any update of these tests takes, and than a supervisor takes to answer. */
const UPDATE_MS = 30_000;
const OWNER_MS = 30_000;

/** Waits for the supervisor; where none runs, does what it does when the new version starts. */
const finishesUpdates =
  (pool: Pool, queues: Queues, listener: Listener): Services['finishUpdate'] =>
  async (installationId) => {
    if (await isSupervisorRunning(pool)) return waitForUpdate({ pool, listener }, installationId, UPDATE_MS);
    // The end of one update can begin the next.
    for (;;) {
      const target = await loadUpdateTarget(pool, installationId);
      if (!target || !mayUpdate(target)) return;
      await completeUpdate(pool, queues, { installationId, versionId: target.plugin.versionId });
    }
  };

interface Connection {
  readonly app: FastifyInstance;
  readonly answers: AnswerCheck;
  finishUpdates(): Promise<void>;
}

function client({ app, answers, finishUpdates }: Connection, token: string): Client {
  const send = async (options: InjectOptions): Promise<Answer> => {
    const headers = { authorization: `Bearer ${token}`, ...options.headers };
    const answer = await app.inject({ ...options, headers });
    const type = String(answer.headers['content-type'] ?? '');
    const seen = {
      status: answer.statusCode,
      headers: answer.headers,
      body: type.includes('json') ? answer.json() : answer.body,
    };
    const request = { method: String(options.method ?? 'GET'), url: String(options.url) };
    const fault = answers.faultOf({ ...request, ...seen, contentType: type });
    if (fault !== null) throw new Error(fault);
    // Also of other accounts, whose requests do not wait for it.
    if (request.method !== 'GET' && seen.status < 400) await finishUpdates();
    return seen;
  };
  const withBody = (method: 'POST' | 'PATCH' | 'DELETE') => (path: string, body?: unknown) =>
    send({ method, url: `/api${path}`, ...(body === undefined ? {} : { payload: body as object }) });
  return {
    token,
    send,
    get: (path) => send({ method: 'GET', url: `/api${path}` }),
    post: withBody('POST'),
    patch: withBody('PATCH'),
    delete: withBody('DELETE'),
  };
}

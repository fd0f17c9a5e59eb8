/** A supervisor with everything real but the publish: database, blobs, jail, session API. Bundles are given as text. */
import { randomUUIDv7 } from 'node:crypto';
import { runInNewContext } from 'node:vm';
import type { FastifyInstance, InjectOptions } from 'fastify';
import { decodeJwt } from 'jose';
import type { Pool } from 'pg';
import { pino } from 'pino';
import { findOrCreateAccount } from '../../db/accounts/accounts.ts';
import { revokeToken } from '../../db/accounts/issued-tokens.ts';
import { type Blobs, openBlobs } from '../../db/files/blobs.ts';
import { openSecretKeys, type SecretKeys, saveSecret } from '../../db/files/secrets.ts';
import { beginUpdate } from '../../db/installations/updates.ts';
import type { Queues } from '../../db/jobs/queues.ts';
import type { Listener } from '../../db/postgres/listener.ts';
import { notifyInstallationChanged, subscribeToInstallations } from '../../db/postgres/notifications.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { openRegistry } from '../../sandbox-child/registry.ts';
import { listRegisteredCapabilities } from '../../sdk/contract/capabilities.ts';
import type { Registrations } from '../../sdk/contract/protocol.ts';
import { issueRecordedToken } from '../../service/identity/recorded-tokens.ts';
import { openIssuer, openVerifier, type ServiceVerifier, type TokenIssuer } from '../../service/identity/tokens.ts';
import { introspect } from '../../supervisor/children/introspect.ts';
import type { Sandbox } from '../../supervisor/jail/sandbox.ts';
import { type Supervisor, type SupervisorOptions, startSupervisor } from '../../supervisor/supervisor.ts';
import { eventually } from '../runner/eventually.ts';
import { type Teardown, temporaryFolder, testDatabase } from '../runner/harness.ts';
import { type AnswerCheck, checkAnswers, checkInjected, loadDocument } from '../service/declared-answers.ts';
import { defaultOptions } from './default-options.ts';
import { openSharedSandbox } from './shared-sandbox.ts';

export interface PluginSource {
  /** JavaScript, as the bundler would have made it. */
  readonly code: string;
  /** JSON text of its source map. */
  readonly sourceMap?: string;
  readonly slug?: string;
  readonly account?: string;
  /** Defaults to the account. */
  readonly owner?: string;
  readonly capabilities?: readonly string[];
  readonly settings?: Readonly<Record<string, string>>;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly semVer?: string;
  readonly status?: string;
  readonly required?: boolean;
  /** By declared secret, how the host uses its handles; null: the plugin reads it, as all others of `secrets`. */
  readonly secretUses?: Readonly<Record<string, readonly string[] | null>>;
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
  readonly discovered?: unknown;
  /** For code that cannot be introspected: what its version is said to register. */
  readonly registrations?: unknown;
}
export interface Installed {
  readonly installationId: string;
  readonly pluginId: string;
  readonly versionId: string;
  readonly accountId: string;
  readonly slug: string;
}
/** Everything at rest, and no supervisor. */
export interface StorageFixture {
  readonly url: string;
  readonly pool: Pool;
  readonly dataDir: string;
  readonly sandbox: Sandbox;
  readonly blobs: Blobs;
  readonly keys: SecretKeys;
  readonly issuer: TokenIssuer;
  readonly verifier: ServiceVerifier;
  install(source: PluginSource): Promise<Installed>;
  /** Publishes another version and makes it current, as if it had started. */
  update(installed: Installed, source: PluginSource): Promise<string>;
  /** Publishes another version and lets a supervisor move the installation to it. */
  beginUpdate(installed: Installed, source: PluginSource, queues: Queues): Promise<string>;
}
export interface SupervisorFixture extends StorageFixture {
  readonly supervisor: Supervisor;
  readonly app: FastifyInstance;
  /** Installs, calls and opens sessions where no other account is named. */
  readonly account: string;
  /** Returns the same supervisor with a new account: the tests of a file share a supervisor, each with an account of its own. */
  withNewAccount(): SupervisorFixture;
  /** Announces a changed installation. Resolves when the supervisor has been notified. */
  notify(installationId: string): Promise<void>;
  /** Changes columns of an installation, as the API does, and announces it. @param columns of the statement's SET */
  change(installed: Pick<Installed, 'installationId'>, columns: string): Promise<void>;
  /** Repeats a hook whose plugin did not start within the hook's budget, as on a busy machine. */
  call(method: InjectOptions['method'], path: string, body?: unknown, account?: string): Promise<Reply>;
  session(account?: string): Promise<string>;
  /** Data of the account's log lines with this message, in order. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into lines of any shape
  readLog(message: string): Promise<any[]>;
  /** A token that can be revoked. */
  issueRevocable(account?: string): Promise<RevocableToken>;
}
interface RevocableToken {
  readonly token: string;
  revoke(): Promise<unknown>;
}
export interface Reply {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of any shape
  readonly body: any;
  readonly headers: Readonly<Record<string, unknown>>;
}

/** Makes a database, a data directory and the jail. */
export async function openStorageFixture(test: Teardown): Promise<StorageFixture> {
  const { pool, url } = await testDatabase(test);
  const dataDir = await temporaryFolder(test);
  const sandbox = await openSharedSandbox();
  const [blobs, keys] = [await openBlobs(dataDir), await openSecretKeys(dataDir)];
  const verifier = await openVerifier({ DATA_DIR: dataDir, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined });
  const base = { pool, blobs, keys, sandbox };
  const notify = (installationId: string) => notifyInstallationChanged(pool, installationId);
  return {
    ...base,
    url,
    dataDir,
    verifier,
    issuer: await openIssuer(dataDir),
    install: (source) => install({ ...base, notify }, source),
    update: (installed, source) => update({ ...base, notify }, installed, source),
    beginUpdate: (installed, source, queues) => beginUpdateTo(base, installed, source, queues),
  };
}

/** The same account; the slugs of what it installs begin with its name, because no two plugins have the same one. */
export function withOwnSlugs(fixture: SupervisorFixture): SupervisorFixture {
  const install: SupervisorFixture['install'] = (source) =>
    fixture.install({ ...source, slug: `${fixture.account}-${source.slug}` });
  return { ...fixture, install };
}

/**
 * The same supervisor, on which each plugin runs before its install is over: on a busy machine, a start takes longer than a hook waits,
 * and only hooks of `call` are repeated then. For plugins that load.
 */
export function withStartedPlugins(fixture: SupervisorFixture): SupervisorFixture {
  const install: SupervisorFixture['install'] = async (source) => {
    const installed = await fixture.install(source);
    if ((source.status ?? 'ready') === 'ready') await startPlugin(fixture, installed);
    return installed;
  };
  return { ...fixture, install, withNewAccount: () => withStartedPlugins(fixture.withNewAccount()) };
}

/** Resolves when the process of an installation runs. */
export async function startPlugin(
  { pool, supervisor }: Pick<SupervisorFixture, 'pool' | 'supervisor'>,
  { installationId }: Pick<Installed, 'installationId'>,
): Promise<void> {
  const { rows } = await pool.query('SELECT account_id FROM installations WHERE id = $1', [installationId]);
  await eventually(async () => {
    const { plugins } = await supervisor.pluginsCache.get(rows[0].account_id);
    const plugin = plugins.find((one) => one.installationId === installationId);
    return plugin !== undefined && (await supervisor.fleet.wake(plugin)) === null;
  });
}

/** Starts a fixture; it ends with the test. */
export async function startSupervisorFixture(
  test: Teardown,
  options: Partial<SupervisorOptions> = {},
): Promise<SupervisorFixture> {
  const storage = await openStorageFixture(test);
  const { pool, blobs, keys, verifier, sandbox, dataDir } = storage;
  const logger = pino({ level: process.env.TEST_LOG ?? 'silent' });
  const supervisor = await startSupervisor({
    ...defaultOptions,
    pool,
    blobs,
    keys,
    verifier,
    sandbox,
    dataDir,
    logger,
    childrenMax: 50,
    spares: 0,
    ...options,
  });
  test.teardown(() => supervisor.stop());
  checkInjected(supervisor.app, await sessionApiAnswers(supervisor.app));
  return fixtureOf('ann', { storage, supervisor, notify: await openNotifier(storage.pool, supervisor.listener) });
}

/** @returns `notify`: by when it resolves, the listener's earlier subscribers have been called, the supervisor's among them */
async function openNotifier(pool: Pool, listener: Listener): Promise<SupervisorFixture['notify']> {
  const waiting = new Map<string, () => void>();
  await subscribeToInstallations(
    listener,
    ({ installationId }) => waiting.get(installationId)?.(),
    () => {
      for (const resolve of waiting.values()) resolve();
    },
  );
  return async (installationId) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting.set(installationId, resolve);
    await notifyInstallationChanged(pool, installationId);
    await promise;
    waiting.delete(installationId);
  };
}

let accounts = 0;

interface Started extends Pick<SupervisorFixture, 'supervisor' | 'notify'> {
  readonly storage: StorageFixture;
}

function fixtureOf(ownAccount: string, started: Started): SupervisorFixture {
  const { storage, supervisor, notify } = started;
  const { app } = supervisor;
  const { pool, blobs, keys, sandbox } = storage;
  const base = { pool, blobs, keys, sandbox, notify };
  const fixture: SupervisorFixture = {
    ...storage,
    supervisor,
    app,
    account: ownAccount,
    withNewAccount() {
      accounts += 1;
      return fixtureOf(`account-${accounts}`, started);
    },
    notify,
    async change({ installationId }, columns) {
      const sql = `UPDATE installations SET ${columns}, updated_at = clock_timestamp() WHERE id = $1`;
      await pool.query(sql, [installationId]);
      await notify(installationId);
    },
    install: (source) => install(base, { account: ownAccount, ...source }),
    update: (installed, source) => update(base, installed, source),
    call: async (method, path, body, account = ownAccount) => {
      const until = Date.now() + START_WITHIN_MS;
      for (;;) {
        const reply = await call(app, storage.issuer, { method, path, body, account });
        if (!isStillStarting(reply) || Date.now() > until) return reply;
      }
    },
    session: async (account = ownAccount) => {
      const made = await fixture.call('POST', '/sessions', { agentId: 'agent-1' }, account);
      return made.body.id;
    },
    async readLog(message) {
      await supervisor.logs.flush();
      const { rows } = await pool.query(
        `SELECT l.data FROM plugin_logs l JOIN installations i ON i.id = l.installation_id
           JOIN accounts a ON a.id = i.account_id WHERE a.name = $1 AND l.message = $2 ORDER BY l.id`,
        [ownAccount, message],
      );
      return rows.map(({ data }) => data);
    },
    async issueRevocable(account = ownAccount) {
      const token = await issueRecordedToken(pool, storage.issuer, { subject: account, name: 'revocable' });
      const { id } = await findOrCreateAccount(pool, account);
      return { token, revoke: () => revokeToken(pool, id, decodeJwt(token).jti ?? '', null) };
    },
  };
  return fixture;
}

let answers: AnswerCheck | undefined;
/** The session API's document is the same for all supervisors of a file. */
async function sessionApiAnswers(app: FastifyInstance): Promise<AnswerCheck> {
  answers ??= checkAnswers(await loadDocument(app, '/openapi.json'));
  return answers;
}

type Base = Pick<SupervisorFixture, 'pool' | 'blobs' | 'keys' | 'sandbox' | 'notify'>;

async function install(base: Base, source: PluginSource): Promise<Installed> {
  const { pool } = base;
  const account = await findOrCreateAccount(pool, source.account ?? 'ann');
  const owner = await findOrCreateAccount(pool, source.owner ?? source.account ?? 'ann');
  const ids = { installationId: randomUUIDv7(), pluginId: randomUUIDv7() };
  const slug = source.slug ?? `plugin-${ids.pluginId.slice(-8)}`;
  await pool.query('INSERT INTO plugins (id, owner_id, slug, display_name) VALUES ($1, $2, $3, $3)', [
    ids.pluginId,
    owner.id,
    slug,
  ]);
  const { versionId, capabilities } = await addVersion(base, ids.pluginId, source);
  await pool.query(
    `INSERT INTO installations (id, account_id, plugin_id, version_policy, current_version_id, granted_capabilities,
       settings, status, required, hook_order)
     VALUES ($1, $2, $3, 'Latest', $4, $5, $6, $7, $8, (SELECT count(*) + 1 FROM installations WHERE account_id = $2))`,
    [
      ids.installationId,
      account.id,
      ids.pluginId,
      versionId,
      capabilities,
      JSON.stringify(source.settings ?? {}),
      source.status ?? 'ready',
      source.required ?? false,
    ],
  );
  for (const [name, value] of Object.entries(source.secrets ?? {}))
    await saveSecret(pool, base.keys, ids.installationId, name, value);
  await base.notify(ids.installationId);
  return { ...ids, versionId, accountId: account.id, slug };
}

async function update(base: Base, installed: Installed, source: PluginSource): Promise<string> {
  const { versionId, capabilities } = await addVersion(base, installed.pluginId, source);
  await base.pool.query(
    `UPDATE installations SET current_version_id = $2, granted_capabilities = $3, updated_at = clock_timestamp()
      WHERE id = $1`,
    [installed.installationId, versionId, capabilities],
  );
  await base.notify(installed.installationId);
  return versionId;
}

async function beginUpdateTo(
  base: Omit<Base, 'notify'>,
  { pluginId, installationId, accountId }: Installed,
  source: PluginSource,
  queues: Queues,
): Promise<string> {
  const { versionId } = await addVersion(base, pluginId, source);
  await inTransaction(base.pool, async (tx) => {
    await beginUpdate(tx, queues, { id: installationId, accountId }, versionId);
    await notifyInstallationChanged(tx, installationId);
  });
  return versionId;
}

async function addVersion(base: Omit<Base, 'notify'>, pluginId: string, source: PluginSource) {
  const { sha256 } = await base.blobs.put(Buffer.from(source.code));
  const registrations = source.registrations ?? (await readRegistrations(base.sandbox, source.code));
  const capabilities = [...(source.capabilities ?? []), ...listRegisteredCapabilities(registrations as never)].sort();
  const versionId = randomUUIDv7();
  const settings = Object.fromEntries(Object.keys(source.settings ?? {}).map((name) => [name, { required: false }]));
  const read = Object.fromEntries(Object.keys(source.secrets ?? {}).map((name) => [name, null]));
  const uses = Object.entries({ ...read, ...source.secretUses });
  const secrets = Object.fromEntries(uses.map(([name, use]) => [name, { required: false, ...(use && { use }) }]));
  await base.pool.query(
    `INSERT INTO versions (id, plugin_id, semver, status, source_sha256, bundle_sha256, size_bytes, manifest, readme,
       capabilities, added_capabilities, discovered, registrations, source_map_sha256)
     VALUES ($1, $2, $3, 'published', $4, $4, $5, $6, '', $7, '{}', $8, $9, $10)`,
    [
      versionId,
      pluginId,
      source.semVer ?? '1.0.0',
      sha256,
      source.code.length,
      JSON.stringify({ name: 'x', description: 'x', capabilities: source.capabilities ?? [], settings, secrets }),
      capabilities,
      JSON.stringify(source.discovered ?? {}),
      JSON.stringify(registrations),
      source.sourceMap === undefined ? null : (await base.blobs.put(Buffer.from(source.sourceMap))).sha256,
    ],
  );
  for (const [path, text] of Object.entries(source.files ?? {})) {
    const blob = await base.blobs.put(Buffer.from(text));
    await base.pool.query('INSERT INTO version_files (version_id, path, sha256, size_bytes) VALUES ($1, $2, $3, $4)', [
      versionId,
      path,
      blob.sha256,
      blob.sizeBytes,
    ]);
  }
  return { versionId, capabilities };
}

/** Longer than any registration takes, milliseconds. */
const REGISTRATION_MS = 1_000;

/**
 * Returns the registrations of code. Code that needs more than the language to register is introspected in a jail as at publish; the rest is
 * read in this process, which spares each installation a child process.
 */
async function readRegistrations(sandbox: Sandbox, code: string): Promise<Registrations> {
  const registry = openRegistry();
  try {
    runInNewContext(code, { ...registry.globals }, { timeout: REGISTRATION_MS });
    return registry.seal(null).registrations;
  } catch {
    return (await introspect(sandbox.jail, code, 'plugin.js')).registrations;
  }
}

/** The first hook of a fixture starts a child, and there are no spare ones: a start takes this long at most on a busy machine. Milliseconds. */
const START_WITHIN_MS = 90_000;

const isStillStarting = ({ body }: Reply): boolean =>
  Array.isArray(body?.trace) && body.trace.some(({ reason }: { reason?: string }) => reason === 'it is still starting');

async function call(
  app: FastifyInstance,
  issuer: TokenIssuer,
  request: { method: InjectOptions['method']; path: string; body: unknown; account: string },
): Promise<Reply> {
  const token = await tokenOf(issuer, request.account);
  const reply = await app.inject({
    method: request.method ?? 'GET',
    url: request.path,
    headers: { authorization: `Bearer ${token}` },
    ...(request.body === undefined ? {} : { payload: request.body as object }),
  });
  const isJson = String(reply.headers['content-type']).includes('json');
  return { status: reply.statusCode, headers: reply.headers, body: isJson ? reply.json() : reply.body };
}

const tokens = new WeakMap<TokenIssuer, Map<string, Promise<string>>>();
function tokenOf(issuer: TokenIssuer, account: string): Promise<string> {
  const known = tokens.get(issuer) ?? new Map<string, Promise<string>>();
  tokens.set(issuer, known);
  const token = known.get(account) ?? issuer.issue(account);
  known.set(account, token);
  return token;
}

/** A plugin's code whose command `run` answers the JSON of what the body returns for `args`; refusals answer their words. */
export const asCommand = (body: string): string =>
  `commands.run = { description: 'd', handler: async (input) => {
    const work = async (args) => { ${body} };
    return JSON.stringify((await work(JSON.parse(input)).catch((error) => error.message)) ?? null);
  } };`;

/**
 * Statement with which a plugin ends its process at the memory limit. The collector does not scan flat text, and copies none
 * of it: each end takes half the processor time of one by arrays.
 */
export const EXHAUST_MEMORY = `for (const kept = []; ; kept.at(-1).charCodeAt(0)) kept.push('x'.repeat(4e7));`;

/** Runs such a command, in a new session if none is given. */
export async function runCommand(
  fixture: SupervisorFixture,
  slug: string,
  args: object = {},
  { account = fixture.account, session }: { account?: string; session?: string } = {},
): Promise<Reply['body']> {
  const path = `/sessions/${session ?? (await fixture.session(account))}/commands/${slug}__run`;
  const { body } = await fixture.call('POST', path, { input: JSON.stringify(args) }, account);
  return typeof body.text === 'string' ? JSON.parse(body.text) : body;
}

/** A fault point that fails once at the step which `next` names, as if the process were killed there. */
export class CrashOnce {
  /** Empty: no step, or it was reached. */
  next = '';
  readonly faultPoint = (step: string): Promise<never> | undefined => {
    if (step !== this.next) return undefined;
    this.next = '';
    return Promise.reject(new Error('as if it were killed here'));
  };
}

/** A fault point at which code of a test runs: once, at the next step of a name. */
export class DuringSteps {
  readonly #work = new Map<string, () => Promise<void>>();
  readonly faultPoint = (step: string): Promise<void> | undefined => {
    const work = this.#work.get(step);
    this.#work.delete(step);
    return work?.();
  };

  set(step: string, work: () => Promise<void>): void {
    this.#work.set(step, work);
  }
}

/** The database is away whenever a veto is written to the session's transcript. */
export async function refuseNotices({ pool }: Pick<SupervisorFixture, 'pool'>, session: string): Promise<void> {
  await pool.query(`CREATE FUNCTION refuse_notice() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE 'away' USING ERRCODE = 'cannot_connect_now'; END $$`);
  await pool.query(`CREATE TRIGGER refuse_notice BEFORE INSERT ON session_messages FOR EACH ROW
    WHEN (NEW.role = 'notice' AND NEW.session_id = '${session}') EXECUTE FUNCTION refuse_notice()`);
}

/** Whether a process is there and no zombie. */
export async function isAlive(pid: number): Promise<boolean> {
  const { readFile } = await import('node:fs/promises');
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return stat !== '' && !/\) [ZX] /.test(stat);
}

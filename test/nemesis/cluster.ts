/** Two APIs and three supervisors on one PostgreSQL, each as on a machine of its own: they share settings and a key only. */
import { randomBytes } from 'node:crypto';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Pool } from 'pg';
import { startEmbedded } from '../../db/postgres/embedded.ts';
import { migrate } from '../../db/postgres/migrate.ts';
import { openPool } from '../../db/postgres/pool.ts';
import { issueToken } from '../../deploy/issue-token.ts';
import { freePort } from '../fixtures/free-port.ts';
import { IGNORED_PARAMETERS, type Pooler, startPgbouncer } from '../fixtures/pgbouncer.ts';
import { whyMissing } from '../runner/programs.ts';
import { openGate } from '../storm/database-gate.ts';
import type { AccountLoad } from './load.ts';
import { Member, type MemberKind } from './member.ts';
import { announceGates, PeerNetwork } from './peer-network.ts';
import { listPlugins } from './plugins.ts';

/** Connections of each process. The server has a hundred for all of them. */
const CONNECTIONS = 10;
/** By default, pgbouncer keeps clients out for 15 s after a server that was away: see docs/operating.md. */
const POOLER_SETTINGS = `default_pool_size = 20\nserver_login_retry = 1\n${IGNORED_PARAMETERS}`;
/** Timeout for steps that must happen soon. Milliseconds. */
const PATIENCE_MS = 60_000;
const POLL_MS = 200;
/** Its clock steps. */
const CLOCK_VICTIM = 'supervisor-2';
const CHANNELS = ['first', 'second'];

/** A database server that faults can be brought about in. */
export interface DatabaseServer {
  readonly url: string;
  /** Kills it, and lets it run again after a time or by itself. Resolves when it runs again. */
  breakDown(awayMs: number): Promise<void>;
  stop(): Promise<void>;
}

export interface NemesisCluster {
  readonly apis: readonly Member[];
  readonly supervisors: readonly Member[];
  readonly members: readonly Member[];
  readonly server: DatabaseServer;
  /** Between the processes. */
  readonly network: PeerNetwork;
  /** Null: this machine has no pgbouncer. */
  readonly pooler: Pooler | null;
  /** On connections of its own, past all links. */
  readonly pool: Pool;
  /** The processes that ended and were not killed. */
  readonly unexpectedEnds: readonly string[];
  addAccount(name: string): Promise<AccountLoad>;
  stop(): Promise<void>;
}

/** A server whose answers survive its end, as in production. */
export async function startOwnServer(folder: string): Promise<DatabaseServer> {
  const postgres = await startEmbedded({ dataDir: folder });
  return {
    url: postgres.url,
    async breakDown(awayMs) {
      process.kill(postgres.pid, 'SIGKILL');
      await postgres.ended();
      await sleep(awayMs);
      await postgres.restart();
    },
    stop: () => postgres.stop(),
  };
}

interface ClusterOptions {
  readonly folder: string;
  readonly server: DatabaseServer;
  /** Content of `MODELS_FILE`. */
  readonly models: string;
  /** Environment of the supervisor whose clock steps. */
  readonly clockEnv: Readonly<Record<string, string>>;
}

export async function startCluster({ folder, server, models, clockEnv }: ClusterOptions): Promise<NemesisCluster> {
  const endings: (() => unknown)[] = [];
  const cleanup = { teardown: (end: () => unknown) => void endings.push(end) };
  const unexpectedEnds: string[] = [];
  const stop = async (): Promise<void> => {
    for (const end of endings.splice(0).reverse()) await end();
  };
  await migrate(server.url);
  const { pool, close } = openPool(server.url, { name: 'nemesis', connections: 4, onError: () => undefined });
  cleanup.teardown(close);
  const MODELS_FILE = join(folder, 'models.json');
  await writeFile(MODELS_FILE, models);
  const poolerFolder = join(folder, 'pgbouncer');
  await mkdir(poolerFolder);
  // As root, pgbouncer runs as another user, who must reach its folder.
  await chmod(folder, 0o711);
  const pooler = whyMissing('pgbouncer') ? null : await startPgbouncer(poolerFolder, server.url, POOLER_SETTINGS);
  if (pooler) cleanup.teardown(pooler.kill);
  const shared = {
    MODELS_FILE,
    CLUSTER_KEY: randomBytes(32).toString('base64'),
    BLOBS: 'database',
    LOG_LEVEL: 'info',
    DATABASE_CONNECTIONS: String(CONNECTIONS),
    WRITES_PER_MINUTE: '1000000',
    SESSION_CALLS_PER_MINUTE: '1000000',
    STRANGER_REQUESTS_PER_MINUTE: '1000000',
    SPOOL_MEGABYTES: '64',
  };
  const members: Member[] = [];
  const network = new PeerNetwork(members);
  /** The gate of each port that a supervisor listens on for others. */
  const gates = new Map<number, number>();
  const add = async (kind: MemberKind, name: string, isPooled: boolean): Promise<Member> => {
    const port = String(await freePort());
    const opsPort = String(await freePort());
    const peerPort = await freePort();
    if (kind === 'supervisor') gates.set(peerPort, await network.openGate(cleanup, name, peerPort));
    const direct = await openGate(cleanup, server.url);
    const pooled = isPooled && pooler !== null ? await openGate(cleanup, pooler.url) : null;
    const member = new Member({
      kind,
      name,
      folder,
      url: `http://127.0.0.1:${port}`,
      readyUrl: kind === 'api' ? null : `http://127.0.0.1:${opsPort}/readyz`,
      gates: pooled === null ? [direct] : [direct, pooled],
      isPooled: pooled !== null,
      env: {
        ...shared,
        ...(kind === 'api' ? { PORT: port, API_OPS_PORT: opsPort } : { SUPERVISOR_PORT: port }),
        ...(kind === 'api' ? {} : { SUPERVISOR_OPS_PORT: opsPort, PEER_PORT: String(peerPort) }),
        ...(name === CLOCK_VICTIM ? clockEnv : {}),
        ...(pooled === null
          ? { DATABASE_URL: direct.url }
          : { DATABASE_URL: pooled.url, DATABASE_SESSION_URL: direct.url }),
      },
      onUnexpectedEnd: (sentence) => unexpectedEnds.push(sentence),
    });
    cleanup.teardown(() => member.close());
    members.push(member);
    return member;
  };
  const apis = [await add('api', 'api-1', false), await add('api', 'api-2', true)];
  const supervisors = [
    await add('supervisor', 'supervisor-1', false),
    await add('supervisor', 'supervisor-2', false),
    await add('supervisor', 'supervisor-3', true),
  ];
  try {
    await announceGates(pool, gates);
    await Promise.all(members.map((member) => member.startFirst()));
  } catch (error) {
    await stop();
    throw error;
  }
  const token = (name: string): Promise<string> =>
    issueToken([name], () => ({ ...shared, DATABASE_URL: server.url, DATA_DIR: join(folder, 'commands') }));
  return {
    apis,
    supervisors,
    members,
    server,
    network,
    pooler,
    pool,
    unexpectedEnds,
    addAccount: async (name) => addAccount(name, await token(name), apis[0] as Member),
    stop,
  };
}

/** Publishes and installs its plugins over the REST interface, as a user does. */
export async function addAccount(name: string, token: string, { url }: Pick<Member, 'url'>): Promise<AccountLoad> {
  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await fetch(`${url}/api${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const json = await answer.json();
    if (!answer.ok) throw new Error(`${method} ${path}: ${JSON.stringify(json)}`);
    return json;
  };
  const installed: { id: string; slug: string }[] = [];
  for (const { slug, required, readme, code } of listPlugins(name)) {
    const plugin = await call('POST', '/plugins', { slug, displayName: slug });
    const files = [
      { path: 'readme.md', contentText: readme },
      { path: 'index.ts', contentText: code },
    ];
    await call('POST', `/plugins/${plugin.id}/versions`, { semVer: '1.0.0', files });
    const { id } = await call('POST', '/installations', { slug, versionPolicy: 'Latest', required });
    installed.push({ id, slug });
  }
  const [worker] = installed as [{ id: string; slug: string }];
  const routingIds: string[] = [];
  for (const channel of CHANNELS) {
    const { webhookUrl } = await call('POST', `/installations/${worker.id}/channels`, { name: channel });
    routingIds.push(webhookUrl.split('/').at(-1));
  }
  await waitUntil(async () => {
    const states = await Promise.all(installed.map(({ id }) => call('GET', `/installations/${id}`)));
    return states.every(({ status }) => status === 'ready');
  });
  return { name, token, workerSlug: worker.slug, routingIds };
}

/** Looks again until it is so; a look that fails is answered by the next one. @throws after the time */
export async function waitUntil(look: () => Promise<boolean>, ms = PATIENCE_MS): Promise<void> {
  const endsAt = performance.now() + ms;
  while (!(await look().catch(() => false))) {
    if (performance.now() > endsAt) throw new Error('it did not happen in time');
    await sleep(POLL_MS);
  }
}

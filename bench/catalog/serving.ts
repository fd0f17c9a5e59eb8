/** The REST interface over a filled catalog, asked without a network between. */
import { mkdirSync } from 'node:fs';
import { pino } from 'pino';
import { buildApp } from '../../api/app.ts';
import { startBundler } from '../../api/package/bundler.ts';
import { openBlobs } from '../../db/blobs.ts';
import { openIssuer, openVerifier } from '../../db/identity.ts';
import { openListener } from '../../db/listener.ts';
import type { Database } from '../../db/pool.ts';
import { startQueues } from '../../db/queues.ts';
import { openSecretKeys } from '../../db/secrets.ts';
import { openSignIn } from '../../db/sign-in.ts';
import { ASKER } from './filling.ts';

const UNLIMITED = 1_000_000_000;
/** Slugs that are asked for by name. */
const SLUGS = 200;

export interface ServedCatalog {
  /** How many there are. */
  readonly plugins: string;
  readonly slugs: readonly string[];
  /** Plugins of the one who asks. */
  readonly ownIds: readonly string[];
  /** A cursor in the middle of the list. */
  readonly middle: string;
  /** Milliseconds until a GET is answered. @throws Error for any answer but 200 */
  time(path: string): Promise<number>;
  close(): Promise<void>;
}

export async function openCatalog(database: Database, dataDir: string): Promise<ServedCatalog> {
  mkdirSync(dataDir, { recursive: true });
  const { pool } = database;
  const queues = await startQueues({ pool, role: 'producer', onError: () => undefined });
  const listener = await openListener(pool, () => undefined);
  const bundler = startBundler({ threads: 1 });
  const services = {
    ...{ pool, listener, queues, bundler, blobs: await openBlobs(dataDir), keys: await openSecretKeys(dataDir) },
    webhookUrl: 'http://localhost',
    introspect: () => Promise.reject(new Error('nothing is published here')),
  };
  const verifier = await openVerifier({ DATA_DIR: dataDir, OIDC_ISSUER: undefined, OIDC_AUDIENCE: undefined });
  const limits = {
    reads: UNLIMITED,
    writes: UNLIMITED,
    strangers: UNLIMITED,
    uploadsAtOnce: 1,
    installationsPerAccount: 100,
  };
  const app = await buildApp({
    ...{ services, limits, publicUrl: 'http://localhost:4000' },
    ...{
      signIn: openSignIn(pool, verifier),
      metrics: { answered: () => undefined },
      logger: pino({ level: 'silent' }),
    },
  });
  const authorization = `Bearer ${await (await openIssuer(dataDir)).issue(ASKER)}`;
  const column = async (sql: string): Promise<string[]> =>
    (await pool.query<{ value: string }>(sql)).rows.map(({ value }) => value);
  const slugs = await column(
    `SELECT slug AS value FROM plugins WHERE visibility = 'listed' ORDER BY md5(slug) LIMIT ${SLUGS}`,
  );
  const [plugins = ''] = await column('SELECT count(*)::text AS value FROM plugins');
  return {
    plugins,
    slugs,
    ownIds: await column(`SELECT id AS value FROM plugins WHERE owner_id = '${ASKER}'`),
    middle: Buffer.from([...slugs].sort()[Math.floor(slugs.length / 2)] ?? '').toString('base64url'),
    async time(path) {
      const started = performance.now();
      const answer = await app.inject({ method: 'GET', url: `/api${path}`, headers: { authorization } });
      const took = performance.now() - started;
      if (answer.statusCode !== 200) throw new Error(`${path} answered ${answer.statusCode}: ${answer.body}`);
      return took;
    },
    async close() {
      await app.close();
      await bundler.close();
      await queues.stop();
      await listener.close();
      await database.close();
    },
  };
}

/** Opens what every process of the service needs first: tracing, the log and the database. */
import { requireCluster, requireOwnBlobs } from '../../db/cluster/cluster-record.ts';
import { type Database, openPool } from '../../db/postgres/pool.ts';
import {
  describeConflictingSettings,
  type Environment,
  SettingsError,
  type SharedSettings,
} from '../settings/settings.ts';
import { describeUnknownNames } from '../settings/unknown-names.ts';
import { openConfiguredBlobs } from '../storage/blob-stores.ts';
import { BucketWatch } from '../storage/bucket-watch.ts';
import { describeMember } from '../storage/membership.ts';
import { ErrorLog } from '../telemetry/error-log.ts';
import { openLogger } from '../telemetry/logger.ts';
import { RepeatedErrors } from '../telemetry/repeated-errors.ts';
import { startTracing } from '../telemetry/tracing.ts';
import { collectWhenIdle } from './garbage-collection.ts';
import { preferThread } from './priority.ts';
import { createDatabaseCheck } from './readiness.ts';
import { requireDatabase, requireDataDir } from './start-faults.ts';

const TRACING_ADVICE = 'Check the collector, OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_HEADERS.';

/** @throws SettingsError, and Error if this process may not join the cluster of the database */
export async function openProcess(name: 'api' | 'supervisor', settings: SharedSettings, env: Environment) {
  const { DATABASE_URL, DATABASE_SESSION_URL: sessionUrl, DATABASE_CONNECTIONS: connections } = settings;
  if (DATABASE_URL === undefined) throw new SettingsError('DATABASE_URL must be set. npm start sets it.');
  const logger = openLogger(name, settings.LOG_LEVEL);
  const endTracing = await openTracing(name, env, logger);
  collectWhenIdle();
  preferThread();
  // `npm start` has printed them.
  if (!process.connected) for (const sentence of describeUnknownNames(env)) logger.warn(sentence);
  for (const sentence of describeConflictingSettings(settings)) logger.warn(sentence);
  const onError = (error: Error, count?: number) => errors.add(error, count);
  const opened = openPool(DATABASE_URL, { name: `bulkhead-${name}`, sessionUrl, connections, onError });
  const checkDatabase = createDatabaseCheck(opened.pool);
  const errors = new ErrorLog({
    logger,
    checkDatabase: async () => {
      const { database = null, write = null } = await checkDatabase();
      return database ?? write;
    },
  });
  const database: Database = {
    ...opened,
    close: () => {
      errors.close();
      return opened.close();
    },
  };
  await requireDataDir(settings.DATA_DIR);
  await requireDatabase(database.pool, 'DATABASE_URL');
  const member = await describeMember(database.pool, settings);
  const unread = await requireCluster(database.pool, member);
  const compareMark = () => requireOwnBlobs(database.pool, member.blobs);
  const bucket = new BucketWatch({ logger, unread, compareMark });
  const blobs = await openConfiguredBlobs(database.pool, settings, bucket.watch);
  await database.openKept();
  return { logger, onError, database, member, isMarkRead: unread === null, blobs, bucket, endTracing };
}

/** Starts tracing. A collector that is unreachable or refuses costs a line a minute. */
async function openTracing(
  name: string,
  env: Environment,
  logger: ReturnType<typeof openLogger>,
): Promise<() => Promise<void>> {
  const faults = new RepeatedErrors({
    report: (err, count) => logger.warn({ err, count }, `traces are incomplete: ${err.message}. ${TRACING_ADVICE}`),
  });
  const end = await startTracing(`bulkhead-${name}`, env, faults.add);
  return async () => {
    await end();
    faults.close();
  };
}

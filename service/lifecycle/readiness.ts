/** Checks whether PostgreSQL and DATA_DIR are ready for a process: used by `/readyz` of API and supervisor. */

import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Pool } from 'pg';
import type { Gauge } from 'prom-client';
import { readFreeSpace } from '../../db/files/data-dir.ts';
import { queues } from '../../db/jobs/queues.ts';
import { isDatabaseUnavailable, readFirstMessage } from '../../db/postgres/database-errors.ts';
import { listMissingMigrations } from '../../db/postgres/migrate.ts';
import { listValues } from '../../db/postgres/rows.ts';
import { MIB } from '../../sdk/contract/limits.ts';
import { within } from '../timing/within.ts';

/** Maximum duration of a check. Milliseconds. */
const READY_TIMEOUT_MS = 2_000;
/** How long the result of a write is reused, so that frequent requests do not write each time. Milliseconds. */
const WRITTEN_MS = 5_000;
const NOT_WRITTEN_MS = 1_000;
/** A row of this size fills a page, so the table needs a new one. Characters. */
const FILLER_CHARS = 8_000;
/** A block of the usual file systems. Bytes. */
const FILE_BYTES = 4_096;

/** The result of each check: null if it passed, else the reason for operators. */
export type Checks = Readonly<Record<string, string | null>>;
/** Null if the check passed, else the reason. */
export type Check = () => Promise<string | null>;

export const readyMetrics = {
  bulkhead_ready: {
    type: 'gauge',
    help: '1 for each check of `/readyz` that passes, 0 for one that fails.',
    labels: ['check'],
  },
} as const;

/** Sets the gauge of `readyMetrics`. */
export function setReady(gauge: Gauge<'check'>, checks: Checks): void {
  gauge.reset();
  for (const [check, failure] of Object.entries(checks)) gauge.set({ check }, failure === null ? 1 : 0);
}

export interface DataDirSpace {
  readonly path: string;
  /** A process with less free space is not ready. 0: not checked. Megabytes. */
  readonly minFreeMegabytes: number;
}

/** Checks connection, migrations, queues and a write. The returned function never rejects. */
export function createDatabaseCheck(pool: Pool): () => Promise<Checks> {
  const checkWrite = reuseResult(() => writeRow(pool), { passedMs: WRITTEN_MS, failedMs: NOT_WRITTEN_MS });
  return async () => {
    const database = await runCheck(
      pool.query('SELECT 1').then(() => null),
      'the database',
    );
    if (database !== null) return { database };
    const [migrations, queue, write] = await Promise.all([
      runCheck(findMissingMigrations(pool), 'the list of migrations'),
      runCheck(findMissingQueues(pool), 'the queue'),
      runCheck(checkWrite(), 'a write to the database'),
    ]);
    return { database, migrations, queue, write };
  };
}

/** Checks free space and a write in DATA_DIR. The returned function never rejects. */
export function createDataDirCheck({ path, minFreeMegabytes }: DataDirSpace): Check {
  const check = async (): Promise<string | null> => {
    const free = Math.floor((await readFreeSpace(path)).freeBytes / MIB);
    if (free < minFreeMegabytes)
      return `DATA_DIR ${path} has ${free} MB of free space, less than MIN_FREE_MEGABYTES (${minFreeMegabytes})`;
    return writeProbe(path);
  };
  const reused = reuseResult(check, { passedMs: WRITTEN_MS, failedMs: NOT_WRITTEN_MS });
  return () => runCheck(reused(), `DATA_DIR ${path}`);
}

/** Builds the response of `/readyz`: status, first failed check, and all checks. */
export function buildReadiness(checks: Checks): { readonly code: 200 | 503; readonly body: object } {
  const reason = Object.values(checks).find((failure) => failure !== null);
  if (reason === undefined) return { code: 200, body: { status: 'ready', checks } };
  return { code: 503, body: { status: 'not ready', reason, checks } };
}

interface ReuseOptions {
  readonly passedMs: number;
  readonly failedMs: number;
  /** Whether what it checks was just done, so that it counts as passed. Default: false. */
  readonly hasPassed?: boolean;
}

/** Runs a check at most once at a time, and reuses its result for a while. */
export function reuseResult(check: Check, { hasPassed = false, ...times }: ReuseOptions): Check {
  let last: { reuseUntil: number; result: Promise<string | null> } | null = hasPassed
    ? { reuseUntil: performance.now() + times.passedMs, result: Promise.resolve(null) }
    : null;
  return () => {
    if (last !== null && performance.now() < last.reuseUntil) return last.result;
    const current = { reuseUntil: Number.POSITIVE_INFINITY, result: check() };
    const keepFor = (ms: number) => {
      current.reuseUntil = performance.now() + ms;
    };
    current.result.then(
      (failure) => keepFor(failure === null ? times.passedMs : times.failedMs),
      () => keepFor(times.failedMs),
    );
    last = current;
    return current.result;
  };
}

async function runCheck(work: Promise<string | null>, what: string): Promise<string | null> {
  try {
    const failure = await within(work, READY_TIMEOUT_MS);
    return failure === undefined ? `${what} did not answer in time` : failure;
  } catch (error) {
    return `${what} is unavailable: ${readFirstMessage(error)}`;
  }
}

/** A read-only server and a full disk still answer queries. */
async function writeRow(pool: Pool): Promise<string | null> {
  const client = await pool.connect();
  let failure: Error | undefined;
  try {
    await client.query('BEGIN');
    await client.query('INSERT INTO write_checks (filler) VALUES ($1)', ['x'.repeat(FILLER_CHARS)]);
    return null;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    // Not kept: the next connection may lead to a server that accepts writes.
    if (isDatabaseUnavailable(error)) failure = error;
    return `the database accepts no writes: ${error.message}`;
  } finally {
    await client.query('ROLLBACK').catch((error: Error) => {
      failure ??= error;
    });
    client.release(failure);
  }
}

async function writeProbe(folder: string): Promise<string | null> {
  const probe = join(folder, `write-check.${process.pid}`);
  try {
    await writeFile(probe, Buffer.alloc(FILE_BYTES), { mode: 0o600 });
    return null;
  } catch (error) {
    return `DATA_DIR ${folder} accepts no writes (${(error as NodeJS.ErrnoException).code})`;
  } finally {
    await rm(probe, { force: true }).catch(() => undefined);
  }
}

/** Newer migrations are no problem: each release works with the tables of the next one. */
async function findMissingMigrations(pool: Pool): Promise<string | null> {
  const missing = await listMissingMigrations(pool);
  return missing.length === 0 ? null : `migrations are missing: ${missing.join(', ')}; npm start applies them`;
}

async function findMissingQueues(pool: Pool): Promise<string | null> {
  const names = new Set(await listValues<string>(pool, 'SELECT name FROM pgboss.queue'));
  const missing = Object.keys(queues).filter((name) => !names.has(name));
  return missing.length === 0
    ? null
    : `queues are missing: ${missing.join(', ')}; restart the API and the supervisor to create them`;
}

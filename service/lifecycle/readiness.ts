/** Checks whether PostgreSQL is ready for a process: used by `/readyz` of API and supervisor. */

import { readdir } from 'node:fs/promises';
import type { Pool } from 'pg';
import { queues } from '../../db/jobs/queues.ts';
import { MIGRATIONS } from '../../db/postgres/migrate.ts';
import { within } from '../timing/within.ts';

/** Maximum duration of a check. Milliseconds. */
const READY_TIMEOUT_MS = 2_000;

/** The result of each check: null if it passed, else the reason for operators. */
export type Checks = Readonly<Record<string, string | null>>;

/** Checks database, migrations and queues. Never rejects. */
export async function checkDatabase(pool: Pool): Promise<Checks> {
  const database = await runCheck(
    pool.query('SELECT 1').then(() => null),
    'the database',
  );
  if (database !== null) return { database };
  const [migrations, queue] = await Promise.all([
    runCheck(findMissingMigrations(pool), 'the list of migrations'),
    runCheck(findMissingQueues(pool), 'the queue'),
  ]);
  return { database, migrations, queue };
}

/** Builds the response of `/readyz`: status, first failed check, and all checks. */
export function buildReadiness(checks: Checks): { readonly code: 200 | 503; readonly body: object } {
  const reason = Object.values(checks).find((failure) => failure !== null);
  if (reason === undefined) return { code: 200, body: { status: 'ready', checks } };
  return { code: 503, body: { status: 'not ready', reason, checks } };
}

async function runCheck(work: Promise<string | null>, what: string): Promise<string | null> {
  try {
    const failure = await within(work, READY_TIMEOUT_MS);
    return failure === undefined ? `${what} did not answer in time` : failure;
  } catch {
    return `${what} is unavailable`;
  }
}

let expectedMigrations: Promise<string[]> | undefined;

/** Newer migrations are no problem: each release works with the tables of the next one. */
async function findMissingMigrations(pool: Pool): Promise<string | null> {
  expectedMigrations ??= readdir(MIGRATIONS).then((files) => files.map((file) => file.replace(/\.sql$/, '')).sort());
  const applied = await pool.query<{ name: string }>('SELECT name FROM migrations');
  const names = new Set(applied.rows.map(({ name }) => name));
  const missing = (await expectedMigrations).filter((name) => !names.has(name));
  return missing.length === 0 ? null : `migrations are missing: ${missing.join(', ')}; npm start applies them`;
}

async function findMissingQueues(pool: Pool): Promise<string | null> {
  const found = await pool.query<{ name: string }>('SELECT name FROM pgboss.queue');
  const names = new Set(found.rows.map(({ name }) => name));
  const missing = Object.keys(queues).filter((name) => !names.has(name));
  return missing.length === 0
    ? null
    : `queues are missing: ${missing.join(', ')}; restart the API and the supervisor to create them`;
}

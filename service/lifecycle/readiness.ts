/** Whether PostgreSQL can carry a process: what `/readyz` of API and supervisor both ask. */

import { readdir } from 'node:fs/promises';
import type { Pool } from 'pg';
import { queues } from '../../db/jobs/queues.ts';
import { MIGRATIONS } from '../../db/postgres/migrate.ts';
import { within } from '../timing/within.ts';

/** A database that answers later than this cannot carry the service. Milliseconds. */
const READY_TIMEOUT_MS = 2_000;

/** What was looked at, and what is wrong with it in words an operator may read; null: nothing. */
export type Checks = Readonly<Record<string, string | null>>;

/** Looks at database, migrations and queue. Never rejects. */
export async function checkDatabase(pool: Pool): Promise<Checks> {
  const database = await runCheck(
    pool.query('SELECT 1').then(() => null),
    'the database',
  );
  if (database !== null) return { database };
  const [migrations, queue] = await Promise.all([
    runCheck(migrationTrouble(pool), 'the list of migrations'),
    runCheck(queueTrouble(pool), 'the queue'),
  ]);
  return { database, migrations, queue };
}

/** An answer of `/readyz`: `status`, the first reason against it, and every check. */
export function readinessOf(checks: Checks): { readonly code: 200 | 503; readonly body: object } {
  const reason = Object.values(checks).find((trouble) => trouble !== null);
  if (reason === undefined) return { code: 200, body: { status: 'ready', checks } };
  return { code: 503, body: { status: 'not ready', reason, checks } };
}

async function runCheck(work: Promise<string | null>, what: string): Promise<string | null> {
  try {
    const trouble = await within(work, READY_TIMEOUT_MS);
    return trouble === undefined ? `${what} does not answer in time` : trouble;
  } catch {
    return `${what} is away`;
  }
}

let ours: Promise<string[]> | undefined;

/** Tables newer than this release are fine: for one release old code works with them. */
async function migrationTrouble(pool: Pool): Promise<string | null> {
  ours ??= readdir(MIGRATIONS).then((files) => files.map((file) => file.replace(/\.sql$/, '')).sort());
  const applied = await pool.query<{ name: string }>('SELECT name FROM migrations');
  const names = new Set(applied.rows.map(({ name }) => name));
  const missing = (await ours).filter((name) => !names.has(name));
  return missing.length === 0 ? null : `migrations are missing: ${missing.join(', ')}; npm start applies them`;
}

async function queueTrouble(pool: Pool): Promise<string | null> {
  const found = await pool.query<{ name: string }>('SELECT name FROM pgboss.queue');
  const names = new Set(found.rows.map(({ name }) => name));
  const missing = Object.keys(queues).filter((name) => !names.has(name));
  return missing.length === 0 ? null : `queues are missing: ${missing.join(', ')}; a restart declares them`;
}

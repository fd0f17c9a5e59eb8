/** Whether API processes and supervisors run on a database, for commands that need it to themselves. */
import type { Pool } from 'pg';
import type { Listener, Subscription } from '../postgres/listener.ts';
import { findValue } from '../postgres/rows.ts';
import { requireSessionLock } from '../postgres/session-lock.ts';

const LOCK = 'service process';
/** Processes of the release before hold no lock, but write a row every two seconds. Seconds. */
const SEEN_S = 10;
const LOSS = {
  kept: 'API and supervisor from starting',
  consequence:
    'one may have run meanwhile. The change was not made: stop the service on all machines, then run this again.',
};

/**
 * Announces that a process runs, until its listening connection ends. Waits while a command has the database to itself: call it
 * before the process compares itself with the cluster for the last time.
 */
export const announceProcess = (listener: Listener): Promise<Subscription> => listener.holdShared(LOCK);

interface Exclusion {
  /** @throws Error if the exclusion has ended with its connection, so that a process may have started since */
  requireHeld(): Promise<void>;
  release(): Promise<void>;
}

/**
 * Keeps the database free of API processes and supervisors: those that start meanwhile wait.
 *
 * @returns null: one runs
 */
export async function excludeProcesses(pool: Pool): Promise<Exclusion | null> {
  const client = await pool.connect();
  // The lock ends with the connection.
  const release = async () => client.release(true);
  let isHeld: boolean | null = false;
  try {
    isHeld = await findValue(
      client,
      `SELECT pg_try_advisory_lock(hashtextextended($1, 0))
          AND NOT EXISTS (SELECT 1 FROM supervisors WHERE expires_at > now())
          AND NOT EXISTS (SELECT 1 FROM spools WHERE seen_at > now() - make_interval(secs => $2))`,
      [LOCK, SEEN_S],
    );
    return isHeld ? { release, requireHeld: () => requireSessionLock(client, LOSS) } : null;
  } finally {
    if (!isHeld) await release();
  }
}

/**
 * Introspection requests: the API requests the registrations of a bundle; any supervisor reads them in a one-shot
 * jailed child.
 */

import { randomUUIDv7 } from 'node:crypto';
import type { Pool } from 'pg';
import { z } from 'zod';
import { boundedRecord } from '../../sdk/contract/bounded-record.ts';
import { Problem } from '../../sdk/contract/errors.ts';
import { REGISTRATIONS_MAX } from '../../sdk/contract/limits.ts';
import { registrations, schemaFault } from '../../sdk/contract/protocol.ts';
import { waitForAnswer } from '../postgres/answered-request.ts';
import { isRejectedRow } from '../postgres/database-errors.ts';
import type { Listener } from '../postgres/listener.ts';
import { notifyIntrospectionAnswered, subscribeToIntrospections } from '../postgres/notifications.ts';
import { findRow, findValue, listValues } from '../postgres/rows.ts';
import { queues as declaredQueues, type Payload, type Queues } from './queues.ts';

/** On a busy machine, a child is ready within 10 s and loads within 30; the rest is for waiting in the queue. Milliseconds. */
const TIMEOUT_MS = 45_000;
/** Poll interval: covers notifications lost during a reconnect. Milliseconds. */
const POLL_MS = 500;
const RETRY_AFTER_S = 5;
/** A job without a heartbeat for this time is lost. One may be late on a busy machine. */
const LOST_AFTER_S = 3 * declaredQueues.introspect.heartbeatSeconds;

/** A failure is shown to the author, so its text comes from the plugin only. */
const introspection = z.discriminatedUnion('ok', [
  z.object({
    ok: z.literal(true),
    registrations,
    /** The stack of the assignment of every name, including names that the protocol does not know. */
    places: boundedRecord(z.string(), REGISTRATIONS_MAX),
    /** Absent: a supervisor of an older version answered, which checks no schemas. */
    schemaFaults: z.array(schemaFault).max(REGISTRATIONS_MAX).optional(),
  }),
  z.object({
    ok: z.literal(false),
    message: z.string(),
    stack: z.string().optional(),
    /** The child could not be started (no jail, no memory); not a fault of the package. */
    unavailable: z.boolean().optional(),
  }),
]);
export type Introspection = z.infer<typeof introspection>;

interface IntrospectionDeps {
  readonly pool: Pool;
  readonly queues: Queues;
  readonly listener: Listener;
}
export interface IntrospectionRequest {
  /** The bundle's blob, which must exist already. */
  readonly bundleSha256: string;
  /** The bundle's file name in stack traces. */
  readonly sourceName: string;
  /** Whether the package declares hosts, so that its realm has `fetch`. Default: false. */
  readonly hasFetch?: boolean;
}
export interface NewIntrospection extends IntrospectionRequest {
  /** The author, whose requests take turns with those of other accounts. */
  readonly accountId: string;
}
const REJECTED_ANSWER =
  'The package registers what the database cannot store. Shorten its names, descriptions and schemas, and publish again.';

/** Requests an introspection and waits for the answer. @throws Problem `unavailable` when no supervisor answers in time */
export async function requestIntrospection(
  deps: IntrospectionDeps,
  request: NewIntrospection,
  { timeoutMs = TIMEOUT_MS }: { timeoutMs?: number } = {},
): Promise<Introspection> {
  const { pool, queues, listener } = deps;
  const id = randomUUIDv7();
  const answer = await waitForAnswer(listener, {
    id,
    subscribe: subscribeToIntrospections,
    send: async () => {
      const { accountId, bundleSha256, sourceName, hasFetch = false } = request;
      const insert = 'INSERT INTO introspections (id, bundle_sha256, source_name) VALUES ($1, $2, $3)';
      await pool.query(insert, [id, bundleSha256, sourceName]);
      await sendRequest(pool, queues, { introspectionId: id, accountId, hasFetch });
    },
    readAnswer: () => findValue(pool, 'SELECT result FROM introspections WHERE id = $1', [id]),
    deleteRow: () => pool.query('DELETE FROM introspections WHERE id = $1', [id]),
    timeoutMs,
    pollMs: POLL_MS,
  });
  const result = answer === null ? null : introspection.parse(answer);
  if (result && (result.ok || !result.unavailable)) return result;
  throw new Problem('unavailable', result?.message ?? 'No supervisor checked the package in time. Retry shortly.', {
    retryAfter: RETRY_AFTER_S,
  });
}

/** For supervisors. Null: the request is answered or was given up. */
export const findIntrospection = (pool: Pool, id: string): Promise<IntrospectionRequest | null> =>
  findRow(
    pool,
    `SELECT bundle_sha256 AS "bundleSha256", source_name AS "sourceName" FROM introspections
      WHERE id = $1 AND result IS NULL`,
    [id],
  );

/** For supervisors: stores the answer and notifies the API process that waits. */
export async function answerIntrospection(pool: Pool, id: string, result: Introspection): Promise<void> {
  try {
    await saveAnswer(pool, id, result);
  } catch (error) {
    // PostgreSQL would reject this answer every time, and the author would wait for it.
    if (!isRejectedRow(error)) throw error;
    await saveAnswer(pool, id, { ok: false, message: REJECTED_ANSWER });
  }
  await notifyIntrospectionAnswered(pool, id);
}

const saveAnswer = (pool: Pool, id: string, result: Introspection) =>
  pool.query('UPDATE introspections SET result = $2, answered_at = now() WHERE id = $1', [id, JSON.stringify(result)]);

/**
 * Queues open requests again whose jobs are lost: a supervisor that took one was killed, or did not get the answer to its fetch.
 * Deletes expired requests.
 *
 * @param lostAfterS how long the last heartbeat of a lost job is ago at least, seconds. 0: all jobs that were taken are lost
 */
export async function sweepIntrospections(pool: Pool, queues: Queues, lostAfterS = LOST_AFTER_S): Promise<void> {
  const oldest = `now() - make_interval(secs => ${TIMEOUT_MS / 1000})`;
  await pool.query(`DELETE FROM introspections WHERE created_at < ${oldest}`);
  const lost = await listValues<Payload<'introspect'>>(
    pool,
    `SELECT job.data FROM introspections i CROSS JOIN LATERAL (
       SELECT (array_agg(j.data))[1] AS data,
              -- A supervisor of the release before records no heartbeat after its fetch: such a job may run twice.
              bool_or(j.state < 'active'
                OR (j.state = 'active' AND coalesce(j.heartbeat_on, j.started_on) > now() - make_interval(secs => $1))) AS "isAlive"
         FROM pgboss.job j WHERE j.name = 'introspect' AND j.data ->> 'introspectionId' = i.id) job
      WHERE i.result IS NULL AND NOT job."isAlive"`,
    [lostAfterS],
  );
  for (const payload of lost) await sendRequest(pool, queues, payload);
}

const sendRequest = (pool: Pool, queues: Queues, payload: Payload<'introspect'>): Promise<void> =>
  queues.send(pool, 'introspect', payload, { group: { id: payload.accountId, accountId: payload.accountId } });

/** The API's question "what does this bundle register?", answered by a one-shot jailed child of any supervisor. */
import { randomUUIDv7 } from 'node:crypto';
import type { Pool } from 'pg';
import { z } from 'zod';
import { Problem } from '../../sdk/contract/errors.ts';
import { registrations } from '../../sdk/contract/protocol.ts';
import type { Listener, Subscription } from '../postgres/listener.ts';
import { notifyIntrospectionAnswered, subscribeToIntrospections } from '../postgres/notifications.ts';
import type { Queues } from './queues.ts';

/** How long the API waits: 5 s for the child, and what a queue behind others may take. Milliseconds. */
const TIMEOUT_MS = 20_000;
/** Looks at the row besides the NOTIFY, milliseconds: a notice lost in a reconnect costs no more than this. */
const BACKSTOP_MS = 500;
/** What a caller may do when no supervisor answered, seconds. */
const RETRY_AFTER_S = 5;

/** What introspection says. A refusal is the author's to read: it holds text of the plugin, none of ours. */
export const introspection = z.discriminatedUnion('ok', [
  z.object({
    ok: z.literal(true),
    registrations,
    /** For every assigned name, known to the protocol or not, the stack of its assignment. */
    places: z.record(z.string(), z.string()),
  }),
  z.object({
    ok: z.literal(false),
    message: z.string(),
    stack: z.string().optional(),
    /** Whether the child could not be asked at all (no jail, no memory): not the package's fault. */
    unavailable: z.boolean().optional(),
  }),
]);
export type Introspection = z.infer<typeof introspection>;

export interface IntrospectionDeps {
  readonly pool: Pool;
  readonly queues: Queues;
  readonly listener: Listener;
}
export interface IntrospectionRequest {
  /** The bundle, as a blob: kept before it is asked about. */
  readonly bundleSha256: string;
  /** The name stack traces carry for it. */
  readonly sourceName: string;
}

/** Asks what a bundle registers. @throws Problem `unavailable` when no supervisor answers in time */
export async function requestIntrospection(
  deps: IntrospectionDeps,
  request: IntrospectionRequest,
  { timeoutMs = TIMEOUT_MS }: { timeoutMs?: number } = {},
): Promise<Introspection> {
  const id = randomUUIDv7();
  const answered = await awaitNotice(deps.listener, id);
  try {
    await deps.pool.query('INSERT INTO introspections (id, bundle_sha256, source_name) VALUES ($1, $2, $3)', [
      id,
      request.bundleSha256,
      request.sourceName,
    ]);
    await deps.queues.send(deps.pool, 'introspect', { introspectionId: id });
    const result = await pollAnswer(deps.pool, id, answered, Date.now() + timeoutMs);
    if (result && (result.ok || !result.unavailable)) return result;
    throw new Problem(
      'unavailable',
      result?.message ?? 'No supervisor checked the package in time. Try again shortly.',
      {
        retryAfter: RETRY_AFTER_S,
      },
    );
  } finally {
    await answered.subscription.close();
    await deps.pool.query('DELETE FROM introspections WHERE id = $1', [id]).catch(() => undefined);
  }
}

interface Answered {
  readonly subscription: Subscription;
  /** Resolves at a notice, or after `ms`. */
  wait(ms: number): Promise<void>;
}

async function awaitNotice(listener: Listener, id: string): Promise<Answered> {
  let wake = () => {};
  let noticed = false;
  const look = () => {
    noticed = true;
    wake();
  };
  const subscription = await subscribeToIntrospections(listener, (answeredId) => answeredId === id && look(), look);
  return {
    subscription,
    wait: (ms) => {
      if (noticed) {
        noticed = false;
        return Promise.resolve();
      }
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, ms);
      wake = resolve;
      return promise.then(() => clearTimeout(timer));
    },
  };
}

async function pollAnswer(pool: Pool, id: string, answered: Answered, giveUpAt: number): Promise<Introspection | null> {
  for (;;) {
    const left = giveUpAt - Date.now();
    if (left <= 0) return null;
    await answered.wait(Math.min(left, BACKSTOP_MS));
    const found = await pool.query<{ result: unknown }>('SELECT result FROM introspections WHERE id = $1', [id]);
    if (found.rows[0]?.result) return introspection.parse(found.rows[0].result);
  }
}

/** The supervisor's side: the question of an id, or null when it is answered or given up. */
export async function findIntrospection(pool: Pool, id: string): Promise<IntrospectionRequest | null> {
  const found = await pool.query<IntrospectionRequest>(
    `SELECT bundle_sha256 AS "bundleSha256", source_name AS "sourceName" FROM introspections
      WHERE id = $1 AND result IS NULL`,
    [id],
  );
  return found.rows[0] ?? null;
}

/** The supervisor's side: records the answer and wakes who asked. */
export async function answerIntrospection(pool: Pool, id: string, result: Introspection): Promise<void> {
  await pool.query('UPDATE introspections SET result = $2, answered_at = now() WHERE id = $1', [
    id,
    JSON.stringify(result),
  ]);
  await notifyIntrospectionAnswered(pool, id);
}

/** Re-queues questions that somebody still waits for, and forgets the rest. */
export async function sweepIntrospections(pool: Pool, queues: Queues): Promise<void> {
  const oldest = `now() - make_interval(secs => ${TIMEOUT_MS / 1000})`;
  await pool.query(`DELETE FROM introspections WHERE created_at < ${oldest}`);
  const open = await pool.query<{ id: string }>('SELECT id FROM introspections WHERE result IS NULL');
  for (const { id } of open.rows) await queues.send(pool, 'introspect', { introspectionId: id });
}

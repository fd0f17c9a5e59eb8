/** What installations spent of the operator's models, as sums. */
import type { Pool } from 'pg';

/** Days that are told apart; the sums of all time go on. */
export const USAGE_DAYS = 92;

export interface Spent {
  /** Whole answers. */
  readonly answers: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** In the operator's currency. */
  readonly cost: number;
}
export interface ModelUsage {
  readonly total: Spent;
  readonly today: Spent;
  readonly models: readonly (Spent & { readonly model: string })[];
  /** Newest first; days without anything are left out. */
  readonly days: readonly (Spent & { readonly day: string })[];
}

const TODAY = `(now() AT TIME ZONE 'UTC')::date`;
const SUMS = `answers::float8 AS answers, input_tokens::float8 AS "inputTokens", output_tokens::float8 AS "outputTokens",
  cost::float8 AS cost`;
const NOTHING: Spent = { answers: 0, inputTokens: 0, outputTokens: 0, cost: 0 };
/** Adds what is given to the row `of` it meets. */
const add = (of: string): string =>
  `DO UPDATE SET answers = ${of}.answers + excluded.answers, input_tokens = ${of}.input_tokens + excluded.input_tokens,
     output_tokens = ${of}.output_tokens + excluded.output_tokens, cost = ${of}.cost + excluded.cost`;

/** Adds to an installation's sums. One that is gone has none. */
export async function addUsage(pool: Pool, installationId: string, model: string, spent: Spent): Promise<void> {
  await pool.query(
    `WITH here AS (SELECT id FROM installations WHERE id = $1 FOR KEY SHARE),
     total AS (
       INSERT INTO model_usage (installation_id, model, answers, input_tokens, output_tokens, cost)
       SELECT id, $2, $3::bigint, $4::bigint, $5::bigint, $6::numeric FROM here
       ON CONFLICT (installation_id, model) ${add('model_usage')})
     INSERT INTO model_usage_days (installation_id, day, answers, input_tokens, output_tokens, cost)
     SELECT id, ${TODAY}, $3::bigint, $4::bigint, $5::bigint, $6::numeric FROM here
     ON CONFLICT (installation_id, day) ${add('model_usage_days')}`,
    [installationId, model, spent.answers, spent.inputTokens, spent.outputTokens, spent.cost],
  );
}

/** Tokens an installation used since midnight, UTC. */
export async function countTokensToday(pool: Pool, installationId: string): Promise<number> {
  const found = await pool.query<{ tokens: number }>(
    `SELECT (input_tokens + output_tokens)::float8 AS tokens FROM model_usage_days
      WHERE installation_id = $1 AND day = ${TODAY}`,
    [installationId],
  );
  return found.rows[0]?.tokens ?? 0;
}

/** All sums of an installation, as of one moment. */
export async function readUsage(pool: Pool, installationId: string): Promise<ModelUsage> {
  const found = await pool.query<Spent & { model: string | null; day: string | null; isToday: boolean }>(
    `SELECT model, NULL AS day, false AS "isToday", ${SUMS} FROM model_usage WHERE installation_id = $1
     UNION ALL
     SELECT NULL, day::text, day = ${TODAY}, ${SUMS} FROM model_usage_days
      WHERE installation_id = $1 AND day > ${TODAY} - ${USAGE_DAYS}
     ORDER BY day DESC, model`,
    [installationId],
  );
  const models = found.rows.flatMap((row) => (row.model === null ? [] : [{ model: row.model, ...spentOf(row) }]));
  const days = found.rows.flatMap((row) => (row.day === null ? [] : [{ day: row.day, ...spentOf(row) }]));
  const today = spentOf(found.rows.find(({ isToday }) => isToday));
  return { total: models.reduce<Spent>(sum, NOTHING), today, models, days };
}

const spentOf = ({ answers, inputTokens, outputTokens, cost }: Spent = NOTHING): Spent => ({
  ...{ answers, inputTokens, outputTokens, cost },
});
const sum = (one: Spent, other: Spent): Spent => ({
  answers: one.answers + other.answers,
  inputTokens: one.inputTokens + other.inputTokens,
  outputTokens: one.outputTokens + other.outputTokens,
  cost: one.cost + other.cost,
});

/** Forgets days that are no longer shown. */
export async function sweepUsage(pool: Pool): Promise<void> {
  await pool.query(`DELETE FROM model_usage_days WHERE day <= ${TODAY} - ${USAGE_DAYS}`);
}

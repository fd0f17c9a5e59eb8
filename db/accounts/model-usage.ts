/** Sums of the model usage (tokens and cost) of installations, and of the tokens of each plugin in an account. */
import type { Pool } from 'pg';
import { deleteOldRows } from '../postgres/old-rows.ts';
import { findValue } from '../postgres/rows.ts';

/** Retention of daily sums in days; totals are kept forever. */
export const USAGE_DAYS = 92;

interface UsageSum {
  /** Complete answers. */
  readonly answers: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Cost in the operator's currency. */
  readonly cost: number;
}
interface ModelUsage {
  readonly total: UsageSum;
  readonly today: UsageSum;
  readonly models: readonly (UsageSum & { readonly model: string })[];
  /** Newest first, without days that have no usage. */
  readonly days: readonly (UsageSum & { readonly day: string })[];
}

const TODAY = `(now() AT TIME ZONE 'UTC')::date`;
const SUMS = `answers::float8 AS answers, input_tokens::float8 AS "inputTokens", output_tokens::float8 AS "outputTokens",
  cost::float8 AS cost`;
const ZERO: UsageSum = { answers: 0, inputTokens: 0, outputTokens: 0, cost: 0 };
const addSql = (table: string): string =>
  `DO UPDATE SET answers = ${table}.answers + excluded.answers,
     input_tokens = ${table}.input_tokens + excluded.input_tokens,
     output_tokens = ${table}.output_tokens + excluded.output_tokens, cost = ${table}.cost + excluded.cost`;

interface SpendingPlugin {
  readonly installationId: string;
  readonly accountId: string;
  readonly pluginId: string;
}

/** Of a deleted installation, only the tokens count. */
export async function addUsage(
  pool: Pool,
  { installationId, accountId, pluginId }: SpendingPlugin,
  model: string,
  usage: UsageSum,
): Promise<void> {
  await pool.query(
    `WITH here AS (SELECT id FROM installations WHERE id = $1 FOR KEY SHARE),
     total AS (
       INSERT INTO model_usage (installation_id, model, answers, input_tokens, output_tokens, cost)
       SELECT id, $2, $3::bigint, $4::bigint, $5::bigint, $6::numeric FROM here
       ON CONFLICT (installation_id, model) ${addSql('model_usage')}),
     tokens AS (
       INSERT INTO model_tokens (day, account_id, plugin_id, tokens) VALUES (${TODAY}, $7, $8, $4::bigint + $5::bigint)
       ON CONFLICT (day, account_id, plugin_id) DO UPDATE SET tokens = model_tokens.tokens + excluded.tokens)
     INSERT INTO model_usage_days (installation_id, day, answers, input_tokens, output_tokens, cost)
     SELECT id, ${TODAY}, $3::bigint, $4::bigint, $5::bigint, $6::numeric FROM here
     ON CONFLICT (installation_id, day) ${addSql('model_usage_days')}`,
    [installationId, model, usage.answers, usage.inputTokens, usage.outputTokens, usage.cost, accountId, pluginId],
  );
}

/**
 * The tokens of a plugin in an account since midnight UTC, also of its installations that were removed. On the day of the upgrade, the
 * previous release counted some by the installation only.
 */
export async function countTokensToday(
  pool: Pool,
  { installationId, accountId, pluginId }: SpendingPlugin,
): Promise<number> {
  const tokens = await findValue<number>(
    pool,
    `SELECT greatest(
       (SELECT input_tokens + output_tokens FROM model_usage_days WHERE installation_id = $1 AND day = ${TODAY}),
       (SELECT tokens FROM model_tokens WHERE day = ${TODAY} AND account_id = $2 AND plugin_id = $3))::float8`,
    [installationId, accountId, pluginId],
  );
  return tokens ?? 0;
}

/** Reads all sums of an installation in one snapshot. */
export async function readUsage(pool: Pool, installationId: string): Promise<ModelUsage> {
  const found = await pool.query<UsageSum & { model: string | null; day: string | null; isToday: boolean }>(
    `SELECT model, NULL AS day, false AS "isToday", ${SUMS} FROM model_usage WHERE installation_id = $1
     UNION ALL
     SELECT NULL, day::text, day = ${TODAY}, ${SUMS} FROM model_usage_days
      WHERE installation_id = $1 AND day > ${TODAY} - ${USAGE_DAYS}
     ORDER BY day DESC, model`,
    [installationId],
  );
  const models = found.rows.flatMap((row) => (row.model === null ? [] : [{ model: row.model, ...pickSum(row) }]));
  const days = found.rows.flatMap((row) => (row.day === null ? [] : [{ day: row.day, ...pickSum(row) }]));
  const today = pickSum(found.rows.find(({ isToday }) => isToday));
  return { total: models.reduce<UsageSum>(addSums, ZERO), today, models, days };
}

const pickSum = ({ answers, inputTokens, outputTokens, cost }: UsageSum = ZERO): UsageSum => ({
  answers,
  inputTokens,
  outputTokens,
  cost,
});
const addSums = (one: UsageSum, other: UsageSum): UsageSum => ({
  answers: one.answers + other.answers,
  inputTokens: one.inputTokens + other.inputTokens,
  outputTokens: one.outputTokens + other.outputTokens,
  cost: one.cost + other.cost,
});

export async function sweepUsage(pool: Pool): Promise<void> {
  await deleteOldRows(pool, 'model_usage_days', 'day', `day <= ${TODAY} - ${USAGE_DAYS}`);
  await deleteOldRows(pool, 'model_tokens', 'day', `day < ${TODAY}`);
}

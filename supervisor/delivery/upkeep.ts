/** Creates and drops partitions, and deletes rows past their retention. */
import type { Pool } from 'pg';
import { sweepAccountActions } from '../../db/accounts/account-actions.ts';
import { sweepUsage } from '../../db/accounts/model-usage.ts';
import { sweepDeliveries } from '../../db/channels/delivery-queue.ts';
import { isLockRefused } from '../../db/postgres/database-errors.ts';
import { createAuditPartitions, maintainAudit } from '../../db/records/audit.ts';
import { createLogPartitions, maintainLogs } from '../../db/records/logs.ts';
import { sweepRollups } from '../../db/records/rollups.ts';
import { sweepReminders } from '../../db/sessions/reminders.ts';
import { sweepChanges } from '../../db/sessions/session-changes.ts';
import { sweepCalls } from '../../db/sessions/tool-calls.ts';

export interface UpkeepDeps {
  readonly pool: Pool;
  /** Retention of finished deliveries with their bodies. Days. */
  readonly deliveryDays: number;
  /** Retention of rollups. Days. */
  readonly metricsDays: number;
  onError(error: Error): void;
}

/** Creates the partitions of the next hours. Reports it if others lock the tables: an insert creates what it lacks, too. */
export async function createRecordPartitions({ pool, onError }: Pick<UpkeepDeps, 'pool' | 'onError'>): Promise<void> {
  for (const create of [createLogPartitions, createAuditPartitions])
    await create(pool).catch((error: Error) => {
      if (!isLockRefused(error)) throw error;
      onError(error);
    });
}

/** Maintains all tables. Never rejects. */
export async function maintainTables({ pool, deliveryDays, metricsDays, onError }: UpkeepDeps): Promise<void> {
  const steps: readonly (() => Promise<unknown>)[] = [
    () => maintainLogs(pool),
    () => maintainAudit(pool),
    () => sweepDeliveries(pool, deliveryDays),
    () => sweepRollups(pool, metricsDays),
    () => sweepCalls(pool),
    () => sweepChanges(pool),
    () => sweepReminders(pool),
    () => sweepUsage(pool),
    () => sweepAccountActions(pool),
  ];
  // One that fails, for example because of the rows of one account, must not stop the others.
  for (const step of steps) await step().catch(onError);
}

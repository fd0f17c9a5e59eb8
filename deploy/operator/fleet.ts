/** Operator commands that list processes and installations, and restart an installation. */

import { recordAction } from '../../db/accounts/operator-actions.ts';
import { runtimeStates } from '../../db/installations/installation-runtimes.ts';
import { describeInstallation, installationStatuses } from '../../db/installations/installation-state.ts';
import { BLOCKED_REASON_SQL, HAS_LOST_PIN_SQL } from '../../db/installations/run-rule.ts';
import { notifyInstallationChanged, notifyRestartRequested } from '../../db/postgres/notifications.ts';
import { inTransaction } from '../../db/postgres/pool.ts';
import { findRow } from '../../db/postgres/rows.ts';
import { listFleet, listWaitingQueues, type WaitingQueue } from '../../db/records/operator-overview.ts';
import { formatTable, linesOption, type OperatorCommand, readCutList, readText } from './command.ts';
import { requireInstallation } from './dead-letters.ts';
import { requireAccount, requirePlugin } from './moderation.ts';

const formatMegabytes = (bytes: unknown): string | null =>
  bytes === null ? null : `${Math.round(Number(bytes) / 1e6)} MB`;

export const fleet: OperatorCommand = {
  subjects: [],
  doc: 'the plugin processes: state, memory, restarts, last exit, failed update; by memory, highest first',
  options: {
    state: {
      type: 'string',
      value: 'state',
      choices: runtimeStates,
      doc: `${runtimeStates.join(', ')}; default: all except stopped, plus failed updates`,
    },
    limit: linesOption,
  },
  async run(args, context) {
    const { pool } = await context.database();
    const state = readText(args, 'state');
    const { rows, rest } = await readCutList(args, (limit) => listFleet(pool, state, limit));
    const lines = rows.map((row) => ({
      INSTALLATION: row.installationId,
      PLUGIN: row.slug,
      VERSION: row.semVer,
      ACCOUNT: row.account,
      STATE: row.state,
      MEMORY: formatMegabytes(row.rssBytes),
      RESTARTS: row.restarts,
      SINCE: row.startedAt,
      'LAST EXIT': row.lastExit?.reason,
      'FAILED UPDATE': row.failedUpdate,
    }));
    const none = state === null ? 'No plugin process runs.' : `No plugin process is in the state ${state}.`;
    return { sentence: formatTable(lines, none) + rest, fields: { children: rows, more: rest !== '' } };
  },
};

const holders: Readonly<Record<WaitingQueue['heldBy'], string | null>> = {
  supervisor: 'running on',
  operator: null,
  installation: 'its installation:',
  retry: 'next attempt',
  owner: 'waits for its turn on',
  handover: 'its account moves to another supervisor',
  nobody: 'no supervisor runs',
};

export const waiting: OperatorCommand = {
  subjects: [],
  doc: 'queues of webhooks, replies and events, with deliveries set aside, and what holds each; longest wait first',
  options: { installation: { type: 'string', value: 'id', doc: 'of one installation' }, limit: linesOption },
  async run(args, context) {
    const { pool } = await context.database();
    const of = readText(args, 'installation');
    await requireInstallation(pool, of);
    const { rows: queues, rest } = await readCutList(args, (limit) => listWaitingQueues(pool, of, limit));
    const lines = queues.map((queue) => ({
      QUEUE: queue.setAside ? `${queue.queue}, set aside` : queue.queue,
      PLUGIN: queue.slug,
      CHANNEL: queue.channel,
      ACCOUNT: queue.account,
      WAITING: queue.waiting,
      SINCE: queue.since,
      ATTEMPTS: queue.attempts,
      'HELD BY': [holders[queue.heldBy], queue.holder].filter((part) => part !== null).join(' '),
      'LAST ERROR': queue.lastError,
    }));
    return { sentence: formatTable(lines, 'Nothing waits.') + rest, fields: { queues, more: rest !== '' } };
  },
};

export const installations: OperatorCommand = {
  subjects: [],
  doc: 'installations with account and status, newest first',
  options: {
    plugin: { type: 'string', value: 'slug', doc: 'of one plugin' },
    user: { type: 'string', value: 'user', doc: 'of one account' },
    status: { type: 'string', value: 'status', choices: installationStatuses, doc: installationStatuses.join(', ') },
    limit: linesOption,
  },
  async run(args, context) {
    const { pool } = await context.database();
    const [slug, user, status] = [readText(args, 'plugin'), readText(args, 'user'), readText(args, 'status')];
    // A misspelt name must not read as if nothing were installed.
    if (slug !== null) await requirePlugin(pool, slug);
    const account = user === null ? null : (await requireAccount(pool, user)).id;
    const select = `SELECT i.id, p.slug, a.name AS account, v.semver AS "semVer", i.version_policy AS "versionPolicy", i.status,
              i.status_reason AS "statusReason", i.created_at AS "createdAt", ${BLOCKED_REASON_SQL} AS "blockedReason",
              v.semver AS "currentSemVer", v.status AS "currentStatus", ${HAS_LOST_PIN_SQL} AS "hasLostPin", r.state AS "runtimeState", r.last_exit AS "lastExit",
              CASE WHEN i.failed_reason IS NOT NULL THEN
                json_build_object('semVer', f.semver, 'reason', i.failed_reason, 'rolledBack', i.rolled_back) END AS "failedUpdate"
         FROM installations i JOIN plugins p ON p.id = i.plugin_id JOIN accounts a ON a.id = i.account_id
         LEFT JOIN versions v ON v.id = i.current_version_id
         LEFT JOIN versions f ON f.id = i.failed_version_id
         LEFT JOIN installation_runtime r ON r.installation_id = i.id
        WHERE ($1::text IS NULL OR p.slug = $1) AND ($2::text IS NULL OR i.account_id = $2) AND ($3::text IS NULL OR i.status = $3)
        ORDER BY i.id DESC LIMIT $4`;
    const { rows, rest } = await readCutList(
      args,
      async (limit) => (await pool.query(select, [slug, account, status, limit])).rows,
    );
    const found = rows.map((row) => ({
      ...row,
      condition: describeInstallation({ ...row, updateWait: null }),
    }));
    const lines = found.map((row) => ({
      INSTALLATION: row.id,
      PLUGIN: row.slug,
      VERSION: row.semVer,
      POLICY: row.versionPolicy,
      ACCOUNT: row.account,
      STATE: row.condition.state,
      WHY: row.condition.cause,
      'NEXT STEP': row.condition.nextStep,
    }));
    return {
      sentence: formatTable(lines, 'No installation matches.') + rest,
      fields: { installations: found, more: rest !== '' },
    };
  },
};

export const restart: OperatorCommand = {
  subjects: ['installation'],
  doc: 'stop the process of an installation after its running calls, and reset its failures; the next call starts it again',
  async run({ subjects: [installationId = ''] }, context) {
    const { pool } = await context.currentDatabase();
    const slug = await inTransaction(pool, async (tx) => {
      const row = await findRow<{ slug: string }>(
        tx,
        `SELECT p.slug FROM installations i JOIN plugins p ON p.id = i.plugin_id WHERE i.id = $1 FOR UPDATE OF i`,
        [installationId],
      );
      if (!row) throw new Error(`No installation has the id “${installationId}”.`);
      await tx.query(
        `UPDATE installations SET updated_at = now(), status = CASE status WHEN 'failed' THEN 'ready' ELSE status END,
                status_reason = CASE status WHEN 'failed' THEN NULL ELSE status_reason END WHERE id = $1`,
        [installationId],
      );
      await recordAction(tx, { action: 'restart', subject: installationId });
      await notifyInstallationChanged(tx, installationId);
      await notifyRestartRequested(tx, installationId);
      return row.slug;
    });
    return {
      sentence: `“${slug}” (${installationId}) stops after its running calls. The next call starts it again.`,
      fields: { installationId, slug },
    };
  },
};

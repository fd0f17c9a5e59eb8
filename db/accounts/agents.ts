/** An account's agents, as plugins, runtimes and the console see them. */
import { randomUUIDv7 } from 'node:crypto';
import type { Pool } from 'pg';
import type { z } from 'zod';
import type { agentFields, agentRecord } from '../../sdk/contract/payloads.ts';
import { hostCalls } from '../../sdk/contract/protocol.ts';
import type { Queues } from '../jobs/queues.ts';
import { inTransaction, type Transaction, takeNamedLock } from '../postgres/pool.ts';
import { deleteSessions, lockAccountSessions } from '../sessions/session-removal.ts';

export type AgentRecord = z.infer<typeof agentRecord>;
/** Whose it is: the account's, and what made it. */
export interface AgentScope {
  readonly accountId: string;
  /** The installation that may change it; null: the account itself. */
  readonly madeBy: string | null;
}
type Fields = z.infer<typeof agentFields>;
type Changes = { readonly [Key in keyof Fields]?: Fields[Key] | undefined };

/** Agents an account may have. */
export const AGENTS_MAX = 200;
/** All agents of an account, as JSON: what one `host.agents.list` may answer. */
export const AGENTS_BYTES = hostCalls['agents.list'].maxBytes - 2;
const COLUMNS = 'id, name, instructions, model';

/** The account's agents, oldest first. Two hundred at most, and within `AGENTS_BYTES`. */
export async function listAgents(pool: Pool, accountId: string): Promise<AgentRecord[]> {
  const found = await pool.query<AgentRecord>(`SELECT ${COLUMNS} FROM agents WHERE account_id = $1 ORDER BY id`, [
    accountId,
  ]);
  return found.rows;
}

/**
 * An agent of this account, kept until the transaction ends: neither its removal nor another one who starts its first chat
 * goes on meanwhile. Another account's is not found.
 */
export async function lockAgent(tx: Transaction, accountId: string, id: string): Promise<AgentRecord | null> {
  const found = await tx.query<AgentRecord>(
    `SELECT ${COLUMNS} FROM agents WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE`,
    [accountId, id],
  );
  return found.rows[0] ?? null;
}

/** Makes an agent. Null: the account has no room, or the installation is gone. */
export function createAgent(
  pool: Pool,
  of: AgentScope,
  fields: Fields,
  signal?: AbortSignal,
): Promise<AgentRecord | null> {
  const { name, instructions = '', model = null } = fields;
  const made: AgentRecord = { id: randomUUIDv7(), name, instructions, model };
  return inTransaction(
    pool,
    async (tx) => {
      if (!(await hasRoom(tx, of.accountId, made))) return null;
      const written = await tx.query(
        `INSERT INTO agents (id, account_id, name, instructions, model, made_by, size_bytes)
       SELECT $1, $2, $3, $4, $5, $6, $7
        WHERE $6::text IS NULL OR EXISTS (SELECT 1 FROM installations WHERE id = $6 FOR KEY SHARE)`,
        [made.id, of.accountId, name, instructions, model, of.madeBy, sizeOf(made)],
      );
      return written.rowCount === 1 ? made : null;
    },
    signal,
  );
}

/** Changes an agent. `absent`: the scope made none of this id. `full`: the account has no room for the longer texts. */
export function updateAgent(
  pool: Pool,
  of: AgentScope,
  id: string,
  changes: Changes,
  signal?: AbortSignal,
): Promise<AgentRecord | 'absent' | 'full'> {
  return inTransaction(
    pool,
    async (tx) => {
      const found = await tx.query<AgentRecord>(
        `SELECT ${COLUMNS} FROM agents WHERE id = $1 AND account_id = $2 AND made_by IS NOT DISTINCT FROM $3`,
        [id, of.accountId, of.madeBy],
      );
      const before = found.rows[0];
      if (!before) return 'absent';
      const { name = before.name, instructions = before.instructions, model = before.model } = changes;
      const after: AgentRecord = { id, name, instructions, model };
      if (!(await hasRoom(tx, of.accountId, after))) return 'full';
      const written = await tx.query(
        'UPDATE agents SET name = $2, instructions = $3, model = $4, size_bytes = $5, updated_at = now() WHERE id = $1',
        [id, name, instructions, model, sizeOf(after)],
      );
      return written.rowCount === 1 ? after : 'absent';
    },
    signal,
  );
}

/**
 * Removes an agent with its chats. False: there is none of this id.
 *
 * @param of whose; with `madeBy` only what that installation made
 */
export function deleteAgent(
  pool: Pool,
  queues: Queues,
  of: { readonly accountId: string; readonly madeBy?: string },
  id: string,
  signal?: AbortSignal,
): Promise<boolean> {
  return inTransaction(
    pool,
    async (tx) => {
      await lockAccountSessions(tx, of.accountId);
      const removed = await tx.query(
        'DELETE FROM agents WHERE id = $1 AND account_id = $2 AND ($3::text IS NULL OR made_by = $3)',
        [id, of.accountId, of.madeBy ?? null],
      );
      if (removed.rowCount !== 1) return false;
      await removeChatsWith(tx, queues, of.accountId, [id]);
      return true;
    },
    signal,
  );
}

/** Removes the agents that an installation made, with their chats, which the transaction has locked. */
export async function deleteAgentsOfInstallation(
  tx: Transaction,
  queues: Queues,
  of: { readonly accountId: string; readonly installationId: string },
): Promise<void> {
  const removed = await tx.query<{ id: string }>('DELETE FROM agents WHERE made_by = $1 RETURNING id', [
    of.installationId,
  ]);
  const ids = removed.rows.map(({ id }) => id);
  await removeChatsWith(tx, queues, of.accountId, ids);
}

async function removeChatsWith(
  tx: Transaction,
  queues: Queues,
  accountId: string,
  agentIds: readonly string[],
): Promise<void> {
  const found = await tx.query<{ id: string }>(
    'SELECT id FROM sessions WHERE account_id = $1 AND agent_id = ANY ($2) ORDER BY id',
    [accountId, agentIds],
  );
  await deleteSessions(tx, queues, { accountId, sessionIds: found.rows.map(({ id }) => id) });
}

/** Holds the account's lock until the transaction ends: two must not both see room for one. */
async function hasRoom(tx: Transaction, accountId: string, agent: AgentRecord): Promise<boolean> {
  await takeNamedLock(tx, `agents:${accountId}`);
  const used = await tx.query<{ count: number; bytes: number }>(
    `SELECT count(*)::int AS count, coalesce(sum(size_bytes), 0)::int AS bytes FROM agents
      WHERE account_id = $1 AND id <> $2`,
    [accountId, agent.id],
  );
  const { count, bytes } = used.rows[0] ?? { count: 0, bytes: 0 };
  return count < AGENTS_MAX && bytes + sizeOf(agent) <= AGENTS_BYTES;
}

/** In a list: with the comma. */
const sizeOf = (agent: AgentRecord): number => Buffer.byteLength(JSON.stringify(agent)) + 1;

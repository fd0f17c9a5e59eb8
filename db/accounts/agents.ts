/** The agents of an account. */

import type { Pool } from 'pg';
import type { z } from 'zod';
import type { agentFields, agentRecord } from '../../sdk/contract/payloads.ts';
import { hostCalls } from '../../sdk/contract/protocol.ts';
import type { Queues } from '../jobs/queues.ts';
import type { Page } from '../postgres/cursors.ts';
import { orderedId } from '../postgres/ordered-id.ts';
import { inLockedTransaction, type Transaction, type WritingPool } from '../postgres/pool.ts';
import { findRow, hasRow, listRows, listValues, type PageQuery, type Queryable, readPage } from '../postgres/rows.ts';
import { deleteWithSessions } from '../sessions/session-removal.ts';

type AgentRecord = z.infer<typeof agentRecord>;
interface AgentScope {
  readonly accountId: string;
  /** The installation that created the agent and may change it; null: the account itself. */
  readonly madeBy: string | null;
}
type Fields = z.infer<typeof agentFields>;
type Changes = { readonly [Key in keyof Fields]?: Fields[Key] | undefined };

/** Per account. */
export const AGENTS_MAX = 200;
/** All agents of an account as JSON must fit into one answer of `host.agents.list`. */
export const AGENTS_BYTES = hostCalls['agents.list'].maxBytes - 2;
const COLUMNS = 'id, name, instructions, model';

/** Oldest first; not paged, because `AGENTS_MAX` and `AGENTS_BYTES` limit them. */
export const listAgents = (pool: Pool, accountId: string): Promise<AgentRecord[]> =>
  listRows(pool, `SELECT ${COLUMNS} FROM agents WHERE account_id = $1 ORDER BY id`, [accountId]);

export const findAgentRecord = (pool: Pool, accountId: string, id: string): Promise<AgentRecord | null> =>
  findRow(pool, `SELECT ${COLUMNS} FROM agents WHERE account_id = $1 AND id = $2`, [accountId, id]);

/** Locks an agent's row until the transaction ends, against its removal. */
export const lockAgent = (tx: Transaction, accountId: string, id: string): Promise<AgentRecord | null> =>
  findRow(tx, `SELECT ${COLUMNS} FROM agents WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE`, [accountId, id]);

/** Null: the account has reached its limit, or the installation is gone. */
export function createAgent(
  pool: WritingPool,
  scope: AgentScope,
  fields: Fields,
  signal?: AbortSignal,
): Promise<AgentRecord | null> {
  const { name, instructions = '', model = null } = fields;
  const agent: AgentRecord = { id: orderedId(Date.now()), name, instructions, model };
  return inLockedTransaction(
    pool,
    nameAgentsLock(scope.accountId),
    async (tx) => {
      if (!(await hasRoom(tx, scope.accountId, agent))) return null;
      const written = await tx.query(
        `INSERT INTO agents (id, account_id, name, instructions, model, made_by, size_bytes)
       SELECT $1, $2, $3, $4, $5, $6, $7
        WHERE $6::text IS NULL OR EXISTS (SELECT 1 FROM installations WHERE id = $6 FOR KEY SHARE)`,
        [agent.id, scope.accountId, name, instructions, model, scope.madeBy, measureAgent(agent)],
      );
      return written.rowCount === 1 ? agent : null;
    },
    signal,
  );
}

/** `absent`: the scope created no agent of this id. `full`: the account has reached its limit. */
export function updateAgent(
  pool: WritingPool,
  scope: AgentScope,
  id: string,
  changes: Changes,
  signal?: AbortSignal,
): Promise<AgentRecord | 'absent' | 'full'> {
  return inLockedTransaction(
    pool,
    nameAgentsLock(scope.accountId),
    async (tx) => {
      const before = await findRow<AgentRecord>(
        tx,
        `SELECT ${COLUMNS} FROM agents WHERE id = $1 AND account_id = $2 AND made_by IS NOT DISTINCT FROM $3`,
        [id, scope.accountId, scope.madeBy],
      );
      if (!before) return 'absent';
      const { name = before.name, instructions = before.instructions, model = before.model } = changes;
      const after: AgentRecord = { id, name, instructions, model };
      if (!(await hasRoom(tx, scope.accountId, after))) return 'full';
      const written = await tx.query(
        'UPDATE agents SET name = $2, instructions = $3, model = $4, size_bytes = $5, updated_at = now() WHERE id = $1',
        [id, name, instructions, model, measureAgent(after)],
      );
      return written.rowCount === 1 ? after : 'absent';
    },
    signal,
  );
}

interface RemovalScope {
  readonly accountId: string;
  /** Set: only an agent which that installation created. */
  readonly madeBy?: string;
}

/** Deletes an agent with its sessions. False: no such agent. @param signal ends it between two batches of sessions */
export const deleteAgent = (
  pool: WritingPool,
  queues: Queues,
  scope: RemovalScope,
  id: string,
  signal?: AbortSignal,
): Promise<boolean> =>
  deleteWithSessions(
    pool,
    queues,
    {
      accountId: scope.accountId,
      lock: (tx) => lockAgents(tx, scope, id),
      listSessions: (db, limit) => listAgentSessions(db, scope, id, limit),
      delete: (tx) => tx.query('DELETE FROM agents WHERE id = $1', [id]),
    },
    signal,
  );

/** Locks one agent, or the agents that an installation created, so that no session of theirs starts. @returns whether one exists */
export const lockAgents = (tx: Transaction, { accountId, madeBy }: RemovalScope, id: string | null): Promise<boolean> =>
  hasRow(
    tx,
    `SELECT 1 FROM agents
      WHERE account_id = $1 AND ($2::text IS NULL OR id = $2) AND ($3::text IS NULL OR made_by = $3) ORDER BY id FOR UPDATE`,
    [accountId, id, madeBy ?? null],
  );

/** Lists sessions of one agent, or of the agents that an installation created. */
export const listAgentSessions = (
  db: Queryable,
  { accountId, madeBy }: RemovalScope,
  id: string | null,
  limit: number,
): Promise<string[]> =>
  listValues(
    db,
    `SELECT s.id FROM agents a JOIN sessions s ON s.account_id = a.account_id AND s.agent_id = a.id
      WHERE a.account_id = $1 AND ($2::text IS NULL OR a.id = $2) AND ($3::text IS NULL OR a.made_by = $3) LIMIT $4`,
    [accountId, id, madeBy ?? null, limit],
  );

/** Of the writes of an account's agents, which must not exceed the limits together. */
const nameAgentsLock = (accountId: string): string => `agents:${accountId}`;

const hasRoom = (tx: Transaction, accountId: string, agent: AgentRecord): Promise<boolean> =>
  hasRow(
    tx,
    `SELECT 1 FROM agents WHERE account_id = $1 AND id <> $2
     HAVING count(*) < ${AGENTS_MAX} AND coalesce(sum(size_bytes), 0) + $3 <= ${AGENTS_BYTES}`,
    [accountId, agent.id, measureAgent(agent)],
  );

/** Size in a JSON list, with the comma. */
const measureAgent = (agent: AgentRecord): number => Buffer.byteLength(JSON.stringify(agent)) + 1;

/** An agent as its user sees it. */
interface OwnedAgent extends AgentRecord {
  /** The installation that created it and may change it; null: the account itself. */
  readonly installationId: string | null;
  readonly slug: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
}
const OWNED_SELECT = `SELECT a.id, a.name, a.instructions, a.model, a.made_by AS "installationId", p.slug,
       a.created_at AS "createdAt", a.updated_at AS "updatedAt"
  FROM agents a LEFT JOIN installations i ON i.id = a.made_by LEFT JOIN plugins p ON p.id = i.plugin_id`;

/** Oldest first. */
export const pageAgents = (pool: Pool, accountId: string, query: PageQuery): Promise<Page<OwnedAgent>> =>
  readPage(
    pool,
    `${OWNED_SELECT} WHERE a.account_id = $1 AND ($2::text IS NULL OR a.id > $2) ORDER BY a.id LIMIT $3`,
    [accountId],
    query,
  );

/** @param accountId the agent's account; null: any */
export const findOwnedAgent = (pool: Pool, accountId: string | null, id: string): Promise<OwnedAgent | null> =>
  findRow(pool, `${OWNED_SELECT} WHERE a.id = $2 AND ($1::text IS NULL OR a.account_id = $1)`, [accountId, id]);

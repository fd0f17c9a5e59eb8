/** The account's agents as their user sees them: with who made them. */
import type { Pool } from 'pg';
import type { PageQuery } from '../catalog/plugins.ts';
import { decodeCursor, type Page, toPage } from '../postgres/cursors.ts';
import type { AgentRecord } from './agents.ts';

export interface OwnedAgent extends AgentRecord {
  /** The installation that made it and may change it; null: the account itself. */
  readonly installationId: string | null;
  readonly slug: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}
const SELECT = `SELECT a.id, a.name, a.instructions, a.model, a.made_by AS "installationId", p.slug,
       a.created_at AS "createdAt", a.updated_at AS "updatedAt"
  FROM agents a LEFT JOIN installations i ON i.id = a.made_by LEFT JOIN plugins p ON p.id = i.plugin_id`;

/** An account's agents, oldest first. */
export async function pageAgents(pool: Pool, accountId: string, query: PageQuery): Promise<Page<OwnedAgent>> {
  const found = await pool.query<OwnedAgent>(
    `${SELECT} WHERE a.account_id = $1 AND ($2::text IS NULL OR a.id > $2) ORDER BY a.id LIMIT $3`,
    [accountId, decodeCursor(query.cursor), query.limit + 1],
  );
  return toPage(found.rows, query.limit, (row) => row.id);
}

/** One agent. @param accountId whose it must be; null: anybody's */
export async function findOwnedAgent(pool: Pool, accountId: string | null, id: string): Promise<OwnedAgent | null> {
  const found = await pool.query<OwnedAgent>(`${SELECT} WHERE a.id = $2 AND ($1::text IS NULL OR a.account_id = $1)`, [
    accountId,
    id,
  ]);
  return found.rows[0] ?? null;
}
